package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

func p8(t *testing.T, curve elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func with(t *testing.T, set map[string]any) (*adapter, error) {
	t.Helper()
	all := map[string]any{"team_id": "DEF123GHIJ", "key_id": "ABC123DEFG", "key": p8(t, elliptic.P256()), "topic": "com.example.weir"}
	maps.Copy(all, set)
	p, err := Open(schemas.Provider{Name: "apple", Settings: all}, provider.Deps{Private: outbound.Loopback, Getenv: func(string) string { return "" }})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { p.Close() })
	return p.(*adapter), nil
}

// TestRequest: what Apple gets of a message and of the settings.
func TestRequest(t *testing.T) {
	message := content.Content{Title: "Code", Body: "<402931> 🙂"}
	for _, tt := range []struct {
		name   string
		set    map[string]any
		call   provider.Call
		body   string
		header map[string]string
		code   string
	}{
		{"an alert", nil, provider.Call{Content: message}, `{"aps":{"alert":{"body":"<402931> 🙂","title":"Code"}}}`, map[string]string{"Apns-Push-Type": "alert", "Apns-Topic": "com.example.weir"}, ""},
		{"with data and a sound", map[string]any{"sound": "default"}, provider.Call{Content: content.Content{Body: "b"}, Data: map[string]string{"order": "17"}}, `{"aps":{"alert":{"body":"b"},"sound":"default"},"order":"17"}`, nil, ""},
		{"in the background", map[string]any{"push_type": "background"}, provider.Call{Content: message, Data: map[string]string{"order": "17"}}, `{"aps":{"content-available":1},"order":"17"}`, map[string]string{"Apns-Push-Type": "background", "Apns-Priority": "5"}, ""},
		{"with an end, an id and a priority", map[string]any{"priority": 10}, provider.Call{ID: "0199B2A0-5c00-7000-8000-0123456789ab", ExpiresAt: 1795312800999, Content: content.Content{Body: "b"}}, `{"aps":{"alert":{"body":"b"}}}`, map[string]string{"Apns-Expiration": "1795312800", "Apns-Id": "0199b2a0-5c00-7000-8000-0123456789ab", "Apns-Priority": "10"}, ""},
		{"an id that is no UUID", nil, provider.Call{ID: "mine", Content: content.Content{Body: "b"}}, `{"aps":{"alert":{"body":"b"}}}`, map[string]string{"Apns-Id": "", "Apns-Expiration": "", "Apns-Collapse-Id": "", "Apns-Priority": ""}, ""},
		{"with a collapse id", map[string]any{"collapse_from": "thread"}, provider.Call{Content: content.Content{Body: "b"}, Data: map[string]string{"thread": "t-1"}}, `{"aps":{"alert":{"body":"b"}}}`, map[string]string{"Apns-Collapse-Id": "t-1"}, ""},
		{"one that is too long", map[string]any{"collapse_from": "thread"}, provider.Call{Data: map[string]string{"thread": strings.Repeat("t", 65)}}, "", nil, "bad_collapse_id"},
		{"one of two lines", map[string]any{"collapse_from": "thread"}, provider.Call{Data: map[string]string{"thread": "t\r\nx: y"}}, "", nil, "bad_collapse_id"},
		{"Apple's own entry", nil, provider.Call{Data: map[string]string{"aps": "x"}}, "", nil, "bad_data"},
		{"4096 bytes", nil, provider.Call{Content: content.Content{Body: strings.Repeat("b", 4096-len(`{"aps":{"alert":{"body":""}}}`))}}, `{"aps":{"alert":{"body":"` + strings.Repeat("b", 4096-len(`{"aps":{"alert":{"body":""}}}`)) + `"}}}`, nil, ""},
		{"one more", nil, provider.Call{Content: content.Content{Body: strings.Repeat("b", 4097-len(`{"aps":{"alert":{"body":""}}}`))}}, "", nil, "payload_too_large"},
		{"of a call, 5120", map[string]any{"push_type": "voip"}, provider.Call{Content: content.Content{Body: strings.Repeat("b", 5121-len(`{"aps":{"alert":{"body":""}}}`))}}, "", nil, "payload_too_large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got *http.Request
			var body string
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got, body = r, string(b)
				w.Header().Set("apns-id", "0199b2a0-5c00-7000-8000-0123456789ab")
			}))
			srv.Config.Protocols = new(http.Protocols)
			srv.Config.Protocols.SetUnencryptedHTTP2(true)
			srv.Start()
			defer srv.Close()
			set := map[string]any{"endpoint": srv.URL + "/"}
			maps.Copy(set, tt.set)
			a, err := with(t, set)
			if err != nil {
				t.Fatal(err)
			}
			tt.call.To = "a/b"
			o := a.Send(t.Context(), &tt.call)
			if tt.code != "" {
				if o.Kind != provider.Permanent || o.MayBeReceived || o.Code != tt.code || got != nil {
					t.Errorf("%+v, want %s and no call", o, tt.code)
				}
				return
			}
			if o.Kind != provider.Accepted || body != tt.body || got.RequestURI != "/3/device/a%2Fb" {
				t.Errorf("%+v\n%s\n%s\nwant\n%s", o, got.RequestURI, body, tt.body)
			}
			for k, v := range tt.header {
				if got.Header.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, got.Header.Get(k), v)
				}
			}
		})
	}
}

// TestDecide: what an answer means that is not in Apple's table.
func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		kind     provider.Kind
		received bool
		code     string
	}{
		{"no reason", 400, "", provider.Permanent, false, "http_400"},
		{"a reason that is new", 400, `{"reason":"BrandNew"}`, provider.Permanent, false, "BrandNew"},
		{"a reason that may be anything", 400, `{"reason":"00fc13adff"}`, provider.Permanent, false, "http_400"},
		{"429 with a new reason", 429, `{"reason":"TooMuch"}`, provider.Throttled, false, "TooMuch"},
		{"500 without one", 500, "garbage", provider.Transient, true, "http_500"},
		{"503 with a new one", 503, `{"reason":"Tired"}`, provider.Transient, false, "Tired"},
		{"302", 302, "", provider.Unknown, true, "http_302"},
		{"204", 204, "", provider.Unknown, true, "http_204"},
		{"200 of somebody else", 200, `{"ok":true}`, provider.Unknown, true, "bad_answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := decide(&httpcall.Answer{Status: tt.status, Header: http.Header{}, Body: []byte(tt.body)})
			if o.Kind != tt.kind || o.MayBeReceived != tt.received || o.Code != tt.code || o.Text == "" {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestTokens are made anew after 40 minutes, and when Apple calls one expired that is
// not young.
func TestTokens(t *testing.T) {
	key, err := parseKey(p8(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tk := &tokens{team: "t", keyID: "k", key: key, now: func() time.Time { return now }}
	get := func() string {
		s, err := tk.get()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := get()
	for _, tt := range []struct {
		name    string
		after   time.Duration
		expired bool
		same    bool
	}{
		{"at once", 0, false, true},
		{"after 39 minutes", 39 * time.Minute, false, true},
		{"after 40", 40 * time.Minute, false, false},
		{"called expired after 19", 19 * time.Minute, true, true},
		{"called expired after 20", 20 * time.Minute, true, false},
		{"the clock was set back", -time.Hour, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tk.token, now = "", time.Now()
			first = get()
			now = now.Add(tt.after)
			if tt.expired {
				tk.expired("another")
				if get() != first {
					t.Error("another's end ended it")
				}
				tk.expired(first)
			}
			if again := get(); (again == first) != tt.same {
				t.Errorf("the same: %t", again == first)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  map[string]any
		want string
	}{
		{"a key of another curve", map[string]any{"key": p8(t, elliptic.P384())}, "settings.key is no private key of curve P-256"},
		{"no key", map[string]any{"key": "hunter2"}, "settings.key is no private key of curve P-256"},
		{"a priority", map[string]any{"priority": 7}, "settings.priority must be 1, 5 or 10"},
		{"a push type", map[string]any{"push_type": "loud"}, "settings.push_type must be one of alert"},
		{"an endpoint", map[string]any{"endpoint": "staging"}, "settings.endpoint must be production, sandbox or an address"},
		{"a proxy", map[string]any{"proxy": 5}, "settings.proxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := with(t, tt.set); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for name, address := range endpoints {
		a, err := with(t, map[string]any{"endpoint": name})
		if err != nil || a.endpoint != address {
			t.Errorf("%s: %v %+v", name, err, a)
		}
	}
}
