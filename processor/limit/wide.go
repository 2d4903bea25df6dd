package limit

import (
	"runtime"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// A wide limit counts without a recipient. Each of its scopes has one owner
// among the partitions, in whose table its places stand; a message is planned by
// the partition of its recipient, its home, and asks owner after owner.

// Wide reports whether a scope's text is that of a wide limit: it has no
// recipient.
func Wide(scope string) bool {
	return scope == "" || strings.Contains(scope, "=") && !strings.HasPrefix(scope, "recipient=")
}

// Owner returns the partition of n that owns a wide scope. The limit's name is
// not in it: limits that count by the same cost a message one hop.
func Owner(scope string, n int32) int32 { return schemas.PartitionOf(scope, n) }

// Stop is one step of a message's round: a wide limit to ask its owner, or all
// limits of its recipient together.
type Stop struct {
	Own bool
	Ask schemas.Ask // of a wide limit
}

// Wide reports whether any limit is wide.
func (r *Rules) Wide() bool { return r.wide }

// Plan appends to dst what the limits that apply to s ask, in the policy's order.
// Those of the recipient are one stop, where the first of them stands. A message
// that lacks what a wide limit counts by, such as a mail address a country, is
// not counted by it: all that lack it have nothing in common.
func (r *Rules) Plan(dst []Stop, s *Subject) []Stop {
	own := false
	for i := range r.limits {
		l := &r.limits[i]
		switch {
		case !l.wide && own || !l.applies(s):
		case !l.wide:
			own = true
			dst = append(dst, Stop{Own: true})
		case !l.lacks(s):
			scope := appendScope(nil, l.dims, s)
			dst = append(dst, Stop{Ask: schemas.Ask{Limit: l.name, Scope: string(scope), Cost: l.cost(s)}})
		}
	}
	return dst
}

// DecideStep answers some of a round's stops at once, all or nothing: the limits
// of s's recipient, unless s is nil, and these wide ones, whose scopes the
// table's partition owns. taken are places of this very attempt, which was asked for
// otherwise before: they are removed as old ones are, and in limits that count
// attempts too, since there was none. The rest is as in DecideInto.
func (t *Table) DecideStep(res *Result, r *Rules, s *Subject, asks []schemas.Ask, old, taken []schemas.Charge, now schemas.Millis) {
	res.reset()
	now = t.advance(now)
	t.use(r)
	t.plans = t.plans[:0]
	if s != nil {
		t.planFor(r, s)
	}
	for i := range asks {
		if !t.planAsk(r, &asks[i]) {
			res.Passed = append(res.Passed, asks[i])
		}
	}
	t.answer(res, r, old, taken, now, false)
	runtime.KeepAlive(t)
}

// DecideReturn is DecideStep for a message that is back from its round: taken are
// places of this very attempt, and those of the limits of recipient to are taken again,
// now. Its scopes and costs stay as they are. Buckets are not asked: of one it has drawn
// already, and a place that stands in a bucket alone there is not.
func (t *Table) DecideReturn(res *Result, r *Rules, to string, asks []schemas.Ask, old, taken []schemas.Charge, now schemas.Millis) {
	res.reset()
	now = t.advance(now)
	t.use(r)
	t.plans = t.plans[:0]
	for i := range taken {
		c := &taken[i]
		l := r.byName[c.Limit]
		if l == nil || l.wide || !r.kept(*c) || c.Cost < 1 || c.Cost > maxCount {
			continue
		}
		var p *plan
		t.plans, p = extend(t.plans)
		p.l, p.windows, p.cost, p.scope, p.found, p.skip, p.again = l, l.windowsFor(to), c.Cost, c.Scope, 0, false, true
		p.key, p.at = t.keyOf(c.Limit, c.Scope), nowhere
	}
	for i := range asks {
		if !t.planAsk(r, &asks[i]) {
			res.Passed = append(res.Passed, asks[i])
		}
	}
	t.answer(res, r, old, taken, now, false)
	runtime.KeepAlive(t)
}

// RecordStep is Record for one wide limit: the place of a message that was sent
// elsewhere, at the ask's time. It is false where the rules have no such limit.
func (t *Table) RecordStep(r *Rules, a *schemas.Ask, now schemas.Millis) (schemas.Charge, bool) {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	t.use(r)
	t.plans = t.plans[:0]
	if !t.planAsk(r, a) {
		return schemas.Charge{}, false
	}
	return t.record(max(min(a.T, now), 1), now)[0], true
}

// Unwind removes places that a round took for a message that does not go on. It
// is GiveBack, and limits that count attempts give back too: there was no
// attempt. A bucket gives back nothing.
func (t *Table) Unwind(r *Rules, charges []schemas.Charge, now schemas.Millis) (returned, missing []schemas.Charge) {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	t.use(r)
	for i := range charges {
		switch {
		case !r.kept(charges[i]):
		case t.takeOut(r, &charges[i], now):
			returned = append(returned, charges[i])
		default:
			missing = append(missing, charges[i])
		}
	}
	return returned, missing
}

// Restore puts old places back, which a round had moved to a later time, and says
// which. It asks for no room: until now a place stood there that every window
// which sees the old one saw too. Draws no bucket.
func (t *Table) Restore(r *Rules, charges []schemas.Charge, now schemas.Millis) (restored []schemas.Charge) {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	t.use(r)
	for _, c := range charges {
		l := r.byName[c.Limit]
		if l == nil || c.Cost < 1 || c.Cost > maxCount || c.T < 1 || c.T > now {
			continue
		}
		p := plan{l: l, windows: l.windows, cost: c.Cost, key: t.keyOf(c.Limit, c.Scope), at: nowhere, scope: c.Scope, again: true}
		t.place(&p, c.T, now)
		restored = append(restored, c)
	}
	return restored
}

// planAsk adds a wide limit to Table.plans; false if the rules have none that
// counts in this scope.
func (t *Table) planAsk(r *Rules, a *schemas.Ask) bool {
	l := r.byName[a.Limit]
	if l == nil || !l.wide || a.Cost < 1 || a.Cost > maxCount || !l.counts(a.Scope) {
		return false
	}
	var p *plan
	t.plans, p = extend(t.plans)
	p.l, p.windows, p.cost, p.scope, p.found, p.skip, p.again = l, l.windows, a.Cost, a.Scope, 0, false, false
	p.key, p.at = t.keyOf(a.Limit, a.Scope), nowhere
	return true
}

// lacks reports whether s has no value for something that the limit counts by.
func (c *rule) lacks(s *Subject) bool {
	return slices.ContainsFunc(c.dims, func(d dimension) bool { return d.value(s) == "" })
}

// counts reports whether a scope's text is one of the limit's: its dimensions, in
// their order. Another revision's may be another.
func (c *rule) counts(scope string) bool {
	for i := range c.dims {
		var ok bool
		if i > 0 {
			if scope, ok = strings.CutPrefix(scope, ","); !ok {
				return false
			}
		}
		if scope, ok = strings.CutPrefix(scope, c.dims[i].label); !ok {
			return false
		}
		if j := strings.IndexByte(scope, ','); j >= 0 {
			scope = scope[j:]
		} else {
			scope = ""
		}
	}
	return scope == ""
}

// kept reports whether a place of the limit can be taken out at all: a bucket
// alone keeps none.
func (r *Rules) kept(c schemas.Charge) bool {
	l := r.byName[c.Limit]
	return l == nil || len(l.buckets) == 0 || len(l.rolling) > 0 || l.units != 0
}
