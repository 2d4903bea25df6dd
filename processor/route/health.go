package route

import (
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Health is what is known of every provider, by name. Who is not in it is well.
// It is a value: nothing writes to it once it is made.
type Health map[string]Standing

// Standing is what is known of one provider: the latest record of each of its
// lanes, and what was concluded from those before. The zero value is a provider
// that nothing is known of.
type Standing struct {
	Lanes    []schemas.Health // the latest record of each lane that spoke
	Degraded bool             // it gets ShareDegraded until a good sample says otherwise
	Since    schemas.Millis   // Degraded: when it became so, or last relapsed

	open     bool           // a lane's breaker was not closed
	fell     schemas.Millis // when the first of them opened, last
	closed   schemas.Millis // when the last of them closed; 0 is never
	relapsed bool           // Degraded because a breaker opened again, and not by a rate
	sample   sample         // Degraded: what was seen since, when a window alone is too little
}

// sample adds up windows that do not overlap.
type sample struct {
	calls, failures int64
	until           schemas.Millis // the end of the last window in it
}

// Share is how much of its configured weight a provider gets now, in percent.
type Share int

const (
	ShareNone     Share = 0   // its breaker is open, or it throttles everyone
	ShareProbing  Share = 2   // its breaker waits for probes to succeed
	ShareDegraded Share = 25  // too many of its calls fail
	ShareFull     Share = 100 // it is well
)

// String is the word for it in logs, but for a silent provider: see Standing.Word.
func (s Share) String() string {
	switch s {
	case ShareNone:
		return "open"
	case ShareProbing:
		return "probing"
	case ShareDegraded:
		return "degraded"
	case ShareFull:
		return "well"
	}
	return "unknown"
}

// thresholds are when a provider is degraded and when no longer. Between the
// two rates nothing changes, which together with dwell is the hysteresis.
type thresholds struct {
	sample    int64          // calls, below which a rate says nothing
	below     int64          // percent of calls that succeeded: under it a provider is degraded,
	above     int64          // and over it no longer,
	dwell     schemas.Millis // but not before this has passed, so that what is judged came after
	lead      schemas.Millis // a provider degraded no longer than this before its breaker opened is degraded by the same failures
	relapse   schemas.Millis // a breaker that opens again within this after it closed degrades, whatever the rate; dwell then begins anew
	believed  schemas.Millis // figures older than this are nobody's: their lane is gone
	longestIn schemas.Millis // no record keeps a provider out for longer than this after it was read
}

// Not in the policy: nobody has asked to set them yet. A lane's own breaker
// opens at one half (processor/lane); routing turns away before.
var inForce = thresholds{
	sample: 20, below: 75, above: 90,
	lead:  schemas.HealthWindow,
	dwell: 2 * schemas.HealthWindow, relapse: schemas.HealthWindow, // apart, for whoever relapses in about that time
	believed: 2 * schemas.HealthWindow, longestIn: schemas.HealthWindow,
}

// Step concludes from what was concluded before, the latest record of each lane
// and the time. It is to be called when a record comes, and about once a second.
// It keeps lanes.
func Step(prev Standing, lanes []schemas.Health, now schemas.Millis) Standing {
	return inForce.step(prev, lanes, now)
}

func (th thresholds) step(prev Standing, lanes []schemas.Health, now schemas.Millis) Standing {
	next := prev
	next.Lanes = lanes
	var calls, failures int64
	opened := false
	next.open = false
	for i := range lanes {
		switch lanes[i].Breaker {
		case schemas.BreakerOpen:
			next.open, opened = true, true
		case schemas.BreakerHalfOpen:
			next.open = true
		case schemas.BreakerClosed:
		}
		if now-lanes[i].At <= th.believed {
			calls += lanes[i].Calls
			failures += lanes[i].Failures
		}
	}
	if next.open && !prev.open {
		next.fell = now
	}
	degraded := prev.Degraded
	if prev.open && !next.open {
		next.closed = now
		// A rate that fell with the provider says what its breaker said, and the
		// breaker takes it back. The lane begins its figures anew, too: what is
		// judged below came after.
		if degraded && !prev.relapsed && prev.fell-prev.Since <= th.lead {
			degraded = false
			next.Degraded, next.Since = false, now
		}
	}
	relapsed := opened && !prev.open && prev.closed != 0 && (now-prev.closed < th.relapse || prev.Degraded && now-prev.Since > th.lead)
	bad := calls >= th.sample && (calls-failures)*100 < th.below*calls
	switch {
	case relapsed, bad && !degraded:
		next.Degraded, next.Since, next.relapsed = true, now, relapsed
		next.sample = sample{until: now}
	case degraded:
		if now-max(prev.Since, prev.sample.until) >= schemas.HealthWindow {
			next.sample.calls += calls
			next.sample.failures += failures
			next.sample.until = now
		}
		if calls < th.sample { // too little in one window: what several say
			calls, failures = next.sample.calls, next.sample.failures
		}
		if calls < th.sample || now-prev.Since < th.dwell {
			break
		}
		if (calls-failures)*100 > th.above*calls {
			next.Degraded, next.Since, next.relapsed = false, now, false
		}
		if next.sample.calls >= th.sample { // judged
			next.sample = sample{until: next.sample.until}
		}
	}
	return next
}

// Take puts a lane's record, as it was read at now, in place of its last one; a
// tombstone is a record without a breaker. It returns a new slice.
func Take(lanes []schemas.Health, r schemas.Health, now schemas.Millis) []schemas.Health {
	lanes = slices.DeleteFunc(slices.Clone(lanes), func(h schemas.Health) bool { return h.Lane == r.Lane })
	if r.Breaker == "" {
		return lanes
	}
	// A lane's clock may be wrong.
	r.ProbeAt, r.SilentUntil = min(r.ProbeAt, now+inForce.longestIn), min(r.SilentUntil, now+inForce.longestIn)
	return append(lanes, r)
}

// Share returns what a message of one lane may count on at the time now. A lane
// that has not spoken is taken to be as the best of those that have.
func (s *Standing) Share(lane int32, now schemas.Millis) Share {
	best := ShareNone
	for i := range s.Lanes {
		share := s.share(&s.Lanes[i], now)
		if s.Lanes[i].Lane == lane {
			return share
		}
		best = max(best, share)
	}
	if len(s.Lanes) == 0 {
		return s.closedShare()
	}
	return best
}

// SilentFor returns how long a lane whose breaker is closed makes no call because the
// provider throttles everyone; 0 when it does, or is out for another reason.
func (s *Standing) SilentFor(lane int32, now schemas.Millis) time.Duration {
	for i := range s.Lanes {
		if h := &s.Lanes[i]; h.Lane == lane && h.Breaker == schemas.BreakerClosed {
			return max(h.SilentUntil.Sub(now), 0)
		}
	}
	return 0
}

// Best returns the share of its best lane.
func (s *Standing) Best(now schemas.Millis) Share { return s.Share(-1, now) }

// Word is the word for its share in logs. Silent is a provider that throttles everyone: its
// breaker is not open.
func (s *Standing) Word(now schemas.Millis) string {
	best := s.Best(now)
	if best == ShareNone && slices.ContainsFunc(s.Lanes, func(h schemas.Health) bool {
		return h.Breaker == schemas.BreakerClosed && now < h.SilentUntil
	}) {
		return "silent"
	}
	return best.String()
}

func (s *Standing) share(h *schemas.Health, now schemas.Millis) Share {
	switch {
	case now < h.SilentUntil:
		return ShareNone
	case h.Breaker == schemas.BreakerClosed:
		return s.closedShare()
	case h.Breaker == schemas.BreakerOpen && now < h.ProbeAt:
		return ShareNone
	}
	return ShareProbing
}

func (s *Standing) closedShare() Share {
	if s.Degraded {
		return ShareDegraded
	}
	return ShareFull
}

// ProbeAt returns when the first of the lanes that are out may be probed, or is no
// longer silent; 0 when none is out at now.
func (s *Standing) ProbeAt(now schemas.Millis) schemas.Millis {
	var at schemas.Millis
	for i := range s.Lanes {
		h := &s.Lanes[i]
		if back := max(h.ProbeAt, h.SilentUntil); s.share(h, now) == ShareNone && (at == 0 || back < at) {
			at = back
		}
	}
	return at
}

// Figures returns the calls of the last schemas.HealthWindow and those of them
// that failed, over all lanes that are heard.
func (s *Standing) Figures(now schemas.Millis) (calls, failures int64) {
	for i := range s.Lanes {
		if now-s.Lanes[i].At <= inForce.believed {
			calls += s.Lanes[i].Calls
			failures += s.Lanes[i].Failures
		}
	}
	return calls, failures
}

// Probes counts the messages that went to providers on probation. So that the
// few calls that a breaker waits for do not take a fiftieth's time of a small
// traffic, each worker lets probesASecond through besides.
type Probes map[string]probed

type probed struct {
	second schemas.Millis
	n      int
}

const probesASecond = 3 // as many as close a lane's breaker

// May reports whether one more may go to the provider now.
func (p Probes) May(provider string, now schemas.Millis) bool {
	was := p[provider]
	return was.second != now/1000 || was.n < probesASecond
}

// Went counts one that went.
func (p Probes) Went(provider string, now schemas.Millis) {
	was := p[provider]
	if was.second != now/1000 {
		was = probed{second: now / 1000}
	}
	was.n++
	p[provider] = was
}
