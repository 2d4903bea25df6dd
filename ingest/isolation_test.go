package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

// One tenant's key never shows nor changes anything of another's. TestIsolation
// walks every route of the table with the key of another tenant, with a key that
// lacks the route's scope, and with none, while there is something of tenant acme
// to be had; and it fails for a route that has no case here. To add a route, add
// what one would ask of it to get at acme's things.

const (
	otherAdmin = "weir_live_other_admin"
	operator   = "weir_live_operator"
	clerk      = "weir_live_clerk" // of the operator's tenant, and reads only
	fast       = `rates: {write: "bucket 1000 refill 1000/s", query: "bucket 1000 refill 1000/s", batch: "bucket 1000 refill 1000/s", import: "bucket 1000 refill 1000/s"}`
)

var isolationPolicy = `
providers:
  - {name: sim, type: simulated, channels: [sms, email], legacy_id: 1}
  - {name: decide, type: none, channels: [sms]}
limits:
  - {name: a-limit, match: {class: verify}, per: [recipient], allow: [9/60s]}
classes:
  - {name: verify}
templates:
  - {name: a-template, channel: sms, body: "b"}
tenants:
  - {name: acme, default_region: CN}
  - {name: other, default_region: CN}
keys:
  - {name: acme, tenant: acme, scopes: [send, read], hash: "` + hashOf(acmeKey) + `", ` + fast + `}
  - {name: other, tenant: other, scopes: [send, read], hash: "` + hashOf(otherKey) + `", ` + fast + `}
  - {name: other-admin, tenant: other, scopes: [admin], hash: "` + hashOf(otherAdmin) + `", ` + fast + `}
  - {name: operator, tenant: default, scopes: [read, operate], hash: "` + hashOf(operator) + `", ` + fast + `}
  - {name: clerk, tenant: default, scopes: [read], hash: "` + hashOf(clerk) + `", ` + fast + `}
`

// prey is what there is of tenant acme. Nothing of it may stand in an answer to
// anyone else.
type prey struct {
	fresh    string // a message that acme has just sent
	failed   string // one that may be sent again
	shared   string // an id that a producer of the other tenant uses as well, for the same recipient
	stored   string // one that only the store knows
	to       string // whose they are
	position string // of a record of the DLQ
	buried   string
	marks    []string
}

// trial is one way to get at something.
type trial struct {
	query, body string
	id          string // for the path's {id} or {name}
	// finds is what acme's own key finds by it: a trial that finds nothing for
	// anyone proves nothing. Empty where there is nothing to see.
	finds  string
	ndjson bool // the body's type
	// undecided says that it waits for admission, which does not run here.
	undecided bool
}

// trials are the ways of every route, by method and path.
func (a *prey) trials() map[string][]trial {
	const sms = `{"channel":"sms","to":"+8613811110000","body":"b"`
	ids := func(body string) []trial {
		return []trial{{id: a.fresh, body: body}, {id: a.failed, body: body}, {id: a.shared, body: body}, {id: a.stored, body: body}, {id: a.fresh, query: "?to=%2B8613811110000", body: body}}
	}
	legacySend := `{"messageType":"SMS","templateCode":"a-template","recipient":"13811110000","variables":{}}`
	legacyLimit := `{"manufacturerId":1,"requestsPerSecond":1,"requestsPerMinute":1,"requestsPerHour":1,"isEnabled":true}`
	m := map[string][]trial{
		"POST /v1/messages":       {{body: sms + `,"tenant":"acme"}`}, {body: sms + `}`}},
		"POST /v1/messages/batch": {{body: `{"messages":[` + sms + `,"tenant":"acme"},` + sms + `}]}`}},
		"GET /v1/messages": {
			{finds: a.fresh}, {query: "?to=%2B8613811110000", finds: a.failed}, {query: "?status=failed", finds: a.failed}, {query: "?class=secret-class", finds: a.stored},
			{query: "?tenant=acme", finds: a.fresh}, {query: "?limit=1"},
		},
		"GET /v1/stats":            {{finds: "secret-class"}, {query: "?by=class", finds: "secret-class"}, {query: "?class=secret-class&by=class,provider"}, {query: "?tenant=acme", finds: "secret-class"}, {query: "?tenant=*"}, {query: "?days=3"}},
		"GET /v1/stats/errors":     {{finds: "error of secret-class"}, {query: "?class=secret-class", finds: "error of secret-class"}, {query: "?tenant=acme", finds: "error of secret-class"}, {query: "?tenant=*"}},
		"GET /v1/stats/recipients": {{finds: "secret-limit"}, {query: "?class=secret-class", finds: "secret-limit"}, {query: "?tenant=acme", finds: "secret-limit"}, {query: "?tenant=*"}},
		"GET /v1/health":           {{}},
		"GET /v1/proof":            {{}},
		"GET /v1/delays":           {{}},
		"GET /v1/backlog":          {{}},
		"POST /v1/limits/try":      {{body: `{"limits":[{"name":"a-limit","match":{"tenant":"acme"},"per":["recipient"],"allow":["1/60s"]}]}`}, {body: `{"remove":["a-limit"]}`}},

		"GET /v1/events": {{}}, // and by stream, below
		"GET /v1/messages/{id}": {
			{id: a.fresh, finds: a.fresh}, {id: a.failed, finds: a.failed}, {id: a.shared, finds: "secret-class"}, {id: a.stored, finds: a.stored}, {id: a.stored, query: "?to=%2B8613811110000", finds: a.stored},
		},
		"POST /v1/messages/{id}/cancel":    ids(""),
		"POST /v1/messages/{id}/retry":     ids(""),
		"POST /v1/messages/{id}/callbacks": ids(""),
		"POST /v1/decisions":               {{body: `{"channel":"sms","to":"+8613811110000","tenant":"acme"}`}, {body: `{"channel":"sms","to":"+8613811110000"}`}},
		"POST /v1/decisions/{id}/release":  ids(""),
		"GET /v1/quota":                    {{query: "?to=%2B8613811110000&class=free", undecided: true}, {query: "?to=%2B8613811110000&tenant=acme"}},
		"GET /v1/suppressions": {
			{finds: "secret-class"}, {query: "?class=secret-class", finds: "secret-class"}, {query: "?tenant=acme", finds: "secret-class"}, {query: "?to=%2B8613811110000", undecided: true}, {query: "?to=%2B8613811110000&tenant=acme"},
		},
		"PUT /v1/suppressions":         {{body: `{"to":"+8613811110000"}`}, {body: `{"to":"+8613811110000","tenant":"acme"}`}},
		"DELETE /v1/suppressions":      {{query: "?to=%2B8613811110000"}, {query: "?to=%2B8613811110000&tenant=acme"}},
		"POST /v1/suppressions/import": {{body: `{"to":"+8613811110000","tenant":"acme"}`, ndjson: true}, {body: `{"to":"+8613811110000"}`, ndjson: true}},
		"GET /v1/dlq":                  {{finds: a.buried}, {query: "?tenant=acme", finds: a.buried}, {query: "?class=verify", finds: a.buried}},
		"POST /v1/dlq/redrive":         {{body: `{}`}, {body: `{"tenant":"acme"}`}, {body: `{"ids":["` + a.position + `","` + a.buried + `"]}`}, {body: `{"dry_run":true}`}},

		"GET /v1/session":    {{}},
		"POST /v1/session":   {{body: `{"key":"` + otherKey + `"}`}, {body: `{"key":"acme"}`}},
		"DELETE /v1/session": {{}},

		// Of providers, with proofs of their own: a key opens nothing here.
		"POST /v1/receipts/{provider}": {{id: "sim", body: `{"message_id":"` + a.fresh + `","to":"+8613811110000","tenant":"acme","status":"delivered"}`}},
		"GET /v1/receipts/{provider}":  {{id: "sim", query: "?message_id=" + a.fresh}},
		"POST /v1/inbound/{provider}":  {{id: "sim", body: `{"from":"+8613811110000","tenant":"acme","text":"STOP"}`}},
		"GET /v1/inbound/{provider}":   {{id: "sim", query: "?from=%2B8613811110000&text=STOP"}},

		"POST /api/messages/send":                {{body: legacySend}, {body: `{"tenant":"acme"}`}},
		"POST /api/messages/batch":               {{body: `{"messages":[` + legacySend + `]}`}, {body: `[` + legacySend + `]`}},
		"GET /api/messages":                      {{query: "?taskId=" + a.fresh, finds: a.fresh}, {query: "?taskId=" + a.failed, finds: a.failed}, {query: "?taskId=" + a.stored, finds: a.stored}},
		"GET /api/queue-monitor":                 {{}},
		"GET /api/rate-limits":                   {{}},
		"POST /api/rate-limits":                  {{body: legacyLimit}},
		"GET /api/rate-limits/{id}":              {{id: "1"}},
		"PUT /api/rate-limits/{id}":              {{id: "1", body: legacyLimit}},
		"DELETE /api/rate-limits/{id}":           {{id: "1"}},
		"POST /v1/keys/{name}/rotate":            {{id: "acme"}},
		"GET /v1/revisions":                      {{}},
		"GET /v1/revisions/{revision}":           {{id: "1"}},
		"POST /v1/revisions/{revision}/rollback": {{id: "0"}},
		"GET /healthz":                           {{}},
		"GET /readyz":                            {{}},
		"GET /metrics":                           {{}},
		"GET /openapi.yaml":                      {{}},
	}
	for plural, one := range map[string]string{
		"limits": "a-limit", "classes": "verify", "providers": "sim", "routes": "x", "templates": "a-template", "tenants": "acme", "keys": "acme", "alerts": "x", "inputs": "x",
	} {
		m["GET /v1/"+plural] = []trial{{}}
		m["GET /v1/"+plural+"/{name}"] = []trial{{id: one}}
		m["PUT /v1/"+plural+"/{name}"] = []trial{{id: one, body: `{}`}, {id: "mine", body: `{"name":"mine","tenant":"acme","scopes":["read"],"match":{"tenant":"acme"}}`}}
		m["DELETE /v1/"+plural+"/{name}"] = []trial{{id: one}}
	}
	return m
}

// hunt makes acme's things, and some of the other tenant's beside them.
func hunt(t *testing.T) (*world, *prey) {
	a := &prey{to: "+8613811110000", failed: "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5", shared: "0192f0c1-2a3b-7c4d-8e5f-60718293a4b6", stored: "0192f0c1-2a3b-7c4d-8e5f-60718293a4b7"}
	of := func(tenant, id, class string, s schemas.Status) *schemas.Event {
		e := event(id, s, 5)
		e.Tenant, e.Class, e.To, e.Provider, e.ProviderMessageID, e.Error = tenant, class, a.to, "sim", class+"-number", "error of "+class
		e.ErrorCode, e.Limit = class+"-code", strings.TrimSuffix(class, "class")+"limit"
		e.Source = &schemas.Source{Topic: "weir.requests", Partition: 1, Offset: 0}
		return e
	}
	h := &store{}
	h.set(nil, of("acme", a.stored, "secret-class", schemas.StatusSent), of("acme", a.shared, "secret-class", schemas.StatusDelivered), of("other", a.shared, "own-class", schemas.StatusSent))
	w := newWorld(t, settings{policy: isolationPolicy, keys: true, history: h, status: []*schemas.Event{
		of("acme", a.failed, "secret-class", schemas.StatusFailed), of("acme", a.shared, "secret-class", schemas.StatusFailed), of("other", a.shared, "own-class", schemas.StatusSent),
	}})
	a.fresh = read[client.Sent](w.post(`{"channel":"sms","to":"+8613811110000","body":"b","class":"secret-class"}`, asAcme), http.StatusAccepted).ID
	w.bury(2, "acme")
	page := read[dlq.Page](w.do("GET", "/v1/dlq", "", asAcme), http.StatusOK)
	a.position, a.buried = page.Entries[0].Position, page.Entries[0].MessageID
	a.marks = []string{a.fresh, a.failed, a.stored, "secret-", a.buried, page.Entries[1].MessageID}
	return w, a
}

// tracks are the records that others than acme's own have written, which may
// name it.
func (w *world) tracks(from map[string]map[int32]kgo.Offset) (out []string) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumePartitions(from), kgo.FetchMaxWait(100*time.Millisecond), kgo.KeepControlRecords())
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	left := make(map[string]map[int32]int64) // up to where, of what is not read
	n := 0
	for topic, parts := range w.ends(slices.Collect(maps.Keys(from))...) {
		left[topic] = make(map[int32]int64)
		for p, end := range parts {
			if at := end.EpochOffset().Offset; from[topic][p].EpochOffset().Offset < at {
				left[topic][p] = at
				n++
			}
		}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if n == 0 {
			return out
		}
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("%d partitions are not read", n)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := left[r.Topic][r.Partition]; ok && r.Offset+1 >= end {
				delete(left[r.Topic], r.Partition)
				n--
			}
			if r.Attrs.IsControl() {
				return
			}
			text := r.Topic + " " + string(r.Value)
			for _, h := range r.Headers {
				text += " " + h.Key + "=" + string(h.Value)
			}
			out = append(out, text)
		})
	}
}

func TestIsolation(t *testing.T) {
	w, a := hunt(t)
	trials := a.trials()
	ends := w.ends(w.names.Requests(), w.names.Readmit(), w.names.Config())
	before := w.pol.Latest().Revision
	keys := func(rt route) map[string][]string {
		lacking := "Authorization: Bearer " + otherAdmin
		if rt.policy() {
			lacking = "Authorization: Bearer " + otherKey
		}
		all := map[string][]string{"another tenant's key": {"Authorization: Bearer " + otherKey}, "a key without the scope": {lacking}, "no key": nil}
		if rt.policy() {
			all["another tenant's admin"] = []string{"Authorization: Bearer " + otherAdmin}
		}
		return all
	}
	for _, rt := range w.srv.table() {
		name := rt.method + " " + rt.path
		ways, ok := trials[name]
		delete(trials, name)
		if !ok {
			t.Errorf("%s has no case in isolation_test.go: add what one would ask of it to get at another tenant's things", name)
			continue
		}
		codes := make(map[string]string)
		for _, way := range ways {
			path := strings.NewReplacer("{id}", way.id, "{name}", way.id, "{revision}", way.id, "{provider}", way.id).Replace(rt.path) + way.query
			if way.finds != "" {
				if r := w.do(rt.method, path, way.body, "Authorization: Bearer "+acmeKey); r.code != http.StatusOK || !strings.Contains(string(r.body), way.finds) {
					t.Errorf("%s %s: acme itself finds nothing, so the trial proves nothing: %d %s", rt.method, path, r.code, r.body)
				}
			}
			for who, headers := range keys(rt) {
				if way.ndjson {
					headers = append(headers, ndjson)
				}
				r := w.ask(rt, path, way.body, append(headers, "Prefer: respond-async"))
				if s := fmt.Sprint(r.code); !strings.Contains(codes[who], s) {
					codes[who] = strings.TrimSpace(codes[who] + " " + s)
				}
				body := string(r.body)
				if way.id != "" { // who asks for an id may read it again; what it is has marks of its own
					body = strings.ReplaceAll(body, way.id, "")
				}
				for _, mark := range a.marks {
					if strings.Contains(strings.ReplaceAll(body, r.instance(), ""), mark) {
						t.Errorf("%s %s with %s shows %s: %d %s", rt.method, path, who, mark, r.code, body)
					}
				}
				want := 0
				switch {
				case rt.scope == scopeNone:
				case who == "no key":
					want = http.StatusUnauthorized
				case rt.scope != scopeAny && (who == "a key without the scope" || rt.policy() && who != "another tenant's admin"):
					want = http.StatusForbidden
				}
				if want != 0 && r.code != want || r.code >= 500 && !(way.undecided && strings.Contains(body, `"undecided"`)) {
					t.Errorf("%s %s with %s: %d, want %d: %s", rt.method, path, who, r.code, want, r.body)
				}
			}
		}
		if len(ways) > 0 {
			t.Logf("%-32s %-6s another tenant's key: %s; without the scope: %s; no key: %s", name, rt.scope, codes["another tenant's key"], codes["a key without the scope"], codes["no key"])
		}
	}
	for name := range trials {
		t.Errorf("%s has a case and is no route", name)
	}
	for _, track := range w.tracks(ends) {
		if strings.Contains(track, "acme") || strings.Contains(track, a.buried) || strings.HasPrefix(track, w.names.Config()) {
			t.Errorf("something was written: %s", track)
		}
	}
	if now := w.pol.Latest().Revision; now != before {
		t.Errorf("the policy was changed: revision %d, then %d", before, now)
	}
}

// TestOperatorsSeeTenants: what acme finds with its key an operator finds by naming acme. No other
// key does, and nobody by naming all tenants, but where they are counted.
func TestOperatorsSeeTenants(t *testing.T) {
	w, a := hunt(t)
	asked := 0
	for name, ways := range a.trials() {
		method, path, _ := strings.Cut(name, " ")
		for _, way := range ways {
			if way.finds == "" || !strings.HasPrefix(path, "/v1/") || strings.Contains(way.query, "tenant=") {
				continue
			}
			asked++
			ask := func(tenant, key string) reply {
				sep := "?"
				if way.query != "" {
					sep = "&"
				}
				return w.do(method, strings.ReplaceAll(path, "{id}", way.id)+way.query+sep+"tenant="+tenant, "", "Authorization: Bearer "+key)
			}
			if r := ask("acme", operator); r.code != http.StatusOK || !strings.Contains(string(r.body), way.finds) {
				t.Errorf("%s%s: the operator does not find %s: %d %s", name, way.query, way.finds, r.code, r.body)
			}
			if r := ask("nobody", operator); r.code != http.StatusOK && r.code != http.StatusNotFound || strings.Contains(string(r.body), way.finds) && way.finds != way.id {
				t.Errorf("%s%s: of nobody the operator finds %d %s", name, way.query, r.code, r.body)
			}
			for _, key := range []string{clerk, otherKey, otherAdmin} {
				for _, tenant := range []string{"acme", "*"} {
					if r := ask(tenant, key); r.code != http.StatusForbidden && !(r.code == http.StatusBadRequest && tenant == "*") {
						t.Errorf("%s%s of %s with %s: %d %s", name, way.query, tenant, key, r.code, r.body)
					}
				}
			}
			counted := strings.HasPrefix(path, "/v1/stats")
			if r := ask("*", operator); counted != (r.code == http.StatusOK && strings.Contains(string(r.body), way.finds)) || !counted && r.code != http.StatusBadRequest {
				t.Errorf("%s%s of all tenants: %d %s", name, way.query, r.code, r.body)
			}
		}
	}
	if asked < 10 {
		t.Errorf("%d ways were asked", asked)
	}
	st := w.stream("/v1/events?tenant=acme", "Authorization: Bearer "+operator, "Last-Event-ID: "+beginning)
	defer st.close()
	if got := st.next("status"); !strings.Contains(got.data, "secret-class") {
		t.Errorf("the stream has %+v", got)
	}
	for _, key := range []string{clerk, otherKey, otherAdmin} {
		if r := w.do("GET", "/v1/events?tenant=acme", "", "Authorization: Bearer "+key); r.code != http.StatusForbidden {
			t.Errorf("the stream with %s: %d %s", key, r.code, r.body)
		}
	}
}

// instance is the path that a problem repeats.
func (r reply) instance() string {
	var p client.Problem
	_ = json.Unmarshal(r.body, &p)
	if p.Instance == "" {
		return "\x00"
	}
	return p.Instance
}

// ask is do, and of an answer that does not end it reads what stood in the tail.
func (w *world) ask(rt route, path, body string, headers []string) reply {
	w.t.Helper()
	if rt.path != "/v1/events" || !slices.Contains(headers, "Authorization: Bearer "+otherKey) {
		return w.do(rt.method, path, body, headers...)
	}
	st := w.stream(path, append(headers, "Last-Event-ID: "+beginning)...)
	defer st.close()
	all := st.next("status") // its own: what is acme's would have stood before it
	if !strings.Contains(all.data, "own-class") {
		w.t.Errorf("the stream has %+v", all)
	}
	return reply{w.t, http.StatusOK, nil, []byte(st.seen.String())}
}

// policy reports whether a route is about the policy, keys or Weir itself.
func (rt route) policy() bool {
	return rt.scope == scopePolicy || rt.scope == scopeKeys || rt.scope == scopeOperate
}
