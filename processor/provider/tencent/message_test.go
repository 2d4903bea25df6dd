package tencent

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
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
		Tenant: "acme", Class: "verify", Template: "login-code", Vars: map[string]string{"code": "123456", "minutes": "5", "empty": ""},
		Own: map[string]any{"id": "449739", "params": []any{"code", "minutes"}},
	}
}

func TestMessage(t *testing.T) {
	long := strings.Repeat("n", 64)
	own := defaults{app: "1400006666", sign: "Default", sender: "Sender"}
	base := message{PhoneNumberSet: []string{"+8613800000000"}, SmsSdkAppID: "1400006666", TemplateID: "449739", SignName: "Default", TemplateParamSet: []string{"123456", "5"}}
	with := func(change func(*message)) message {
		m := base
		change(&m)
		return m
	}
	for _, tt := range []struct {
		name string
		with func(*provider.Call)
		want message // without SessionContext
		code string
		says string
	}{
		{"by position", nil, base, "", ""},
		{"in another order, one twice, one empty", func(c *provider.Call) { c.Own["params"] = []any{"minutes", "code", "minutes", "empty"} }, with(func(m *message) { m.TemplateParamSet = []string{"5", "123456", "5", ""} }), "", ""},
		{"no parameters", func(c *provider.Call) { delete(c.Own, "params") }, with(func(m *message) { m.TemplateParamSet = []string{} }), "", ""},
		{"the template's signature", func(c *provider.Call) { c.Own["sign"] = "微尔" }, with(func(m *message) { m.SignName = "微尔" }), "", ""},
		{"the message's signature", func(c *provider.Call) { c.Own["sign"], c.From = "微尔", "Other" }, with(func(m *message) { m.SignName = "Other" }), "", ""},
		{"abroad", func(c *provider.Call) { c.To = "+85212345678" }, with(func(m *message) { m.PhoneNumberSet, m.SenderID = []string{"+85212345678"}, "Sender" }), "", ""},
		{"abroad, the message's sender", func(c *provider.Call) { c.To, c.From, c.Own["sign"] = "+85212345678", "Other", "微尔" }, with(func(m *message) {
			m.PhoneNumberSet, m.SenderID, m.SignName = []string{"+85212345678"}, "Other", "微尔"
		}), "", ""},
		{"no template at all", func(c *provider.Call) { c.Own, c.Template = nil, "" }, message{}, "no_template", "Tencent sends its own templates only"},
		{"a template without Tencent's id", func(c *provider.Call) { c.Own = nil }, message{}, "no_template", "template login-code does not say"},
		{"a template that apply would refuse", func(c *provider.Call) { c.Own["code"] = "1" }, message{}, "bad_template", "template login-code: code is not known"},
		{"a variable is missing", func(c *provider.Call) { c.Own["params"] = []any{"code", "order"} }, message{}, "missing_variable", "no variable order"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := call()
			if tt.with != nil {
				tt.with(c)
			}
			got, refusal := messageOf(c, own)
			if tt.code != "" {
				if refusal == nil || refusal.Kind != provider.Permanent || refusal.MayBeReceived || refusal.Code != tt.code || !strings.Contains(refusal.Text, tt.says) {
					t.Fatalf("%+v", refusal)
				}
				return
			}
			if refusal != nil {
				t.Fatalf("%+v", refusal)
			}
			if got.SessionContext != c.Reference().String() {
				t.Errorf("SessionContext %q", got.SessionContext)
			}
			got.SessionContext = ""
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("no signature anywhere", func(t *testing.T) {
		if _, refusal := messageOf(call(), defaults{app: "1"}); refusal == nil || refusal.Code != "no_signature" {
			t.Errorf("%+v", refusal)
		}
		c := call()
		c.To = "+85212345678"
		if m, refusal := messageOf(c, defaults{app: "1"}); refusal != nil || m.SignName != "" {
			t.Errorf("abroad: %+v, %+v", m, refusal)
		}
	})
	t.Run("a long reference", func(t *testing.T) {
		c := call()
		c.ID, c.Tenant, c.Class, c.Template = "id-"+strings.Repeat("x", 200), long, long, long
		want := c.Reference()
		want.Template = ""
		m, refusal := messageOf(c, own)
		if ref, err := provider.ParseReference(m.SessionContext); refusal != nil || err != nil || ref != want || len(m.SessionContext) > maxSession {
			t.Errorf("%+v, %+v, %v", refusal, ref, err)
		}
		c.ID = "id-" + strings.Repeat("x", 400)
		if m, refusal := messageOf(c, own); refusal != nil || m.SessionContext != "" {
			t.Errorf("too long in any case: %+v, %+v", refusal, m)
		}
	})
	t.Run("as JSON", func(t *testing.T) {
		c := call()
		c.Vars["code"] = "<b>\"1\" & \u200e2</b>"
		m, _ := messageOf(c, own)
		m.SessionContext = ""
		req, err := (&client{address: &url.URL{Scheme: "http", Host: "h", Path: "/"}, now: time.Now}).request(m)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(req.Body)
		want := `{"PhoneNumberSet":["+8613800000000"],"SmsSdkAppId":"1400006666","TemplateId":"449739","SignName":"Default","TemplateParamSet":["<b>\"1\" & ` + "\u200e" + `2</b>","5"]}`
		if string(body) != want {
			t.Errorf("\n got %s\nwant %s", body, want)
		}
	})
}

func TestTemplate(t *testing.T) {
	for name, tt := range map[string]struct {
		own  map[string]any
		want string
	}{
		"id alone":           {map[string]any{"id": "449739"}, ""},
		"everything":         {map[string]any{"id": "449739", "sign": "Weir", "params": []any{"a", "b", "a"}}, ""},
		"nothing":            {nil, "id is missing"},
		"no id":              {map[string]any{"sign": "Weir"}, "id is missing"},
		"a number for id":    {map[string]any{"id": 449739}, "id must be text without white space, in quotes"},
		"white space in id":  {map[string]any{"id": "449739 "}, "id must be text"},
		"another key":        {map[string]any{"id": "1", "code": "1"}, "code is not known: tencent-sms takes id, sign, params"},
		"an empty sign":      {map[string]any{"id": "1", "sign": ""}, "sign must be"},
		"a mapping":          {map[string]any{"id": "1", "params": map[string]any{"a": "b"}}, "params must be a list"},
		"text for params":    {map[string]any{"id": "1", "params": "a"}, "params must be a list"},
		"nothing for params": {map[string]any{"id": "1", "params": nil}, "params must be a list"},
		"a number in params": {map[string]any{"id": "1", "params": []any{1}}, "params must be a list"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Type.Template(tt.own); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC) // 6:30 in Shanghai
	ofCall := func(code string) string {
		return `{"Response":{"Error":{"Code":"` + code + `","Message":"+8613800000000"},"RequestId":"x"}}`
	}
	ofNumber := func(code string) string {
		return `{"Response":{"SendStatusSet":[{"SerialNo":"","PhoneNumber":"+8613800000000","Fee":0,"Code":"` + code + `","Message":"+8613800000000"}],"RequestId":"x"}}`
	}
	unreadable := provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "unreadable_answer"}
	for _, tt := range []struct {
		name, header string
		status       int
		body         string
		want         provider.Outcome // Text is not compared
	}{
		{"taken", "", 200, `{"Response":{"SendStatusSet":[{"SerialNo":"5000:1045","PhoneNumber":"+8613800000000","Fee":1,"Code":"Ok","IsoCode":"CN","New":[1]}],"RequestId":"x"}}`, provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "5000:1045"}},
		{"taken without an id", "", 200, ofNumber("Ok"), provider.Outcome{Kind: provider.Accepted}},
		{"no statuses", "", 200, `{"Response":{"SendStatusSet":[],"RequestId":"x"}}`, unreadable},
		{"no response", "", 200, `{}`, unreadable},
		{"an error without a code", "", 200, `{"Response":{"Error":{}}}`, unreadable},
		{"wrong types", "", 200, `{"Response":{"SendStatusSet":"Ok"}}`, unreadable},
		{"half", "", 200, `{"Response":{"SendSta`, unreadable},
		{"throttled", "", 200, ofCall("RequestLimitExceeded.UinLimitExceeded"), provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "RequestLimitExceeded.UinLimitExceeded"}},
		{"throttled, with a time", "4", 200, ofCall("RequestLimitExceeded"), provider.Outcome{Kind: provider.Throttled, OfProvider: true, Code: "RequestLimitExceeded", RetryAfter: 4 * time.Second}},
		{"30 seconds", "", 200, ofNumber("LimitExceeded.PhoneNumberThirtySecondLimit"), provider.Outcome{Kind: provider.Throttled, OfRecipient: true, Code: "LimitExceeded.PhoneNumberThirtySecondLimit", RetryAfter: 30 * time.Second}},
		{"a day", "", 200, ofNumber("LimitExceeded.PhoneNumberDailyLimit"), provider.Outcome{Kind: provider.Throttled, OfRecipient: true, Code: "LimitExceeded.PhoneNumberDailyLimit", RetryAfter: retry.MaxTold}},
		{"advertisements at night", "", 200, ofNumber("FailedOperation.MarketingSendTimeConstraint"), provider.Outcome{Kind: provider.Transient, OfRecipient: true, Code: "FailedOperation.MarketingSendTimeConstraint", RetryAfter: retry.MaxTold}},
		{"no messages left", "", 200, ofNumber("FailedOperation.InsufficientBalanceInSmsPackage"), provider.Outcome{Kind: provider.Transient, Code: "FailedOperation.InsufficientBalanceInSmsPackage"}},
		{"refused by the owner", "", 200, ofNumber("FailedOperation.PhoneNumberInBlacklist"), provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressOptedOut, Code: "FailedOperation.PhoneNumberInBlacklist"}},
		{"nobody knows", "", 200, ofCall("InternalError.Timeout"), provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "InternalError.Timeout"}},
		{"Tencent failed", "", 200, ofCall("InternalError"), provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "InternalError"}},
		{"an unknown code", "", 200, ofCall("New"), provider.Outcome{Kind: provider.Permanent, Code: "New"}},
		{"an unknown code of a server that failed", "", 500, ofCall("New"), provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "New"}},
		{"a code that may be anything", "", 200, ofCall("+86 138 is not ours"), provider.Outcome{Kind: provider.Permanent, Code: "no_code"}},
		{"a gateway's page", "", 502, `<html>`, provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "http_502"}},
		{"a proxy's page", "", 403, `<html>`, provider.Outcome{Kind: provider.Transient, Code: "http_403"}},
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
}

func TestUntilEight(t *testing.T) {
	for at, want := range map[string]time.Duration{
		"2026-11-22T22:00:00+08:00": 10*time.Hour + time.Second,
		"2026-11-22T23:59:59+08:00": 8*time.Hour + 2*time.Second,
		"2026-11-22T00:00:00+08:00": 8*time.Hour + time.Second,
		"2026-11-22T07:59:59+08:00": 2 * time.Second,
		"2026-11-22T08:00:00+08:00": 24*time.Hour + time.Second,
		"2026-11-21T23:30:00Z":      30*time.Minute + time.Second,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := untilEight(now); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

// TestWaitsAreOfRows: a time to wait belongs to a code that is tried again.
func TestWaitsAreOfRows(t *testing.T) {
	for code := range waits {
		if row, ok := codes.Of(code); !ok || row.Code != code || row.Kind != provider.Transient && row.Kind != provider.Throttled {
			t.Errorf("%s: %+v", code, row)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for _, tt := range []struct {
		settings  string
		want, err string
	}{
		{`{}`, "https://sms.tencentcloudapi.com/", ""},
		{`{"endpoint": "https://sms.intl.tencentcloudapi.com", "region": "ap-singapore"}`, "https://sms.intl.tencentcloudapi.com/", ""},
		{`{"endpoint": "https://a.example/path"}`, "", "settings.endpoint is not"},
		{`{"endpoint": "https://user:hunter2@a.example"}`, "", "settings.endpoint is not"},
		{`{"region": "ap guangzhou"}`, "", "settings.region holds"},
		{`{"app_id": 1400006666}`, "", "settings.app_id must be text"},
	} {
		settings := map[string]any{"secret_id": "a", "secret_key": "b", "app_id": "1"}
		if err := json.Unmarshal([]byte(tt.settings), &settings); err != nil {
			t.Fatal(err)
		}
		p, err := open(schemas.Provider{Settings: settings}, provider.Deps{Private: outbound.Loopback, Getenv: func(string) string { return "" }})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", tt.settings, err)
			}
			continue
		}
		if err != nil || p.(*client).address.String() != tt.want {
			t.Errorf("%s: %v, %v", tt.settings, p, err)
		}
	}
}

func TestPage(t *testing.T) {
	providertest.Page(t, "tencent-sms", settings, &codes, regexp.MustCompile("`((?:FailedOperation|InternalError|LimitExceeded)\\.[A-Za-z]+)`"))
}
