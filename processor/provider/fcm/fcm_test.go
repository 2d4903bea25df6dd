package fcm

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

var privatePEM = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
})

func with(t *testing.T, set map[string]any) (*adapter, error) {
	t.Helper()
	acc, err := json.Marshal(account{Type: "service_account", Project: "weir-example", Email: "weir@example.iam", KeyID: "k", PrivateKey: privatePEM(), TokenURI: "https://oauth2.googleapis.com/token"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"credentials": string(acc)}
	maps.Copy(all, set)
	p, err := Open(schemas.Provider{Name: "google", Settings: all, Timeout: schemas.Duration(5 * time.Second)}, provider.Deps{Private: outbound.Loopback, Getenv: func(string) string { return "" }})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { p.Close() })
	return p.(*adapter), nil
}

// TestDecide: the examples of "FCM error codes", and what is in no table.
func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		kind     provider.Kind
		received bool
		suppress schemas.SuppressReason
		code     string
	}{
		{"example 1: an invalid value", 400, `{"error":{"code":400,"message":"Invalid value at 'message.data[0].value' (TYPE_STRING), 12","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.data[0].value","description":"Invalid value at 'message.data[0].value' (TYPE_STRING), 12"}]}]}}`, provider.Permanent, false, "", "INVALID_ARGUMENT"},
		{"example 2: an invalid token", 400, `{"error":{"code":400,"message":"The registration token is not a valid FCM registration token","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"INVALID_ARGUMENT"}]}}`, provider.Permanent, false, schemas.SuppressInvalid, "INVALID_ARGUMENT:token"},
		{"a violation of the token's field", 400, `{"error":{"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.token"}]}]}}`, provider.Permanent, false, schemas.SuppressInvalid, "INVALID_ARGUMENT:token"},
		{"FCM's own, of the size", 400, `{"error":{"message":"Message too big","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"INVALID_ARGUMENT"}]}}`, provider.Permanent, false, "", "INVALID_ARGUMENT"},
		{"not found, and FCM does not say what", 404, `{"error":{"status":"NOT_FOUND"}}`, provider.Permanent, false, "", "NOT_FOUND"},
		{"unregistered", 404, `{"error":{"status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}`, provider.Permanent, false, schemas.SuppressInvalid, "UNREGISTERED"},
		{"a new code under 503", 503, `{"error":{"status":"TIRED"}}`, provider.Transient, false, "", "TIRED"},
		{"a new code under 429", 429, `{"error":{"status":"TIRED"}}`, provider.Throttled, false, "", "TIRED"},
		{"a code that may be anything", 400, `{"error":{"status":"+8613800000000"}}`, provider.Permanent, false, "", "http_400"},
		{"garbage under 500", 500, `<html>`, provider.Transient, true, "", "http_500"},
		{"302", 302, ``, provider.Unknown, true, "", "http_302"},
		{"200 of somebody else", 200, `{"ok":true}`, provider.Unknown, true, "", "bad_answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := decide(&httpcall.Answer{Status: tt.status, Header: http.Header{}, Body: []byte(tt.body)}, time.Now())
			if o.Kind != tt.kind || o.MayBeReceived != tt.received || o.Suppress != tt.suppress || o.OfRecipient != (tt.suppress != "") || o.Code != tt.code || o.Text == "" {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	now := time.UnixMilli(1795312800000)
	for _, tt := range []struct {
		name string
		set  map[string]any
		call provider.Call
		want string
	}{
		{"a notification", nil, provider.Call{Content: content.Content{Title: "<t>", Body: "🙂"}}, `{"message":{"token":"d","notification":{"title":"<t>","body":"🙂"}}}`},
		{"data alone", nil, provider.Call{Data: map[string]string{"k": "v"}}, `{"message":{"token":"d","data":{"k":"v"}}}`},
		{"what the settings say of the platforms", map[string]any{"android": map[string]any{"priority": "HIGH"}, "apns": map[string]any{"payload": map[string]any{"aps": map[string]any{"sound": "default"}}}},
			provider.Call{Content: content.Content{Body: "b"}}, `{"message":{"token":"d","notification":{"body":"b"},"android":{"priority":"HIGH"},"apns":{"payload":{"aps":{"sound":"default"}}}}}`},
		{"its end", map[string]any{"android": map[string]any{"priority": "HIGH"}, "apns": map[string]any{"headers": map[string]any{"apns-priority": "5"}}},
			provider.Call{ExpiresAt: schemas.MillisOf(now.Add(90 * time.Second)), Content: content.Content{Body: "b"}},
			`{"message":{"token":"d","notification":{"body":"b"},"android":{"priority":"HIGH","ttl":"90s"},"apns":{"headers":{"apns-expiration":"1795312890","apns-priority":"5"}}}}`},
		{"its end, without settings, in a year", nil, provider.Call{ExpiresAt: schemas.MillisOf(now.Add(365 * 24 * time.Hour)), Content: content.Content{Body: "b"}},
			`{"message":{"token":"d","notification":{"body":"b"},"android":{"ttl":"2419200s"},"apns":{"headers":{"apns-expiration":"1826848800"}}}}`},
		{"the settings' own end", map[string]any{"android": map[string]any{"ttl": "5s"}, "apns": map[string]any{"headers": map[string]any{"apns-expiration": "0"}}},
			provider.Call{ExpiresAt: schemas.MillisOf(now.Add(time.Hour)), Content: content.Content{Body: "b"}},
			`{"message":{"token":"d","notification":{"body":"b"},"android":{"ttl":"5s"},"apns":{"headers":{"apns-expiration":"0"}}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := with(t, tt.set)
			if err != nil {
				t.Fatal(err)
			}
			a.now = func() time.Time { return now }
			tt.call.To = "d"
			before, _ := json.Marshal(tt.set)
			got, err := a.encode(&tt.call)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", err, got, tt.want)
			}
			if after, _ := json.Marshal(tt.set); string(after) != string(before) {
				t.Errorf("a call changes the settings: %s", after)
			}
		})
	}
}

// google is a server of tokens and messages.
type google struct {
	*httptest.Server
	tokens, messages atomic.Int64
	token, message   func(http.ResponseWriter, *http.Request)
}

func serve(t *testing.T) *google {
	g := &google{
		token: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":"a","expires_in":3600,"token_type":"Bearer"}`)
		},
		message: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"projects/p/messages/1"}`)
		},
	}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/token" {
			g.tokens.Add(1)
			g.token(w, r)
			return
		}
		g.messages.Add(1)
		g.message(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *google) open(t *testing.T) *adapter {
	t.Helper()
	a, err := with(t, map[string]any{"endpoint": g.URL, "token_uri": g.URL + "/token"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func send(ctx context.Context, a *adapter) provider.Outcome {
	return a.Send(ctx, &provider.Call{ID: "m", To: "d", Content: content.Content{Body: "b"}})
}

// TestOneTokenForAll: calls that come at once wait for one request, and it is made anew
// five minutes before its end, and when FCM refuses it.
func TestOneTokenForAll(t *testing.T) {
	g := serve(t)
	a := g.open(t)
	var mu sync.Mutex
	now := time.Now()
	a.tokens.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); now = now.Add(d); mu.Unlock() }
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if o := send(t.Context(), a); o.Kind != provider.Accepted {
				t.Errorf("%+v", o)
			}
		})
	}
	wg.Wait()
	if n := g.tokens.Load(); n != 1 {
		t.Errorf("%d tokens for 50 calls", n)
	}
	for _, step := range []struct {
		pass time.Duration
		want int64
	}{{54 * time.Minute, 1}, {2 * time.Minute, 2}, {time.Minute, 2}} {
		pass(step.pass)
		if o := send(t.Context(), a); o.Kind != provider.Accepted || g.tokens.Load() != step.want {
			t.Errorf("after %s: %+v, %d tokens", step.pass, o, g.tokens.Load())
		}
	}
	g.message = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(401)
		_, _ = io.WriteString(w, `{"error":{"status":"UNAUTHENTICATED"}}`)
	}
	if o := send(t.Context(), a); o.Code != "UNAUTHENTICATED" || o.Kind != provider.Transient {
		t.Errorf("%+v", o)
	}
	send(t.Context(), a)
	if n := g.tokens.Load(); n != 3 {
		t.Errorf("%d tokens after FCM refused one", n)
	}
}

// TestWithoutAToken no message is sent, and a failure is not asked for again within a
// second.
func TestWithoutAToken(t *testing.T) {
	say := func(status int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	}
	for _, tt := range []struct {
		name  string
		token func(http.ResponseWriter, *http.Request)
		kind  provider.Kind
		code  string
	}{
		{"a key that Google does not know", say(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature for weir@example.iam"}`), provider.Transient, "bad_credentials"},
		{"401", say(401, `{"error":"invalid_client"}`), provider.Transient, "bad_credentials"},
		{"403", say(403, ``), provider.Transient, "bad_credentials"},
		{"too many", say(429, ``), provider.Transient, "no_token"},
		{"a fault", say(500, `x`), provider.Transient, "no_token"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		}, provider.Transient, "no_token"},
		{"garbage", say(200, `<html>`), provider.Transient, "no_token"},
		{"no token in it", say(200, `{}`), provider.Transient, "no_token"},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, provider.Transient, "no_token"},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, provider.Transient, "token_timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := serve(t)
			g.token = tt.token
			a := g.open(t)
			within := time.Minute
			if tt.code == "token_timeout" {
				within = 2 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			o := send(ctx, a)
			if o.Kind != tt.kind || o.Code != tt.code || o.MayBeReceived || strings.Contains(o.Text, "weir@") {
				t.Errorf("%+v, want %s %s", o, tt.kind, tt.code)
			}
			if again := send(ctx, a); again != o || g.tokens.Load() != 1 || g.messages.Load() != 0 {
				t.Errorf("again: %+v, %d requests for a token, %d messages", again, g.tokens.Load(), g.messages.Load())
			}
			before := time.Now()
			if err := a.Close(); err != nil || time.Since(before) > 20*time.Second {
				t.Errorf("Close took %s: %v", time.Since(before), err)
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
		{"no JSON", map[string]any{"credentials": "hunter2"}, "settings.credentials is no key of a service account"},
		{"of a user", map[string]any{"credentials": `{"type":"authorized_user","client_email":"hunter2"}`}, "settings.credentials is no key of a service account"},
		{"a broken key", map[string]any{"credentials": `{"type":"service_account","client_email":"e","private_key":"hunter2"}`}, "settings.credentials is no key of a service account"},
		{"an endpoint", map[string]any{"endpoint": "fcm"}, "settings.endpoint is not an http or https address"},
		{"a token_uri", map[string]any{"token_uri": "ftp://x"}, "settings.token_uri is not an http or https address"},
		{"android", map[string]any{"android": "high"}, "settings.android must be a mapping"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := with(t, tt.set); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if a, err := with(t, nil); err != nil || a.url != "https://fcm.googleapis.com/v1/projects/weir-example/messages:send" {
		t.Errorf("%v %v", err, a)
	}
	if a, err := with(t, map[string]any{"project_id": "other"}); err != nil || !strings.Contains(a.url, "/projects/other/") {
		t.Errorf("%v %v", err, a)
	}
}
