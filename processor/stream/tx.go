package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/schemas"
)

// Tx is one transaction of a Step. It begins with the first Produce.
type Tx struct {
	w         *worker
	ctx       context.Context
	begun     bool
	produced  int
	positions map[Partition]Position
	read      map[Partition]reading
	took      []place       // what Step was handed
	full      bool          // it is to be handed no more
	unread    []*kgo.Record // of what it was handed: they stand for batches that were not read
	decided   int           // records that were named and are not poison
	on        place         // of which record is what is produced now; zero: of none

	mu      sync.Mutex // guards the rest: promises run on the client's goroutine
	err     error
	refused map[place]error // produces that no other attempt will mend, by record
	sent    bool            // one of them was refused by a broker, with its batch
}

// On names the record that a stage decides now: what it produces until the next call is
// of that record. If the record cannot be processed, On returns why, and the stage ends it
// without deciding it. A nil record is none: what follows is of the transaction as a whole.
func (tx *Tx) On(r *kgo.Record) *Poison {
	var at place
	if r != nil {
		at = placeOf(r)
	}
	q := tx.w.quarantine
	if at != tx.on && (q.suspects[at] || q.suspects[tx.on]) {
		if err := tx.w.session.Client().Flush(tx.ctx); err != nil { // so that no batch has both
			tx.fail(fmt.Errorf("flush: %w", err))
		}
	}
	tx.on = at
	if r == nil {
		return nil
	}
	p := q.poison[at]
	if from, is := unreadFrom(r); p == nil && is {
		p = unreadPoison(r, from)
		q.poison[at] = p
	}
	if p == nil {
		tx.decided++
	}
	return p
}

// Produce adds a record to the transaction. Topic and Partition must be set:
// Weir computes partitions itself. The record belongs to the client from here.
func (tx *Tx) Produce(rec *kgo.Record) {
	if !tx.begun {
		if err := tx.w.session.Begin(); err != nil {
			tx.fail(fmt.Errorf("begin transaction: %w", err))
			return
		}
		tx.begun = true
	}
	on := tx.on
	if size, most := Size(rec), tx.w.batchBytes(rec.Topic); size > most {
		tx.refuse(on, fmt.Errorf("produce to %s/%d: %w: the record has %d bytes, and the topic takes %d", rec.Topic, rec.Partition, kerr.MessageTooLarge, size, most), false)
		return
	}
	tx.produced++
	tx.w.session.Produce(tx.ctx, rec, func(r *kgo.Record, err error) {
		switch {
		case err == nil:
		case rejects(err) != nil:
			tx.refuse(on, fmt.Errorf("produce to %s/%d: %w", r.Topic, r.Partition, err), true)
		default:
			tx.fail(fmt.Errorf("produce to %s/%d: %w", r.Topic, r.Partition, err))
		}
	})
}

// Size is how many bytes a record takes in a batch, at most.
func Size(r *kgo.Record) int {
	const record, header = 128, 16 // a batch of its own, with lengths and offsets
	n := record + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += header + len(h.Key) + len(h.Value)
	}
	return n
}

// refuse notes that a record's produce fails whenever it is tried.
func (tx *Tx) refuse(on place, err error, sent bool) {
	tx.fail(err)
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.refused == nil {
		tx.refused = make(map[place]error)
	}
	tx.refused[on] = err
	tx.sent = tx.sent || sent
}

// attempt is what the worker learns from of the transaction.
func (tx *Tx) attempt() *attempt {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return &attempt{took: tx.took, decided: tx.decided, failed: maps.Clone(tx.refused), certain: !tx.sent}
}

// Stand sets the position to commit for a partition.
func (tx *Tx) Stand(p Partition, at Position) {
	if tx.positions == nil {
		tx.positions = make(map[Partition]Position)
	}
	tx.positions[p] = at
}

// Past returns where to go on instead of at, the offset after the last record of a
// partition that the stage is done with: behind the markers of transactions, if nothing
// but those is known to lie there. At any other offset it returns that. A stage calls it
// before it stands at the end of what it was given.
//
// A position before the markers is as good as long as they are there. Once retention has
// deleted them it is before the start of the log, as if records had been deleted before
// they were read: for that, a partition need only be quiet for long enough.
func (tx *Tx) Past(p Partition, at int64) int64 { return tx.read[p].past(at) }

// More returns what has been fetched meanwhile, without waiting: what a stage
// takes into the same transaction under load. Empty means idle.
func (tx *Tx) More() []*kgo.Record {
	if tx.full {
		return nil
	}
	if len(tx.w.pending) > 0 {
		return tx.take(nil)
	}
	recs, err := tx.w.drain()
	if err != nil {
		tx.fail(err)
	}
	return tx.take(recs)
}

// take returns what Step is handed of what was read. The rest waits for the next
// transaction.
func (tx *Tx) take(read []*kgo.Record) []*kgo.Record {
	w := tx.w
	if len(w.pending) > 0 {
		read = append(w.pending, read...)
	}
	n, full := w.quarantine.portion(read, len(tx.took))
	for _, r := range read[:n] {
		tx.took = append(tx.took, placeOf(r))
		if IsUnread(r) {
			tx.unread = append(tx.unread, r)
		}
	}
	tx.full = tx.full || full
	w.pending = read[n:]
	return read[:n]
}

// Abort makes the transaction end without committing, for a reason that is
// logged. The stage goes on: Ended(false) follows.
func (tx *Tx) Abort(reason error) { tx.fail(reason) }

// AbortSmaller is Abort for a transaction that took too long: until its records are
// committed, each transaction takes half as many.
func (tx *Tx) AbortSmaller(reason error) {
	if len(tx.took) > 0 {
		tx.w.quarantine.halve(tx.took)
	}
	tx.Abort(reason)
}

// Flush waits until the brokers have acknowledged all that was produced, or refused it.
func (tx *Tx) Flush(ctx context.Context) error {
	if err := tx.w.session.Client().Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// Appended flushes what was produced and returns the broker's time of the
// latest append to each of these partitions of topic (KIP-734), this transaction's
// own records among them. A partition whose broker did not say is left out. It is one
// request to each leader, without a look at metadata.
func (tx *Tx) Appended(ctx context.Context, topic string, partitions []int32) (map[int32]schemas.Millis, error) {
	if err := tx.Flush(ctx); err != nil {
		return nil, err
	}
	const maxTimestamp = -3
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, maxTimestamp
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, tx.w.session.Client())
	if err != nil {
		return nil, fmt.Errorf("list append times of %s: %w", topic, err)
	}
	times := make(map[int32]schemas.Millis)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Timestamp > 0 {
				times[p.Partition] = schemas.Millis(p.Timestamp)
			}
		}
	}
	return times, nil
}

// Leader is the broker that leads a partition, as far as the client knows; -1: it does not.
func (tx *Tx) Leader(topic string, partition int32) int32 {
	leader, _, err := tx.w.session.Client().PartitionLeader(topic, partition)
	if err != nil {
		return -1
	}
	return leader
}

// AppendedSince returns the broker's time of the first append to each partition
// of topic at from or later, of what is fully replicated. A partition without
// one is left out. It finds what Appended cannot say of a topic that others write
// to: its latest append is often not yet replicated, and then brokers tell none.
func (tx *Tx) AppendedSince(ctx context.Context, topic string, from schemas.Millis) (map[int32]schemas.Millis, error) {
	first, err := kadm.NewClient(tx.w.session.Client()).ListOffsetsAfterMilli(ctx, int64(from), topic)
	if err != nil {
		return nil, fmt.Errorf("list append times of %s: %w", topic, err)
	}
	times := make(map[int32]schemas.Millis)
	first.Each(func(o kadm.ListedOffset) {
		if o.Err == nil && o.Timestamp > 0 {
			times[o.Partition] = schemas.Millis(o.Timestamp)
		}
	})
	return times, nil
}

func (tx *Tx) fail(err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	// One of a thousand records that all fail is enough; that this process is
	// fenced says more than what failed before.
	if tx.err == nil || fenced(err) && !fenced(tx.err) {
		tx.err = err
	}
}

func (tx *Tx) failed() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.err
}

// end commits, or aborts when stepErr is set or a record could not be produced.
// Committed false with no error is an abort: the stage goes on.
func (tx *Tx) end(ctx context.Context, stepErr error) (committed bool, err error) {
	if !tx.begun {
		if failed := tx.failed(); len(tx.positions) == 0 && (stepErr != nil || failed == nil || errors.Is(failed, errFatal)) {
			return false, errors.Join(stepErr, failed)
		}
		if err := tx.w.session.Begin(); err != nil {
			return false, fmt.Errorf("begin transaction: %w", err)
		}
		tx.begun = true
	}
	if tx.produced > 0 && len(tx.positions) == 0 && stepErr == nil {
		stepErr = errors.New("transaction with records but without a position: it would not be fenced")
	}
	for p, at := range tx.positions {
		if len(at.Metadata) > maxMetadata && stepErr == nil {
			stepErr = fmt.Errorf("offset metadata of %s/%d has %d bytes, more than %d", p.Topic, p.Partition, len(at.Metadata), maxMetadata)
		}
	}
	s := tx.w.session
	if stepErr == nil {
		// A failed record fails the commit: find out before asking for it.
		if err := s.Client().Flush(ctx); err != nil {
			return false, fmt.Errorf("%w: flush: %w", ErrUnknownOutcome, err)
		}
	}
	try := kgo.TryCommit
	if stepErr != nil || tx.failed() != nil {
		try = kgo.TryAbort
	}
	committed, err = s.End(kgo.PreTxnCommitFnContext(ctx, tx.fillCommit), try)
	switch {
	case fenced(err):
		return false, fencedBy(err)
	case err != nil:
		return false, fmt.Errorf("%w: end: %w", ErrUnknownOutcome, err)
	case stepErr != nil:
		return false, stepErr
	case fenced(tx.failed()):
		return false, fencedBy(tx.failed())
	}
	if err := tx.failed(); err != nil {
		tx.w.cfg.Logger.Warn("transaction aborted", "group", tx.w.cfg.Group, "error", err)
	}
	return committed, nil
}

// fillCommit replaces what the client would commit (all that was polled) by
// the stage's positions. It runs also when nothing was polled, which is what
// puts member and generation into every transaction.
func (tx *Tx) fillCommit(req *kmsg.TxnOffsetCommitRequest) error {
	byTopic := make(map[string][]kmsg.TxnOffsetCommitRequestTopicPartition)
	for p, at := range tx.positions {
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Partition = p.Partition
		rp.Offset = at.Offset
		rp.LeaderEpoch = -1
		if was, known := tx.read[p]; known && at.Offset <= was.all {
			rp.LeaderEpoch = was.epoch
		}
		rp.Metadata = &at.Metadata
		byTopic[p.Topic] = append(byTopic[p.Topic], rp)
	}
	req.Topics = req.Topics[:0]
	for topic, parts := range byTopic {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic = topic
		rt.Partitions = parts
		req.Topics = append(req.Topics, rt)
	}
	return nil
}

// fenced tells that the transaction coordinator gave this transactional id to
// someone newer: to another process, or to nobody after a transaction timed
// out while this process was paused. Run tells the two apart.
func fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

// fencedBy is ErrFenced with the broker's word. The client repeats that for each
// partition, on a line each: once says it.
func fencedBy(err error) error {
	why := kerr.ProducerFenced
	if !errors.Is(err, why) {
		why = kerr.InvalidProducerEpoch
	}
	return fmt.Errorf("%w: %w", ErrFenced, why)
}
