package ingest

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	routing "github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

func TestProvidersHealth(t *testing.T) {
	const pol = `
providers:
  - {name: b, type: simulated, channels: [sms, voice], pace: [5/1s, 200/60s], smooth: true, concurrency: 7, lanes: 2}
  - {name: a, type: simulated, channels: [sms]}
`
	health := routing.Health{"gone": {}}
	w := newWorld(t, settings{policy: pol, server: func(s *Server) { s.health = func() routing.Health { return health } }})
	got := read[client.ProvidersHealth](w.do("GET", "/v1/health", ""), http.StatusOK)
	want := client.ProvidersHealth{Providers: []client.ProviderHealth{
		{Name: "b", Type: "simulated", Channels: []schemas.Channel{"sms", "voice"}, Pace: []string{"5/1s", "200/60s"}, Smooth: true, Concurrency: 7, Lanes: []client.LaneHealth{}, Share: 1},
		{Name: "a", Type: "simulated", Channels: []schemas.Channel{"sms"}, Pace: []string{}, Concurrency: 64, Lanes: []client.LaneHealth{}, Share: 1},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	at := schemas.Millis(1_795_309_200_000)
	lanes := []schemas.Health{
		{Provider: "b", Lane: 1, Breaker: schemas.BreakerOpen, ProbeAt: at + 30_000, Calls: 20, Failures: 15, Refused: 3, At: at},
		{Provider: "b", Lane: 0, Breaker: schemas.BreakerHalfOpen, Calls: 2, At: at},
	}
	health = routing.Health{"b": routing.Step(routing.Standing{}, lanes, at)}
	v := providersHealth(&w.pol.Latest().Policy, health, at).Providers[0]
	if want := []client.LaneHealth{{Lane: 0, Breaker: schemas.BreakerHalfOpen, Calls: 2, At: at}, {Lane: 1, Breaker: schemas.BreakerOpen, ProbeAt: at + 30_000, Calls: 20, Failures: 15, Refused: 3, At: at}}; !reflect.DeepEqual(v.Lanes, want) || v.Share != 0.02 {
		t.Errorf("%+v", v)
	}
	health = routing.Health{"b": routing.Step(routing.Standing{}, lanes[:1], at)}
	if v := providersHealth(&w.pol.Latest().Policy, health, at).Providers; v[0].Share != 0 || v[1].Share != 1 {
		t.Errorf("%+v", v)
	}
	if got := read[client.ProvidersHealth](w.do("GET", "/v1/health", ""), http.StatusOK); len(got.Providers[0].Lanes) != 1 || got.Providers[0].Lanes[0].Calls != 20 {
		t.Errorf("%+v", got.Providers[0])
	}
	w.do("GET", "/v1/health?x=1", "").problem(http.StatusBadRequest, "invalid_request")
}

func TestProof(t *testing.T) {
	sink := func(at schemas.Millis, lag, difference int64, partitions ...int32) schemas.Report {
		return schemas.Report{At: at, By: "1", Sink: &schemas.SinkReport{Partitions: partitions, LagMillis: lag, Difference: difference}}
	}
	audit := schemas.Report{At: 1000, By: "me", Audit: &schemas.AuditReport{Outcome: schemas.AuditProven, Decisions: 3}}
	for _, c := range []struct {
		name       string
		said       map[string]schemas.Report
		sinks      []schemas.Millis // by when they spoke
		lag, wrong int64
		audited    bool
	}{
		{"nobody has said anything", nil, nil, 0, 0, false},
		{"an audit", map[string]schemas.Report{"audit": audit}, nil, 0, 0, true},
		{"sinks side by side", map[string]schemas.Report{"sink/0": sink(1000, 50, 1, 0, 1), "sink/1": sink(900, 20, -3, 2, 3), "audit": audit}, []schemas.Millis{1000, 900}, 50, -2, true},
		{"by slot", map[string]schemas.Report{"sink/10": sink(1000, 1, 0, 0), "sink/9": sink(900, 2, 0, 1)}, []schemas.Millis{900, 1000}, 2, 0, false},
		{"one that others have taken all from", map[string]schemas.Report{"sink/0": sink(2000, 5, 0, 0, 1, 2, 3), "sink/1": sink(900, 90_000, 7, 2, 3)}, []schemas.Millis{2000}, 5, 0, false},
		{"one that has something left", map[string]schemas.Report{"sink/0": sink(2000, 5, 0, 0, 1, 2), "sink/1": sink(900, 90, 7, 2, 3)}, []schemas.Millis{2000, 900}, 90, 7, false},
		{"one that has nothing to load", map[string]schemas.Report{"sink/0": sink(2000, 5, 0, 0), "sink/1": sink(2000, 0, 0)}, []schemas.Millis{2000}, 5, 0, false},
		{"keys of others", map[string]schemas.Report{"audit": {At: 1}, "sink/0": {At: 1}, "x": audit}, nil, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := proofOf(c.said)
			var at []schemas.Millis
			for _, s := range got.Sinks {
				at = append(at, s.At)
			}
			if !reflect.DeepEqual(at, c.sinks) || got.StatusLag != c.lag || got.Difference != c.wrong || (got.Audit != nil) != c.audited || got.Sinks == nil {
				t.Errorf("%+v", got)
			}
		})
	}
	stuck := func(at schemas.Millis, slot string, stages ...string) schemas.Report {
		r := schemas.Report{At: at, By: slot, Stuck: &schemas.StuckReport{Stages: []schemas.StuckStage{}}}
		for _, name := range stages {
			r.Stuck.Stages = append(r.Stuck.Stages, schemas.StuckStage{Stage: name, Since: 1, Why: "no leader"})
		}
		return r
	}
	said := map[string]schemas.Report{"stuck/0": stuck(100_000, "0"), "stuck/1": stuck(55_000, "1", "delay"), "stuck/2": stuck(54_999, "2", "delay"), "sink/1": sink(1000, 0, 0, 1)}
	if got := reportsOf(said, func(r *schemas.Report) bool { return len(r.StuckAt(100_000)) > 0 }); len(got) != 1 || got[0].By != "1" {
		t.Errorf("%+v", got)
	}
	met := func(at schemas.Millis, fields ...schemas.UnknownField) schemas.Report {
		return schemas.Report{At: at, By: "slot 0", Unknown: &schemas.UnknownReport{Since: 1, Fields: fields}}
	}
	full := audit
	full.Audit = &schemas.AuditReport{Outcome: schemas.AuditViolated, From: 1, Until: 2, First: "over: weir.status/0/1"}
	w := newWorld(t, settings{server: func(s *Server) {
		s.reports = func() map[string]schemas.Report {
			return map[string]schemas.Report{"unknown/0": met(schemas.MillisOf(time.Now().Add(-23*time.Hour)), schemas.UnknownField{Name: "clas", Requests: 3, Nearest: "class"}),
				"unknown/1": met(schemas.MillisOf(time.Now().Add(-25*time.Hour)), schemas.UnknownField{Name: "old", Requests: 3}), "unknown/2": met(schemas.MillisOf(time.Now())), "stuck/2": stuck(schemas.MillisOf(time.Now()), "2", "delay"), "audit": full, "sink/0": {At: 1, By: "0", Sink: &schemas.SinkReport{Partitions: []int32{0}, Failing: "no room", CheckedAt: 1}}}
		}
	}})
	if got := read[client.Proof](w.do("GET", "/v1/proof", ""), http.StatusOK); !reflect.DeepEqual(got.Audit, &full) || len(got.Sinks) != 1 || got.Sinks[0].Sink.Failing != "no room" || len(got.Stuck) != 1 || got.Stuck[0].By != "2" ||
		len(got.Unknown) != 1 || got.Unknown[0].Unknown.Fields[0] != (schemas.UnknownField{Name: "clas", Requests: 3, Nearest: "class"}) {
		t.Errorf("%+v", got)
	}
	w.do("GET", "/v1/proof?x=1", "").problem(http.StatusBadRequest, "invalid_request")
}
