package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Fault is a kind of violation.
type Fault string

const (
	FaultOver         Fault = "over"                // a place was taken that some window had no room for
	FaultWronglyHeld  Fault = "wrongly refused"     // refused, though no window was full
	FaultRetryAt      Fault = "wrong retry_at"      // not the first moment at which it would pass
	FaultLost         Fault = "lost"                // a request without a decision, or a message without an end
	FaultTwoEnds      Fault = "two ends"            // a message that ended twice, or went on after its end
	FaultTwice        Fault = "decided twice"       // one input record with two decisions
	FaultGap          Fault = "gap"                 // sequence numbers that are not dense
	FaultBackInTime   Fault = "back in time"        // a decision's t before the one before it
	FaultCharges      Fault = "wrong charges"       // places other than one in each matching limit, at the decision's t
	FaultReturned     Fault = "wrong return"        // places given back that did not stand, or by a message that was received
	FaultNoPermit     Fault = "sent without permit" // no sending of that attempt before
	FaultCalls        Fault = "wrong calls"         // the provider's record disagrees with sendings and ends
	FaultRound        Fault = "wrong round"         // a wide limit asked out of turn or not at all, or a step that belongs to no message's way
	FaultReleased     Fault = "wrong release"       // places that home gives up elsewhere, and what owners return, disagree
	FaultStands       Fault = "stands wrongly"      // what stands for a message in the end is not what it holds
	FaultCannotBeTold Fault = "cannot be told"      // this oracle does not know what the log holds
	maxKeptPerFault         = 5
)

// Violation is one thing that must not be.
type Violation struct {
	Fault     Fault
	Partition int32
	Offset    int64 // in weir.status; -1 where no record shows it
	Message   string
	Text      string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: status/%d/%d message %s: %s", v.Fault, v.Partition, v.Offset, v.Message, v.Text)
}

// Report is what the oracle found. Violations holds the first few of each
// fault; Faults counts all.
type Report struct {
	Requests  int // acknowledged by a broker
	Messages  int // different ids among them
	Decisions int
	Admitted  int
	Refused   int
	RefusedBy map[string]int // messages, by limit; those that wait, each time
	Moved     int
	GivenBack int
	Forwarded int
	Ends      map[schemas.Status]int
	Wide      Wide
	Released  int // decisions without sending
	NotHeld   int // releases of what is none, or not any more
	Calls     int

	Faults     map[Fault]int
	Violations []Violation
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// String is one line of counts, then the violations.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %d messages, %d decisions: %d admitted, %d refused, %d moved, %d given back, %d forwarded; ends",
		r.Requests, r.Messages, r.Decisions, r.Admitted, r.Refused, r.Moved, r.GivenBack, r.Forwarded)
	for _, s := range slices.Sorted(maps.Keys(r.Ends)) {
		fmt.Fprintf(&b, " %s=%d", s, r.Ends[s])
	}
	for _, l := range slices.Sorted(maps.Keys(r.RefusedBy)) {
		fmt.Fprintf(&b, " refused_by_%s=%d", l, r.RefusedBy[l])
	}
	if r.Wide != (Wide{}) {
		fmt.Fprintf(&b, "; wide: %s", r.Wide)
	}
	fmt.Fprintf(&b, "; ORACLE over=%d wrongly_refused=%d lost=%d two_ends=%d other=%d",
		r.Faults[FaultOver], r.Faults[FaultWronglyHeld], r.Faults[FaultLost], r.Faults[FaultTwoEnds], r.others())
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "\n  %s", v)
	}
	return b.String()
}

func (r *Report) others() int {
	n := 0
	for f, count := range r.Faults {
		switch f {
		case FaultOver, FaultWronglyHeld, FaultLost, FaultTwoEnds:
		default:
			n += count
		}
	}
	return n
}

// Record is one committed record of weir.status.
type Record struct {
	Partition int32
	Offset    int64
	Event     *schemas.Event
}

// Oracle replays a decision log on plain lists of places and judges every step.
// It must be given each partition from its first record on, in offset order.
type Oracle struct {
	policies map[int64]*schemas.Policy // by revision
	requests string                    // the topics that admission reads
	readmit  string
	n        int32 // partitions

	parts    map[int32]*logged
	inputs   map[schemas.Source]string // decided input → message
	messages map[string]*story
	between  between
	metadata map[Offset]map[string]string // of requests
	untold   []untold
	report   Report
}

// logged is what a partition's log says so far.
type logged struct {
	seq   int64
	t     schemas.Millis
	since map[string]map[string]schemas.Millis // of the marker in force
	// places are the standing ones, by limit and scope: plain lists. index has
	// the lists' names by limit and recipient.
	places map[string][]place
	index  map[string][]string
	drawn  map[string]drawn    // from buckets, by limit and scope
	moved  map[string][]string // places that were taken down → the lists in which they stood
}

func newLogged() *logged {
	return &logged{places: make(map[string][]place), index: make(map[string][]string), drawn: make(map[string]drawn), moved: make(map[string][]string)}
}

// add stands a place up in a list, which is in the order of time.
func (p *logged) add(key, prefix string, pl place) {
	list, known := p.places[key]
	if !known && prefix != "" {
		p.index[prefix] = append(p.index[prefix], key)
	}
	at := len(list)
	for at > 0 && list[at-1].t > pl.t {
		at--
	}
	p.places[key] = slices.Insert(list, at, pl)
}

// place is one standing place.
type place struct {
	t       schemas.Millis
	cost    int64
	message string
	scope   string // as the log calls it
}

// story is what the log says of one message.
type story struct {
	partition int32
	last      schemas.Status // the latest but receipts
	end       schemas.Status
	endOffset int64
	provider  string
	permits   map[int]int // sendings by attempt
	gaveBack  bool
	released  int
	journey
}

// NewOracle returns an oracle for logs under these revisions of the policy.
// requests and readmit are the names of the topics, which have n partitions.
func NewOracle(policies map[int64]*schemas.Policy, requests, readmit string, n int32) *Oracle {
	return &Oracle{
		policies: policies, requests: requests, readmit: readmit, n: n,
		parts: make(map[int32]*logged), inputs: make(map[schemas.Source]string), messages: make(map[string]*story),
		between: newBetween(), metadata: make(map[Offset]map[string]string),
		report: Report{Ends: make(map[schemas.Status]int), RefusedBy: make(map[string]int), Faults: make(map[Fault]int)},
	}
}

func (o *Oracle) fault(f Fault, r Record, format string, args ...any) {
	o.report.Faults[f]++
	if o.report.Faults[f] > maxKeptPerFault {
		return
	}
	v := Violation{Fault: f, Partition: r.Partition, Offset: r.Offset, Text: fmt.Sprintf(format, args...)}
	if r.Event != nil {
		v.Message = r.Event.MessageID
	}
	o.report.Violations = append(o.report.Violations, v)
}

// Take judges the next record of a partition.
func (o *Oracle) Take(r Record) {
	p := o.parts[r.Partition]
	if p == nil {
		p = newLogged()
		o.parts[r.Partition] = p
	}
	if r.Event.Decision != nil {
		o.decision(p, r)
	}
	if r.Event.Kind == schemas.KindStatus {
		o.status(r)
	}
}

// decision judges one change of the partition's state.
func (o *Oracle) decision(p *logged, r Record) {
	d := r.Event.Decision
	o.report.Decisions++
	if d.Partition != r.Partition || d.Seq != p.seq+1 {
		o.fault(FaultGap, r, "partition %d seq %d after %d", d.Partition, d.Seq, p.seq)
	}
	if d.T < p.t {
		o.fault(FaultBackInTime, r, "t %s after %s", d.T, p.t)
	}
	p.seq, p.t = d.Seq, max(p.t, d.T)
	if d.Input != nil {
		if _, twice := o.inputs[*d.Input]; twice {
			o.fault(FaultTwice, r, "input %s was decided before", d.Input)
		}
		o.inputs[*d.Input] = r.Event.MessageID
	}

	switch d.Verdict {
	case schemas.VerdictAdmit:
		o.report.Admitted++
		o.giveBack(p, r)
		o.take(p, r)
	case schemas.VerdictMove:
		o.report.Moved++
		o.giveBack(p, r)
		o.take(p, r)
	case schemas.VerdictCharge:
		o.giveBack(p, r)
		o.charge(p, r)
	case schemas.VerdictRecord:
		o.charge(p, r)
	case schemas.VerdictRefuse:
		o.report.Refused++
		o.refused(p, r)
		if r.Event.Kind == schemas.KindStatus {
			o.report.RefusedBy[r.Event.Limit]++
		}
		o.giveBack(p, r)
		o.restore(p, r)
	case schemas.VerdictDefer:
		// Waiting for a time is no refusal; waiting for a limit is.
		if r.Event.Reason == "limited" {
			o.report.Refused++
			o.refused(p, r)
			o.report.RefusedBy[r.Event.Limit]++
		}
		o.giveBack(p, r)
		o.restore(p, r)
	case schemas.VerdictGiveBack, schemas.VerdictExpire, schemas.VerdictReject, schemas.VerdictCancel, schemas.VerdictSuppress, schemas.VerdictNothing:
		o.releases(p, r)
		o.giveBack(p, r)
		o.restore(p, r)
	case schemas.VerdictMarker:
		if d.Marker == nil || o.policies[d.Marker.Revision] == nil {
			o.fault(FaultCannotBeTold, r, "a marker without a known revision")
			return
		}
		p.since = d.Marker.Since
	case schemas.VerdictForward:
		o.report.Forwarded++
	case schemas.VerdictDuplicate:
	default:
		o.fault(FaultCannotBeTold, r, "verdict %q", d.Verdict)
	}
	switch d.Verdict {
	case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictCharge, schemas.VerdictRecord:
	default:
		if len(d.Charges) > 0 {
			o.fault(FaultCharges, r, "%s took %d places", d.Verdict, len(d.Charges))
		}
	}
	o.follow(r)
}

// take stands the places of an admitted message up and looks whether every
// window has room for them. What earlier steps of its round took stands already.
func (o *Oracle) take(p *logged, r Record) {
	d := r.Event.Decision
	held := make(map[string]bool)
	here := make(map[string]schemas.Charge)
	for _, c := range d.Charges {
		if c.T != d.T || held[c.Limit] {
			o.fault(FaultCharges, r, "place in %s at %s, decided at %s", c.Limit, c.T, d.T)
		}
		held[c.Limit], here[c.Limit] = true, c
	}
	for _, c := range d.Carried {
		if held[c.Limit] || c.Scope != "" && !wide(c.Scope) && c.T > d.T {
			o.fault(FaultCharges, r, "carried a second place in %s, or one of later", c.Limit)
		}
		held[c.Limit] = true
	}
	all := slices.Concat(d.Charges, d.Carried)
	for _, l := range o.matching(r) {
		at := slices.IndexFunc(all, func(c schemas.Charge) bool { return c.Limit == l.Name })
		switch {
		case at >= 0:
			if c := all[at]; isWide(l) && !fits(l, c.Scope, r.Event) {
				o.fault(FaultCharges, r, "a place in %s in the scope %q, which is not its", l.Name, c.Scope)
			} else if c.Cost != cost(l, r.Event) {
				o.fault(FaultCharges, r, "a place in %s for %d, not %d", l.Name, c.Cost, cost(l, r.Event))
			} else if isWide(l) {
				o.doubt(r, l, c.Scope, false)
			}
		case !excused(l, r.Event) && !o.doubt(r, l, "", true):
			o.fault(FaultCharges, r, "no place in %s", l.Name)
		}
		delete(held, l.Name)
		if c, taken := here[l.Name]; taken {
			o.stand(p, r, l, c)
		}
	}
	for name := range held {
		o.fault(FaultCharges, r, "a place in %s, which does not match", name)
	}
	if !o.story(r).around {
		o.observed(p, r)
	}
}

// stand stands one place up and looks whether every window has room for it.
func (o *Oracle) stand(p *logged, r Record, l *schemas.Limit, c schemas.Charge) {
	d := r.Event.Decision
	key, prefix := shelf(l, r.Event), l.Name+shelfMark+r.Event.To+shelfMark
	if isWide(l) {
		key, prefix = wideShelf(c), ""
		if owner := o.partitionOf(c.Scope); owner != r.Partition {
			o.fault(FaultRound, r, "a place in %s of %q, which partition %d owns", l.Name, c.Scope, owner)
		}
	}
	if drawsOnly(l) {
		o.between.drew[movedMark(c, r.Event.MessageID)] = true // no place: nothing ever comes back
	} else {
		p.add(key, prefix, place{t: c.T, cost: c.Cost, message: r.Event.MessageID, scope: c.Scope})
	}
	for _, w := range windowsFor(l, r.Event.To) {
		if w.Kind == schemas.WindowBucket {
			if !o.draw(p, r, l, w, c) && d.Verdict != schemas.VerdictRecord {
				o.fault(FaultOver, r, "drew %d from %s of %s at %s, which has less", c.Cost, w, l.Name, d.T)
			}
			continue
		}
		if d.Verdict == schemas.VerdictRecord {
			continue // sent is sent
		}
		if held := count(w, l, p.since, p.places[key], d.T, ""); held > w.N {
			o.fault(FaultOver, r, "%d places in %s of %s at %s", held, w, l.Name, d.T)
		}
	}
}

// refused looks for a window that is full without the message. A refusal that
// came from an owner is judged where the owner wrote it.
func (o *Oracle) refused(p *logged, r Record) {
	d := r.Event.Decision
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
	return count(w, l, p.since, p.places[key], t, without)
}

// giveBack takes down the places that a decision says it returned. A place is
// found by its message, its limit and its time; one of a limit without a
// recipient by its scope, too.
func (o *Oracle) giveBack(p *logged, r Record) {
	d := r.Event.Decision
	for _, c := range d.Returned {
		if !p.takeDown(c, r.Event) {
			o.fault(FaultReturned, r, "no place of this message stands in %s at %s", c.Limit, c.T)
		}
	}
	for _, c := range d.Missing {
		// One that no window sees any more may be gone.
		if c.T.Add(schemas.MaxWindow) > d.T && p.takeDown(c, r.Event) {
			if o.visible(p, c, r) {
				o.fault(FaultReturned, r, "the place in %s at %s stands, but was not found", c.Limit, c.T)
			}
			o.between.gone[movedMark(c, r.Event.MessageID)] = true
		}
	}
	switch d.Verdict {
	case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictCharge:
	default:
		if len(d.Returned) > 0 {
			o.report.GivenBack++
		}
	}
}

// visible reports whether some window of the charge's limit still counts it.
func (o *Oracle) visible(p *logged, c schemas.Charge, r Record) bool {
	l := o.limit(r.Event.Decision.Revision, c.Limit)
	if l == nil {
		return false
	}
	for _, w := range windowsFor(l, r.Event.To) {
		if w.Kind != schemas.WindowBucket && count(w, l, p.since, []place{{t: c.T, cost: 1}}, r.Event.Decision.T, "") > 0 {
			return true
		}
	}
	return false
}

func (p *logged) takeDown(c schemas.Charge, e *schemas.Event) bool {
	keys := p.index[c.Limit+shelfMark+e.To+shelfMark]
	if wide(c.Scope) {
		keys = []string{wideShelf(c)}
	}
	for _, key := range keys {
		places := p.places[key]
		first, _ := slices.BinarySearchFunc(places, c.T, func(pl place, t schemas.Millis) int { return cmp.Compare(pl.t, t) })
		for i := first; i < len(places) && places[i].t == c.T; i++ {
			if pl := places[i]; pl.message == e.MessageID && pl.cost == c.Cost {
				p.places[key] = slices.Delete(places, i, i+1)
				mark := movedMark(c, e.MessageID)
				p.moved[mark] = append(p.moved[mark], key)
				return true
			}
		}
	}
	return false
}

// status judges the next step of a message.
func (o *Oracle) status(r Record) {
	e := r.Event
	s := o.story(r)
	switch {
	case e.Status == schemas.StatusDelivered || e.Status == schemas.StatusUndelivered:
		return // receipts amend, whenever they come
	case s.end != "":
		o.fault(FaultTwoEnds, r, "%s after it ended as %s at offset %d", e.Status, s.end, s.endOffset)
		return
	case e.Status == schemas.StatusSending:
		s.permits[e.Attempt]++
	case e.Status == schemas.StatusSent && s.permits[e.Attempt] == 0 && e.Decision == nil: // admission ends what Weir does not call
		o.fault(FaultNoPermit, r, "attempt %d", e.Attempt)
	}
	s.last = e.Status
	if e.Status.End() {
		s.end, s.endOffset, s.provider = e.Status, r.Offset, e.Provider
		o.report.Ends[e.Status]++
	}
}

func (o *Oracle) story(r Record) *story {
	s := o.messages[r.Event.MessageID]
	if s == nil {
		s = &story{partition: r.Partition, permits: make(map[int]int)}
		o.messages[r.Event.MessageID] = s
	}
	return s
}

// Offset is where a committed record stands in a topic that admission reads.
type Offset struct {
	Partition int32
	Offset    int64
}

// Ended returns the id and the end of the message that the request at an
// offset asked for; false while it has none.
func (o *Oracle) Ended(at Offset) (id string, end schemas.Status, ok bool) {
	id, ok = o.inputs[schemas.Source{Topic: o.requests, Partition: at.Partition, Offset: at.Offset}]
	if s := o.messages[id]; ok && s != nil && s.end != "" {
		return id, s.end, true
	}
	return id, "", false
}

// Unended counts the requests that have no end by the last status of their
// messages; "" is those without a decision.
func (o *Oracle) Unended(requests []Offset) map[schemas.Status]int {
	out := make(map[schemas.Status]int)
	for _, at := range requests {
		if id, _, ok := o.Ended(at); !ok {
			var last schemas.Status
			if s := o.messages[id]; s != nil {
				last = s.last
			}
			out[last]++
		}
	}
	return out
}

// Decided reports whether the record of readmit at an offset was decided.
func (o *Oracle) Decided(at Offset) bool {
	_, ok := o.inputs[schemas.Source{Topic: o.readmit, Partition: at.Partition, Offset: at.Offset}]
	return ok
}

// Finish judges what only the whole log can show. requests are the records
// that brokers acknowledged, readmit the committed ones of weir.readmit, and
// calls what the providers in it received: provider, message, times called.
func (o *Oracle) Finish(requests, readmit []Offset, calls map[string]map[string]int) *Report {
	o.report.Requests = len(requests)
	ids := make(map[string]bool)
	for _, at := range requests {
		none := Record{Partition: at.Partition, Offset: -1}
		id, ok := o.inputs[schemas.Source{Topic: o.requests, Partition: at.Partition, Offset: at.Offset}]
		if !ok {
			o.fault(FaultLost, none, "the request at offset %d was never decided", at.Offset)
			continue
		}
		if ids[id] {
			continue
		}
		ids[id] = true
		if s := o.messages[id]; s == nil || s.end == "" {
			none.Event = &schemas.Event{MessageID: id}
			o.fault(FaultLost, none, "the request at offset %d has no end", at.Offset)
		}
	}
	o.report.Messages = len(ids)
	for _, at := range readmit {
		if !o.Decided(at) {
			o.fault(FaultLost, Record{Partition: at.Partition, Offset: -1}, "the record of readmit at offset %d was never decided", at.Offset)
		}
	}
	o.walks()
	o.agree()
	o.received() // after agree, which says what a message gave up on its way
	o.resolve()
	o.calls(calls)
	return &o.report
}

// received looks whether every message that may have been received keeps its
// place, and each at most one.
func (o *Oracle) received() {
	type holding struct{ message, limit string }
	held := make(map[holding]int)
	for n, p := range o.parts {
		for key, places := range p.places {
			limit := limitOf(key)
			for _, pl := range places {
				h := holding{pl.message, limit}
				if held[h]++; held[h] == 2 && !o.perAttempt(limit) {
					o.fault(FaultCharges, Record{Partition: n, Offset: -1, Event: &schemas.Event{MessageID: pl.message}}, "it holds two places in %s", limit)
				}
			}
		}
	}
	for id, s := range o.messages {
		if s.gaveBack && (s.end == schemas.StatusSent || s.end == schemas.StatusUnknown) {
			o.fault(FaultReturned, Record{Partition: s.partition, Offset: s.endOffset, Event: &schemas.Event{MessageID: id}}, "it ended as %s and gave its place back", s.end)
		}
	}
}

func (o *Oracle) perAttempt(limit string) bool {
	for _, pol := range o.policies {
		for i := range pol.Limits {
			if pol.Limits[i].Name == limit && pol.Limits[i].Count == schemas.CountAttempt {
				return true
			}
		}
	}
	return false
}

// calls compares the log with what providers received: every sent message was
// called, and nothing was called more often than it was permitted.
func (o *Oracle) calls(calls map[string]map[string]int) {
	for provider, byMessage := range calls {
		for id, n := range byMessage {
			o.report.Calls += n
			permits := 0
			if s := o.messages[id]; s != nil {
				for _, k := range s.permits {
					permits += k
				}
			}
			if n > permits {
				o.fault(FaultCalls, Record{Offset: -1, Event: &schemas.Event{MessageID: id}}, "%s was called %d times on %d permits", provider, n, permits)
			}
		}
	}
	for id, s := range o.messages {
		if byMessage, known := calls[s.provider]; known && s.end == schemas.StatusSent && byMessage[id] == 0 {
			o.fault(FaultCalls, Record{Partition: s.partition, Offset: s.endOffset, Event: &schemas.Event{MessageID: id}}, "sent, but %s was never called", s.provider)
		}
	}
}
