// Package hookjsontest is what every provider is tested for that posts JSON and is
// known by a secret (hookjson.Poster): what a listener answers, whom it lets in, and
// that nothing it says has what a request holds.
//
// The bodies are the adapters' tests'; nothing here knows a provider.
package hookjsontest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/schemas"
)

const (
	// Name is the provider's in the policy.
	Name = "cn"
	// Mobile is whom the bodies speak of, and Text what they have people say: neither
	// stands in a log or in an error.
	Mobile = "13800000000"
	Text   = "TD 退订"
)

// Came is when the requests come.
var Came = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// Ref is the reference that Weir gave with the message.
var Ref = provider.Reference{MessageID: "0199b2a0-5c00-7000-8000-0123456789ab", To: "+86" + Mobile, Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Template: "login-code", Attempt: 2}

// Poster is the provider that is tested.
type Poster struct {
	Type     string // its name
	Of       provider.Type
	Settings map[string]any // all of them, with the secret as ${Env}
	Env      string
	Token    string // the secret
	Answered string // what the provider wants to read
}

// open opens the listener with nothing but the secret of receipts: who listens has no
// need of the keys.
func (p Poster) open(t testing.TB) (provider.Listener, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l, err := p.listen(p.Settings, &log)
	if err != nil {
		t.Fatal(err)
	}
	return l, &log
}

func (p Poster) listen(settings map[string]any, log *bytes.Buffer) (provider.Listener, error) {
	return provider.Types{p.Type: p.Of}.Listen(schemas.Provider{Name: Name, Type: p.Type, Settings: settings}, provider.Deps{Private: outbound.Loopback,
		Getenv: func(k string) string { return map[string]string{p.Env: p.Token}[k] },
		Logger: slog.New(slog.NewJSONHandler(log, nil)),
	})
}

// Hook is a request that shows a token.
func Hook(method, token, body string) *provider.Hook {
	return &provider.Hook{
		Method: method, URL: &url.URL{Scheme: "https", Host: "weir.example", Path: "/v1/receipts/" + Name, RawQuery: url.Values{"token": {token}}.Encode()},
		Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), At: Came, Source: "203.0.113.9",
	}
}

// post is the provider's own request.
func (p Poster) post(body string) *provider.Hook { return Hook(http.MethodPost, p.Token, body) }

func (p Poster) answers(r provider.Reply) bool {
	return r.Status == http.StatusOK && string(r.Body) == p.Answered && strings.HasPrefix(r.ContentType, "application/json")
}

// quiet compares what was said of so many elements that could not be read, and looks
// for what a request holds.
func quiet(t *testing.T, log *bytes.Buffer, err error, unread int) {
	t.Helper()
	said := log.String()
	if unread == 0 && said != "" || unread > 0 && !strings.Contains(said, fmt.Sprintf(`"provider":%q,"unread":%d,`, Name, unread)) {
		t.Errorf("it was said: %q, want %d unread", said, unread)
	}
	for _, held := range []string{Mobile, Text} {
		if strings.Contains(said, held) || err != nil && strings.Contains(err.Error(), held) {
			t.Errorf("%s was told: %s, %v", held, said, err)
		}
	}
}

// Receipts reads a body whole.
func (p Poster) Receipts(t *testing.T, name, body string, want []provider.Receipt) {
	t.Run(name, func(t *testing.T) {
		l, log := p.open(t)
		got, reply, err := l.Receipts(p.post(body))
		if err != nil || !p.answers(reply) {
			t.Fatalf("%v, %v", reply, err)
		}
		if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
			t.Error(d)
		}
		quiet(t, log, nil, 0)
	})
}

// Unread reads a body of which so many elements cannot be read: they are left out, and
// that is said; where want is below 0 there are no others, and the provider is told.
func (p Poster) Unread(t *testing.T, name, body string, want, unread int) {
	t.Run(name, func(t *testing.T) {
		l, log := p.open(t)
		got, reply, err := l.Receipts(p.post(body))
		switch {
		case want < 0:
			if !errors.Is(err, provider.ErrHook) || got != nil || reply.Body != nil {
				t.Errorf("%v, %v, %v", got, reply, err)
			}
		case err != nil || len(got) != want || !p.answers(reply):
			t.Errorf("%v, %v, %v", got, reply, err)
		}
		quiet(t, log, err, unread)
	})
}

// Batch reads n elements whole and in order; those of an even number are delivered.
func (p Poster) Batch(t *testing.T, n int, element func(i int) any, is func(i int, r *provider.Receipt) bool) {
	elements := make([]any, n)
	for i := range elements {
		elements[i] = element(i)
	}
	body, err := json.Marshal(elements)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := p.open(t)
	got, _, err := l.Receipts(p.post(string(body)))
	if err != nil || len(got) != n {
		t.Fatalf("%d receipts, %v", len(got), err)
	}
	for i := range got {
		if want := map[bool]schemas.Status{true: schemas.StatusDelivered, false: schemas.StatusUndelivered}[i%2 == 0]; got[i].Status != want || !is(i, &got[i]) {
			t.Fatalf("receipt %d: %+v", i, got[i])
		}
	}
}

// Caller is a request and what comes of it.
type Caller struct {
	Name  string
	Hook  *provider.Hook
	Err   error
	Count int // of receipts
}

// WhoCalls tries who is let in with body, which holds one receipt, and more callers.
func (p Poster) WhoCalls(t *testing.T, body string, more ...Caller) {
	password := Hook(http.MethodPost, "", body)
	basic := &http.Request{Header: password.Header}
	basic.SetBasicAuth("anybody", p.Token)
	for _, tt := range append([]Caller{
		{"the token", p.post(body), nil, 1},
		{"the password", password, nil, 1},
		{"nobody", Hook(http.MethodPost, "", body), provider.ErrForged, 0},
		{"a wrong token", Hook(http.MethodPost, "wrong", body), provider.ErrForged, 0},
		{"a wrong token with GET", Hook(http.MethodGet, "wrong", ""), provider.ErrForged, 0},
		{"a wrong token with garbage", Hook(http.MethodPost, "wrong", "garbage"), provider.ErrForged, 0},
		{"another method", Hook(http.MethodPut, p.Token, body), provider.ErrHook, 0},
	}, more...) {
		t.Run(tt.Name, func(t *testing.T) {
			l, _ := p.open(t)
			got, reply, err := l.Receipts(tt.Hook)
			if !errors.Is(err, tt.Err) || len(got) != tt.Count || err == nil && !p.answers(reply) {
				t.Errorf("%v, %v, %v", got, reply, err)
			}
			if in, _, err := l.Inbound(tt.Hook); tt.Err != nil && (!errors.Is(err, tt.Err) || in != nil) {
				t.Errorf("inbound: %v, %v", in, err)
			}
		})
	}
	without := maps.Clone(p.Settings)
	delete(without, hooksecret.Setting)
	if _, err := p.listen(without, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "settings."+hooksecret.Setting+" is missing") {
		t.Errorf("a listener that lets everybody in: %v", err)
	}
}

// Inbound reads a body of inbound messages, of which so many cannot be read; where
// there are no others, it is refused.
func (p Poster) Inbound(t *testing.T, name, body string, want []provider.Inbound, unread int) {
	t.Run(name, func(t *testing.T) {
		l, log := p.open(t)
		got, reply, err := l.Inbound(p.post(body))
		quiet(t, log, err, unread)
		if want == nil && unread > 0 {
			if !errors.Is(err, provider.ErrHook) || got != nil {
				t.Errorf("%v, %v", got, err)
			}
			return
		}
		if err != nil || !p.answers(reply) {
			t.Fatalf("%v, %v", reply, err)
		}
		if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
			t.Error(d)
		}
	})
}

// Fuzz: whatever comes, verified or not, nothing panics, what is not verified yields
// nothing, and what is yields receipts and messages that can be used.
func (p Poster) Fuzz(f *testing.F, usable func(provider.Inbound) bool, bodies ...string) {
	for _, body := range append(bodies, ``, `[]`, `[{}]`, `{}`, `[[[[[[`, "\xff\xfe") {
		f.Add(true, body, "POST")
		f.Add(false, body, "POST")
	}
	f.Add(true, "", "GET")
	l, _ := p.open(f)
	f.Fuzz(func(t *testing.T, verified bool, body, method string) {
		h := Hook(method, p.Token, body)
		if !verified {
			h.URL.RawQuery = "token=" + body
		}
		receipts, reply, err := l.Receipts(h)
		inbound, _, err2 := l.Inbound(h)
		if !verified && !strings.Contains(body, p.Token) {
			if !errors.Is(err, provider.ErrForged) || !errors.Is(err2, provider.ErrForged) || receipts != nil || inbound != nil {
				t.Fatalf("%v %v %v %v", receipts, inbound, err, err2)
			}
			return
		}
		if (err == nil) != (reply.Status == http.StatusOK) || err != nil && !errors.Is(err, provider.ErrHook) && !errors.Is(err, provider.ErrForged) {
			t.Fatalf("%v, %v", reply, err)
		}
		for _, r := range receipts {
			if r.Provider != Name || r.MessageID == "" && r.ProviderMessageID == "" || r.Status != schemas.StatusDelivered && r.Status != schemas.StatusUndelivered || r.Status == schemas.StatusDelivered && r.Suppress != "" || len(r.Code) > 64 {
				t.Fatalf("%+v", r)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, in := range inbound {
			if in.Channel != schemas.ChannelSMS || !usable(in) {
				t.Fatalf("%+v", in)
			}
		}
	})
}
