package sns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aws/awstest"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/sns"
	"github.com/weirhq/weir/schemas"
)

func open(t *testing.T, settings map[string]any, env map[string]string) (provider.Provider, error) {
	t.Helper()
	p, err := provider.Types{"sns": sns.Type}.Open(schemas.Provider{Name: "sns", Type: "sns", Settings: settings}, provider.Deps{Private: outbound.Loopback, Getenv: func(k string) string { return env[k] }})
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// TestForms are what the contract's calls do not have.
func TestForms(t *testing.T) {
	srv := server(t)
	p, err := open(t, map[string]any{"endpoint": srv.Endpoint(), "sender_id": "Weir"}, map[string]string{
		"AWS_REGION": awstest.Region, "AWS_ACCESS_KEY_ID": awstest.KeyID, "AWS_SECRET_ACCESS_KEY": awstest.Secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	apns := "arn:aws:sns:eu-central-1:123456789012:endpoint/APNS/app/5e3e9847-3183-3f18-a7e8-671c3a57d4b3"
	for _, tt := range []struct {
		name string
		call provider.Call
		want *providertest.Message
		code string
	}{
		{"the sender of the settings", provider.Call{Channel: "sms", To: "+4915123456789", Content: content.Content{Body: "a"}}, &providertest.Message{To: "+4915123456789", From: "Weir", Body: "a"}, ""},
		{"a number of its own", provider.Call{Channel: "sms", To: "+4915123456789", From: "+15005550006", Content: content.Content{Body: "a"}}, &providertest.Message{To: "+4915123456789", From: "+15005550006", Body: "a"}, ""},
		{"a sender that is none", provider.Call{Channel: "sms", To: "+4915123456789", From: "a sender that is long", Content: content.Content{Body: "a"}}, nil, "bad_from"},
		{"a body alone", provider.Call{Channel: "push", To: apns, Content: content.Content{Body: "a"}}, &providertest.Message{To: apns, Body: "a"}, ""},
		{"Apple's form", provider.Call{Channel: "push", To: apns, Content: content.Content{Title: "t", Body: "<a>"}, Data: map[string]string{"k": "v", "aps": "evil"}}, &providertest.Message{To: apns, Title: "t", Body: "<a>", Data: map[string]string{"k": "v"}}, ""},
		{"a platform without a form here", provider.Call{Channel: "push", To: strings.Replace(apns, "APNS", "ADM", 1), Content: content.Content{Title: "t", Body: "a"}}, nil, "bad_platform"},
		{"a topic is no recipient", provider.Call{Channel: "push", To: "arn:aws:sns:eu-central-1:123456789012:everybody", Content: content.Content{Body: "a"}}, nil, "bad_recipient"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := p.Send(t.Context(), &tt.call)
			got := srv.Received()
			if tt.want == nil {
				if o.Kind != provider.Permanent || o.Code != tt.code || len(got) != 0 {
					t.Errorf("%+v, %v", o, got)
				}
				return
			}
			if o.Kind != provider.Accepted || len(got) != 1 {
				t.Fatalf("%+v, %v", o, got)
			}
			if diff := cmp.Diff(*tt.want, got[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	env := map[string]string{"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
	for _, tt := range []struct {
		name string
		set  map[string]any
		env  map[string]string
		want string
	}{
		{"the environment's", nil, env, ""},
		{"no region", nil, map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "settings.region"},
		{"a region that is a host", map[string]any{"region": "evil.example/"}, env, "settings.region"},
		{"no secret", nil, map[string]string{"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a"}, "settings.secret_access_key"},
		{"a type of short messages that there is not", map[string]any{"sms_type": "Spam"}, env, "settings.sms_type"},
		{"a price", map[string]any{"max_price": 0.05}, env, ""},
		{"a price that is none", map[string]any{"max_price": "much"}, env, "settings.max_price"},
		{"a sender that is none", map[string]any{"sender_id": "12"}, env, "settings.sender_id"},
	} {
		if _, err := open(t, tt.set, tt.env); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
