package e2e

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// Record is one committed record of weir.status.
type Record struct {
	Partition int32
	Offset    int64
	Event     *schemas.Event
	Appended  schemas.Millis // when the broker appended it
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
	phones   *phones
	metadata map[Offset]map[string]string // of requests
	untold   []untold
	moved    string // the time zone that Moved names
	report   Report
}

// logged is what a partition's log says so far.
type logged struct {
	seq   int64
	t     schemas.Millis
	since map[string]map[string]schemas.Millis // of the marker in force
	// places are the standing ones, by limit and scope: plain lists. index has
	// the lists' names by limit and recipient.
	places map[string]*list
	index  map[string][]string
	drawn  map[string]drawn    // from buckets, by limit and scope
	moved  map[string][]string // places that were taken down → the lists in which they stood
}

func newLogged() *logged {
	return &logged{places: make(map[string]*list), index: make(map[string][]string), drawn: make(map[string]drawn), moved: make(map[string][]string)}
}

// add stands a place up in a list, which is in the order of time.
func (p *logged) add(key, prefix string, pl place) {
	if p.places[key] == nil {
		p.places[key] = new(list)
		if prefix != "" {
			p.index[prefix] = append(p.index[prefix], key)
		}
	}
	p.places[key].add(pl)
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
	under     int64 // the revision of its last admission
	journey
}

// NewOracle returns an oracle for logs under these revisions of the policy.
// requests and readmit are the names of the topics, which have n partitions.
func NewOracle(policies map[int64]*schemas.Policy, requests, readmit string, n int32) *Oracle {
	return &Oracle{
		policies: policies, requests: requests, readmit: readmit, n: n,
		parts: make(map[int32]*logged), inputs: make(map[schemas.Source]string), messages: make(map[string]*story),
		between: newBetween(), phones: newPhones(), metadata: make(map[Offset]map[string]string),
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
		o.phones.admits(o, p, r)
	case schemas.VerdictMove:
		o.report.Moved++
		o.giveBack(p, r)
		o.take(p, r)
		o.phones.admits(o, p, r)
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
		if held[c.Limit] {
			o.fault(FaultCharges, r, "carried a second place in %s", c.Limit)
		}
		// What home dispatches at once is what its recipient's windows count. If its place
		// were of before, so many more could leave within a window as rounds take long.
		if l := o.limit(d.Revision, c.Limit); !wide(c.Scope) && c.T != d.T && (l == nil || !drawsOnly(l)) {
			o.fault(FaultOver, r, "dispatched at %s with a place in %s of %s", d.T, c.Limit, c.T)
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
			if !isWide(l) && o.back(r) {
				continue // it has drawn
			}
			if !o.draw(p, r, l, w, c) && d.Verdict != schemas.VerdictRecord {
				o.fault(FaultOver, r, "drew %d from %s of %s at %s, which has less", c.Cost, w, l.Name, d.T)
			}
			continue
		}
		if d.Verdict == schemas.VerdictRecord {
			continue // sent is sent
		}
		if o.unknownPeriod(l, w) {
			continue
		}
		if held := count(w, l, p.since, p.places[key], d.T, ""); held > w.N {
			o.fault(FaultOver, r, "%d places in %s of %s at %s", held, w, l.Name, d.T)
		}
	}
}

// giveBack takes down the places that a decision says it returned. A place is
// found by its message, its limit and its time; one of a limit without a
// recipient by its scope, too.
func (o *Oracle) giveBack(p *logged, r Record) {
	d := r.Event.Decision
	for _, c := range d.Returned {
		// Of a limit that the revision lacks nothing counts any more, whatever follows: a
		// refused retry cannot put its place back, and may then name one of the same
		// millisecond.
		if !p.takeDown(c, r.Event) && o.limit(d.Revision, c.Limit) != nil {
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
	return o.visibleUnder(r.Event.Decision.Revision, p.since, c, r)
}

// visibleUnder is visible with the windows of a revision, which count from since on.
func (o *Oracle) visibleUnder(revision int64, since map[string]map[string]schemas.Millis, c schemas.Charge, r Record) bool {
	l := o.limit(revision, c.Limit)
	if l == nil {
		return false
	}
	return slices.ContainsFunc(windowsFor(l, r.Event.To), func(w schemas.Window) bool {
		return w.Kind != schemas.WindowBucket && !o.unknownPeriod(l, w) && count(w, l, since, one(c.T), r.Event.Decision.T, "") > 0
	})
}

func (p *logged) takeDown(c schemas.Charge, e *schemas.Event) bool {
	keys := p.index[c.Limit+shelfMark+e.To+shelfMark]
	if wide(c.Scope) {
		keys = []string{wideShelf(c)}
	}
	for _, key := range keys {
		places := p.places[key].all()
		first, _ := slices.BinarySearchFunc(places, c.T, func(pl place, t schemas.Millis) int { return cmp.Compare(pl.t, t) })
		for i := first; i < len(places) && places[i].t == c.T; i++ {
			if pl := places[i]; pl.message == e.MessageID && pl.cost == c.Cost {
				p.places[key].remove(i)
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
	o.phones.status(e)
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
