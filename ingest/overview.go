package ingest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/client"
	routing "github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// What operators see of the whole: their keys have scope operate, and
// nothing here is of one tenant.

// getProvidersHealth tells how the providers of the policy in force are.
func (s *Server) getProvidersHealth(w http.ResponseWriter, r *http.Request, _ *caller) {
	if p := noParameters(r); p != nil {
		refuse(w, r, p)
		return
	}
	var health routing.Health
	if s.health != nil {
		health = s.health()
	}
	answer(w, http.StatusOK, "application/json", providersHealth(&s.policy.Latest().Policy, health, schemas.MillisOf(time.Now())))
}

func providersHealth(pol *schemas.Policy, health routing.Health, now schemas.Millis) client.ProvidersHealth {
	out := client.ProvidersHealth{Providers: []client.ProviderHealth{}}
	for i := range pol.Providers {
		p, _ := pol.Provider(pol.Providers[i].Name) // with its defaults
		v := client.ProviderHealth{Name: p.Name, Type: p.Type, Channels: p.Channels, Pace: []string{}, Smooth: p.Smooth, Concurrency: p.Concurrency, Lanes: []client.LaneHealth{}, Share: 1}
		for _, window := range p.Pace {
			v.Pace = append(v.Pace, window.String())
		}
		if standing, ok := health[p.Name]; ok {
			v.Share = float64(standing.Best(now)) / 100
			for _, h := range standing.Lanes {
				v.Lanes = append(v.Lanes, client.LaneHealth{Lane: h.Lane, Breaker: h.Breaker, ProbeAt: h.ProbeAt, SilentUntil: h.SilentUntil, Calls: h.Calls, Failures: h.Failures, Refused: h.Refused, At: h.At})
			}
			slices.SortFunc(v.Lanes, func(a, b client.LaneHealth) int { return cmp.Compare(a.Lane, b.Lane) })
		}
		out.Providers = append(out.Providers, v)
	}
	return out
}

// getProof returns what the last audit and the sinks reported of their work, which stages are stuck, and which
// fields of requests Weir does not know.
func (s *Server) getProof(w http.ResponseWriter, r *http.Request, _ *caller) {
	if p := noParameters(r); p != nil {
		refuse(w, r, p)
		return
	}
	var said map[string]schemas.Report
	if s.reports != nil {
		said = s.reports()
	}
	out := proofOf(said)
	now := schemas.MillisOf(time.Now())
	out.Stuck = reportsOf(said, func(r *schemas.Report) bool { return len(r.StuckAt(now)) > 0 })
	out.Unknown = reportsOf(said, func(r *schemas.Report) bool { return len(r.UnknownAt(now)) > 0 })
	answer(w, http.StatusOK, "application/json", out)
}

// reportsOf returns the reports that are wanted, by slot.
func reportsOf(said map[string]schemas.Report, want func(*schemas.Report) bool) []schemas.Report {
	out := []schemas.Report{}
	for _, key := range bySlot(said) {
		if r := said[key]; want(&r) {
			out = append(out, r)
		}
	}
	return out
}

// bySlot returns the keys of reports in the order of their slots.
func bySlot(said map[string]schemas.Report) []string {
	return slices.SortedFunc(maps.Keys(said), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
}

// proofOf sums up the reports. A sink that others have taken all partitions from
// since says nothing any more: its last word is about work that is theirs now.
func proofOf(said map[string]schemas.Report) client.Proof {
	out := client.Proof{Sinks: []schemas.Report{}}
	if r, ok := schemas.LastAudit(said); ok {
		out.Audit = &r
	}
	newest := make(map[int32]schemas.Millis) // by partition
	for _, r := range said {
		if r.Sink != nil {
			for _, p := range r.Sink.Partitions {
				newest[p] = max(newest[p], r.At)
			}
		}
	}
	for _, key := range bySlot(said) {
		r := said[key]
		if r.Sink == nil || !slices.ContainsFunc(r.Sink.Partitions, func(p int32) bool { return newest[p] == r.At }) {
			continue
		}
		out.Sinks = append(out.Sinks, r)
		out.StatusLag = max(out.StatusLag, r.Sink.LagMillis)
		out.Difference += r.Sink.Difference
	}
	return out
}
