package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/backtest"
)

const triedPolicy = `
providers: [{name: sim, type: simulated, channels: [sms, email]}]
limits:
  - {name: first, match: {class: verify}, per: [recipient], allow: [9/60s]}
  - {name: second, per: [recipient], allow: [90/1h]}
`

// TestTry: what is tried is the policy in force with the body's limits in it, and
// the answer is the backtest's.
func TestTry(t *testing.T) {
	var asked backtest.Config
	answer := &backtest.Result{From: 1, Until: 2, Source: "kafka", Revision: 1, Messages: 7, NewlyRefused: 3, ByLimit: []backtest.LimitCount{{Limit: "first", Window: "1/60s", Mode: "enforce", Now: 3}}, Notes: []string{"n"}}
	fail := error(nil)
	w := newWorld(t, settings{policy: triedPolicy, server: func(s *Server) {
		s.tryout.run = func(_ context.Context, cfg backtest.Config) (*backtest.Result, error) {
			asked = cfg
			return answer, fail
		}
	}})
	limits := func() (out []string) {
		for _, l := range asked.Tried.Limits {
			out = append(out, fmt.Sprint(l.Name, " ", l.Allow[0]))
		}
		return out
	}
	for _, c := range []struct {
		name, body string
		want       []string
		since      time.Duration
	}{
		{"nothing", `{}`, []string{"first 9/60s", "second 90/1h"}, 24 * time.Hour},
		{"one in place of another", `{"limits":[{"name":"first","per":["recipient"],"allow":["1/60s"]}],"since":"14d"}`, []string{"first 1/60s", "second 90/1h"}, 14 * 24 * time.Hour},
		{"one more", `{"limits":[{"name":"third","per":[],"allow":["5/1s"]}],"since":"90m"}`, []string{"first 9/60s", "second 90/1h", "third 5/1s"}, 90 * time.Minute},
		{"one less and one more", `{"remove":["first"],"limits":[{"name":"third","per":[],"allow":["5/1s"]}]}`, []string{"second 90/1h", "third 5/1s"}, 24 * time.Hour},
		{"none at all", `{"remove":["first","second"]}`, nil, 24 * time.Hour},
	} {
		got := read[client.Backtest](w.do("POST", "/v1/limits/try", c.body), http.StatusOK)
		if got.NewlyRefused != 3 || got.ByLimit[0].Now != 3 || got.ByHour == nil || got.Notes[0] != "n" {
			t.Errorf("%s: %+v", c.name, got)
		}
		back := time.Since(asked.From.Time())
		if !reflect.DeepEqual(limits(), c.want) || asked.InForce.Revision != 1 || len(asked.InForce.Policy.Limits) != 2 || back < c.since || back > c.since+time.Minute || asked.Most != tryMost || len(asked.Brokers) == 0 {
			t.Errorf("%s: asked for %v since %v", c.name, limits(), back)
		}
	}
	if now := w.pol.Latest(); now.Revision != 1 {
		t.Errorf("the policy was changed: revision %d", now.Revision)
	}
	limit := `{"name":"x","per":["recipient"],"allow":["1/60s"]}`
	for _, c := range []struct{ name, body, pointer, code string }{
		{"no JSON", `x`, "", "not_object"},
		{"null", `null`, "", "not_object"},
		{"unknown", `{"limit":[]}`, "/limit", "unknown_field"},
		{"limits is no list", `{"limits":{}}`, "/limits", "bad_value"},
		{"too many", `{"remove":[` + strings.Repeat(`"a",`, 100) + `"a"]}`, "/remove", "bad_value"},
		{"too long ago", `{"since":"32d"}`, "/since", "bad_value"},
		{"a number", `{"since":24}`, "/since", "bad_value"},
		{"no limit", `{"limits":[7]}`, "/limits/0", "not_object"},
		{"null for a limit", `{"limits":[null]}`, "/limits/0", "not_object"},
		{"without a name", `{"limits":[{"per":[],"allow":["1/60s"]}]}`, "/limits/0/name", "required"},
		{"twice", `{"limits":[` + limit + `,` + limit + `]}`, "/limits/1/name", "bad_value"},
		{"removed and put", `{"remove":["first"],"limits":[{"name":"first","per":[],"allow":["1/60s"]}]}`, "/limits/0/name", "bad_value"},
		{"there is none to remove", `{"remove":["first","third"]}`, "/remove/1", "bad_value"},
		{"a window that cannot be", `{"limits":[` + limit + `,{"name":"y","per":["recipient"],"allow":["1/60s","0/1h"]}]}`, "/limits/1/allow/1", "bad_value"},
		{"a field that is none", `{"limits":[{"name":"y","per":["recipient"],"allow":["1/60s"],"colour":"red"}]}`, "/limits/0/colour", "unknown_field"},
		{"nobody's number", `{"limits":[{"name":"y","per":["recipient"],"allow":["1/60s"],"exempt":["+99912345678"]}]}`, "/limits/0/exempt/0", "bad_value"},
	} {
		r := w.do("POST", "/v1/limits/try", c.body)
		if r.code != http.StatusBadRequest {
			t.Errorf("%s: %d", c.name, r.code)
			continue
		}
		p := r.problem(http.StatusBadRequest, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Pointer != c.pointer || p.Errors[0].Code != c.code {
			t.Errorf("%s: %+v", c.name, p.Errors)
		}
	}
	w.do("POST", "/v1/limits/try?since=1d", `{}`).problem(http.StatusBadRequest, "invalid_request")
	fail = fmt.Errorf("so much: %w", backtest.ErrTooMuch)
	if p := w.do("POST", "/v1/limits/try", `{}`).problem(http.StatusBadRequest, "invalid_request"); p.Errors[0].Pointer != "/since" {
		t.Errorf("%+v", p)
	}
	fail = errors.New("away")
	w.do("POST", "/v1/limits/try", `{}`).problem(http.StatusServiceUnavailable, "kafka_unavailable")
	// A limit may be called try.
	if r := w.do("PUT", "/v1/limits/try", `{"per":["recipient"],"allow":["1/60s"]}`); r.code != http.StatusCreated {
		t.Errorf("%d %s", r.code, r.body)
	}
	if r := w.do("GET", "/v1/limits/try", ""); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.body)
	}
}

// TestTryOneAtATime: another is told to come later, and who leaves, takes too long,
// or is there when the server ends, ends the backtest.
func TestTryOneAtATime(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	w := newWorld(t, settings{policy: triedPolicy, server: func(s *Server) {
		s.http.WriteTimeout = time.Second // of calls that end at once
		s.tryout.run = func(ctx context.Context, _ backtest.Config) (*backtest.Result, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, context.Cause(ctx)
		}
	}})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+w.addr+"/v1/limits/try", strings.NewReader("{}"))
		if err == nil {
			_, err = http.DefaultClient.Do(req)
		}
		gone <- err
	}()
	<-began
	if r := w.do("POST", "/v1/limits/try", `{}`); r.problem(http.StatusServiceUnavailable, "busy").Code == "" || r.header.Get("Retry-After") != "10" {
		t.Errorf("%v", r.header)
	}
	leave()
	<-ended
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.srv.tryout.within = 1500 * time.Millisecond // no backtest runs now
	w.until("free again", func() bool { return len(w.srv.tryout.turn) == 0 })
	late := make(chan reply, 1)
	go func() { late <- w.do("POST", "/v1/limits/try", `{}`) }()
	<-began
	<-ended
	if r := <-late; r.problem(http.StatusServiceUnavailable, "busy").Code == "" || r.header.Get("Retry-After") != "60" {
		t.Errorf("%v", r.header)
	}
	w.srv.tryout.within = time.Minute
	w.until("free again", func() bool { return len(w.srv.tryout.turn) == 0 })
	go func() { late <- w.do("POST", "/v1/limits/try", `{}`) }()
	<-began
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	(<-late).problem(http.StatusServiceUnavailable, "not_ready")
}
