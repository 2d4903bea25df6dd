package backtest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

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
	if len(s.moved) > 0 && s.kind != stepLeave && s.part == s.home && r.lives.find(s.key) == nil {
		// From another spelling: home's first decision on the message. What an owner
		// puts back is home's debt (see owed).
		r.table.Restore(r.rules, s.moved, s.t)
	}
	switch s.kind {
	case stepLeave:
		r.table.Unwind(r.rules, s.moved, s.t)
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
	guests := int64(0)
	if r.x.wide {
		r.x.guests.table.Sweep(r.x.guests.rules, t, 64)
		r.x.guests.table.Commit()
		guests = int64(r.x.guests.table.Len())
	}
	r.lives.turn(t)
	kept := int64(r.lives.len() + r.table.Len() + r.tally.recipients())
	total := r.x.kept.Add(kept-r.kept) + guests
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
	rules, err := limit.Compile(r.x.tried, limit.Inherited(&r.x.force.Policy, s.since, r.x.tried))
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
		Provider: s.provider, Segments: int64(s.segments), Cost: int64(s.cost),
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
