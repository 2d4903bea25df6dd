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

// Errors and Refused have a tenant's events, each by itself, and keep the
// question; the store of processor/sink/warehouse does it properly.
func (s *store) Errors(ctx context.Context, q history.Errors) (out []history.ErrorCount, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("asked without a deadline")
	}
	s.errors = q
	for _, e := range s.counted(q.Tenant) {
		out = append(out, history.ErrorCount{Provider: e.Provider, Code: e.ErrorCode, Example: e.Error, Events: 1})
	}
	return out, s.err
}

func (s *store) Refused(ctx context.Context, q history.Refused) (out []history.RefusedCount, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("asked without a deadline")
	}
	s.refuse = q
	for _, e := range s.counted(q.Tenant) {
		out = append(out, history.RefusedCount{To: e.To, Refused: 1, LastAt: e.At, Limit: e.Limit})
	}
	return out, s.err
}

func TestRanks(t *testing.T) {
	h := &store{}
	failed := event(theirs, schemas.StatusFailed, 1)
	failed.Provider, failed.ErrorCode, failed.Error, failed.Limit = "p", "21610", "blocked", "verify"
	failed.To = "+8613800000000"
	h.set(nil, failed)
	w := newWorld(t, settings{history: h})
	const span = "from=2026-11-21T08:00:10.001Z&until=2026-11-21T08:59:30.002Z"
	from, until := t0+10_001, t0+3_570_002
	if got, want := read[client.Errors](w.do("GET", "/v1/stats/errors?class=verify&provider=p&"+span, ""), http.StatusOK), (client.Errors{
		From: from, Until: until, Errors: []client.ErrorCount{{Provider: "p", ErrorCode: "21610", Example: "blocked", Events: 1}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if want := (history.Errors{Tenant: "default", Provider: "p", Class: "verify", From: from, Until: until, Most: mostErrors}); h.errors != want {
		t.Errorf("asked %+v, want %+v", h.errors, want)
	}
	if got, want := read[client.Refused](w.do("GET", "/v1/stats/recipients?class=verify&limit=7&"+span, ""), http.StatusOK), (client.Refused{
		From: from, Until: until, Recipients: []client.RefusedCount{{To: "+86*********00", Refused: 1, LastAt: t0 + 1, Limit: "verify"}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if want := (history.Refused{Tenant: "default", Class: "verify", From: from, Until: until, Most: 7}); h.refuse != want {
		t.Errorf("asked %+v, want %+v", h.refuse, want)
	}
	if day := read[client.Refused](w.do("GET", "/v1/stats/recipients", ""), http.StatusOK); day.Until.Sub(day.From) != 24*time.Hour || time.Since(day.Until.Time()) > time.Minute || h.refuse.Most != 20 {
		t.Errorf("without parameters: %v to %v, %d", day.From, day.Until, h.refuse.Most)
	}
	for path, queries := range map[string]map[string]string{
		"/v1/stats/errors?":     {"limit=5": `"limit" is unknown`, "provider=": `"provider"`},
		"/v1/stats/recipients?": {"limit=0": `"limit"`, "limit=101": `"limit"`, "provider=p": `"provider" is unknown`},
		"":                      {"from=x": `"from"`, "class=": `"class"`, "from=2026-11-21T09:00:00Z&until=2026-11-21T09:00:00Z": `"until" is not after from`, "until=2126-11-21T09:00:00Z": "out of all time", "from=2026-01-19T09:00:00Z&until=2026-11-21T09:00:00Z": "31 days", "class=a&class=b": "more than once"},
	} {
		for query, detail := range queries {
			for _, of := range []string{"/v1/stats/errors?", "/v1/stats/recipients?"} {
				if path != "" && path != of {
					continue
				}
				p := w.do("GET", of+query, "").problem(http.StatusBadRequest, "invalid_request")
				if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Detail, detail) {
					t.Errorf("%s%s: %+v", of, query, p.Errors)
				}
			}
		}
	}
	h.set(nil)
	for _, path := range []string{"/v1/stats/errors", "/v1/stats/recipients"} {
		if r := w.do("GET", path, ""); r.code != http.StatusOK || !strings.Contains(string(r.body), "[]") { // a list, also where it is empty
			t.Errorf("%s: %d %s", path, r.code, r.body)
		}
	}
	h.set(errors.New("away"))
	none := newWorld(t, settings{})
	for _, path := range []string{"/v1/stats/errors", "/v1/stats/recipients"} {
		w.do("GET", path, "").problem(http.StatusServiceUnavailable, "history_unavailable")
		none.do("GET", path, "").problem(http.StatusServiceUnavailable, "history_unavailable")
	}
}
