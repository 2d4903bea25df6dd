package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
			l.counts.InFlight += l.open
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

// size is what the lane remembers, in bytes.
func (l *lane) size() int64 { return inMap(len(l.flights), 40) + int64(cap(l.sending.times))*8 }

// sending finds the densest real sending in each pace window: from permits in
// the order of their times, with as many times in memory as the longest window
// holds. The permits of several lanes must be gathered first.
type sending struct {
	paces  []pace
	tails  []int // by window: the first of times that it holds
	times  []schemas.Millis
	most   []int64
	at     []schemas.Millis
	gather bool
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
		s.step(len(s.times) - 1)
		s.trim()
	}
}

func (s *sending) step(i int) {
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
	}
}

func (s *sending) finish(provider string, b *bounds) {
	if s.gather {
		slices.Sort(s.times)
		for i := range s.times {
			s.step(i)
		}
	}
	for k, p := range s.paces {
		w := p.window.String()
		b.found.report.Densest = append(b.found.report.Densest, Density{Provider: provider, Window: w, N: p.window.N, Most: s.most[k], At: s.at[k]})
		if p.bound && s.most[k] > p.most {
			b.found.violation(Violation{
				Kind: KindPace, Topic: provider, Offset: -1, T: s.at[k],
				Text: fmt.Sprintf("%d permits in a window of %s; no revision allowed more than %d", s.most[k], w, p.most),
			})
		}
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

// permitItem is an attempt as it stands in weir.status and in a journal, at a place there.
func permitItem(id, provider string, attempt int, t schemas.Millis, at uint64) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[0] + uint64(attempt) + at}
}
