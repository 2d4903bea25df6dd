package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestCheckTemplates: what a template says of a provider fits the provider's type, and
// what does not is named by its line and column.
func TestCheckTemplates(t *testing.T) {
	types := provider.Types{
		"aliyun-sms": {Template: func(own map[string]any) error {
			if own["code"] == nil {
				return errors.New("code is missing")
			}
			return nil
		}},
		"twilio": {},
	}
	policy := func(templates string) string {
		return `providers:
  - {name: cn, type: aliyun-sms, channels: [sms], settings: {sign_name: w}}
  - {name: us, type: twilio, channels: [sms]}
templates:
` + templates
	}
	for name, tt := range map[string]struct {
		templates string
		want      []string // one for each mistake
	}{
		"as it should be":      {"  - {name: a, channel: sms, body: b, providers: {cn: {code: SMS_1}}}\n", nil},
		"nothing said":         {"  - {name: a, channel: sms, body: b}\n", nil},
		"what the type lacks":  {"  - {name: a, channel: sms, body: b, providers: {cn: {}}}\n", []string{"p.yaml:5:", "code is missing"}},
		"a type without any":   {"  - name: a\n    channel: sms\n    body: b\n    providers:\n      us: {code: x}\n", []string{"p.yaml:9:", "whose type twilio has no templates"}},
		"both wrong, in order": {"  - {name: a, channel: sms, body: b, providers: {us: {x: 1}, cn: {}}}\n", []string{"templates[0].providers.cn", "templates[0].providers.us"}},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := schemas.ParsePolicy("p.yaml", []byte(policy(tt.templates)))
			if err != nil {
				t.Fatal(err)
			}
			err = types.CheckTemplates(&doc.Policy)
			if (err == nil) != (tt.want == nil) {
				t.Fatal(err)
			}
			if err == nil {
				return
			}
			text := err.Error() + "\n" + doc.Located(err).Error()
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s\nlacks %s", text, want)
				}
			}
		})
	}
}
