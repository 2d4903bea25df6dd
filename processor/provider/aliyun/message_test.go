package aliyun

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/retry"
	"github.com/weirhq/weir/schemas"
)

func call() *provider.Call {
	return &provider.Call{
		ID: "0199b2a0-5c00-7000-8000-0123456789ab", Attempt: 1, To: "+8613800000000", Channel: schemas.ChannelSMS,
		Tenant: "acme", Class: "verify", Template: "login-code", Vars: map[string]string{"code": "123456", "name": "<Zoë & Co>"},
		Own: map[string]any{"code": "SMS_1234"},
	}
}

func TestParameters(t *testing.T) {
	long := strings.Repeat("n", 64)
	for _, tt := range []struct {
		name string
		with func(*provider.Call)
		want map[string]string // OutId is compared apart
		code string            // of the refusal
		says string
	}{
		{"all variables", nil, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Default", "TemplateCode": "SMS_1234", "TemplateParam": `{"code":"123456","name":"<Zoë & Co>"}`}, "", ""},
		{"a list", func(c *provider.Call) { c.Own["params"] = []any{"code"} }, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Default", "TemplateCode": "SMS_1234", "TemplateParam": `{"code":"123456"}`}, "", ""},
		{"a mapping", func(c *provider.Call) { c.Own["params"] = map[string]any{"verify": "code", "again": "code"} }, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Default", "TemplateCode": "SMS_1234", "TemplateParam": `{"again":"123456","verify":"123456"}`}, "", ""},
		{"none asked for", func(c *provider.Call) { c.Own["params"] = []any{} }, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Default", "TemplateCode": "SMS_1234"}, "", ""},
		{"none there", func(c *provider.Call) { c.Vars = nil }, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Default", "TemplateCode": "SMS_1234"}, "", ""},
		{"the template's signature", func(c *provider.Call) { c.Own["sign"] = "微尔" }, map[string]string{"PhoneNumbers": "13800000000", "SignName": "微尔", "TemplateCode": "SMS_1234", "TemplateParam": `{"code":"123456","name":"<Zoë & Co>"}`}, "", ""},
		{"the message's signature", func(c *provider.Call) { c.Own["sign"], c.From = "微尔", "Other" }, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Other", "TemplateCode": "SMS_1234", "TemplateParam": `{"code":"123456","name":"<Zoë & Co>"}`}, "", ""},
		{"Hong Kong", func(c *provider.Call) { c.To, c.Vars = "+85212345678", nil }, map[string]string{"PhoneNumbers": "85212345678", "SignName": "Default", "TemplateCode": "SMS_1234"}, "", ""},
		{"America", func(c *provider.Call) { c.To, c.Vars = "+14155550123", nil }, map[string]string{"PhoneNumbers": "14155550123", "SignName": "Default", "TemplateCode": "SMS_1234"}, "", ""},
		{"no template at all", func(c *provider.Call) { c.Own, c.Template = nil, "" }, nil, "no_template", "Aliyun sends its own templates only"},
		{"a template without Aliyun's code", func(c *provider.Call) { c.Own = nil }, nil, "no_template", "template login-code does not say"},
		{"a template that apply would refuse", func(c *provider.Call) { c.Own["colour"] = "red" }, nil, "bad_template", "template login-code: colour is not known"},
		{"a variable is missing", func(c *provider.Call) { c.Own["params"] = map[string]any{"a": "order"} }, nil, "missing_variable", "no variable order"},
		{"an empty variable is one", func(c *provider.Call) {
			c.Vars, c.Own["params"] = map[string]string{"code": ""}, []any{"code"}
		}, map[string]string{"PhoneNumbers": "13800000000", "SignName": "Default", "TemplateCode": "SMS_1234", "TemplateParam": `{"code":""}`}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := call()
			if tt.with != nil {
				tt.with(c)
			}
			got, refusal := parameters(c, "Default")
			if tt.code != "" {
				if refusal == nil || refusal.Kind != provider.Permanent || refusal.MayBeReceived || refusal.Code != tt.code || !strings.Contains(refusal.Text, tt.says) {
					t.Fatalf("%+v", refusal)
				}
				return
			}
			if refusal != nil {
				t.Fatalf("%+v", refusal)
			}
			if got["OutId"] != c.Reference().String() {
				t.Errorf("OutId %q", got["OutId"])
			}
			delete(got, "OutId")
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("no signature anywhere", func(t *testing.T) {
		if _, refusal := parameters(call(), ""); refusal == nil || refusal.Code != "no_signature" {
			t.Errorf("%+v", refusal)
		}
	})
	t.Run("a long reference", func(t *testing.T) {
		c := call()
		c.Tenant, c.Class, c.Template = long, long, long
		got, refusal := parameters(c, "Default")
		want := c.Reference()
		want.Template = ""
		if ref, err := provider.ParseReference(got["OutId"]); refusal != nil || err != nil || ref != want || len(got["OutId"]) > maxOutID {
			t.Errorf("%+v, %+v, %v", refusal, ref, err)
		}
		c.ID = "id-" + strings.Repeat("x", 200)
		got, refusal = parameters(c, "Default")
		if _, there := got["OutId"]; refusal != nil || there {
			t.Errorf("too long in any case: %+v, %v", refusal, got)
		}
	})
}

func TestTemplate(t *testing.T) {
	for name, tt := range map[string]struct {
		own  map[string]any
		want string
	}{
		"code alone":            {map[string]any{"code": "SMS_1"}, ""},
		"everything":            {map[string]any{"code": "SMS_1", "sign": "Weir", "params": []any{"a", "b"}}, ""},
		"a mapping":             {map[string]any{"code": "SMS_1", "params": map[string]any{"a": "b"}}, ""},
		"nothing":               {nil, "code is missing"},
		"no code":               {map[string]any{"sign": "Weir"}, "code is missing"},
		"a number for code":     {map[string]any{"code": 1234}, "code is missing"},
		"white space in code":   {map[string]any{"code": "SMS_1 "}, "white space"},
		"another key":           {map[string]any{"code": "SMS_1", "id": "1"}, "id is not known: aliyun-sms takes code, sign, params"},
		"an empty sign":         {map[string]any{"code": "SMS_1", "sign": ""}, "sign must be"},
		"a list for sign":       {map[string]any{"code": "SMS_1", "sign": []any{"Weir"}}, "sign must be"},
		"text for params":       {map[string]any{"code": "SMS_1", "params": "code"}, "params must be"},
		"nothing for params":    {map[string]any{"code": "SMS_1", "params": nil}, "params must be"},
		"a number in params":    {map[string]any{"code": "SMS_1", "params": []any{1}}, "params must be"},
		"a number in a mapping": {map[string]any{"code": "SMS_1", "params": map[string]any{"a": 1}}, "params must be"},
		"one twice":             {map[string]any{"code": "SMS_1", "params": []any{"a", "a"}}, "params has a twice"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Type.Template(tt.own); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestLimitsOfANumber have several meanings under one code: the message's text says
// which, and how long it lasts.
func TestLimitsOfANumber(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 41, 50, 500e6, time.UTC)
	for text, want := range map[string]time.Duration{
		"触发分钟级流控Permits:1":   9500*time.Millisecond + time.Second,
		"触发小时级流控Permits:5":   18*time.Minute + 9500*time.Millisecond + time.Second,
		"触发天级流控Permits:10":   retry.MaxTold,
		"触发号码天级流控Permits:40": retry.MaxTold,
		"触发业务流控":             0,
		"":                   0,
	} {
		body := []byte(`{"Code":"isv.BUSINESS_LIMIT_CONTROL","Message":"` + text + `","RequestId":"x"}`)
		o := decide(&httpcall.Answer{Status: 200, Header: http.Header{}, Body: body}, now)
		if o.Kind != provider.Throttled || o.MayBeReceived || !o.OfRecipient || o.RetryAfter != want {
			t.Errorf("%s: %+v, want %s", text, o, want)
		}
	}
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 41, 50, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		status int
		header string // Retry-After
		body   string
		want   provider.Outcome // Text is not compared
	}{
		{"taken", 200, "", `{"Code":"OK","BizId":"9006^0","Message":"OK"}`, provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "9006^0"}},
		{"taken without an id", 200, "", `{"Code":"OK"}`, provider.Outcome{Kind: provider.Accepted}},
		{"taken with an id that is none", 200, "", `{"Code":"OK","BizId":"a b"}`, provider.Outcome{Kind: provider.Accepted}},
		{"unknown fields", 200, "", `{"Code":"OK","BizId":"1^0","New":{"a":[1]}}`, provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "1^0"}},
		{"a code of the wrong type", 200, "", `{"Code":5}`, provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "unreadable_answer"}},
		{"nothing", 200, "", ``, provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "unreadable_answer"}},
		{"half", 200, "", `{"Code":"OK","Biz`, provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "unreadable_answer"}},
		{"no money", 200, "", `{"Code":"isv.AMOUNT_NOT_ENOUGH"}`, provider.Outcome{Kind: provider.Transient, Code: "isv.AMOUNT_NOT_ENOUGH"}},
		{"refused by the owner", 200, "", `{"Code":"isv.CUSTOMER_REFUSED"}`, provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressOptedOut, Code: "isv.CUSTOMER_REFUSED"}},
		{"another of the business's", 200, "", `{"Code":"isv.NEW"}`, provider.Outcome{Kind: provider.Permanent, Code: "isv.NEW"}},
		{"another of the platform's", 200, "", `{"Code":"isp.NEW"}`, provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "isp.NEW"}},
		{"throttled", 400, "", `{"Code":"Throttling"}`, provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "Throttling"}},
		{"throttled, with a time", 429, "3", `{"Code":"Throttling.Api"}`, provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "Throttling.Api", RetryAfter: 3 * time.Second}},
		{"an unknown code", 400, "", `{"Code":"New"}`, provider.Outcome{Kind: provider.Permanent, Code: "New"}},
		{"an unknown code of a server that failed", 500, "", `{"Code":"New"}`, provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "New"}},
		{"a code that may be anything", 400, "", `{"Code":"+8613800000000 is not ours"}`, provider.Outcome{Kind: provider.Permanent, Code: "no_code"}},
		{"a gateway's page", 502, "", `<html>`, provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_502"}},
		{"a gateway that is busy", 503, "", `<html>`, provider.Outcome{Kind: provider.Transient, Code: "http_503"}},
		{"a proxy's page", 407, "", `<html>`, provider.Outcome{Kind: provider.Transient, Code: "http_407"}},
		{"a proxy that throttles", 429, "9", ``, provider.Outcome{Kind: provider.Throttled, Code: "http_429", RetryAfter: 9 * time.Second}},
		{"sent elsewhere", 302, "", ``, provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_302"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &httpcall.Answer{Status: tt.status, Header: http.Header{}, Body: []byte(tt.body)}
			if tt.header != "" {
				a.Header.Set("Retry-After", tt.header)
			}
			got := decide(a, now)
			got.Text = ""
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if o := decide(&httpcall.Answer{Status: 200}, now); o.Kind != provider.Unknown {
		t.Errorf("an answer that broke off: %+v", o)
	}
}

// TestEndpoint is one of Aliyun's, or the operator's.
func TestEndpoint(t *testing.T) {
	for _, tt := range []struct {
		region, endpoint any
		want, err        string
	}{
		{nil, nil, "https://dysmsapi.aliyuncs.com/", ""},
		{"cn-shanghai", nil, "https://dysmsapi.aliyuncs.com/", ""},
		{"ap-southeast-1", nil, "https://dysmsapi.ap-southeast-1.aliyuncs.com/", ""},
		{"eu-central-1", nil, "", "settings.region is not one"},
		{"eu-central-1", "https://dysmsapi.eu-central-1.aliyuncs.com", "https://dysmsapi.eu-central-1.aliyuncs.com/", ""},
		{nil, "http://127.0.0.1:8080/", "http://127.0.0.1:8080/", ""},
		{nil, "https://a.example/path", "", "settings.endpoint is not"},
		{nil, "https://user:hunter2@a.example", "", "settings.endpoint is not"},
		{nil, "dysmsapi.aliyuncs.com", "", "settings.endpoint is not"},
		{nil, 5, "", "settings.endpoint must be text"},
	} {
		settings := map[string]any{"access_key": "a", "access_secret": "b"}
		if tt.region != nil {
			settings["region"] = tt.region
		}
		if tt.endpoint != nil {
			settings["endpoint"] = tt.endpoint
		}
		p, err := open(schemas.Provider{Settings: settings}, provider.Deps{Private: outbound.Loopback, Getenv: func(string) string { return "" }})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, %v: %v", tt.region, tt.endpoint, err)
			}
			continue
		}
		if err != nil || p.(*client).address.String() != tt.want {
			t.Errorf("%v, %v: %v, %v", tt.region, tt.endpoint, p, err)
		}
	}
}

func TestPage(t *testing.T) {
	providertest.Page(t, "aliyun-sms", settings, &codes, regexp.MustCompile("`((?:isv|isp)\\.[A-Z_]+|[A-Z]+_[A-Z_]+)`"))
}
