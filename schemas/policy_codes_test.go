package schemas

import (
	"strings"
	"testing"
)

// TestTemplateWithoutText: whoever may serve it must have a template of his own.
func TestTemplateWithoutText(t *testing.T) {
	for name, tt := range map[string]struct{ providers, template, want string }{
		"all have one":               {"{name: cn, type: aliyun-sms, channels: [sms]}", "{name: a, channel: sms, providers: {cn: {code: x}}}", ""},
		"one lacks it":               {"{name: cn, type: aliyun-sms, channels: [sms]}, {name: us, type: twilio, channels: [sms]}", "{name: a, channel: sms, providers: {cn: {code: x}}}", "p.yaml:3:14: templates[0]: has no text, and provider us"},
		"one of another channel":     {"{name: cn, type: aliyun-sms, channels: [sms]}, {name: us, type: twilio, channels: [voice]}", "{name: a, channel: sms, providers: {cn: {code: x}}}", ""},
		"nobody sends":               {"{name: cn, type: aliyun-sms, channels: [sms]}, {name: no, type: none, channels: [sms]}, {name: sim, type: simulated, channels: [sms]}", "{name: a, channel: sms, providers: {cn: {code: x}}}", ""},
		"the operator's own":         {"{name: cn, type: aliyun-sms, channels: [sms]}, {name: mine, type: http, channels: [sms], settings: {url: 'http://127.0.0.1:1'}}", "{name: a, channel: sms, providers: {cn: {code: x}}}", ""},
		"a text for those without":   {"{name: cn, type: aliyun-sms, channels: [sms]}, {name: us, type: twilio, channels: [sms]}", "{name: a, channel: sms, body: b, providers: {cn: {code: x}}}", ""},
		"neither text nor templates": {"{name: cn, type: aliyun-sms, channels: [sms]}", "{name: a, channel: sms}", "has nothing to send"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePolicy("p.yaml", []byte("providers: ["+tt.providers+"]\n\ntemplates: [ "+tt.template+"]\n"))
			switch {
			case err == nil && tt.want != "":
				t.Errorf("it passes, want %q", tt.want)
			case err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
