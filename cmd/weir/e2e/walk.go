package e2e

import (
	"slices"

	"github.com/weirhq/weir/schemas"
)

// A message's way: home sends it to the owner of a limit, which sends it to the
// next or home again. Each step names the partition that it goes on to, so the
// decisions of several logs can be put in the order in which they were taken.

// note keeps what is a step of a message's way.
func (o *Oracle) note(s *story, r Record, home bool) {
	e, d := r.Event, r.Event.Decision
	st := step{partition: r.Partition, offset: r.Offset, retryAt: e.RetryAt, d: d}
	switch d.Verdict {
	case schemas.VerdictCharge:
	case schemas.VerdictRecord:
		if home && d.Onward == nil {
			return
		}
	case schemas.VerdictGiveBack, schemas.VerdictDuplicate, schemas.VerdictForward, schemas.VerdictMarker:
		return
	default:
		switch {
		case !home && (d.Verdict != schemas.VerdictRefuse || d.Onward == nil):
			return // a request that could not be read stands where it came
		case home && (len(s.steps) == 0 || e.Kind == schemas.KindDecision && d.Verdict != schemas.VerdictDefer):
			return // of a message that went nowhere, or no decision on the message
		}
	}
	if home {
		st.event = e
	}
	if s.steps == nil {
		s.steps = make(map[int32][]step)
	}
	s.steps[r.Partition] = append(s.steps[r.Partition], st)
}

// walks follows every message's way.
func (o *Oracle) walks() {
	for id, s := range o.messages {
		if len(s.steps) > 0 {
			w := walk{o: o, id: id, steps: s.steps, at: make(map[int32]int)}
			w.run()
		}
	}
}

// walk is one message's way, from its first decision on.
type walk struct {
	o     *Oracle
	id    string
	steps map[int32][]step
	at    map[int32]int // the next step of each partition

	// Of the round: from its beginning until it is dispatched, waits or ends.
	plan     []planned
	revision int64 // of the plan
	changed  bool  // there was another one before
	asked    []int // places in the plan
	passed   []schemas.Ask
	refused  *step
}

// planned is one limit that applies to a message; home's own are asked together,
// where the first of them stands.
type planned struct {
	l     *schemas.Limit
	rank  int
	scope string
	told  bool // the log shows all that scope is made of
}

func (w *walk) fault(f Fault, at *step, format string, args ...any) {
	w.o.fault(f, at.record(w.id), format, args...)
}

func (w *walk) run() {
	home := int32(-1)
	for n, steps := range w.steps {
		if steps[0].event != nil {
			home = n
		}
	}
	if home < 0 {
		for _, steps := range w.steps {
			w.fault(FaultRound, &steps[0], "an owner's step for a message that its home never sent round")
		}
		return
	}
	for i := range w.steps[home] {
		h := &w.steps[home][i]
		w.came(h)
		if h.d.Onward == nil {
			w.plan, w.asked, w.passed, w.refused, w.changed, w.revision = nil, nil, nil, nil, false, 0
			continue
		}
		if last := w.trip(h, home); last != nil && i+1 == len(w.steps[home]) && h.d.Verdict != schemas.VerdictRecord {
			w.fault(FaultLost, last, "the message went on to partition %d, its home, and nothing became of it", home)
		}
	}
	for n, steps := range w.steps {
		if n != home && w.at[n] < len(steps) {
			w.fault(FaultRound, &steps[w.at[n]], "an owner's step that nobody sent the message to")
		}
	}
}

// trip follows a message from home round the owners, and returns the last step;
// nil if it gets stuck or does not come home.
func (w *walk) trip(h *step, home int32) *step {
	w.takes(h)
	for last := h; ; {
		to := *last.d.Onward
		if to == home {
			return last
		}
		if w.at[to] == len(w.steps[to]) {
			w.fault(FaultLost, last, "the message went on to partition %d, and nothing became of it", to)
			return nil
		}
		next := &w.steps[to][w.at[to]]
		w.at[to]++
		switch {
		case next.d.Verdict == schemas.VerdictRefuse:
			w.refused = next
			w.refuses(next)
		case h.d.Verdict == schemas.VerdictRecord:
		default:
			w.takes(next)
		}
		if next.d.Onward == nil {
			if h.d.Verdict != schemas.VerdictRecord {
				w.fault(FaultRound, next, "the message goes nowhere from here")
			}
			return nil
		}
		last = next
	}
}

// came judges a step of home by what the owners did before it.
func (w *walk) came(h *step) {
	switch d := h.d; {
	case w.refused != nil:
		switch d.Verdict {
		case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictCharge:
			w.fault(FaultOver, h, "%s, though partition %d refused it at offset %d", d.Verdict, w.refused.partition, w.refused.offset)
			return
		case schemas.VerdictRefuse, schemas.VerdictDefer:
			if len(d.Evidence) == 0 && d.Verdict == schemas.VerdictDefer {
				return // it waits for something else now
			}
			if d.Verdict == schemas.VerdictDefer {
				w.o.report.Wide.Deferred++
			}
			if !slices.Equal(d.Evidence, w.refused.d.Evidence) {
				w.fault(FaultWronglyHeld, h, "not by what the owner found: %+v, there %+v", d.Evidence, w.refused.d.Evidence)
			}
			if d.Verdict == schemas.VerdictRefuse && h.retryAt != w.refused.retryAt {
				w.fault(FaultRetryAt, h, "refused until %s, by the owner until %s", h.retryAt, w.refused.retryAt)
			}
		default: // it ended for another reason
		}
	case d.Verdict == schemas.VerdictRefuse, d.Verdict == schemas.VerdictDefer && len(d.Evidence) > 0:
		if slices.ContainsFunc(d.Evidence, func(e schemas.Evidence) bool { return wide(e.Scope) && w.o.partitionOf(e.Scope) != h.partition }) {
			w.fault(FaultWronglyHeld, h, "by an owner that did not refuse it: %+v", d.Evidence)
			return
		}
		w.replan(h)
		w.refuses(h)
	case d.Verdict == schemas.VerdictAdmit, d.Verdict == schemas.VerdictMove:
		for _, a := range d.Passed {
			if w.o.partitionOf(a.Scope) != h.partition && !slices.Contains(w.passed, a) {
				w.fault(FaultRound, h, "%s of %q passed, which no owner said", a.Limit, a.Scope)
			}
		}
		w.takes(h)
	}
}

// replan draws up the plan of home's revision, unless it stands.
func (w *walk) replan(h *step) {
	if w.plan != nil && w.revision == h.d.Revision {
		return
	}
	if w.plan != nil {
		w.changed = true
		w.o.report.Wide.Anew++
	}
	w.plan, w.asked, w.revision = []planned{}, nil, h.d.Revision
	own := -1
	r := Record{Partition: h.partition, Offset: h.offset, Event: h.event}
	for i, l := range w.o.matching(r) {
		rank := i
		if !isWide(l) {
			if own < 0 {
				own = i
			}
			rank = own
		}
		scope, told := scopeOf(l, h.event)
		w.plan = append(w.plan, planned{l, rank, scope, told})
	}
}

// rank is where a limit is asked; -1 if it does not apply.
func (w *walk) rank(name string) int {
	for _, p := range w.plan {
		if p.l.Name == name {
			return p.rank
		}
	}
	return -1
}

// takes judges that a step asks what comes after all that was asked before.
func (w *walk) takes(s *step) {
	if s.event != nil {
		w.replan(s)
	}
	var now []int
	for _, c := range s.d.Charges {
		if rank := w.rank(c.Limit); s.d.Onward != nil || wide(c.Scope) || !slices.Contains(w.asked, rank) {
			now = append(now, rank)
		}
	}
	for _, a := range s.d.Passed {
		if s.event == nil { // home's tells what others passed, too
			now = append(now, w.rank(a.Limit))
			w.passed = append(w.passed, a)
		}
	}
	w.turn(s, now)
	w.asked = append(w.asked, now...)
}

// refuses judges a refusal: it is in turn, and all that stands before it in the
// plan has been asked.
func (w *walk) refuses(s *step) {
	var now []int
	for _, e := range s.d.Evidence {
		if rank := w.rank(e.Limit); s.event == nil || wide(e.Scope) || !slices.Contains(w.asked, rank) {
			now = append(now, rank)
		}
	}
	if len(now) == 0 && len(s.d.Evidence) > 0 {
		now = []int{len(w.plan)} // home's own let it pass before, and are asked again after all others
	}
	w.turn(s, now)
	if len(now) == 0 || w.changed {
		return
	}
	for _, p := range w.plan {
		if p.rank >= slices.Min(now) || slices.Contains(w.asked, p.rank) {
			continue
		}
		if p.l.Mode == schemas.ModeObserve { // full, it took no place
			continue
		}
		if !isWide(p.l) && s.event != nil || isWide(p.l) && (!p.told || w.o.partitionOf(p.scope) == s.partition) {
			continue // asked in this very step, which took nothing
		}
		w.fault(FaultRound, s, "refused before %s was asked", p.l.Name)
	}
}

// turn judges that what a step asks comes after what was asked before.
func (w *walk) turn(s *step, now []int) {
	if len(now) == 0 {
		return
	}
	if slices.Min(now) < 0 {
		if !w.changed {
			w.fault(FaultRound, s, "asks a limit that does not apply: %+v", s.d.Charges)
		}
		return
	}
	if len(w.asked) > 0 && slices.Min(now) <= slices.Max(w.asked) && !w.changed {
		w.fault(FaultRound, s, "asks a limit out of the policy's order: place %d of the plan after %d", slices.Min(now)+1, slices.Max(w.asked)+1)
	}
}
