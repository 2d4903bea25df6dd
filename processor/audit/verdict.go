package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// room is one window of a limit, recounted.
type room struct {
	l      *limit
	w      *schemas.Window
	scope  string
	cost   int64
	count  int64
	from   schemas.Millis // places count from here
	oldest schemas.Millis
	end    schemas.Millis // of a calendar period
	start  schemas.Millis
	since  schemas.Millis
	short  int64 // of a bucket: the parts that are missing
	whole  bool  // nothing that it counts lies before the log that was read
}

func (r *room) full() bool { return r.count+r.cost > r.w.N }

// recount counts every window of a limit at t, without some of a message's
// places.
func (p *partition) recount(l *limit, scope string, cost int64, t schemas.Millis, without []schemas.Charge) []room {
	key := sumOf(l.Name, scope)
	if l.attempts {
		without = nil
	}
	windows := l.windows(p.to)
	rooms := make([]room, 0, len(windows))
	for i := range windows {
		w := &windows[i]
		r := room{l: l, w: w, scope: scope, cost: cost, since: l.since[w.UnitKey()]}
		if w.Kind == schemas.WindowBucket {
			level, known := p.tanks.level(key, l, w, t)
			r.count, r.short, r.whole = w.N-level/w.RefillEvery, r.cost*w.RefillEvery-level, known
			rooms = append(rooms, r)
			continue
		}
		r.start, r.end = l.from(w, t)
		r.from = max(r.start, r.since+1)
		if w.Kind == schemas.WindowRolling {
			r.start = 0
		}
		r.count, r.oldest = p.places.count(key, r.from, t, without, p.key[0])
		// A place may have been taken before the first decision that was read,
		// in its millisecond too.
		r.whole = !p.cut || r.from > p.begin
		rooms = append(rooms, r)
	}
	p.counts.Windows += int64(len(rooms)) * p.one()
	return rooms
}

// admit judges that places were taken: in each limit that applies one, here and
// now with room in every window, or carried from the round that the message made.
func (p *partition) admit(in *kgo.Record, env *schemas.Envelope) {
	e, d, r := p.e, p.e.Decision, &p.trip.round
	gone, _ := minus(r.Taken, d.Carried)
	switch {
	case d.Verdict == schemas.VerdictMove:
		p.counts.Moved += p.one()
		p.settle(gone, p.trip.old, nil)
	case p.trip.on:
		p.counts.Admitted += p.one()
		p.settle(gone, p.trip.old, nil)
	default:
		p.counts.Admitted += p.one()
		p.nothingReturned()
	}
	p.learn(in, env)
	if dispatched := p.handedOver(); dispatched && p.gone[e.Provider] {
		p.cannotTell("admissions for providers whose dispatch topics are gone")
	} else if dispatched && p.judged {
		p.dispatched.put(dispatchItem(e.MessageID, e.Provider, d.T, d.Charges, d.Carried), 1, d.T)
	}
	if e.To != "" && p.home() != p.num {
		p.fault(KindCharges, "places taken by a partition that does not own the recipient")
	}
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	s, sure := p.subject(in)
	if !sure {
		p.cannotTell("decisions by metadata, content or parts whose request is gone")
		p.believe()
		return
	}
	plan := p.plan(s)
	own, _ := p.step(plan)
	if p.blind { // what its round took is not known, but what it says of it
		for i := range plan {
			own[i] = !slices.ContainsFunc(d.Carried, func(c schemas.Charge) bool { return c.Limit == plan[i].l.Name }) && told(d.Passed, &schemas.Ask{Limit: plan[i].l.Name, Scope: plan[i].scope}) < 0
		}
	}
	if r.Refused {
		p.fault(KindCarried, "it goes on, though an owner refused it")
	}
	passed, whole := p.takes(plan, own) // full windows of limits that only observe
	if len(d.Carried)+len(d.Passed) > 0 || slices.Contains(own, false) {
		for _, st := range p.carries(plan, own, d.Carried) {
			if st.l.observe && slices.ContainsFunc(r.Evidence, func(v schemas.Evidence) bool { return v.Limit == st.l.Name && v.Scope == st.scope }) {
				continue // it was full, in an earlier step
			}
			p.fault(KindCharges, "no place in %s, which matches", st.l.Name)
		}
	}
	before := p.foundBefore(plan, own)
	switch {
	case e.Observed != (len(passed)+len(before) > 0) && whole:
		p.fault(KindEvidence, "observed %v, and %d windows of limits that only observe are full", e.Observed, len(passed)+len(before))
	case whole && (len(passed)+len(before) > 0 || len(d.Evidence) > 0):
		p.evidence(passed, before)
	case len(d.Evidence) > 0:
		p.cannotTell("evidence of refusals whose windows reach back before the log")
	}
}

// takes judges the places that home took in this step, in those limits of the plan
// that are its own to answer for now: one in each, at this moment, with room in
// every window. It returns the full windows of those that only observe, and
// whether all that it counted is there.
func (p *partition) takes(plan []stop, own []bool) (full []room, whole bool) {
	e, d := p.e, p.e.Decision
	charges := slices.Clone(d.Charges)
	whole = true
	for k := range plan {
		if !own[k] {
			continue
		}
		st := &plan[k]
		l := st.l
		rooms := p.recount(l, st.scope, st.cost, d.T, nil)
		if l.observe {
			for _, r := range rooms {
				if whole = whole && r.whole; r.full() {
					full = append(full, r)
				}
			}
		}
		i := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == l.Name })
		if i < 0 {
			if l.observe && (e.Observed || d.Verdict == schemas.VerdictCharge) && slices.ContainsFunc(rooms, func(r room) bool { return r.full() || !r.whole }) {
				continue
			}
			p.fault(KindCharges, "no place in %s, which matches", l.Name)
			continue
		}
		c := charges[i]
		charges = slices.Delete(charges, i, i+1)
		p.takesOne(l, st.scope, st.cost, &c, rooms)
		if d.Verdict != schemas.VerdictCharge {
			p.charged = p.calls.hold(p.charged, l, sumOf(l.Name, st.scope), st.cost)
		}
	}
	for _, c := range charges {
		p.fault(KindCharges, "a place in %s, which does not match", c.Limit)
	}
	return full, whole
}

// takesOne judges one place, at the decision's time, by the windows of its limit.
func (p *partition) takesOne(l *limit, scope string, cost int64, c *schemas.Charge, rooms []room) {
	for i := range rooms {
		r := &rooms[i]
		switch {
		case r.full():
			p.fault(KindOver, "%d of %s were taken in %s, from %s on; this one costs %d", r.count, r.w, l.Name, r.from, r.cost)
		case !r.whole:
			p.cannotTell("windows of admitted messages that reach back before the log")
		}
	}
	p.takesAt(l, scope, cost, c, p.e.Decision.T)
}

// takesAt judges that one place stands where and when it should, and stands it up.
func (p *partition) takesAt(l *limit, scope string, cost int64, c *schemas.Charge, at schemas.Millis) {
	if c.Scope != scope || c.T != at || c.Cost != cost {
		p.fault(KindCharges, "the place in %s stands at %s and costs %d; it should stand at %s and cost %d, in the scope of this message", l.Name, c.T, c.Cost, at, cost)
	}
	p.counts.Places += p.one()
	if l.wide {
		p.owns = true
		p.counts.OwnersPlaces += p.one()
	}
	p.stand(l, scope, at, cost)
}

// stand takes a place as of a moment.
func (p *partition) stand(l *limit, scope string, at schemas.Millis, cost int64) {
	key := sumOf(l.Name, scope)
	p.tanks.draw(key, l, l.windows(p.to), at, p.e.Decision.T, cost)
	if seen := p.e.Decision.T - l.reach; l.reach > 0 && at >= seen {
		p.places.add(key, at, cost, p.key[0], seen)
	}
}

// believe stands up the places that a decision says it took, where they cannot
// be judged: what comes after counts them.
func (p *partition) believe() {
	d := p.e.Decision
	holds := d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictMove
	for i := range d.Charges {
		c := &d.Charges[i]
		l := p.rules.byName[c.Limit]
		if l == nil {
			continue
		}
		p.stand(l, c.Scope, c.T, c.Cost)
		if holds {
			p.charged = p.calls.hold(p.charged, l, sumOf(c.Limit, c.Scope), c.Cost)
		}
	}
}

// refused judges that a window was full, and what the refusal says of it: one of
// home's own, in this step, or of an owner, who said so before.
func (p *partition) refused(in *kgo.Record, env *schemas.Envelope) {
	d, r := p.e.Decision, &p.trip.round
	p.nothingReturned()
	p.learn(in, env)
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	if r.Refused {
		p.relayed()
		return
	}
	s, sure := p.subject(in)
	if !sure || p.blind && p.trip.on {
		p.cannotTell("decisions by metadata, content or parts whose request is gone")
		return
	}
	held := joinCharges(p.trip.old, r.Taken) // by the message itself: it is judged without them
	var full []room
	whole := true
	plan := p.plan(s)
	own, _ := p.step(plan)
	for i := range plan {
		st := &plan[i]
		if !own[i] || st.l.observe {
			continue
		}
		for _, r := range p.recount(st.l, st.scope, st.cost, d.T, held) {
			whole = whole && r.whole
			if r.full() {
				full = append(full, r)
			}
		}
	}
	p.refusal(full, whole, held)
}

// refusal judges what a refusal says by the windows that are full.
func (p *partition) refusal(full []room, whole bool, held []schemas.Charge) {
	switch {
	case len(full) == 0 && !whole:
		p.cannotTell("refusals whose windows reach back before the log")
	case len(full) == 0:
		p.fault(KindRefused, "by %s %s, but no window is full", p.e.Limit, p.e.Window)
	case !whole:
		p.cannotTell("evidence of refusals whose windows reach back before the log")
	default:
		p.evidence(full, nil)
		p.retryAt(full, held)
	}
}

// forRecord is what the round of a message sent elsewhere is for.
const forRecord = "record"

// recorded judges the places of a message that was sent elsewhere: one in each
// matching limit, at its own time, whether or not there was room. Owners of wide
// ones are asked to record theirs.
func (p *partition) recorded(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	p.nothingReturned()
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	s, sure := p.subject(in)
	req := p.request(in)
	if !sure || req == nil {
		p.cannotTell("messages sent elsewhere whose request is gone")
		p.believe()
		return
	}
	if e.To != "" && p.home() != p.num {
		p.fault(KindCharges, "places taken by a partition that does not own the recipient")
	}
	at := max(min(req.At, d.T), 1)
	charges := slices.Clone(d.Charges)
	var asks []schemas.Ask
	for _, st := range p.plan(s) {
		if !st.here {
			asks = append(asks, schemas.Ask{Limit: st.l.Name, Scope: st.scope, Cost: st.cost, T: req.At})
			continue
		}
		i := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == st.l.Name })
		if i < 0 {
			p.fault(KindCharges, "no place in %s, which matches", st.l.Name)
			continue
		}
		c := charges[i]
		charges = slices.Delete(charges, i, i+1)
		p.takesAt(st.l, st.scope, st.cost, &c, at)
	}
	for _, c := range charges {
		p.fault(KindCharges, "a place in %s, which does not match", c.Limit)
	}
	switch {
	case len(asks) > 0:
		p.goesTo(p.standsAt(asks[0].Scope, ""))
		p.sends(env, p.standsAt(asks[0].Scope, ""), &schemas.Round{For: forRecord, Revision: d.Revision, Ask: asks})
	case d.Onward != nil:
		p.fault(KindOwner, "sent on to partition %d, and nobody is left to be asked", *d.Onward)
	}
}

// evidence holds what a refusal says to the recount: every full window, and
// nothing else, with its count, its oldest place, its start and its since. before
// is what earlier steps of the message's round found, word for word.
func (p *partition) evidence(full []room, before []schemas.Evidence) {
	all := p.e.Decision.Evidence
	said := all
	if len(before) > 0 {
		said = slices.Clone(all)
		for i := range before {
			if k := slices.Index(said, before[i]); k >= 0 {
				said = slices.Delete(said, k, k+1)
			} else {
				p.fault(KindEvidence, "on its round %s of %s was full, and it does not say so, or not as it was", before[i].Window, before[i].Limit)
			}
		}
	}
	if len(said) != len(full) {
		p.fault(KindEvidence, "it names %d full windows, and %d are", len(said), len(full))
	}
	for i := range said {
		v := &said[i]
		k := slices.IndexFunc(full, func(r room) bool { return r.l.Name == v.Limit && r.w.String() == v.Window })
		if k < 0 {
			p.fault(KindEvidence, "window %s of %s is not full", v.Window, v.Limit)
			continue
		}
		r := &full[k]
		oldest := r.oldest
		if r.w.Kind != schemas.WindowRolling {
			oldest = 0
		}
		if v.N != r.w.N || v.Count != r.count || v.Cost != r.cost || v.Scope != r.scope || v.Oldest != oldest || v.Start != r.start || p.known && v.Since != r.since {
			p.fault(KindEvidence, "%s of %s: it says %d of %d, oldest %s, start %s, since %s; recounted %d of %d, oldest %s, start %s, since %s",
				v.Window, v.Limit, v.Count, v.N, v.Oldest, v.Start, v.Since, r.count, r.w.N, oldest, r.start, r.since)
		}
	}
	if len(all) > 0 && !p.away && p.e.Decision.Verdict != schemas.VerdictCharge && (p.e.Limit != all[0].Limit || p.e.Window != all[0].Window) {
		p.fault(KindEvidence, "refused by %s %s, which is not its first evidence", p.e.Limit, p.e.Window)
	}
}

// retryAt holds the retry time to the first moment at which every window that
// is full has room again; none when one never will.
func (p *partition) retryAt(full []room, held []schemas.Charge) {
	var at schemas.Millis
	for i := range full {
		r := &full[i]
		var opens schemas.Millis
		switch {
		case r.cost > r.w.N:
			at = -1
		case r.w.Kind == schemas.WindowCalendar:
			opens = r.end
		case r.w.Kind == schemas.WindowBucket:
			opens = p.e.Decision.T + schemas.Millis(refilling(r.w, r.short))
		default:
			without := held
			if r.l.attempts {
				without = nil
			}
			leaves := p.places.leaving(sumOf(r.l.Name, r.scope), r.from, p.e.Decision.T, without, p.key[0], r.count, r.count+r.cost-r.w.N)
			opens = leaves + schemas.Millis(r.w.Length.Milliseconds())
		}
		if at >= 0 {
			at = max(at, opens)
		}
	}
	defers := !slices.ContainsFunc(full, func(r room) bool { return r.l.OnRefusal != schemas.RefusalDefer })
	p.endsOrWaits(defers, max(at, 0), p.repeated())
}

// endsOrWaits holds what becomes of a refused message to what the limits that
// refused it say, and its retry time to the moment at which their windows open; 0
// is never. An owner says that moment, and leaves the rest to home.
func (p *partition) endsOrWaits(defers bool, at schemas.Millis, again bool) {
	got := p.e.RetryAt
	if p.e.Decision.Verdict == schemas.VerdictRefuse {
		if got != at {
			p.fault(KindRetryAt, "it says %s, and the windows open at %s", or(got, "never"), or(at, "never"))
		}
		if at != 0 && defers && !p.away {
			p.fault(KindRefused, "ended, though every limit that refuses it defers")
		}
		return
	}
	// One that waits comes back in its turn, not before the windows open; or it
	// ends at its expiry.
	if expires := max(p.messages[p.key].expires, p.expires); got < at && got != expires {
		p.fault(KindRetryAt, "it comes back at %s, and the windows open at %s", or(got, "never"), or(at, "never"))
	}
	if (at == 0 || !defers) && !again {
		p.fault(KindRefused, "waits, though a limit that refuses it does not defer")
	}
}

func or(t schemas.Millis, none string) string {
	if t == 0 {
		return none
	}
	return t.String()
}

// giveBack judges places returned because their message ended elsewhere.
func (p *partition) giveBack(in *kgo.Record, env *schemas.Envelope) {
	p.counts.GivenBack += p.one()
	m, there := p.messages[p.key]
	if !there { // a give-back names no recipient of its own in some logs
		if env != nil {
			p.key = messageKey(p.e.Tenant, env.Key, p.e.MessageID)
			m, there = p.messages[p.key]
		}
	}
	switch {
	case in == nil:
		// input has said so
	case env == nil || env.Reason != schemas.ReadmitGiveBack || env.ID != p.e.MessageID:
		p.fault(KindCause, "the record that it answers asks for no give-back of this message")
	case env.Taint != schemas.TaintNone:
		p.fault(KindCause, "an attempt is %s: its place stands", env.Taint)
	}
	switch {
	case !there && p.cut:
		p.cannotTell("give-backs of messages that began before the log")
	case !there:
		p.fault(KindCause, "no end of this message stands before it")
	case m.flags&flagUnknown != 0:
		p.fault(KindCause, "the outcome of an attempt is unknown: its place stands")
	case m.state() == schemas.StatusSent || m.state() == schemas.StatusUnknown:
		p.fault(KindCause, "the message ended as %s: its place stands", m.state())
	case !m.state().End():
		p.fault(KindCause, "the message is %s, not ended", m.state())
	}
	p.settle(nil, p.trip.old, nil)
}

// ownReturns judges an end by admission, which returns in the same step what
// the message holds.
func (p *partition) ownReturns(in *kgo.Record, env *schemas.Envelope) {
	d, r := p.e.Decision, &p.trip.round
	foreign := env != nil && env.ID != p.e.MessageID
	if foreign {
		env = nil // a cancel ends a message that is somewhere else
	}
	p.learn(in, env)
	m := p.messages[p.key]
	kept := p.e.Status == schemas.StatusUnknown || m.flags&flagUnknown != 0 || env != nil && env.Taint != schemas.TaintNone
	switch {
	case env != nil && kept:
		if _, foreign := minus(r.Taken, joinCharges(d.Returned, d.Missing, d.Released)); len(foreign) > 0 {
			p.fault(KindCause, "an attempt may have been received: its place stands")
		}
		p.settle(r.Taken, nil, r.Moved)
	case env != nil:
		p.settle(r.Taken, p.trip.old, nil)
	case len(d.Returned)+len(d.Missing)+len(d.Released)+len(d.Restored)+len(d.Reinstated) == 0:
		return
	default: // it waited: what it held is in no record that was read
		if kept {
			p.fault(KindCause, "an attempt may have been received: its place stands")
		}
		p.giveUp()
		p.putBack()
	}
}

// nothingReturned judges a decision after which a message holds what it held: of
// its round it gives up all, and puts back what the round moved.
func (p *partition) nothingReturned() {
	d := p.e.Decision
	switch {
	case p.trip.on:
		p.settle(p.trip.round.Taken, nil, p.trip.round.Moved)
	case len(d.Returned)+len(d.Missing)+len(d.Released)+len(d.Restored)+len(d.Reinstated) > 0:
		if !p.blind {
			p.fault(KindReturned, "%s returned %d places", d.Verdict, len(d.Returned)+len(d.Released))
		}
		p.giveUp()
		p.putBack()
	}
}

// takeDown takes down what a decision returned: each place stood for this
// message, and what is missing did not.
func (p *partition) takeDown() {
	d := p.e.Decision
	for i := range d.Returned {
		c := &d.Returned[i]
		p.counts.Returned += p.one()
		if p.places.remove(sumOf(c.Limit, c.Scope), c.T, c.Cost, p.key[0]) {
			continue
		}
		switch {
		case !p.seen(c):
			// No window counts it any more: it was forgotten here.
		case p.cut && c.T <= p.begin:
			p.cannotTell("returned places that were taken before the log")
		default:
			p.fault(KindReturned, "no place of this message stands in %s at %s with cost %d", c.Limit, c.T, c.Cost)
		}
	}
	for i := range d.Missing {
		c := &d.Missing[i]
		p.counts.Missing += p.one()
		if p.places.remove(sumOf(c.Limit, c.Scope), c.T, c.Cost, p.key[0]) && p.seen(c) {
			p.fault(KindReturned, "the place in %s at %s stands, and was not found", c.Limit, c.T)
		}
	}
}

// seen reports whether some window of the charge's limit counts it now.
func (p *partition) seen(c *schemas.Charge) bool {
	l := p.rules.byName[c.Limit]
	if l == nil {
		return false
	}
	for _, w := range everyWindow(l.Limit) {
		if w.Kind == schemas.WindowBucket {
			continue
		}
		from, _ := l.from(&w, p.e.Decision.T)
		if c.T >= max(from, l.since[w.UnitKey()]+1) {
			return true
		}
	}
	return false
}

// dispatchItem is an admission as it stands in weir.status and on a dispatch
// topic: what it holds was taken by it, or by earlier steps.
func dispatchItem(id, provider string, t schemas.Millis, taken, carried []schemas.Charge) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[0] + chargesHash(taken) + chargesHash(carried)}
}

// permitItem is an attempt as it stands in weir.status and in a journal.
func permitItem(id, provider string, attempt int, t schemas.Millis) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[0] + uint64(attempt)}
}
