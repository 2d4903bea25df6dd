package e2e

import (
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Left is what a partition's log leaves in the scopes of a question, under a
// revision, at a moment not before its latest decision. It knows what is told of a
// limit by the policy's text alone: the windows of the recipient, and nothing of a
// limit that only observes, that exempts it, that counts by another thing, or
// whose scope another partition owns.
func (o *Oracle) Left(partition int32, revision int64, ask *schemas.QuotaAsk, t schemas.Millis) (out []schemas.LimitState) {
	p := o.parts[partition]
	if p == nil {
		p = newLogged()
	}
	for _, s := range ask.Scopes {
		l := o.limit(revision, s.Limit)
		if l == nil || l.Mode == schemas.ModeObserve || isWide(l) != wide(s.Scope) {
			continue
		}
		e := &schemas.Event{}
		key, owner := wideShelf(schemas.Charge{Limit: s.Limit, Scope: s.Scope}), s.Scope
		if !isWide(l) {
			var own bool
			if e, own = about(l, s.Scope, ask.To); !own {
				continue
			}
			key, owner = shelf(l, e), ask.To
		} else if !fits(l, s.Scope, nil) {
			continue
		}
		if o.partitionOf(owner) != partition {
			continue
		}
		for _, w := range windowsFor(l, e.To) {
			out = append(out, p.left(l, w, key, t))
		}
	}
	return out
}

// about makes an event of which a scope of one recipient's limit is; false if it
// is none of the limit and the recipient, or the recipient is exempt.
func about(l *schemas.Limit, scope, to string) (*schemas.Event, bool) {
	e := &schemas.Event{To: to}
	per := perOf(l)
	if len(per) == 1 {
		return e, scope == escape(to) && matches(&schemas.Limit{Exempt: l.Exempt}, e)
	}
	if !fits(l, scope, nil) || !strings.HasPrefix(scope+",", "recipient="+escape(to)+",") {
		return nil, false
	}
	for i, part := range strings.Split(scope, ",") {
		_, v, _ := strings.Cut(part, "=")
		switch per[i] {
		case "tenant":
			e.Tenant = v
		case "channel":
			e.Channel = v
		case "class":
			e.Class = v
		case "template":
			e.Template = v
		case "provider":
			e.Provider = v
		}
	}
	return e, matches(&schemas.Limit{Exempt: l.Exempt}, e)
}

// LeftOf is Left for the limits of an event's own recipient, in the policy's order.
func (o *Oracle) LeftOf(r Record) (out []schemas.LimitState) {
	p := o.parts[r.Partition]
	for _, l := range o.matching(r) {
		if isWide(l) || l.Mode == schemas.ModeObserve {
			continue
		}
		for _, w := range windowsFor(l, r.Event.To) {
			out = append(out, p.left(l, w, shelf(l, r.Event), r.Event.Decision.T))
		}
	}
	return out
}

// left counts one window, and looks for the moment at which more is left.
func (p *logged) left(l *schemas.Limit, w schemas.Window, key string, t schemas.Millis) schemas.LimitState {
	remaining := func(at schemas.Millis) int64 {
		if w.Kind == schemas.WindowBucket {
			return p.drawn[key].level(w, p.since[l.Name], at) / w.RefillEvery
		}
		return max(w.N-count(w, l, p.since, p.places[key], at, ""), 0)
	}
	s := schemas.LimitState{Limit: l.Name, Window: w.String(), N: w.N, Remaining: remaining(t)}
	if s.Remaining == w.N {
		return s
	}
	switch w.Kind {
	case schemas.WindowRolling:
		for _, pl := range p.places[key].all() { // in the order of time
			if at := pl.t.Add(w.Length); at > t && remaining(at) > s.Remaining {
				s.Reset = at
				break
			}
		}
	case schemas.WindowCalendar:
		step := schemas.Millis(time.Minute / time.Millisecond)
		if w.Unit == "day" || w.Unit == "month" {
			step *= 15 // no zone changes its clock at another time
		}
		today := date(t, zoneOf(l), w.Unit)
		for s.Reset = t - t%step + step; date(s.Reset, zoneOf(l), w.Unit) == today; s.Reset += step {
		}
	case schemas.WindowBucket:
		for s.Reset = t + 1; remaining(s.Reset) <= s.Remaining; s.Reset++ {
		}
	}
	return s
}
