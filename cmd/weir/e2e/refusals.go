package e2e

import (
	"slices"

	"github.com/weirhq/weir/schemas"
)

// refused looks for a window that is full without the message. A refusal that
// came from an owner is judged where the owner wrote it.
func (o *Oracle) refused(p *logged, r Record) {
	d := r.Event.Decision
	if o.moved != "" && slices.ContainsFunc(d.Evidence, func(e schemas.Evidence) bool {
		l := o.limit(d.Revision, e.Limit)
		return l != nil && slices.ContainsFunc(windowsFor(l, r.Event.To), func(w schemas.Window) bool { return w.String() == e.Window && o.unknownPeriod(l, w) })
	}) {
		return
	}
	if len(d.Evidence) > 0 {
		if d.Onward == nil && slices.ContainsFunc(d.Evidence, func(e schemas.Evidence) bool { return wide(e.Scope) && o.partitionOf(e.Scope) != r.Partition }) {
			return // the way of the message shows which owner's it is: see walk
		}
		o.evidence(p, r)
		return
	}
	limits := o.matching(r)
	o.held(r, func(t schemas.Millis) bool {
		for _, l := range limits {
			if o.full(p, r, l, schemas.Charge{Limit: l.Name, Cost: cost(l, r.Event)}, t) {
				return true
			}
		}
		return false
	})
}

// evidence judges a refusal by the windows that it names.
func (o *Oracle) evidence(p *logged, r Record) {
	d := r.Event.Decision
	type asked struct {
		l *schemas.Limit
		c schemas.Charge
	}
	var all []asked
	for _, e := range d.Evidence {
		l := o.limit(d.Revision, e.Limit)
		switch {
		case l == nil || l.Mode == schemas.ModeObserve:
			o.fault(FaultWronglyHeld, r, "by %s, which refuses nobody", e.Limit)
			return
		case told(l) != nil:
			o.fault(FaultCannotBeTold, r, "limit %s: %v", l.Name, told(l))
			return
		case isWide(l) != wide(e.Scope), isWide(l) && !fits(l, e.Scope, nil), !isWide(l) && !matches(l, r.Event):
			o.fault(FaultWronglyHeld, r, "by %s in the scope %q, which is not its", e.Limit, e.Scope)
			return
		case isWide(l) && o.partitionOf(e.Scope) != r.Partition:
			o.fault(FaultRound, r, "refused by %s of %q, which partition %d owns", e.Limit, e.Scope, o.partitionOf(e.Scope))
		}
		c := schemas.Charge{Limit: e.Limit, Scope: e.Scope, Cost: e.Cost}
		if d.Onward == nil && e.Cost != cost(l, r.Event) {
			o.fault(FaultWronglyHeld, r, "by %s, for a cost of %d, not %d", e.Limit, e.Cost, cost(l, r.Event))
		}
		if n, w, ok := o.counted(p, r, l, c, e.Window); !ok || n != e.Count || n+e.Cost <= w.N {
			o.fault(FaultWronglyHeld, r, "by %s %s of %q at %s with %d, but it counts %d", e.Limit, e.Window, e.Scope, d.T, e.Count, n)
			return
		}
		all = append(all, asked{l, c})
	}
	o.held(r, func(t schemas.Millis) bool {
		return slices.ContainsFunc(all, func(a asked) bool { return o.full(p, r, a.l, a.c, t) })
	})
}

// held judges a refusal by a function that tells whether a window is full at a
// moment from then on, if nothing else happens.
func (o *Oracle) held(r Record, full func(t schemas.Millis) bool) {
	d := r.Event.Decision
	if !full(d.T) {
		o.fault(FaultWronglyHeld, r, "by %s %s at %s, but no window was full", r.Event.Limit, r.Event.Window, d.T)
		return
	}
	// The retry time of a refusal is exact: it says what is there, and nothing
	// but the passing of time can be foretold. One that waits may be capped by
	// its expiry.
	if at := r.Event.RetryAt; d.Verdict == schemas.VerdictRefuse && at != 0 && (at <= d.T || full(at) || !full(at-1)) {
		o.fault(FaultRetryAt, r, "refused at %s until %s", d.T, at)
	}
}

// full reports whether a window of l has no room for a place at t.
func (o *Oracle) full(p *logged, r Record, l *schemas.Limit, c schemas.Charge, t schemas.Millis) bool {
	key := shelf(l, r.Event)
	if isWide(l) {
		key = wideShelf(c)
	}
	for _, w := range windowsFor(l, r.Event.To) {
		if w.Kind == schemas.WindowBucket && !isWide(l) && o.back(r) {
			continue // it has drawn
		}
		if o.in(p, r, l, w, key, t)+c.Cost > w.N {
			return true
		}
	}
	return false
}

// counted returns what the window with this name counts for a message.
func (o *Oracle) counted(p *logged, r Record, l *schemas.Limit, c schemas.Charge, window string) (int64, schemas.Window, bool) {
	key := shelf(l, r.Event)
	if isWide(l) {
		key = wideShelf(c)
	}
	for _, w := range windowsFor(l, r.Event.To) {
		if w.String() == window {
			return o.in(p, r, l, w, key, r.Event.Decision.T), w, true
		}
	}
	return 0, schemas.Window{}, false
}

// in returns what a window counts at t without the message: one that comes back
// is judged without its old place.
func (o *Oracle) in(p *logged, r Record, l *schemas.Limit, w schemas.Window, key string, t schemas.Millis) int64 {
	if w.Kind == schemas.WindowBucket {
		return w.N - p.drawn[key].level(w, p.since[l.Name], t)/w.RefillEvery
	}
	without := r.Event.MessageID
	if l.Count == schemas.CountAttempt {
		without = ""
	}
	n := count(w, l, p.since, p.places[key], t, without)
	if without == "" && !isWide(l) && o.back(r) { // it has made no attempt on this way
		for _, c := range o.story(r).own {
			if c.Limit == l.Name {
				n -= c.Cost * count(w, l, p.since, one(c.T), t, "")
			}
		}
	}
	return n
}
