package ingest

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// Tally counts a tenant's statuses by class, whatever is asked, and keeps the
// question; the store of processor/sink/warehouse does it properly.
func (s *store) counted(tenant string) []*schemas.Event {
	if tenant == history.AllTenants {
		return s.events
	}
	return ofTenant(tenant, s.events)
}

func (s *store) Tally(ctx context.Context, q history.Tally) (*history.Counted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("asked without a deadline")
	}
	s.tally = q
	out := &history.Counted{}
	for _, e := range s.counted(q.Tenant) {
		out.Counts = append(out.Counts, history.Count{At: e.At, Class: e.Class, Provider: e.Provider, Status: e.Status, Events: 1, P50: 1, P95: 2, P99: 3})
		out.Before = append(out.Before, history.Count{Day: 2, Status: e.Status, Events: 5})
		if e.Limit != "" {
			out.Limits = append(out.Limits, history.LimitCount{Class: e.Class, Limit: e.Limit, Window: e.Window, Refused: 1})
		}
	}
	return out, s.err
}

func TestStats(t *testing.T) {
	h := &store{}
	limited := event(theirs, schemas.StatusLimited, 1)
	limited.Limit, limited.Window = "verify", "1/60s"
	h.set(nil, limited)
	w := newWorld(t, settings{history: h})
	got := read[client.Stats](w.do("GET", "/v1/stats?from=2026-11-21T08:00:10Z&until=2026-11-21T08:59:30.001Z&by=class,hour,status&class=verify&channel=sms&provider=p&days=2", ""), http.StatusOK)
	from, until := t0, t0+3_600_000
	want := client.Stats{
		From: from, Until: until,
		Counts: []client.StatsCount{{At: t0 + 1, Class: "verify", Status: schemas.StatusLimited, Events: 1, P50: 1, P95: 2, P99: 3}},
		Limits: []client.StatsLimit{{Class: "verify", Limit: "verify", Window: "1/60s", Refused: 1}},
		Before: []client.StatsDay{
			{From: from - 86_400_000, Until: until - 86_400_000, Counts: []client.StatsCount{}},
			{From: from - 2*86_400_000, Until: until - 2*86_400_000, Counts: []client.StatsCount{{Status: schemas.StatusLimited, Events: 5}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if asked := (history.Tally{Tenant: "default", Channel: "sms", Class: "verify", Provider: "p", From: from, Until: until, By: []history.Dimension{"class", "hour"}, Most: mostCounts, Days: 2, Latency: true, LatencyBefore: true}); !reflect.DeepEqual(h.tally, asked) {
		t.Errorf("asked %+v, want %+v", h.tally, asked)
	}
	for query, want := range map[string][2]bool{ // of the span, of the days before
		"from=2026-11-21T08:00:00Z&until=2026-11-21T10:00:00Z&days=7":               {true, true},
		"from=2026-11-21T08:00:00Z&until=2026-11-21T10:00:01Z&days=7":               {true, false},
		"from=2026-11-20T08:00:00Z&until=2026-11-21T08:00:00Z&by=hour&days=7":       {true, false},
		"from=2026-11-20T08:00:00Z&until=2026-11-21T08:01:00Z&by=hour":              {false, false},
		"from=2026-11-20T08:00:00Z&until=2026-11-21T08:00:00Z&days=7&latency=true":  {true, true},
		"from=2026-11-21T08:00:00Z&until=2026-11-21T09:00:00Z&days=7&latency=false": {false, false},
	} {
		read[client.Stats](w.do("GET", "/v1/stats?"+query, ""), http.StatusOK)
		if got := [2]bool{h.tally.Latency, h.tally.LatencyBefore}; got != want {
			t.Errorf("%s: latencies %v, want %v", query, got, want)
		}
	}
	before := schemas.MillisOf(time.Now())
	got = read[client.Stats](w.do("GET", "/v1/stats", ""), http.StatusOK)
	// The minute that runs is in it whole.
	if after := schemas.MillisOf(time.Now()); got.Until.Sub(got.From) != time.Hour || got.Until%60_000 != 0 || got.Until < before || got.Until >= after+60_000 {
		t.Errorf("the last hour is %v to %v", got.From, got.Until)
	}
	for query, detail := range map[string]string{
		"from=x": `"from"`, "by=country": `"by"`, "by=": `"by"`, "by=minute,hour": "one of minute", "days=-1": `"days"`, "days=32": `"days"`, "latency=yes": `"latency"`, "status=sent": `"status" is unknown`,
		"from=2026-11-21T09:00:00Z&until=2026-11-21T09:00:00Z": `"until" is not after from`, "until=2126-11-21T09:00:00Z": "out of all time",
		"by=minute&from=2026-11-19T09:00:00Z&until=2026-11-21T09:00:00Z": `"by"`, "by=hour&from=2026-01-19T09:00:00Z&until=2026-11-21T09:00:00Z": `"by"`,
		"days=1&from=2026-11-19T09:00:00Z&until=2026-11-21T09:00:00Z": `"days"`, "class=a&class=b": "more than once",
	} {
		p := w.do("GET", "/v1/stats?"+query, "").problem(http.StatusBadRequest, "invalid_request")
		if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Detail, detail) {
			t.Errorf("%s: %+v", query, p.Errors)
		}
	}
	h.set(history.ErrTooMany)
	w.do("GET", "/v1/stats", "").problem(http.StatusBadRequest, "invalid_request")
	h.set(errors.New("away"))
	w.do("GET", "/v1/stats", "").problem(http.StatusServiceUnavailable, "history_unavailable")
	newWorld(t, settings{}).do("GET", "/v1/stats", "").problem(http.StatusServiceUnavailable, "history_unavailable")
}
