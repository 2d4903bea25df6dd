package e2e

import (
	"fmt"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// between is what decisions of different partitions say of one another. Their
// records are read in any order, so it is compared in the end.
type between struct {
	taken      map[string]int  // places, by step
	carried    map[string]int  // by admissions that name them
	released   map[string]int  // that home asked owners to return
	answered   map[string]int  // that owners returned, or did not find
	reinstated map[string]int  // that home asked owners to put back
	restored   map[string]int  // that owners put back
	drew       map[string]bool // of taken: from nothing but buckets
	gone       map[string]bool // that a decision did not find, since no window sees them
	where      map[string]Record
	asked      []reinstatement
	backAt     map[string]schemas.Decision // by message and partition: the last that gave back
}

// reinstatement is an old place that home asked its owner to put back.
type reinstatement struct {
	c       schemas.Charge
	message string
	at      Record
}

func newBetween() between {
	return between{taken: map[string]int{}, carried: map[string]int{}, released: map[string]int{}, answered: map[string]int{},
		reinstated: map[string]int{}, restored: map[string]int{}, drew: map[string]bool{}, gone: map[string]bool{}, where: map[string]Record{}, backAt: map[string]schemas.Decision{}}
}

// Wide counts what happened to limits without a recipient.
type Wide struct {
	Rounds     int // messages that home sent to an owner, each time
	Steps      int // of owners that took places
	Refused    int // by owners
	Passed     int // limits that an owner did not have, or observed
	Unwound    int // places that home had returned elsewhere since the message did not go on
	Reinstated int // old places that home had put back elsewhere
	GivenBack  int // places that home had returned elsewhere for messages that were not received
	Former     int // places that an admission gave up elsewhere, in scopes that are not its any more
	Moved      int // places that owners took out for a further attempt
	Recorded   int // places that owners took for messages sent elsewhere
	Anew       int // rounds that home planned anew, under another revision
	Cut        int // rounds that ended for another reason than a limit: cancelled, suppressed, expired on the way
	Deferred   int // owners' refusals after which the message waits
	Back       int // admissions later than the places that home had taken on the way
	NotBack    int // refusals by home of what it had let pass on the way
}

func (w Wide) String() string {
	return fmt.Sprintf("%d rounds, %d steps of owners, %d refusals of owners, %d passed, %d places moved, %d unwound, %d put back, %d given back, %d former, %d recorded, %d planned anew, %d cut short, %d deferred, %d back later, %d refused when they were back",
		w.Rounds, w.Steps, w.Refused, w.Passed, w.Moved, w.Unwound, w.Reinstated, w.GivenBack, w.Former, w.Recorded, w.Anew, w.Cut, w.Deferred, w.Back, w.NotBack)
}

// Counts names each figure.
func (w Wide) Counts() map[string]int {
	return map[string]int{"rounds": w.Rounds, "steps of owners": w.Steps, "refusals of owners": w.Refused, "passed": w.Passed, "moved": w.Moved,
		"unwound": w.Unwound, "put back": w.Reinstated, "given back": w.GivenBack, "former": w.Former, "recorded": w.Recorded,
		"planned anew": w.Anew, "cut short": w.Cut, "deferred": w.Deferred, "back later": w.Back}
}

// Add sums up.
func (w *Wide) Add(v Wide) {
	w.Rounds += v.Rounds
	w.Steps += v.Steps
	w.Refused += v.Refused
	w.Passed += v.Passed
	w.Moved += v.Moved
	w.Unwound += v.Unwound
	w.Reinstated += v.Reinstated
	w.GivenBack += v.GivenBack
	w.Former += v.Former
	w.Recorded += v.Recorded
	w.Anew += v.Anew
	w.Cut += v.Cut
	w.Deferred += v.Deferred
	w.Back += v.Back
	w.NotBack += v.NotBack
}

// journey is what a message's home and its owners say of it.
type journey struct {
	home   int32            // the partition of its recipient
	around bool             // it is on its way round the owners
	held   []schemas.Charge // places, as home has it
	kept   []schemas.Charge // in limits that count attempts
	own    []schemas.Charge // that home took in its own limits, on the way under way
	asked  int64            // the revision under which it did
	moved  []schemas.Charge // places that home and owners have given back for new ones, on all ways
	cut    bool             // it ended on its way
	back   []schemas.Charge // and got these back then
	steps  map[int32][]step // that send it on, or end such a way; by partition, in their order
}

// step is a decision on a message's way.
type step struct {
	partition int32
	offset    int64
	retryAt   schemas.Millis
	event     *schemas.Event // of home's only
	d         *schemas.Decision
}

func (s *step) record(id string) Record {
	return Record{Partition: s.partition, Offset: s.offset, Event: &schemas.Event{MessageID: id}}
}

// follow notes what a decision says of the message's way and of what it holds.
func (o *Oracle) follow(r Record) {
	e, d := r.Event, r.Event.Decision
	if e.MessageID == "" {
		return
	}
	s := o.story(r)
	home := o.partitionOf(e.To) == r.Partition
	sum := func(into map[string]int, list ...[]schemas.Charge) {
		for _, charges := range list {
			for _, c := range charges {
				mark := movedMark(c, e.MessageID)
				into[mark]++
				if _, known := o.between.where[mark]; !known {
					o.between.where[mark] = Record{Partition: r.Partition, Offset: r.Offset, Event: &schemas.Event{MessageID: e.MessageID}}
				}
			}
		}
	}
	sum(o.between.taken, d.Charges)
	sum(o.between.carried, d.Carried)
	sum(o.between.released, d.Released)
	sum(o.between.reinstated, d.Reinstated)
	o.report.Wide.Reinstated += len(d.Reinstated)
	for _, c := range d.Reinstated {
		o.between.asked = append(o.between.asked, reinstatement{c, e.MessageID, Record{Partition: r.Partition, Offset: r.Offset, Event: &schemas.Event{MessageID: e.MessageID}}})
	}
	if !home {
		o.report.Wide.Passed += len(d.Passed)
	}
	for _, a := range d.Passed {
		if l := o.limit(d.Revision, a.Limit); home && a.T != 0 && (l == nil || isWide(l) != wide(a.Scope) || drawsOnly(l)) {
			// An old place that is not put back: its limit is gone, or counts by another thing.
			o.between.gone[movedMark(schemas.Charge{Limit: a.Limit, Scope: a.Scope, T: a.T, Cost: a.Cost}, e.MessageID)] = true
		}
	}

	switch d.Verdict {
	case schemas.VerdictCharge:
		s.moved = append(s.moved, d.Returned...)
		if home {
			s.around = true
			o.report.Wide.Rounds++
			if own := slices.DeleteFunc(slices.Clone(d.Charges), func(c schemas.Charge) bool { return wide(c.Scope) }); len(own) > 0 {
				s.own, s.asked = own, d.Revision
			}
			o.report.Wide.Unwound += len(d.Released)
			break
		}
		o.report.Wide.Steps++
		o.report.Wide.Moved += len(d.Returned)
	case schemas.VerdictRecord:
		for _, c := range d.Charges {
			if o.perAttempt(c.Limit) {
				s.kept = append(s.kept, c)
			} else {
				s.held = append(s.held, c)
			}
		}
		if !home {
			o.report.Wide.Recorded += len(d.Charges)
		}
	case schemas.VerdictAdmit, schemas.VerdictMove:
		if o.back(r) {
			o.report.Wide.Back++
		}
		s.around, s.own, s.gaveBack, s.home = false, nil, false, r.Partition
		s.held, s.under = slices.Concat(d.Charges, d.Carried), d.Revision
		for _, c := range s.held {
			if o.perAttempt(c.Limit) {
				s.kept = append(s.kept, c)
			}
		}
		o.report.Wide.Former += len(d.Released)
	case schemas.VerdictGiveBack:
		if !home {
			o.between.backAt[fmt.Sprint(e.MessageID, shelfMark, r.Partition)] = *d
			sum(o.between.answered, d.Returned, d.Missing)
			sum(o.between.restored, d.Restored)
			break
		}
		gave := s.gaveBack
		s.letGo(d)
		s.gaveBack = s.gaveBack && (gave || s.released == 0) // releases judges those
		o.report.Wide.GivenBack += len(d.Released)
	default:
		if !home {
			if d.Verdict == schemas.VerdictRefuse {
				o.report.Wide.Refused++
			}
			break
		}
		if e.Kind == schemas.KindStatus {
			if len(d.Evidence) > 0 && !wide(d.Evidence[0].Scope) && o.back(r) {
				o.report.Wide.NotBack++
			}
			if s.around && d.Verdict != schemas.VerdictRefuse && d.Verdict != schemas.VerdictDefer {
				o.report.Wide.Cut++
				s.cut, s.back = true, slices.Concat(d.Restored, d.Reinstated)
			}
			s.around, s.own = false, nil
		}
		s.letGo(d)
		o.report.Wide.Unwound += len(d.Released)
	}
	o.note(s, r, home)
}

// back reports whether home decides on a message that was at its own limits before, on
// the same way and under the same revision. If every owner let it pass, home puts it to
// them again: its places must be of the admission.
func (o *Oracle) back(r Record) bool {
	s, d := o.story(r), r.Event.Decision
	return d.Verdict != schemas.VerdictCharge && o.partitionOf(r.Event.To) == r.Partition && s.asked == d.Revision &&
		slices.ContainsFunc(s.own, func(c schemas.Charge) bool { return c.T != d.T })
}

// letGo takes out of what a message holds what a decision gives up.
func (s *story) letGo(d *schemas.Decision) {
	s.drop(slices.Concat(d.Returned, d.Missing, d.Released))
}

func (s *story) drop(charges []schemas.Charge) {
	had := len(s.held)
	for _, c := range charges {
		if i := slices.Index(s.held, c); i >= 0 {
			s.held = slices.Delete(s.held, i, i+1)
		}
	}
	if had > 0 && len(s.held) < had {
		s.gaveBack = true
	}
}

// agree compares what partitions say of one another: places that are carried
// were taken, what home releases is returned by its owner once, and what stands
// for a message is what it holds.
func (o *Oracle) agree() {
	b := &o.between
	for mark, n := range b.carried {
		if b.taken[mark] < n { // time may stand still between two attempts
			o.fault(FaultCharges, b.where[mark], "%d admissions carry a place that was taken %d times: %q", n, b.taken[mark], mark)
		}
	}
	for mark, n := range b.released {
		if b.answered[mark] != n {
			o.fault(FaultReleased, b.where[mark], "released %d times, and returned %d times: %q", n, b.answered[mark], mark)
		}
	}
	for mark, n := range b.answered {
		if b.released[mark] == 0 {
			o.fault(FaultReleased, b.where[mark], "returned %d times by an owner, and nobody released it: %q", n, mark)
		}
	}
	for mark, n := range b.restored {
		if b.reinstated[mark] < n {
			o.fault(FaultReleased, b.where[mark], "put back %d times, and asked for %d times: %q", n, b.reinstated[mark], mark)
		}
	}
	for _, a := range b.asked {
		// What had left every window by then may be gone.
		owner := o.partitionOf(a.c.Scope)
		mark := movedMark(a.c, a.message)
		back, answered := b.backAt[fmt.Sprint(a.message, shelfMark, owner)]
		if l := o.limit(back.Revision, a.c.Limit); answered && (l == nil || !isWide(l) || !fits(l, a.c.Scope, nil)) {
			continue // nor what is of a limit that its owner does not have by now
		}
		if b.restored[mark] < b.reinstated[mark] && (!answered || o.seen(o.parts[owner], a.c, back.T)) {
			o.fault(FaultReleased, a.at, "asked to put back %d times, and put back %d times: %q", b.reinstated[mark], b.restored[mark], mark)
			b.restored[mark] = b.reinstated[mark] // once is enough
		}
	}
	stands := make(map[string]map[string]int) // message → mark
	for _, p := range o.parts {
		for key, places := range p.places {
			limit := limitOf(key)
			for _, pl := range places.all() {
				if stands[pl.message] == nil {
					stands[pl.message] = make(map[string]int)
				}
				stands[pl.message][movedMark(schemas.Charge{Limit: limit, Scope: pl.scope, T: pl.t, Cost: pl.cost}, pl.message)]++
			}
		}
	}
	for id, s := range o.messages {
		if s.around {
			continue // said already
		}
		if s.cut {
			// A message that ends on its way gets back its places of before, or gives
			// them up: those that were moved stand no more.
			s.drop(slices.DeleteFunc(s.moved, func(c schemas.Charge) bool { return slices.Contains(s.back, c) }))
		}
		want := make(map[string]int)
		for _, c := range s.held {
			if mark := movedMark(c, id); !o.perAttempt(c.Limit) && !b.drew[mark] {
				want[mark]++
			}
		}
		for _, c := range s.kept {
			// Under a revision that does not know the limit it was given back.
			mark := movedMark(c, id)
			if p := o.parts[o.stoodIn(c, s)]; !b.drew[mark] && (p == nil || len(p.moved[mark]) == 0) {
				want[mark]++
			}
		}
		none := Record{Partition: s.partition, Offset: s.endOffset, Event: &schemas.Event{MessageID: id}}
		for mark, n := range stands[id] {
			if n > want[mark] {
				o.fault(FaultStands, none, "%q stands, and the message, last %s, does not hold it", mark, s.last)
			}
		}
		for mark, n := range want {
			// What had left every window may be gone when it is asked for again.
			if n > stands[id][mark] && b.reinstated[mark] <= b.restored[mark] && !b.gone[mark] {
				o.fault(FaultStands, none, "the message, last %s, holds %q, which does not stand", s.last, mark)
			}
		}
	}
}

// stoodIn is the partition of a place that a message was charged.
func (o *Oracle) stoodIn(c schemas.Charge, s *story) int32 {
	if wide(c.Scope) {
		return o.partitionOf(c.Scope)
	}
	return s.home
}

// seen reports whether some window of any revision counts a place at t.
func (o *Oracle) seen(p *logged, c schemas.Charge, t schemas.Millis) bool {
	for _, pol := range o.policies {
		for i := range pol.Limits {
			l := &pol.Limits[i]
			for _, w := range l.Allow {
				if l.Name == c.Limit && w.Kind != schemas.WindowBucket && count(w, l, p.since, one(c.T), t, "") > 0 {
					return true
				}
			}
		}
	}
	return false
}
