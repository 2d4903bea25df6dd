package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// providerStatus is a provider of the policy in force, as its lanes say it is.
// Calls ended in the last minute. Those that failed were transient or unknown; those that were refused
// were neither accepted nor failed.
type providerStatus struct {
	Name    string          `json:"name"`
	Lanes   int32           `json:"lanes"`
	Breaker schemas.Breaker `json:"breaker,omitempty"` // the worst of its lanes; absent when none has spoken
	ProbeAt schemas.Millis  `json:"probe_at,omitzero"` // of the first open lane
	// SilentUntil is until when the last of its lanes makes no call, because the
	// provider throttles everyone.
	SilentUntil schemas.Millis `json:"silent_until,omitzero"`
	Calls       int64          `json:"calls"`
	Failures    int64          `json:"failures"`
	Refused     int64          `json:"refused"`
	Pace        []string       `json:"pace"`
}

// providersOf says how each provider is at now.
func providersOf(pol *schemas.Policy, health route.Health, now schemas.Millis) []providerStatus {
	all := []providerStatus{}
	for i := range pol.Providers {
		p, _ := pol.Provider(pol.Providers[i].Name) // with its defaults
		standing := health[p.Name]
		st := providerStatus{Name: p.Name, Lanes: p.Lanes, ProbeAt: standing.ProbeAt(now), Pace: []string{}}
		for _, h := range standing.Lanes {
			if now-h.At <= schemas.HealthWindow { // else its lane has ended, or makes no calls
				st.Calls += h.Calls
				st.Failures += h.Failures
				st.Refused += h.Refused
			}
			st.Breaker = worse(st.Breaker, h.Breaker)
			if h.SilentUntil > now {
				st.SilentUntil = max(st.SilentUntil, h.SilentUntil)
			}
		}
		for _, w := range p.Pace {
			st.Pace = append(st.Pace, w.String())
		}
		all = append(all, st)
	}
	return all
}

func worse(a, b schemas.Breaker) schemas.Breaker {
	for _, worst := range []schemas.Breaker{schemas.BreakerOpen, schemas.BreakerHalfOpen, schemas.BreakerClosed} {
		if a == worst || b == worst {
			return worst
		}
	}
	return a
}

func printProviders(w io.Writer, all []providerStatus) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\nPROVIDER\tBREAKER\tCALLS IN 60 s\tACCEPTED\tPACE")
	for _, p := range all {
		breaker, rate, pace := "–", "–", "–"
		switch {
		case p.Breaker == schemas.BreakerOpen && p.ProbeAt != 0:
			breaker = "open, probed at " + p.ProbeAt.Time().UTC().Format("15:04:05Z")
		case p.Breaker == schemas.BreakerClosed && p.SilentUntil != 0:
			breaker = "closed, throttled until " + p.SilentUntil.Time().UTC().Format("15:04:05Z")
		case p.Breaker != "":
			breaker = string(p.Breaker)
		}
		if p.Calls > 0 {
			rate = fmt.Sprintf("%.1f %%", 100*float64(p.Calls-p.Failures-p.Refused)/float64(p.Calls))
		}
		if len(p.Pace) > 0 {
			pace = strings.Join(p.Pace, " ")
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", p.Name, breaker, p.Calls, rate, pace)
	}
}
