package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// journalled is a record of a provider's journal, as far as the audit reads it.
type journalled struct {
	Kind    string         `json:"kind"`         // permit | outcome
	Seq     int64          `json:"seq,omitzero"` // dense; absent in those of earlier versions
	ID      string         `json:"id"`
	Attempt int            `json:"attempt"`
	T       schemas.Millis `json:"t"`
	CallBy  schemas.Millis `json:"call_by"` // permit: when it may be given at the latest; absent in those of earlier versions
	Permit  schemas.Millis `json:"permit"`  // outcome: its permit's t; absent when there was no call
	Outcome string         `json:"outcome"` // outcome
	// Received is of an outcome: whether the attempt may have been received. Journals of
	// earlier versions do not say.
	Received *bool `json:"may_be_received,omitempty"`

	Partition *int32 `json:"partition,omitempty"` // the dispatch record's, and the journal's
	Offset    int64  `json:"offset,omitempty"`
}

type flight struct {
	id      [2]uint64
	attempt int
	t       schemas.Millis
}

// lane judges one partition of a journal: an outcome has one permit, before it.
type lane struct {
	*bounds
	provider string
	begin    schemas.Millis // what was permitted up to then may be gone; 0 when all is there
	flights  map[flight]int // an id to several recipients is as many messages
	open     int64
	skipped  int64          // of its journal
	loose    schemas.Millis // its last permit that says no last moment; 0 is none
	numbers  sequence
	sending  *sending
	counts   Counts
}

func (l *lane) run(log source, tick func() error) error {
	for {
		r, err := log()
		if err != nil {
			return err
		}
		if r == nil {
			l.found.unbounded(l.provider, l.loose)
			l.found.numbersOf(l.provider, &l.numbers)
			return nil
		}
		l.take(r)
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
	}
}

func (l *lane) take(r *kgo.Record) {
	var e journalled
	fault := func(k Kind, format string, args ...any) {
		if schemas.MillisOf(r.Timestamp) < l.since {
			return
		}
		l.found.violation(Violation{
			Kind: k, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, MessageID: e.ID, T: e.T,
			Appended: schemas.MillisOf(r.Timestamp), Text: fmt.Sprintf(format, args...),
		})
	}
	if err := json.Unmarshal(r.Value, &e); err != nil || e.Kind != "permit" && e.Kind != "outcome" {
		switch {
		case !r.Attrs.IsTransactional() && (err != nil || e.Kind == ""): // lanes write in transactions
			l.found.putAside(r)
		case l.skips.covers(r):
			l.numbers.lost++
			l.skipped++
			l.found.cannotTell("records of "+r.Topic+" that an operator skipped: what they permitted or ended", 1)
		default:
			l.numbers.lost++
			fault(KindTorn, "not a journal record")
		}
		return
	}
	if far := schemas.MillisOf(r.Timestamp).Add(24 * time.Hour); !r.Attrs.IsTransactional() &&
		(e.Partition != nil && *e.Partition != r.Partition || e.Offset < 0 || e.T <= 0 || e.T > far || e.Permit < 0 || e.Permit > far) {
		l.found.putAside(r)
		return
	}
	l.numbered(r, &e, fault)
	if e.Kind == "permit" {
		l.counts.Permits++
		l.flights[flight{idOf(e.ID), e.Attempt, e.T}]++
		l.open++
		l.permitted.put(permitItem(e.ID, l.provider, e.Attempt, e.T, recordAt(r.Partition, e.Seq)), -1, l.when(r, e.T))
		l.sending.add(e.T)
		if e.CallBy == 0 {
			l.loose = max(l.loose, e.T)
		}
		return
	}
	l.counts.Outcomes++
	l.outcome(r, &e, fault)
	if e.Permit == 0 {
		return // ended or given back without a call
	}
	f := flight{idOf(e.ID), e.Attempt, e.Permit}
	switch {
	case l.flights[f] > 0:
		l.open--
		if l.flights[f]--; l.flights[f] == 0 {
			delete(l.flights, f)
		}
	case l.skipped > 0: // its permit may be what was skipped
	case e.Permit <= l.begin:
		l.found.cannotTell("outcomes whose permits lie before the retained journal", 1)
	default:
		fault(KindPermit, "outcome %s of attempt %d: no open permit of %s stands before it", e.Outcome, e.Attempt, e.Permit)
	}
}

// journal judges a provider's journal: its lanes, and their pace together.
type journal struct {
	*bounds
	provider string
	topic    string
	lanes    []*lane // by partition
	sending  *sending
	share    *share
}

func newJournal(b *bounds, provider, topic string, of *budget) *journal {
	return &journal{bounds: b, provider: provider, topic: topic, sending: newSending(nil, false), share: &share{of: of}}
}

// walk reads the journal up to the cut. Before recent, no lane gives a permit any more.
func (j *journal) walk(ctx context.Context, r *reader, recent schemas.Millis, tick func() error) error {
	lanes := int32(len(r.until[j.topic]))
	j.sending.gather = j.sending.gather || lanes > 1
	j.sending.follow(j.config.paces(j.provider))
	for num := range lanes {
		if int(num) == len(j.lanes) {
			j.lanes = append(j.lanes, &lane{bounds: j.bounds, provider: j.provider, begin: j.begins[j.topic], flights: make(map[flight]int), sending: j.sending, numbers: sequence{cut: r.start[j.topic][num] > 0}})
		}
		log, closeLog, err := r.resume(ctx, j.topic, num, 0)
		if err != nil {
			return err
		}
		err = j.lanes[num].run(log, func() error {
			if err := tick(); err != nil {
				return err
			}
			return j.share.tick(func() string { return j.topic }, j.size)
		})
		closeLog()
		if err != nil {
			return err
		}
	}
	j.sending.advance(recent)
	return nil
}

// size is what the journal remembers, in bytes.
func (j *journal) size() (n int64) {
	for _, l := range j.lanes {
		n += inMap(len(l.flights), 40)
	}
	return n + int64(cap(j.sending.times))*8
}

// judge judges the journal as a whole, at a cut.
func (j *journal) judge(into *findings) {
	j.holes[j.provider] = 0
	for num, l := range j.lanes {
		into.report.Checked.add(&l.counts)
		into.report.Checked.InFlight += l.open
		l.ends(j.topic, int32(num), j.wrote[j.topic][int32(num)], into)
		j.holes[j.provider] += l.skipped
	}
	j.sending.judge(j.provider, into)
}

// sending finds the densest real sending in each pace window: from permits in
// the order of their times, with as many times in memory as the longest window
// holds. The permits of several lanes are gathered first, up to the cut.
type sending struct {
	paces   []pace
	tails   []int // by window: the first of times that it holds
	times   []schemas.Millis
	counted int // of times
	most    []int64
	at      []schemas.Millis
	gather  bool
}

func newSending(paces []pace, gather bool) *sending {
	return &sending{paces: paces, tails: make([]int, len(paces)), most: make([]int64, len(paces)), at: make([]schemas.Millis, len(paces)), gather: gather}
}

func (s *sending) add(t schemas.Millis) {
	if len(s.paces) == 0 {
		return
	}
	s.times = append(s.times, t)
	if !s.gather {
		s.step()
		s.trim()
	}
}

// step counts the next permit.
func (s *sending) step() {
	i := s.counted
	s.counted++
	t := s.times[i]
	for k := range s.paces {
		w := schemas.Millis(s.paces[k].window.Length.Milliseconds())
		for s.tails[k] < i && s.times[s.tails[k]] <= t-w {
			s.tails[k]++
		}
		if n := int64(i - s.tails[k] + 1); n > s.most[k] {
			s.most[k], s.at[k] = n, t
		}
	}
}

func (s *sending) trim() {
	if first := slices.Min(s.tails); first > 4096 && first > len(s.times)/2 {
		s.times = append(s.times[:0], s.times[first:]...)
		for k := range s.tails {
			s.tails[k] -= first
		}
		s.counted -= first
	}
}

// advance counts what was permitted before a time. No lane permits anything before it
// from now on.
func (s *sending) advance(before schemas.Millis) {
	slices.Sort(s.times[s.counted:])
	for s.counted < len(s.times) && s.times[s.counted] < before {
		s.step()
	}
	if len(s.paces) > 0 {
		s.trim()
	}
}

// judge counts what was permitted up to the cut. It changes nothing but the order of times.
func (s *sending) judge(provider string, into *findings) {
	slices.Sort(s.times[s.counted:])
	all := *s
	all.tails, all.most, all.at = slices.Clone(s.tails), slices.Clone(s.most), slices.Clone(s.at)
	for all.counted < len(all.times) {
		all.step()
	}
	for k, p := range s.paces {
		w := p.window.String()
		into.report.Densest = append(into.report.Densest, Density{Provider: provider, Window: w, N: p.window.N, Most: all.most[k], At: all.at[k]})
		if p.bound && all.most[k] > p.most {
			into.violation(Violation{
				Kind: KindPace, Topic: provider, Offset: -1, T: all.at[k],
				Text: fmt.Sprintf("%d permits in a window of %s; no revision allowed more than %d", all.most[k], w, p.most),
			})
		}
	}
}

// follow takes the windows of later revisions.
func (s *sending) follow(paces []pace) {
	for _, p := range paces {
		k := slices.IndexFunc(s.paces, func(o pace) bool { return o.window.Length == p.window.Length })
		if k >= 0 {
			s.paces[k] = p
			continue
		}
		s.paces, s.tails, s.most, s.at = append(s.paces, p), append(s.tails, s.counted), append(s.most, 0), append(s.at, 0)
	}
}

// dispatches counts a dispatch topic's records against the admissions.
func dispatches(b *bounds, provider string, log source, counts *Counts, tick func() error) error {
	for {
		r, err := log()
		if err != nil || r == nil {
			return err
		}
		var id, decided, place string
		for _, h := range r.Headers {
			switch h.Key {
			case schemas.HeaderID:
				id = string(h.Value)
			case schemas.HeaderDecidedAt:
				decided = string(h.Value)
			case schemas.HeaderPlace:
				place = string(h.Value)
			}
		}
		t, err := schemas.ParseMillis(decided)
		var charges []schemas.Charge
		if err == nil && place != "" {
			charges, err = schemas.DecodeCharges([]byte(place))
		}
		var env schemas.Envelope
		for _, h := range r.Headers {
			if err == nil {
				err = env.Set(h.Key, string(h.Value))
			}
		}
		if err != nil || env.Dispatched() != nil {
			// Lanes put it aside. If it was an admission, that was not dispatched once.
			b.found.putAside(r)
			continue
		}
		counts.Dispatched++
		b.dispatched.put(dispatchItem(id, provider, t, charges, nil), -1, t)
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
	}
}

// dispatchItem is an admission as it stands in weir.status and on a dispatch
// topic: what it holds was taken by it, or by earlier steps.
func dispatchItem(id, provider string, t schemas.Millis, taken, carried []schemas.Charge) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[0] + chargesHash(taken) + chargesHash(carried)}
}

// permitItem is an attempt as weir.status and a journal have it, with the record of the journal.
func permitItem(id, provider string, attempt int, t schemas.Millis, at uint64) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[0] + uint64(attempt) + at}
}
