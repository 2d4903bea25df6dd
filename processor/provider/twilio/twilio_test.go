package twilio_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/twilio"
	"github.com/weirhq/weir/schemas"
)

func policy(channels []schemas.Channel, settings map[string]any) schemas.Provider {
	s := map[string]any{"account_sid": account, "auth_token": token, "from": "+15005550006"}
	for k, v := range settings {
		if s[k] = v; v == nil {
			delete(s, k)
		}
	}
	return schemas.Provider{Name: "twilio-us", Type: "twilio", Channels: channels, Settings: s}
}

func TestSettings(t *testing.T) {
	voice := []schemas.Channel{schemas.ChannelSMS, schemas.ChannelVoice}
	for _, tt := range []struct {
		name     string
		channels []schemas.Channel
		settings map[string]any
		want     string // of the error; empty for none
		listen   string
	}{
		{"auth token", nil, nil, "", ""},
		{"API key", nil, map[string]any{"auth_token": nil, "api_key": "SK1", "api_secret": "hunter2-x"}, "", "settings.auth_token is missing: Twilio signs"},
		{"API key and auth token", nil, map[string]any{"api_key": "SK1", "api_secret": "hunter2-x"}, "", ""},
		{"half an API key", nil, map[string]any{"api_key": "SK1"}, "go together", "go together"},
		{"no credentials", nil, map[string]any{"auth_token": nil}, "settings.auth_token is missing", "settings.auth_token is missing"},
		{"no account", nil, map[string]any{"account_sid": nil}, "settings.account_sid is missing", "settings.account_sid is missing"},
		{"no sender", nil, map[string]any{"from": nil}, "settings.from is missing", "settings.from is missing"},
		{"messaging service", nil, map[string]any{"from": nil, "messaging_service_sid": "MG1"}, "", ""},
		{"messaging service and calls", voice, map[string]any{"from": nil, "messaging_service_sid": "MG1"}, "calls need a number", "calls need a number"},
		{"endpoint", nil, map[string]any{"endpoint": "ftp://x"}, "settings.endpoint is not", "settings.endpoint is not"},
		{"not text", nil, map[string]any{"from": 15005550006}, "settings.from must be text", "settings.from must be text"},
		{"unknown", nil, map[string]any{"sender": "x"}, "settings.sender is not a setting", "settings.sender is not a setting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			types := provider.Types{"twilio": twilio.Type}
			p, err := types.Open(policy(tt.channels, tt.settings), provider.Deps{Private: outbound.Loopback})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("open: %v, want %q", err, tt.want)
			}
			if err == nil {
				p.Close()
			}
			_, err = types.Listen(policy(tt.channels, tt.settings), provider.Deps{Private: outbound.Loopback})
			if (err == nil) != (tt.listen == "") || err != nil && !strings.Contains(err.Error(), tt.listen) {
				t.Errorf("listen: %v, want %q", err, tt.listen)
			}
		})
	}
}

// TestRequests: which parameters are sent to which resource, and as whom.
func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings map[string]any
		public   string
		call     provider.Call
		path     string
		user     string
		want     url.Values
	}{
		{"a message", nil, "", provider.Call{Channel: schemas.ChannelSMS, Content: content.Content{Body: "hi"}}, "Messages.json", account,
			url.Values{"To": {"+15005550009"}, "From": {"+15005550006"}, "Body": {"hi"}}},
		{"with a sender of its own", map[string]any{"messaging_service_sid": "MG1"}, "", provider.Call{Channel: schemas.ChannelSMS, From: "Weir", Content: content.Content{Body: "hi"}}, "Messages.json", account,
			url.Values{"To": {"+15005550009"}, "From": {"Weir"}, "Body": {"hi"}}},
		{"by a messaging service, with an API key", map[string]any{"messaging_service_sid": "MG1", "api_key": "SK1", "api_secret": "s"}, "", provider.Call{Channel: schemas.ChannelSMS, Content: content.Content{Body: "hi"}}, "Messages.json", "SK1",
			url.Values{"To": {"+15005550009"}, "MessagingServiceSid": {"MG1"}, "Body": {"hi"}}},
		{"a call", map[string]any{"messaging_service_sid": "MG1"}, "", provider.Call{Channel: schemas.ChannelVoice, Content: content.Content{Body: `5 < 6 & "so"`}}, "Calls.json", account,
			url.Values{"To": {"+15005550009"}, "From": {"+15005550006"}, "Twiml": {"<Response><Say>5 &lt; 6 &amp; &#34;so&#34;</Say></Response>"}}},
		{"a call in a language", map[string]any{"language": "cmn-CN", "voice": `Polly."Zhiyu"`}, "", provider.Call{Channel: schemas.ChannelVoice, From: "+15005550001", Content: content.Content{Body: "您好"}}, "Calls.json", account,
			url.Values{"To": {"+15005550009"}, "From": {"+15005550001"}, "Twiml": {`<Response><Say language="cmn-CN" voice="Polly.&#34;Zhiyu&#34;">您好</Say></Response>`}}},
		{"receipts", nil, "https://weir.example", provider.Call{ID: "m1", Channel: schemas.ChannelSMS, Content: content.Content{Body: "hi"}}, "Messages.json", account,
			url.Values{"To": {"+15005550009"}, "From": {"+15005550006"}, "Body": {"hi"}, "StatusCallback": {"https://weir.example/v1/receipts/twilio-us?ref=" +
				provider.Reference{MessageID: "m1", To: "+15005550009", Channel: schemas.ChannelSMS}.String()}}},
		{"receipts that could not be verified", map[string]any{"auth_token": nil, "api_key": "SK1", "api_secret": "s"}, "https://weir.example", provider.Call{Channel: schemas.ChannelSMS, Content: content.Content{Body: "hi"}}, "Messages.json", "SK1",
			url.Values{"To": {"+15005550009"}, "From": {"+15005550006"}, "Body": {"hi"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got url.Values
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				user, _, _ := r.BasicAuth()
				if r.URL.Path != "/2010-04-01/Accounts/"+account+"/"+tt.path || user != tt.user {
					t.Errorf("%s as %s", r.URL.Path, user)
				}
				_ = r.ParseForm()
				got = r.PostForm
				_, _ = w.Write([]byte(`{"sid": "SM1"}`))
			}))
			defer srv.Close()
			pol := policy(nil, tt.settings)
			pol.Settings["endpoint"] = srv.URL + "/"
			p, err := provider.Types{"twilio": twilio.Type}.Open(pol, provider.Deps{Private: outbound.Loopback, PublicURL: tt.public})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			tt.call.To = "+15005550009"
			if o := p.Send(t.Context(), &tt.call); o.Kind != provider.Accepted || o.ProviderMessageID != "SM1" {
				t.Errorf("%+v", o)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsNotSent(t *testing.T) {
	p, err := provider.Types{"twilio": twilio.Type}.Open(policy(nil, map[string]any{"endpoint": "http://127.0.0.1:1"}), provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for code, c := range map[string]provider.Call{
		"bad_channel":   {Channel: schemas.ChannelEmail},
		"text_too_long": {Channel: schemas.ChannelVoice, Content: content.Content{Body: strings.Repeat("&", 1000)}},
	} {
		if o := p.Send(t.Context(), &c); o.Kind != provider.Permanent || o.MayBeReceived || o.Code != code {
			t.Errorf("%s: %+v", code, o)
		}
	}
}

// TestAnswersWithoutAKnownCode: what gateways say, and codes that are new.
func TestAnswersWithoutAKnownCode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		kind   provider.Kind
		maybe  bool
		code   string
	}{
		{"201 without a SID", 201, `{"status": "queued"}`, provider.Unknown, true, "unreadable"},
		{"201 that was cut short", 201, ``, provider.Unknown, true, "unreadable"},
		{"502 in HTML", 502, "<html>", provider.Transient, true, "http_502"},
		{"503 in HTML", 503, "<html>", provider.Transient, false, "http_503"},
		{"429 in HTML", 429, "<html>", provider.Throttled, false, "http_429"},
		{"302", 302, "", provider.Transient, true, "http_302"},
		{"404 in HTML", 404, "<html>", provider.Permanent, false, "http_404"},
		{"500 with a new code", 500, `{"code": 20999}`, provider.Transient, true, "20999"},
		{"429 with a new code", 429, `{"code": 20999}`, provider.Throttled, false, "20999"},
		{"400 with a code that is text", 400, `{"code": "+15005550009"}`, provider.Permanent, false, "http_400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if o := twilio.Decide(tt.status, http.Header{}, tt.body); o.Kind != tt.kind || o.MayBeReceived != tt.maybe || o.Code != tt.code || o.Text == "" {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestSignatures against the vectors of Twilio's own library: twilio/twilio-go,
// client/request_validator_test.go.
func TestSignatures(t *testing.T) {
	form := url.Values{"Digits": {"1234"}, "CallSid": {"CA1234567890ABCDE"}, "To": {"+18005551212"}, "Caller": {"+14158675309"}, "From": {"+14158675309"}}
	const at = "https://mycompany.com/myapp.php?foo=1&bar=2"
	for _, tt := range []struct {
		name, address, signature string
		ok                       bool
	}{
		{"as it is", at, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", true},
		{"wrong", at, "RSOYDt4T1cUTdK1PDd94/VVr8B8=", false},
		{"wrong in bits that base64 does not need", at, "RSOYDt4T1cUTdK1PDd93/VVr8B9=", false},
		{"https with a port, signed without", strings.Replace(at, ".com", ".com:1234", 1), "RSOYDt4T1cUTdK1PDd93/VVr8B8=", true},
		{"https, signed with a port", at, "kvajT1Ptam85bY51eRf/AJRuM3w=", true},
		{"http, signed without a port", strings.Replace(at, "https", "http", 1), "0ZXoZLH/DfblKGATFgpif+LLRf4=", true},
		{"http with a port, signed with it", strings.Replace(strings.Replace(at, ".com", ".com:1234", 1), "https", "http", 1), "Zmvh+3yNM1Phv2jhDCwEM3q5ebU=", true},
		{"of another address", at + "0", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", false},
		{"empty", at, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(tt.address)
			if err != nil {
				t.Fatal(err)
			}
			l, err := provider.Types{"twilio": twilio.Type}.Listen(policy(nil, map[string]any{"auth_token": "12345"}), provider.Deps{Private: outbound.Loopback})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = l.Receipts(&provider.Hook{Method: "POST", URL: u, Header: http.Header{
				"X-Twilio-Signature": {tt.signature}, "Content-Type": {"application/x-www-form-urlencoded; charset=UTF-8"},
			}, Body: []byte(form.Encode())})
			if errors.Is(err, provider.ErrForged) == tt.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

const at = "https://weir.example/v1/receipts/twilio-us"

// hook is a request that Twilio signed.
func hook(t *testing.T, address string, form url.Values) *provider.Hook {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Hook{Method: "POST", URL: u, Body: []byte(form.Encode()), At: time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC), Header: http.Header{
		"X-Twilio-Signature": {twilio.Sign(token, address, form)}, "Content-Type": {"application/x-www-form-urlencoded"},
	}}
}

func TestReceipts(t *testing.T) {
	l, err := provider.Types{"twilio": twilio.Type}.Listen(policy(nil, nil), provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	ref := provider.Reference{MessageID: "0199b2a0-5c00-7000-8000-0123456789ab", To: "+15005550009", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Template: "login", Attempt: 2}
	came := schemas.MillisOf(time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC))
	of := func(r provider.Receipt) provider.Receipt {
		b := ref.Receipt("twilio-us")
		b.ProviderMessageID, b.At = "SM1", came
		b.Status, b.Code, b.Text, b.Suppress = r.Status, r.Code, r.Text, r.Suppress
		return b
	}
	message := func(more ...string) url.Values {
		v := url.Values{"MessageSid": {"SM1"}, "To": {"+15005550009"}, "From": {"Weir"}, "AccountSid": {account}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	for _, tt := range []struct {
		name string
		url  string
		form url.Values
		want []provider.Receipt
	}{
		{"delivered", at + "?ref=" + ref.String(), message("MessageStatus", "delivered"), []provider.Receipt{of(provider.Receipt{Status: schemas.StatusDelivered})}},
		{"read", at + "?ref=" + ref.String(), message("MessageStatus", "read"), []provider.Receipt{of(provider.Receipt{Status: schemas.StatusDelivered})}},
		{"on its way", at + "?ref=" + ref.String(), message("MessageStatus", "sent"), nil},
		{"a status that is new", at + "?ref=" + ref.String(), message("MessageStatus", "teleported"), nil},
		{"undelivered", at + "?ref=" + ref.String(), message("MessageStatus", "undelivered", "ErrorCode", "30003"),
			[]provider.Receipt{of(provider.Receipt{Status: schemas.StatusUndelivered, Code: "30003", Text: "the handset is off or out of reach"})}},
		{"no longer anybody's", at + "?ref=" + ref.String(), message("MessageStatus", "undelivered", "ErrorCode", "30005"),
			[]provider.Receipt{of(provider.Receipt{Status: schemas.StatusUndelivered, Code: "30005", Text: "the number is unknown to the carrier", Suppress: schemas.SuppressHardBounce})}},
		{"opted out, seen late", at + "?ref=" + ref.String(), message("MessageStatus", "failed", "ErrorCode", "21610"),
			[]provider.Receipt{of(provider.Receipt{Status: schemas.StatusUndelivered, Code: "21610", Text: "the recipient has answered STOP", Suppress: schemas.SuppressOptedOut})}},
		{"a code that is new", at + "?ref=" + ref.String(), message("MessageStatus", "failed", "ErrorCode", "39999"),
			[]provider.Receipt{of(provider.Receipt{Status: schemas.StatusUndelivered, Code: "39999", Text: "Twilio's error 39999"})}},
		{"a code that is none", at + "?ref=" + ref.String(), message("MessageStatus", "failed", "ErrorCode", "no +15005550009"),
			[]provider.Receipt{of(provider.Receipt{Status: schemas.StatusUndelivered, Code: "failed", Text: "it was not sent, or the call could not be connected"})}},
		{"without a reference", at, message("MessageStatus", "delivered"),
			[]provider.Receipt{{Provider: "twilio-us", ProviderMessageID: "SM1", To: "+15005550009", Channel: schemas.ChannelSMS, Status: schemas.StatusDelivered, At: came}}},
		{"with a reference that is none", at + "?ref=xyz", message("MessageStatus", "delivered"),
			[]provider.Receipt{{Provider: "twilio-us", ProviderMessageID: "SM1", To: "+15005550009", Channel: schemas.ChannelSMS, Status: schemas.StatusDelivered, At: came}}},
		{"a call that was answered", at, url.Values{"CallSid": {"CA1"}, "CallStatus": {"completed"}, "To": {"+15005550009"}, "Timestamp": {"Sun, 22 Nov 2026 00:59:58 +0000"}},
			[]provider.Receipt{{Provider: "twilio-us", ProviderMessageID: "CA1", To: "+15005550009", Channel: schemas.ChannelVoice, Status: schemas.StatusDelivered, At: came - 2000}}},
		{"a call that was not", at, url.Values{"CallSid": {"CA1"}, "CallStatus": {"no-answer"}, "To": {"+15005550009"}},
			[]provider.Receipt{{Provider: "twilio-us", ProviderMessageID: "CA1", To: "+15005550009", Channel: schemas.ChannelVoice, Status: schemas.StatusUndelivered, At: came, Code: "no-answer", Text: "nobody answered"}}},
		{"a call that rings", at, url.Values{"CallSid": {"CA1"}, "CallStatus": {"ringing"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, reply, err := l.Receipts(hook(t, tt.url, tt.form))
			if err != nil || reply.Status != 0 {
				t.Fatalf("%+v, %v", reply, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, _, err := l.Receipts(hook(t, at, url.Values{"To": {"+1"}})); !errors.Is(err, provider.ErrHook) {
		t.Errorf("a callback of nothing: %v", err)
	}
}

// TestForged: what was changed after Twilio signed it.
func TestForged(t *testing.T) {
	l, err := provider.Types{"twilio": twilio.Type}.Listen(policy(nil, nil), provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*provider.Hook){
		"body":    func(h *provider.Hook) { h.Body = append(h.Body, "&X=1"...) },
		"query":   func(h *provider.Hook) { h.URL.RawQuery = "ref=other" },
		"host":    func(h *provider.Hook) { h.URL.Host = "other.example" },
		"scheme":  func(h *provider.Hook) { h.URL.Scheme = "http" },
		"header":  func(h *provider.Hook) { h.Header.Del("X-Twilio-Signature") },
		"method":  func(h *provider.Hook) { h.Method = "GET" },
		"type":    func(h *provider.Hook) { h.Header.Set("Content-Type", "application/json") },
		"no form": func(h *provider.Hook) { h.Body = []byte("%zz") },
	} {
		t.Run(name, func(t *testing.T) {
			h := hook(t, at, url.Values{"MessageSid": {"SM1"}, "MessageStatus": {"delivered"}})
			if _, _, err := l.Receipts(h); err != nil {
				t.Fatal(err)
			}
			change(h)
			if _, _, err := l.Receipts(h); !errors.Is(err, provider.ErrForged) {
				t.Error(err)
			}
			if _, _, err := l.Inbound(h); !errors.Is(err, provider.ErrForged) {
				t.Error(err)
			}
		})
	}
}

func TestInbound(t *testing.T) {
	l, err := provider.Types{"twilio": twilio.Type}.Listen(policy(nil, nil), provider.Deps{Private: outbound.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, kind, word string }{{"text", "", ""}, {"STOP", "STOP", "stop"}, {"START", "START", "start"}, {"HELP", "HELP", "help"}, {"else", "MAYBE", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			form := url.Values{"MessageSid": {"SM9"}, "From": {"+15005550009"}, "To": {"+15005550006"}, "Body": {" Arrêt "}}
			if tt.kind != "" {
				form.Set("OptOutType", tt.kind)
			}
			h := hook(t, "https://weir.example/v1/inbound/twilio-us", form)
			got, reply, err := l.Inbound(h)
			if err != nil || reply.Status != 200 || reply.ContentType != "text/xml" || !strings.HasSuffix(string(reply.Body), "<Response></Response>") {
				t.Errorf("%+v, %v", reply, err)
			}
			if diff := cmp.Diff([]provider.Inbound{{ID: "SM9", From: "+15005550009", To: "+15005550006", Channel: schemas.ChannelSMS, Text: " Arrêt ", At: h.At, Word: tt.word}}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, _, err := l.Inbound(hook(t, at, url.Values{"CallSid": {"CA1"}})); !errors.Is(err, provider.ErrHook) {
		t.Errorf("a call that came in: %v", err)
	}
}
