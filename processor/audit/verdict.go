package audit

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
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
func (p *partition) recount(l *limit, s *subject, t schemas.Millis, without []schemas.Charge) []room {
	scope := l.scope(s)
	key := sumOf(l.Name, scope)
	if l.attempts {
		without = nil
	}
	windows := l.windows(s.to)
	rooms := make([]room, 0, len(windows))
	for i := range windows {
		w := &windows[i]
		r := room{l: l, w: w, scope: scope, cost: l.cost(s), since: l.since[w.UnitKey()]}
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

// matching returns the limits in force that apply; false when that cannot be
// known.
func (p *partition) matching(s *subject) []*limit {
	var out []*limit
	for i := range p.rules.limits {
		l := &p.rules.limits[i]
		if l.opaque != "" {
			p.cannotTell("decisions under a limit that is not judged: " + l.opaque)
			continue
		}
		if l.matches(s) {
			out = append(out, l)
		}
	}
	return out
}

// admit judges that places were taken: in each matching limit one, and every
// window had room for it.
func (p *partition) admit(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	if d.Verdict == schemas.VerdictMove {
		p.counts.Moved += p.one()
		p.takeBack(in, env)
	} else {
		p.counts.Admitted += p.one()
		p.nothingReturned()
	}
	p.learn(in, env)
	if dispatched := p.handedOver(); dispatched && p.gone[e.Provider] {
		p.cannotTell("admissions for providers whose dispatch topics are gone")
	} else if dispatched && p.judged {
		p.dispatched.put(dispatchItem(e.MessageID, e.Provider, d.T, d.Charges), 1, d.T)
	}
	if e.To != "" && schemas.PartitionOf(e.To, p.partitions) != p.num {
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
	charges := slices.Clone(d.Charges)
	var passed []room // full windows of limits that only observe
	whole := true
	for _, l := range p.matching(s) {
		rooms := p.recount(l, s, d.T, nil)
		if l.observe {
			for _, r := range rooms {
				if whole = whole && r.whole; r.full() {
					passed = append(passed, r)
				}
			}
		}
		i := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == l.Name })
		if i < 0 {
			if l.observe && e.Observed && slices.ContainsFunc(rooms, func(r room) bool { return r.full() || !r.whole }) {
				continue
			}
			p.fault(KindCharges, "no place in %s, which matches", l.Name)
			continue
		}
		c := charges[i]
		charges = slices.Delete(charges, i, i+1)
		scope := l.scope(s)
		if c.Scope != scope || c.T != d.T || c.Cost != l.cost(s) {
			p.fault(KindCharges, "the place in %s stands at %s and costs %d; it should stand at %s and cost %d, in the scope of this message", l.Name, c.T, c.Cost, d.T, l.cost(s))
		}
		for i := range rooms {
			r := &rooms[i]
			switch {
			case r.full():
				p.fault(KindOver, "%d of %s were taken in %s, from %s on; this one costs %d", r.count, r.w, l.Name, r.from, r.cost)
			case !r.whole:
				p.cannotTell("windows of admitted messages that reach back before the log")
			}
		}
		p.counts.Places += p.one()
		key := sumOf(l.Name, scope)
		p.stand(l, s, key, d.T, d.T)
		p.charged = p.calls.hold(p.charged, l, key, l.cost(s))
	}
	switch {
	case e.Observed != (len(passed) > 0) && whole:
		p.fault(KindEvidence, "observed %v, and %d windows of limits that only observe are full", e.Observed, len(passed))
	case whole && (len(passed) > 0 || len(d.Evidence) > 0):
		p.evidence(passed)
	case len(d.Evidence) > 0:
		p.cannotTell("evidence of refusals whose windows reach back before the log")
	}
	for _, c := range charges {
		if l := p.rules.byName[c.Limit]; l != nil && l.opaque != "" {
			continue
		}
		p.fault(KindCharges, "a place in %s, which does not match", c.Limit)
	}
}

// stand takes a place as of a moment, at t.
func (p *partition) stand(l *limit, s *subject, key sum, at, t schemas.Millis) {
	cost := l.cost(s)
	p.tanks.draw(key, l, l.windows(s.to), at, cost)
	if seen := t - l.reach; l.reach > 0 && at >= seen {
		p.places.add(key, at, cost, p.key[0], seen)
	}
}

// believe stands up the places that a decision says it took, where they cannot
// be judged: what comes after counts them.
func (p *partition) believe() {
	d := p.e.Decision
	for i := range d.Charges {
		c := &d.Charges[i]
		l := p.rules.byName[c.Limit]
		if l == nil || l.opaque != "" {
			continue
		}
		key := sumOf(c.Limit, c.Scope)
		p.tanks.draw(key, l, l.windows(p.e.To), c.T, c.Cost)
		if seen := d.T - l.reach; l.reach > 0 && c.T >= seen {
			p.places.add(key, c.T, c.Cost, p.key[0], seen)
		}
		if d.Verdict != schemas.VerdictRecord {
			p.charged = p.calls.hold(p.charged, l, key, c.Cost)
		}
	}
}

// refused judges that a window was full, and what the refusal says of it.
func (p *partition) refused(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	p.nothingReturned()
	p.learn(in, env)
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	s, sure := p.subject(in)
	if !sure {
		p.cannotTell("decisions by metadata, content or parts whose request is gone")
		return
	}
	var held []schemas.Charge // by the message itself: it is judged without them
	if env != nil {
		held = env.Place
	}
	var full []room
	whole, opaque := true, false
	for _, l := range p.matching(s) {
		if l.observe {
			continue
		}
		for _, r := range p.recount(l, s, d.T, held) {
			whole = whole && r.whole
			if r.full() {
				full = append(full, r)
			}
		}
	}
	for i := range p.rules.limits {
		opaque = opaque || p.rules.limits[i].opaque != ""
	}
	switch {
	case len(full) == 0 && opaque:
		return // said by matching
	case len(full) == 0 && !whole:
		p.cannotTell("refusals whose windows reach back before the log")
		return
	case len(full) == 0:
		p.fault(KindRefused, "by %s %s, but no window is full", e.Limit, e.Window)
		return
	}
	if whole && !opaque {
		p.evidence(full)
		p.retryAt(full, held)
	} else {
		p.cannotTell("evidence of refusals whose windows reach back before the log")
	}
}

// recorded judges the places of a message that was sent elsewhere: one in each
// matching limit, at its own time, whether or not there was room.
func (p *partition) recorded(in *kgo.Record) {
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
	if e.To != "" && schemas.PartitionOf(e.To, p.partitions) != p.num {
		p.fault(KindCharges, "places taken by a partition that does not own the recipient")
	}
	at := max(min(req.At, d.T), 1)
	charges := slices.Clone(d.Charges)
	for _, l := range p.matching(s) {
		i := slices.IndexFunc(charges, func(c schemas.Charge) bool { return c.Limit == l.Name })
		if i < 0 {
			p.fault(KindCharges, "no place in %s, which matches", l.Name)
			continue
		}
		c := charges[i]
		charges = slices.Delete(charges, i, i+1)
		scope := l.scope(s)
		if c.Scope != scope || c.T != at || c.Cost != l.cost(s) {
			p.fault(KindCharges, "the place in %s stands at %s and costs %d; it should stand at %s and cost %d, in the scope of this message", l.Name, c.T, c.Cost, at, l.cost(s))
		}
		p.counts.Places += p.one()
		p.stand(l, s, sumOf(l.Name, scope), at, d.T)
	}
	for _, c := range charges {
		if l := p.rules.byName[c.Limit]; l != nil && l.opaque != "" {
			continue
		}
		p.fault(KindCharges, "a place in %s, which does not match", c.Limit)
	}
}

// evidence holds what a refusal says to the recount: every full window, and
// nothing else, with its count, its oldest place, its start and its since.
func (p *partition) evidence(full []room) {
	said := p.e.Decision.Evidence
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
		if v.N != r.w.N || v.Count != r.count || v.Cost != r.cost || v.Scope != r.scope || v.Oldest != oldest || v.Start != r.start || v.Since != r.since {
			p.fault(KindEvidence, "%s of %s: it says %d of %d, oldest %s, start %s, since %s; recounted %d of %d, oldest %s, start %s, since %s",
				v.Window, v.Limit, v.Count, v.N, v.Oldest, v.Start, v.Since, r.count, r.w.N, oldest, r.start, r.since)
		}
	}
	if len(said) > 0 && (p.e.Limit != said[0].Limit || p.e.Window != said[0].Window) {
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
	at = max(at, 0)
	got := p.e.RetryAt
	if p.e.Decision.Verdict == schemas.VerdictRefuse {
		if got != at {
			p.fault(KindRetryAt, "it says %s, and the windows open at %s", or(got, "never"), or(at, "never"))
		}
		if at != 0 && !slices.ContainsFunc(full, func(r room) bool { return r.l.OnRefusal != schemas.RefusalDefer }) {
			p.fault(KindRefused, "ended, though every limit that refuses it defers")
		}
		return
	}
	// One that waits comes back in its turn, not before the windows open; or it
	// ends at its expiry.
	if expires := max(p.messages[p.key].expires, p.expires); got < at && got != expires {
		p.fault(KindRetryAt, "it comes back at %s, and the windows open at %s", or(got, "never"), or(at, "never"))
	}
	if p.e.Attempt == 0 && (at == 0 || slices.ContainsFunc(full, func(r room) bool { return r.l.OnRefusal != schemas.RefusalDefer })) && len(held) == 0 {
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
	p.takeBack(in, env)
}

// ownReturns judges an end by admission, which returns in the same step what
// the message holds.
func (p *partition) ownReturns(in *kgo.Record, env *schemas.Envelope) {
	d := p.e.Decision
	if env != nil && env.ID != p.e.MessageID {
		env = nil // a cancel ends a message that is somewhere else
	}
	p.learn(in, env)
	m := p.messages[p.key]
	if len(d.Returned) == 0 && len(d.Missing) == 0 && (env == nil || len(env.Place) == 0) {
		return
	}
	kept := p.e.Status == schemas.StatusUnknown || m.flags&flagUnknown != 0 || env != nil && env.Taint != schemas.TaintNone
	if kept {
		if len(d.Returned)+len(d.Missing) > 0 {
			p.fault(KindCause, "an attempt may have been received: its place stands")
			p.takeBack(nil, nil)
		}
		return
	}
	p.takeBack(in, env)
}

func (p *partition) nothingReturned() {
	if d := p.e.Decision; len(d.Returned)+len(d.Missing) > 0 {
		p.fault(KindReturned, "%s returned %d places", d.Verdict, len(d.Returned))
		p.takeBack(nil, nil)
	}
}

// takeBack takes down what a decision returned: each place stood for this
// message, what is missing did not, and together they are all that the message
// held by its envelope.
func (p *partition) takeBack(in *kgo.Record, env *schemas.Envelope) {
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
	if in == nil || env == nil {
		return
	}
	var want, got []string
	for i := range env.Place {
		if l := p.rules.byName[env.Place[i].Limit]; l == nil || !l.keeps {
			want = append(want, chargeText(&env.Place[i]))
		}
	}
	for _, cs := range [][]schemas.Charge{d.Returned, d.Missing} {
		for i := range cs {
			got = append(got, chargeText(&cs[i]))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		p.fault(KindReturned, "the message held %d places by its envelope, and the decision names %d, or others", len(want), len(got))
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

func chargeText(c *schemas.Charge) string {
	return fmt.Sprintf("%s\x00%s\x00%d\x00%d", c.Limit, c.Scope, c.T, c.Cost)
}

// dispatchItem is an admission as it stands in weir.status and on a dispatch
// topic.
func dispatchItem(id, provider string, t schemas.Millis, charges []schemas.Charge) item {
	var room [512]byte
	b := append(room[:0], provider...)
	for i := range charges {
		c := &charges[i]
		b = append(append(append(append(b, 0), c.Limit...), 0), c.Scope...)
		b = binary.LittleEndian.AppendUint64(b, uint64(c.T))
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Cost))
	}
	return item{id: idOf(id), t: t, rest: maphash.Bytes(seeds[0], b)}
}

// permitItem is an attempt as it stands in weir.status and in a journal.
func permitItem(id, provider string, attempt int, t schemas.Millis) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[0] + uint64(attempt)}
}
