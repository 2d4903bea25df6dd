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
			err = types.Check(&doc.Policy)
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

// TestCheckSettings: what is wrong with a provider's settings is named by line and column
// where the file has it, and where the settings stand when it is missing.
func TestCheckSettings(t *testing.T) {
	types := provider.Types{"twilio": {Check: func(in *provider.Settings) {
		in.Required("account_sid", "the account's SID")
		in.Required("from", "a number")
		if sign := in.Under("sign", "{secret: x}"); sign != nil {
			sign.OneOf("encoding", "hex", "base64")
		}
	}}}
	doc, err := schemas.ParsePolicy("p.yaml", []byte(`providers:
  - name: us
    type: twilio
    channels: [sms]
    settings:
      form: "+15005550006"
      sign:
        encoding: base32
  - {name: de, type: twilio, channels: [sms], settings: {account_sid: "${SID}", from: "file:/from"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	err = doc.Located(types.Check(&doc.Policy))
	want := `p.yaml:5:5: providers[0].settings.account_sid: is missing: write the account's SID
p.yaml:5:5: providers[0].settings.from: is missing: write a number
p.yaml:6:13: providers[0].settings.form: is not a setting of this type; did you mean from? It has account_sid, from, sign
p.yaml:8:19: providers[0].settings.sign.encoding: must be one of hex, base64`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	errs, _ := errors.AsType[schemas.PolicyErrors](err)
	for i, code := range []string{schemas.ReasonRequired, schemas.ReasonRequired, schemas.ReasonUnknownField, schemas.ReasonBadValue} {
		if len(errs) == 4 && errs[i].Code() != code {
			t.Errorf("%v: code %s, want %s", errs[i], errs[i].Code(), code)
		}
	}
}
