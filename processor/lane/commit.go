package lane

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// ended is an item whose end is in the open transaction.
type ended struct {
	lane  *lanePart
	item  *item
	event schemas.Event // zero for what has no status
}

// transaction is what the open one holds, to be kept or undone.
type transaction struct {
	permits []permitted
	ended   []ended
	journal []journalled
	stood   []stood
	told    []*lanePart // their health is in it
	grown   []*lanePart // their number of lanes is in it
}

type permitted struct {
	lane    *lanePart
	item    *item
	from    time.Time // its call starts then,
	expires time.Time // and before this,
	callBy  bool      // which is the time of its decision, not of its permit
	late    bool
	done    func(error)
}

type journalled struct {
	lane *lanePart
	rec  *kgo.Record
}

type stood struct {
	queue    *queue
	at       int64
	metadata string
}

// outcome writes what came of an attempt, or of a message that was not called. It returns
// what the status that follows from it says of it, for who compares the two (weir audit).
func (s *stage) outcome(tx *stream.Tx, l *lanePart, it *item, what, code string, received bool, t schemas.Millis) []kgo.RecordHeader {
	at := s.journal(tx, l, it, entry{Kind: kindOutcome, ID: it.env.ID, Attempt: it.attempt, T: t, Permit: it.key.permit, Outcome: what, Code: code, Received: &received})
	if received {
		what += " received"
	}
	return []kgo.RecordHeader{{Key: schemas.HeaderOutcome, Value: []byte(what)}, at}
}

// mayBeReceived reports whether the recipient may have the message by this attempt.
func mayBeReceived(o *provider.Outcome) bool {
	return o.MayBeReceived || o.Kind == provider.Accepted || o.Kind == provider.Unknown
}

// journal writes a record of the journal, under the next number of its lane, and returns
// what names it beside a status.
func (s *stage) journal(tx *stream.Tx, l *lanePart, it *item, e entry) kgo.RecordHeader {
	l.seq++
	e.Seq = l.seq
	e.Topic, e.Partition, e.Offset = it.key.topic, it.key.partition, it.key.offset
	if it.journal < 0 {
		it.journal = l.journal // where it will stand, or a little before
	}
	rec := &kgo.Record{Topic: s.cfg.Names.Journal(s.cfg.Provider), Partition: l.num, Value: e.encode()}
	s.tx.journal = append(s.tx.journal, journalled{l, rec})
	l.dirty = true
	tx.Produce(rec)
	return kgo.RecordHeader{Key: schemas.HeaderJournal, Value: []byte(schemas.JournalRecord{Lane: l.num, Seq: e.Seq}.String())}
}

// pass lets queues that are read to their end stand behind the markers there.
func (s *stage) pass(tx *stream.Tx, l *lanePart) {
	for _, q := range l.queues {
		if q.next >= 0 {
			q.next = tx.Past(stream.Partition{Topic: q.topic, Partition: l.num}, q.next)
		}
		// Where nothing else is written, that is.
		l.dirty = l.dirty || q.at >= 0 && len(q.items) == 0 && q.next > q.at
	}
}

// stand sets the positions of all queues of a lane: each at its low-water mark,
// with where to read the journal from.
func (s *stage) stand(tx *stream.Tx, l *lanePart) {
	tx.On(nil)
	from := l.journal
	for _, q := range l.queues {
		from = min(from, q.journal(q.low(), l.journal))
	}
	s.txs++
	metadata := standing{journal: from, by: s.by, n: s.txs, lanes: l.lanes, grew: l.grew, seq: l.seq, back: l.recall.sizes()}.String()
	for _, q := range l.queues {
		if at := q.low(); at >= 0 {
			tx.Stand(stream.Partition{Topic: q.topic, Partition: l.num}, stream.Position{Offset: at, Metadata: metadata})
			s.tx.stood = append(s.tx.stood, stood{q, at, metadata})
		}
	}
}

// Ended starts the calls whose permits are committed, or undoes everything.
func (s *stage) Ended(committed bool) {
	tx := s.tx
	s.tx = transaction{}
	s.took.add(s.now().Sub(s.stepped))
	if !committed {
		s.undo(tx)
		return
	}
	s.calls.open = s.calls.open[:0]
	for _, j := range tx.journal {
		j.lane.journal = max(j.lane.journal, j.rec.Offset+1)
	}
	for _, st := range tx.stood {
		st.queue.at, st.queue.stood = st.at, st.metadata
	}
	for _, e := range tx.ended {
		q := e.lane.queues[s.index[e.item.key.topic]]
		s.calls.forget(e.item.key)
		if e.item.answer.uncalled {
			q.requeue(e.item)
			e.lane.wakeAt(e.lane.last)
			continue
		}
		if e.item.foreign != nil {
			s.metrics.dead.WithLabelValues(schemas.ReasonForeignRecord).Inc()
			s.metrics.foreign.Met(s.cfg.Logger, "a record that Weir did not write is put aside; its bytes are in the DLQ. Let no one else write to this topic",
				"topic", e.item.key.topic, "partition", e.item.key.partition, "offset", e.item.key.offset)
		}
		if e.event.Status == schemas.StatusFailed { // its bytes are in the DLQ
			s.metrics.dead.WithLabelValues(e.event.Reason).Inc()
		}
		if e.event.Status == schemas.StatusSent && e.event.AcceptedAt > 0 {
			s.metrics.sent.WithLabelValues(classLabel(&s.rev.Policy, e.event.Class)).Observe(e.event.At.Sub(e.event.AcceptedAt).Seconds())
		}
		q.finish(e.item)
	}
	for _, e := range tx.ended {
		e.lane.queues[s.index[e.item.key.topic]].trim()
	}
	for _, p := range tx.permits {
		p.item.state = calling
		if p.late {
			s.metrics.late.WithLabelValues(s.cfg.Provider).Inc()
		}
		s.calls.start(p, time.Duration(s.provider.Timeout), s.now)
	}
	if len(tx.ended) > 0 { // slots are free, or more heads are
		for _, l := range s.lanes {
			l.wakeAt(l.last)
		}
	}
}

// undo takes an aborted transaction back: its permits were never used, its
// outcomes are still in hand.
func (s *stage) undo(tx transaction) {
	s.calls.open = s.calls.open[:0]
	s.notBefore = s.now().Add(afterAbort)
	for _, j := range tx.journal {
		j.lane.seq = j.lane.seqWas
	}
	for _, p := range tx.permits {
		p.done(errNotMade)
		if p.item.key == p.lane.probe {
			p.lane.probe = callKey{}
		}
		p.lane.pace.undo(1)
		p.lane.even = p.lane.evenWas
		p.lane.queues[s.index[p.item.key.topic]].requeue(p.item)
		p.lane.wakeAt(p.lane.last)
	}
	for _, l := range tx.told {
		l.told = l.toldWas
	}
	for _, l := range tx.grown {
		l.lanes, l.grew = l.lanesWas, l.grewWas
	}
	for _, e := range tx.ended {
		if e.item.key.permit == 0 && e.item.foreign == nil {
			e.lane.recall.undo(e.item.env.ID)
			e.lane.queues[s.index[e.item.key.topic]].requeue(e.item)
			e.lane.wakeAt(e.lane.last)
			continue
		}
		e.item.state = answered
		e.lane.answered = append(e.lane.answered, e.item)
	}
}
