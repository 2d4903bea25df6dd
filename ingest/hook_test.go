package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/schemas"
)

// knocker is a provider whose calls are JSON, and whose proof is a header.
type knocker struct{ hook atomic.Pointer[provider.Hook] }

func (k *knocker) judge(h *provider.Hook) error {
	k.hook.Store(h)
	switch {
	case h.Header.Get("X-Proof") != "it is me":
		return fmt.Errorf("x-proof: %w", provider.ErrForged)
	case string(h.Body) == "told":
		return &provider.Unreadable{Reason: "receipt 3: status is missing"}
	case string(h.Body) == "garbage":
		return provider.ErrHook
	case string(h.Body) == "else":
		return provider.ErrNoHook
	}
	return nil
}

func (k *knocker) Receipts(h *provider.Hook) (list []provider.Receipt, reply provider.Reply, err error) {
	if err := k.judge(h); err != nil {
		return nil, provider.Reply{}, err
	}
	return list, provider.Reply{Status: 200, ContentType: "application/json", Body: []byte(`{"code":0,"msg":"成功"}`)}, json.Unmarshal(h.Body, &list)
}

func (k *knocker) Inbound(h *provider.Hook) (list []provider.Inbound, _ provider.Reply, err error) {
	if h.Method == http.MethodGet { // a page; what is said beside it must do nothing
		return []provider.Inbound{{From: "+8613811119999", Text: "STOP", Channel: schemas.ChannelSMS}}, provider.Reply{Status: 200, ContentType: "text/html", Body: []byte("<p>sure?")}, nil
	}
	if err := k.judge(h); err != nil {
		return nil, provider.Reply{}, err
	}
	return list, provider.Reply{}, json.Unmarshal(h.Body, &list)
}

const hookPolicy = `
providers:
  - {name: caller, type: http, channels: [sms], settings: {url: "http://127.0.0.1:9"}}
  - {name: mute, type: simulated, channels: [sms]}
  - {name: broken, type: http, channels: [sms], settings: {url: "http://127.0.0.1:9"}}
keys:
  - {name: shop, tenant: default, scopes: [send], hash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
tenants:
  - {name: default, default_region: CN}
  - {name: acme, default_region: US}
`

type hookWorld struct {
	*world
	k      knocker
	opened atomic.Int32
}

func newHookWorld(t *testing.T, set settings) *hookWorld {
	h := &hookWorld{}
	set.policy = hookPolicy
	set.server = func(s *Server) {
		u, err := url.Parse("https://weir.example.com/behind")
		if err != nil {
			t.Fatal(err)
		}
		s.hooks.public = u
		s.hooks.topic = receipt.TopicOf(h.names, 3)
		s.hooks.inbox = receipt.NewInbox(h.names, partitions, func() *schemas.Policy { return &h.pol.Latest().Policy }, nil)
		s.hooks.open = func(p schemas.Provider) (provider.Listener, error) {
			h.opened.Add(1)
			switch p.Name {
			case "mute":
				return nil, fmt.Errorf("provider mute: %w", provider.ErrNoListener)
			case "broken":
				return nil, errors.New("the environment has no SECRET")
			}
			return &h.k, nil
		}
	}
	set.before = func(w *world) { h.world = w }
	newWorld(t, set)
	return h
}

// read returns the next n records of a topic.
func (h *hookWorld) read(topic string, n int) (out []*kgo.Record) {
	h.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(h.broker.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		h.t.Fatal(err)
	}
	defer cl.Close()
	h.until(fmt.Sprintf("%d records in %s", n, topic), func() bool {
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second) // until ends it if none comes
		defer cancel()
		out = append(out, cl.PollFetches(ctx).Records()...)
		return len(out) >= n
	})
	return out
}

func TestHooks(t *testing.T) {
	w := newHookWorld(t, settings{keys: true, cut: false})
	const proof = "X-Proof: it is me"
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		problem                  string
	}{
		{"forged", "POST", "/v1/receipts/caller", `[]`, nil, 401, "forged_hook"},
		{"forged, inbound", "POST", "/v1/inbound/caller", `[]`, nil, 401, "forged_hook"},
		{"garbage", "POST", "/v1/receipts/caller", `garbage`, []string{proof}, 400, "bad_hook"},
		{"garbage of the operator's own", "POST", "/v1/receipts/caller", `told`, []string{proof}, 400, "bad_hook"},
		{"of another kind", "POST", "/v1/receipts/caller", `else`, []string{proof}, 404, "no_hook"},
		{"nobody", "POST", "/v1/receipts/nobody", `[]`, []string{proof}, 404, "no_hook"},
		{"who does not call", "POST", "/v1/receipts/mute", `[]`, []string{proof}, 404, "no_hook"},
		{"whose secret is missing", "POST", "/v1/inbound/broken", `[]`, []string{proof}, 503, "hook_unavailable"},
		{"too much", "POST", "/v1/receipts/caller", strings.Repeat(" ", 1<<20+1), []string{proof}, 413, "too_large"},
		{"packed", "POST", "/v1/receipts/caller", `[]`, []string{proof, "Content-Encoding: gzip"}, 415, "unsupported_media_type"},
		{"receipts by GET", "GET", "/v1/receipts/caller", `[{"message_id":"m0","to":"+8613811110000","status":"delivered"}]`, []string{proof}, 400, "bad_hook"},
		{"forged, by GET", "GET", "/v1/receipts/caller", `[]`, nil, 401, "forged_hook"},
		{"another method", "PUT", "/v1/receipts/caller", `[]`, []string{proof}, 405, "method_not_allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.do(tt.method, tt.path, tt.body, tt.headers...)
			r.problem(tt.code, tt.problem)
			if tt.body == "told" && !strings.Contains(string(r.body), "receipt 3: status is missing") {
				t.Errorf("it does not say what is wrong: %s", r.body)
			}
			if tt.code == 503 && r.header.Get("Retry-After") == "" || tt.code == 401 && r.header.Get("WWW-Authenticate") == "" {
				t.Error(r.header)
			}
		})
	}
	if n := strings.Count(w.log.String(), "was refused: its signature"); n != 1 {
		t.Errorf("the log tells of forged calls %d times, want once in a while", n)
	}
	if log := w.log.String(); strings.Contains(log, "127.0.0.1") && strings.Contains(log, "from=127.0.0.1 ") {
		t.Error("an address stands in the log")
	}

	r := w.do("POST", "/v1/receipts/caller?token=%41b", `[{"message_id":"m1","to":"+8613811110000","tenant":"acme","status":"delivered","provider":"forged"},{"provider_message_id":"p2","status":"undelivered","at":"2026-11-21T08:00:00Z"}]`,
		proof, "Content-Type: application/x-www-form-urlencoded", "Host: elsewhere")
	if r.code != 200 || string(r.body) != `{"code":0,"msg":"成功"}` || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", r.code, r.body)
	}
	if h := w.k.hook.Load(); h.URL.String() != "https://weir.example.com/behind/v1/receipts/caller?token=%41b" || h.Source != "127.0.0.1" || h.Method != "POST" {
		t.Errorf("called as %s from %s", h.URL, h.Source)
	}
	for _, rec := range w.read(w.names.Receipts(), 2) {
		var got provider.Receipt
		if err := json.Unmarshal(rec.Value, &got); err != nil || got.Provider != "caller" || got.At == 0 || string(rec.Key) != got.MessageID+got.ProviderMessageID || rec.Partition != schemas.PartitionOf(string(rec.Key), 3) {
			t.Errorf("%s of %s in %d, %v", rec.Value, rec.Key, rec.Partition, err)
		}
	}

	if r := w.do("GET", "/v1/receipts/caller", `[]`, proof); r.code != 200 || string(r.body) != `{"code":0,"msg":"成功"}` {
		t.Errorf("an address that is tried: %d %s", r.code, r.body)
	}
	w.do("GET", "/v1/inbound/caller", "")
	w.do("HEAD", "/v1/inbound/caller", "")
	r = w.do("POST", "/v1/inbound/caller", `[{"From":"138 1111 0000","Text":"退订","Channel":"sms"},{"From":"(202) 555-0100","Text":"start!","Channel":"sms","Tenant":"acme","Class":"marketing"},
		{"From":"+8613811110001","Text":"HELP"},{"From":"+8613811110001","Text":"don't stop"},{"From":"nobody","Text":"stop","Channel":"sms"},{"From":"+8613811110002","Word":"stop","Text":"x"}]`, proof)
	if r.code != 204 {
		t.Errorf("%d %s", r.code, r.body)
	}
	got := make(map[string]string)
	for _, rec := range w.read(w.names.Requests(), 3) {
		if rec.Partition != schemas.PartitionOf(string(rec.Key), partitions) {
			t.Errorf("%s in %d", rec.Key, rec.Partition)
		}
		got[string(rec.Key)] = string(rec.Value)
	}
	for key, parts := range map[string][]string{
		"+8613811110000": {`"action":"suppress"`, `"reason":"stop"`, `"provider":"caller"`, `"channel":"sms"`, `!"tenant"`},
		"+12025550100":   {`"action":"unsuppress"`, `"tenant":"acme"`, `"class":"marketing"`},
		"+8613811110002": {`"action":"suppress"`, `"channel":"sms"`},
	} {
		for _, p := range parts {
			if absent, no := strings.CutPrefix(p, "!"); strings.Contains(got[key], absent) == no {
				t.Errorf("%s: %q lacks or has %s", key, got[key], p)
			}
		}
	}
	if len(got) != 3 {
		t.Errorf("asked for: %v", got)
	}

	// One is opened once, and anew only when its own entry changes.
	before := w.opened.Load()
	edit := func(change func(p *schemas.Policy)) {
		t.Helper()
		p, rev := w.pol.Latest().Policy, w.pol.Latest().Revision
		p.Providers = append([]schemas.Provider(nil), p.Providers...)
		change(&p)
		if _, err := w.pol.Publish(t.Context(), w.cl, rev, "test", p); err != nil {
			t.Fatal(err)
		}
		w.do("POST", "/v1/receipts/caller", `[]`, proof)
	}
	edit(func(p *schemas.Policy) { p.Tenants = nil })
	if n := w.opened.Load(); n != before {
		t.Errorf("opened %d times more for another entry's change", n-before)
	}
	edit(func(p *schemas.Policy) { p.Providers[0].Settings = map[string]any{"url": "http://127.0.0.1:8"} })
	if n := w.opened.Load(); n != before+1 {
		t.Errorf("opened %d times for its own change", n-before)
	}
}

// TestHooksWithoutKafka: what cannot be kept is not taken.
func TestHooksWithoutKafka(t *testing.T) {
	w := newHookWorld(t, settings{keys: true})
	w.line.cut()
	r := w.do("POST", "/v1/receipts/caller", `[{"message_id":"m1","to":"+8613811110000","status":"delivered"}]`, "X-Proof: it is me")
	r.problem(503, "kafka_unavailable")
	if r.header.Get("Retry-After") == "" {
		t.Error("not told when to come again")
	}
}

// TestHooksUnderPublicName: on loopback a tunnel's name reaches what providers call,
// and nothing else.
func TestHooksUnderPublicName(t *testing.T) {
	w := newHookWorld(t, settings{})
	if r := w.do("POST", "/v1/receipts/caller", `[]`, "X-Proof: it is me", "Host: weir.example.com"); r.code != 200 {
		t.Errorf("%d %s", r.code, r.body)
	}
	w.do("GET", "/v1/messages", "", "Host: weir.example.com").problem(421, "misdirected_host")
	w.do("POST", "/v1/receipts/caller", `[]`, "Host: evil.example.com").problem(421, "misdirected_host")
}
