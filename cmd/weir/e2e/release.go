package e2e

import (
	"slices"

	"github.com/weirhq/weir/schemas"
)

// releases judges what becomes of a request to release a decision without
// sending: it gives back what that holds, once.
func (o *Oracle) releases(p *logged, r Record) {
	d := r.Event.Decision
	if r.Event.Reason != "released" && r.Event.Reason != "not_held" {
		return
	}
	s := o.story(r)
	only := s.end == schemas.StatusSent && o.only(s)
	switch {
	case d.Verdict == schemas.VerdictGiveBack:
		switch s.released++; {
		case !only:
			o.fault(FaultReturned, r, "released, and it ended as %q by %s", s.end, s.provider)
		case s.released > 1:
			o.fault(FaultReturned, r, "released %d times", s.released)
		}
		o.report.Released++
	case d.Verdict == schemas.VerdictNothing:
		o.report.NotHeld++
		if !only || s.released > 0 || len(s.permits) > 0 { // an attempt may have been received
			return
		}
		// It is remembered for as long as the windows of its own revision see any of it that
		// can be released; longer ones of a later revision count it, and it cannot be released.
		if !slices.ContainsFunc(s.held, func(c schemas.Charge) bool {
			return !o.perAttempt(c.Limit) && o.visibleUnder(s.under, nil, c, r)
		}) {
			return
		}
		if i := slices.IndexFunc(s.held, func(c schemas.Charge) bool {
			return !wide(c.Scope) && !o.perAttempt(c.Limit) && o.visible(p, c, r)
		}); i >= 0 {
			o.fault(FaultReturned, r, "not released, and it holds a place in %s", s.held[i].Limit)
		}
	}
}

// only reports whether the provider of a message only decides.
func (o *Oracle) only(s *story) bool {
	for _, pol := range o.policies {
		if v, ok := pol.Provider(s.provider); ok && v.Type == schemas.ProviderNone {
			return true
		}
	}
	return false
}
