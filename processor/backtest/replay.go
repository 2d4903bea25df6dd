package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// engine is one backtest under way: the policy, and a replay for each partition.
type engine struct {
	rules  *limit.Rules
	needs  needs
	from   schemas.Millis
	until  schemas.Millis
	each   func(Answer)
	joined *requests // nil unless the policy asks for what only a request has
	wide   bool      // some limit of the policy is wide: partitions depend on each other
	known  map[string]bool
	guests *counter // wide limits that the log does not have
	parts  []*replay
	tried  *schemas.Policy
	force  *schemas.Revision
	most   int64
	kept   atomic.Int64
}

// newEngine prepares a backtest over n partitions. A wide limit is known if the
// policy in force counts the same by its name: then the log says when each of its
// owners was asked.
func newEngine(n int32, rules *limit.Rules, tried *schemas.Policy, inForce *schemas.Revision, from, until schemas.Millis, most int64) *engine {
	x := &engine{
		rules: rules, needs: needsOf(tried), from: from, until: until, wide: rules.Wide(), known: knownLimits(tried, &inForce.Policy),
		most: most, tried: tried, force: inForce,
	}
	span := max(longest(tried), 3*day) // until no window sees a place, and none waits as a rule
	for i := range n {
		x.parts = append(x.parts, &replay{num: i, x: x, counter: counter{limit.NewTable(), rules}, lives: newLives(span), tally: newTally()})
	}
	if x.wide {
		x.guests = &counter{limit.NewTable(), rules}
	}
	return x
}

func (x *engine) close() {
	for _, r := range x.parts {
		r.table.Close()
	}
	if x.guests != nil {
		x.guests.table.Close()
	}
}

// counter is a table with the rules that it is asked under.
type counter struct {
	table *limit.Table
	rules *limit.Rules
}

// replay decides one partition's steps again, in their order and at their times.
type replay struct {
	counter
	num   int32
	x     *engine
	lives lives
	tally *tally

	res      limit.Result
	stops    []limit.Stop
	asks     []schemas.Ask
	old      []schemas.Charge
	subjects []limit.Subject // of the steps that were foreseen
	steps    int
	kept     int64 // what engine.kept has of it
}

// take replays one step.
func (r *replay) take(s *step) error {
	if s.t >= r.x.until {
		return nil
	}
	r.tally.seen(s)
	switch s.kind {
	case stepAsk, stepOnward:
		r.ask(s)
	case stepOwner:
		r.owner(s)
	case stepGiveBack:
		r.giveBack(s)
	case stepOwed:
		r.owed(s)
	case stepPark:
		if l := r.lives.find(s.key); l != nil && l.path == pathSame {
			r.stopRound(l, s, true)
		}
	case stepEnd:
		r.end(s)
	case stepDone:
		if l := r.lives.find(s.key); l != nil {
			r.forget(s.key, l)
		}
	case stepRecord:
		r.record(s)
	case stepRecordOwner:
		r.recordOwner(s)
	case stepMarker:
		if err := r.marker(s); err != nil {
			return err
		}
	case stepNothing:
	}
	if r.steps++; r.steps%batch == 0 {
		return r.settleMemory(s.t)
	}
	return nil
}

// batch is after how many steps a table is tidied up and what is kept is counted.
const batch = 256

func (r *replay) settleMemory(t schemas.Millis) error {
	r.table.Sweep(r.rules, t, 64)
	r.table.Commit()
	if r.x.wide {
		r.x.guests.table.Commit()
	}
	r.lives.turn(t)
	kept := int64(r.lives.len() + r.table.Len() + r.tally.recipients())
	total := r.x.kept.Add(kept - r.kept)
	if r.kept = kept; total > r.x.most {
		return ErrTooMuch
	}
	return nil
}

// foreseen is how many steps' places are asked for at once: the memory in which
// they stand is slow, and gives many at a time.
const foreseen = 32

// foresee tells the table whom the next steps are about.
func (r *replay) foresee(steps []step) {
	r.subjects = slices.Grow(r.subjects[:0], len(steps))
	for i := range steps {
		if s := &steps[i]; s.kind == stepAsk && s.t < r.x.until {
			r.subjects = r.subjects[:len(r.subjects)+1]
			s.subject = &r.subjects[len(r.subjects)-1]
			r.describe(s.subject, s)
		}
	}
	r.table.Touch(r.rules, r.subjects)
}

// ask replays a decision of home in which limits took part.
func (r *replay) ask(s *step) {
	last := s.kind == stepAsk
	l := r.lives.find(s.key)
	first := l == nil
	if first {
		l = r.lives.take()
		l.counted = s.again
	}
	if l.path != pathSame {
		if last {
			r.answered(l, s)
			if s.end {
				r.forget(s.key, l)
			}
		}
		return
	}
	if !l.asking {
		l.begin(s.t)
	}
	if s.subject != nil {
		l.subject = *s.subject
	} else {
		r.describe(&l.subject, s)
	}
	ok := !l.saidNo
	if ok {
		ok = r.askHome(l, s, last)
	}
	if !last {
		if !ok {
			r.diverge(l, s)
		}
		if first {
			r.lives.keep(s.key, l)
		}
		return
	}
	l.now.Refused = !ok
	keep := !s.end
	switch {
	case ok:
		l.places, l.taken = l.taken, l.places[:0]
		r.letGo(l, s, l.unvisited, false)
		l.asking = false
		l.now.Places = l.places
		if s.then.Refused {
			l.path = pathSent
		} else {
			l.held = s.held
		}
	case !s.then.Refused:
		r.diverge(l, s)
	default:
		r.stopRound(l, s, true)
	}
	r.answered(l, s)
	l.ended = s.end
	switch {
	case keep || len(l.owed) > 0:
		if first {
			r.lives.keep(s.key, l)
		}
	case first:
		r.lives.release(l)
	default:
		r.lives.drop(s.key, l)
	}
}

// askHome puts a message to what home asks in this decision: its own limits and
// the wide ones that its partition owns, together; and where it is the last one
// all that was not asked yet, as the policy's order is.
func (r *replay) askHome(l *life, s *step, last bool) bool {
	x := r.x
	l.unvisited = l.unvisited[:0]
	own := !l.ownAsked && (last || s.own)
	r.asks = r.asks[:0]
	r.stops = r.stops[:0]
	if x.wide {
		r.stops = x.rules.Plan(r.stops, &l.subject)
		for i := range r.stops {
			st := &r.stops[i]
			if st.Own || l.hasVisited(st.Ask.Limit, st.Ask.Scope) || !x.known[st.Ask.Limit] {
				continue
			}
			if last && r.ownerOf(st.Ask.Scope) == r || slices.Contains(s.asked, scopeRef{st.Ask.Limit, st.Ask.Scope}) {
				r.asks = append(r.asks, st.Ask)
			}
		}
	}
	forced := s.t < x.from
	if forced && last && s.then.Refused {
		return false // what happened, happened
	}
	together := own || len(r.asks) > 0
	for i := range r.stops {
		st := &r.stops[i]
		switch {
		case st.Own && own, !st.Own && slices.Contains(r.asks, st.Ask):
			if together && !r.put(l, &r.counter, s, own, r.asks, forced) {
				return false
			}
			together = false
		case last && !st.Own && !l.hasVisited(st.Ask.Limit, st.Ask.Scope):
			if !r.put(l, r.counterOf(st.Ask.Limit, st.Ask.Scope), s, false, []schemas.Ask{st.Ask}, forced) {
				return false
			}
		}
	}
	if together && !r.put(l, &r.counter, s, own, r.asks, forced) {
		return false
	}
	if !last {
		return true
	}
	for _, c := range l.places {
		if wide := limit.Wide(c.Scope); wide && !l.hasVisited(c.Limit, c.Scope) || !wide && !l.ownAsked {
			l.unvisited = append(l.unvisited, c)
		}
	}
	return true
}

// put asks some limits at once, all or nothing, and keeps what they say. What
// happened before the policy is taken to be in force is not asked but repeated.
func (r *replay) put(l *life, at *counter, s *step, own bool, asks []schemas.Ask, forced bool) bool {
	r.old = r.old[:0]
	for _, c := range l.places {
		if wide := limit.Wide(c.Scope); !wide && own || wide && slices.ContainsFunc(asks, func(a schemas.Ask) bool { return a.Limit == c.Limit && a.Scope == c.Scope }) {
			r.old = append(r.old, c)
		}
	}
	var who *limit.Subject
	if own {
		who = &l.subject
	}
	if forced {
		moved, _ := at.table.GiveBack(at.rules, r.old, s.t)
		l.moved = append(l.moved, moved...)
		skip := func(name string) bool { return slices.Contains(s.observed, name) }
		charges, _ := at.table.Take(at.rules, who, asks, skip, s.t)
		l.taken = append(l.taken, charges...)
	} else {
		at.table.DecideStep(&r.res, at.rules, who, asks, r.old, s.t)
		if !r.res.OK {
			e := &r.res.Refused[0]
			l.now = Said{Refused: true, Limit: e.Limit, Window: e.Window}
			return false
		}
		if len(r.res.Observed) > 0 && !l.now.Observed {
			e := &r.res.Observed[0]
			l.now = Said{Observed: true, Limit: e.Limit, Window: e.Window}
		}
		l.moved = append(l.moved, r.res.Returned...)
		l.taken = append(l.taken, r.res.Charges...)
	}
	l.ownAsked = l.ownAsked || own
	for i := range asks {
		l.visited = append(l.visited, scopeRef{asks[i].Limit, asks[i].Scope})
	}
	return true
}

// owner replays an owner's answer to a message on its round.
func (r *replay) owner(s *step) {
	if !r.x.wide {
		return
	}
	l := r.x.parts[s.home].lives.find(s.key)
	if l == nil || !l.asking || l.path != pathSame || l.saidNo {
		return
	}
	r.asks = r.asks[:0]
	r.stops = r.x.rules.Plan(r.stops[:0], &l.subject)
	for i := range r.stops {
		a := &r.stops[i].Ask
		if !r.stops[i].Own && r.x.known[a.Limit] && r.ownerOf(a.Scope) == r && slices.Contains(s.asked, scopeRef{a.Limit, a.Scope}) && !l.hasVisited(a.Limit, a.Scope) {
			r.asks = append(r.asks, *a)
		}
	}
	if len(r.asks) == 0 {
		return
	}
	forced := s.t < r.x.from
	ok := !(forced && s.then.Refused) && r.put(l, &r.counter, s, false, r.asks, forced)
	switch {
	case ok:
	case s.then.Refused:
		l.saidNo = true
	default:
		r.x.parts[s.home].diverge(l, s)
	}
}

// diverge ends a message's recorded way at a refusal that was none then. What
// this round took is returned at once, and what it moved is put back: the log has
// no step for that.
func (r *replay) diverge(l *life, s *step) {
	for _, c := range l.taken {
		r.counterOf(c.Limit, c.Scope).giveUp(c, true, s.t)
	}
	for _, c := range l.moved {
		r.counterOf(c.Limit, c.Scope).putBack(c, s.t)
	}
	l.asking, l.taken, l.moved = false, l.taken[:0], l.moved[:0]
	if l.path = pathRefused; l.counted {
		l.path = pathHeld
	}
}

// stopRound returns what a round took, and puts back what it moved if the message
// goes on holding it: here at once, and at an owner when it did so then.
func (r *replay) stopRound(l *life, s *step, keeps bool) {
	if !l.asking {
		return
	}
	r.letGo(l, s, l.taken, true)
	if keeps {
		for _, c := range l.moved {
			if owner, later := r.later(c, s.reinstated); later {
				l.owed = append(l.owed, debt{charge: c, owner: owner, restore: true})
			} else {
				r.counterOf(c.Limit, c.Scope).putBack(c, s.t)
			}
		}
	}
	l.asking, l.taken = false, l.taken[:0]
}

// letGo returns places. Under unwinding they were taken for a message that did
// not go on.
func (r *replay) letGo(l *life, s *step, places []schemas.Charge, unwinding bool) {
	for _, c := range places {
		if owner, later := r.later(c, s.released); later {
			l.owed = append(l.owed, debt{charge: c, owner: owner, unwinding: unwinding})
			continue
		}
		r.counterOf(c.Limit, c.Scope).giveUp(c, unwinding, s.t)
	}
}

func (n *counter) giveUp(c schemas.Charge, unwinding bool, t schemas.Millis) {
	if unwinding {
		n.table.Unwind(n.rules, []schemas.Charge{c}, t)
	} else {
		n.table.GiveBack(n.rules, []schemas.Charge{c}, t)
	}
}

func (n *counter) putBack(c schemas.Charge, t schemas.Millis) {
	n.table.Restore(n.rules, []schemas.Charge{c}, t)
}

// later reports whether an owner's step, which is still to come, returns a place
// or puts it back.
func (r *replay) later(c schemas.Charge, recorded []scopeRef) (owner int32, later bool) {
	if !limit.Wide(c.Scope) || !r.x.known[c.Limit] || !slices.Contains(recorded, scopeRef{c.Limit, c.Scope}) {
		return 0, false
	}
	return limit.Owner(c.Scope, int32(len(r.x.parts))), true
}

// owed replays what an owner returns because home asks it to.
func (r *replay) owed(s *step) {
	if !r.x.wide {
		return
	}
	home := r.x.parts[s.home]
	l := home.lives.find(s.key)
	if l == nil {
		return
	}
	for _, restore := range [...]bool{false, true} {
		for _, d := range l.owed {
			if d.owner != r.num || d.restore != restore {
				continue
			}
			if restore {
				r.putBack(d.charge, s.t)
			} else {
				r.giveUp(d.charge, d.unwinding, s.t)
			}
		}
	}
	l.owed = slices.DeleteFunc(l.owed, func(d debt) bool { return d.owner == r.num })
	if l.ended {
		home.forget(s.key, l)
	}
}

// giveBack replays the return of what a message holds, after it ended without
// possibly having been received, or by a release.
func (r *replay) giveBack(s *step) {
	l := r.lives.find(s.key)
	if l == nil || l.path == pathSent {
		return
	}
	r.letGo(l, s, l.places, false)
	l.places, l.ended = l.places[:0], true
	r.forget(s.key, l)
}

// end replays an end that no limit caused. A message that was attempted gives
// its places back if it did so then.
func (r *replay) end(s *step) {
	l := r.lives.find(s.key)
	if l == nil {
		return
	}
	if l.path == pathSame || l.path == pathHeld {
		moved := l.asking && len(l.moved) > 0
		l.unvisited = l.unvisited[:0]
		for _, c := range l.places {
			if !l.asking || !slices.Contains(l.moved, c) {
				l.unvisited = append(l.unvisited, c)
			}
		}
		before := l.began
		if !l.asking {
			before = s.t
		}
		r.stopRound(l, s, s.kept || s.unknown)
		returned := s.returned > 0 && s.returned < before
		if !s.kept && !s.unknown && (returned || !l.held || moved) {
			r.letGo(l, s, l.unvisited, false)
		}
	}
	l.ended = true
	r.forget(s.key, l)
}

// record replays a message that was sent elsewhere: it takes its places, whether
// or not there is room.
func (r *replay) record(s *step) {
	var sub limit.Subject
	r.describe(&sub, s)
	at := s.at
	if at == 0 {
		at = s.t
		r.tally.undated++
	}
	r.table.Record(r.rules, &sub, at, s.t)
	if !r.x.wide {
		return
	}
	r.stops = r.x.rules.Plan(r.stops[:0], &sub)
	further := false
	for i := range r.stops {
		a := r.stops[i].Ask
		a.T = at
		switch {
		case r.stops[i].Own:
		case r.x.known[a.Limit] && r.ownerOf(a.Scope) != r:
			further = true // its owner's step is still to come
		default:
			n := r.counterOf(a.Limit, a.Scope)
			n.table.RecordStep(n.rules, &a, s.t)
		}
	}
	if further && r.lives.find(s.key) == nil {
		l := r.lives.take()
		l.subject, l.counted, l.began = sub, true, at
		r.lives.keep(s.key, l)
	}
}

func (r *replay) recordOwner(s *step) {
	if !r.x.wide {
		return
	}
	l := r.x.parts[s.home].lives.find(s.key)
	if l == nil {
		return
	}
	r.stops = r.x.rules.Plan(r.stops[:0], &l.subject)
	for i := range r.stops {
		a := r.stops[i].Ask
		if a.T = cmp.Or(s.at, l.began); !r.stops[i].Own && r.x.known[a.Limit] && r.ownerOf(a.Scope) == r && slices.Contains(s.asked, scopeRef{a.Limit, a.Scope}) {
			r.table.RecordStep(r.rules, &a, s.t)
		}
	}
}

// answered counts home's last word on an attempt.
func (r *replay) answered(l *life, s *step) {
	judged := s.t >= r.x.from
	switch {
	case !l.counted:
		l.counted = true
		if judged {
			r.tally.message(s, &l.now)
		}
	case judged:
		if s.then.Refused && l.passedThen && !l.heldThen {
			l.heldThen = true
			r.tally.then.Held++
		}
		if l.now.Refused && l.passedNow && !l.heldNow {
			l.heldNow = true
			r.tally.now.Held++
		}
	}
	l.passedThen = l.passedThen || !s.then.Refused
	l.passedNow = l.passedNow || !l.now.Refused
	if r.x.each != nil {
		r.x.each(Answer{Partition: s.part, Seq: s.seq, T: s.t, MessageID: s.id, Then: s.then, Now: l.now})
	}
}

// forget lets go of a message, unless owners are still to return something.
func (r *replay) forget(k messageKey, l *life) {
	if len(l.owed) > 0 {
		l.ended = true
		return
	}
	r.lives.drop(k, l)
}

// counterOf returns where a limit's places of a scope are kept.
func (r *replay) counterOf(name, scope string) *counter {
	switch {
	case !r.x.wide || !limit.Wide(scope):
		return &r.counter
	case !r.x.known[name]:
		return r.x.guests
	}
	return &r.ownerOf(scope).counter
}

// marker takes over since when windows count: a message that was sent elsewhere
// may have a place from before. Only the revision in force is known, and only
// what began before the time that is judged holds for all of it.
func (r *replay) marker(s *step) error {
	if s.t > r.x.from && r.tally.decisions > 1 {
		r.tally.markers++
		return nil
	}
	if s.revision != r.x.force.Revision {
		return nil
	}
	since := limit.NextSince(&r.x.force.Policy, s.since, r.x.tried, math.MaxInt64)
	for _, moments := range since {
		maps.DeleteFunc(moments, func(_ string, t schemas.Millis) bool { return t == math.MaxInt64 })
	}
	rules, err := limit.Compile(r.x.tried, since)
	if err != nil {
		return fmt.Errorf("the policy to try: %w", err)
	}
	r.rules = rules
	return nil
}

func (r *replay) ownerOf(scope string) *replay {
	return r.x.parts[limit.Owner(scope, int32(len(r.x.parts)))]
}

// describe makes the subject of a home's step.
func (r *replay) describe(sub *limit.Subject, s *step) {
	*sub = limit.Subject{
		Recipient: s.to, Tenant: s.tenant, Channel: s.channel, Class: s.class, Template: s.template,
		Provider: s.provider, Segments: int64(s.segments),
	}
	if r.x.needs.country {
		if to, err := recipient.Canonical(schemas.Channel(s.channel), s.to, ""); err == nil {
			sub.Country = to.Country
		}
	}
	if r.x.joined != nil {
		said, ok := r.x.joined.find(s.source)
		if !ok {
			r.tally.unjoined++
		}
		sub.Content, sub.Metadata = said.content, said.metadata
	}
}
