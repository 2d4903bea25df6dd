package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// metadataMinAge is how long a batch that was refused waits at most to be tried
// again, and how often a client asks for the leader of a partition that has none.
const metadataMinAge = 50 * time.Millisecond

// worker is one life of a client: from joining the group to its end.
type worker struct {
	cfg     Config
	session *kgo.GroupTransactSession
	waker   *Waker
	stage   Stage
	failed  FetchErrors

	assigns chan assignment // from the client's group goroutine to Run's
	closed  chan struct{}

	passed     map[Partition]int64 // where it went on behind the last batch that was not read
	quarantine *quarantine         // of this Run, as progress is
	progress   *progress
	pending    []*kgo.Record         // read, and for the next transaction
	took       []place               // memory of the next transaction
	carried    []*kgo.Record         // pending as of the last commit: after an abort the client reads again from there
	read       map[Partition]reading // of what is assigned; Run's goroutine alone has it

	mu        sync.Mutex
	committed map[Partition]Position // of the last offset fetch: metadata only
	revoked   bool                   // since the last look
	blocked   time.Time              // since when a rebalance waits for AllowRebalance; zero when none does
}

type assignment struct {
	committed map[Partition]Position
	reply     chan assigned
}

type assigned struct {
	start map[Partition]int64
	err   error
}

func runOnce(ctx context.Context, cfg Config, waker *Waker, newStage func(Fetching) Stage, q *quarantine, pr *progress) (err error) {
	w := &worker{cfg: cfg, waker: waker, quarantine: q, progress: pr, assigns: make(chan assignment), closed: make(chan struct{}), read: make(map[Partition]reading), passed: make(map[Partition]int64)}
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, cfg.SessionTimeout/3)),
		kgo.BlockRebalanceOnPoll(),
		kgo.TransactionalID(cfg.TransactionalID),
		kgo.TransactionTimeout(cfg.TransactionTimeout),
		// A transaction that begins right after another meets the broker still
		// writing the other's markers. The client's 20 ms would be most of the
		// latency of two hops.
		kgo.ConcurrentTransactionsBackoff(2 * time.Millisecond),
		// Since KIP-890 the broker may also say so to the transaction's first batch.
		// The client then waits for metadata before it tries again, and asks for
		// them no sooner than this after the last time: 5 s, if it is not told.
		kgo.MetadataMinAge(metadataMinAge),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // they are for Tx.Past, and no stage's
		// An offset out of range means that what the group has not read is
		// gone, or that the group points into nothing: never guess.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(cfg.FetchMaxWait),
		kgo.FetchMaxPartitionBytes(cfg.FetchMaxPartitionBytes),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(cfg.Linger),
		kgo.MaxBufferedRecords(200_000),
		Bounded(),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) { w.setBlocked() }),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {}), // gates the assignment against polls
		kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) { w.setRevoked() }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { w.setRevoked() }),
		kgo.OnOffsetsFetched(w.offsetsFetched),
		kgo.AdjustFetchOffsetsFn(w.assign),
	}
	if cfg.BatchBytes != nil {
		opts = append(opts, kgo.ProducerBatchMaxBytesFn(cfg.BatchBytes))
	}
	w.session, err = kgo.NewGroupTransactSession(append(opts, cfg.Options...)...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer w.session.CloseAllowingRebalance()
	defer close(w.closed)

	// Taking the producer id first aborts this slot's own crashed transaction,
	// so that nobody waits for it to time out.
	if _, _, err := w.session.Client().ProducerID(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%w: take producer id: %w", ErrUnknownOutcome, err)
	}
	w.stage = newStage(fetching{w.session.Client()})
	for {
		if err := w.turn(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// turn waits for records, restores what was assigned, and runs one transaction.
func (w *worker) turn(ctx context.Context) error {
	defer w.allowRebalance()
	pollCtx, cancel := w.waker.arm(ctx, max(w.stage.Wait(), 0))
	recs, err := w.poll(pollCtx)
	cancel()
	w.waker.disarm()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if w.takeRevoked() {
		w.pending, w.carried = nil, nil
		clear(w.passed)
		w.quarantine.revoked()
		w.progress.well()
		clear(w.read) // a stage that keeps its state stands nowhere else until it is handed partitions
		w.stage.Revoke()
		// The session remembers a revocation until End, and would abort the
		// next transaction for it.
		if _, err := w.session.End(ctx, kgo.TryAbort); err != nil {
			return fmt.Errorf("%w: reset after a rebalance: %w", ErrUnknownOutcome, err)
		}
	} else if st, ok := w.stage.(Settler); ok {
		// After a rebalance was let in, poll returns only when it has revoked.
		st.Leaving(w.rebalanceWaits())
	}
	select {
	case a := <-w.assigns:
		start, err := w.stage.Assign(ctx, a.committed)
		w.begin(a.committed, start)
		a.reply <- assigned{start, err}
		if err != nil {
			return fmt.Errorf("assign: %w", err)
		}
		// The poll above ended before anything of this assignment was read.
		if len(recs) == 0 {
			return nil
		}
	default:
	}
	// A stop of the process must not cut a transaction in two: it ends in its
	// own time, bounded by the transaction's timeout.
	txCtx, cancelTx := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.TransactionTimeout)
	defer cancelTx()
	tx := &Tx{w: w, ctx: txCtx, read: w.read, took: w.took[:0]}
	defer func() { w.took = tx.took }()
	given := tx.take(recs)
	w.progress.begins(len(given) > 0)
	stepErr := w.step(txCtx, tx, given)
	if errors.Is(stepErr, errPoisoned) {
		if _, ok := w.stage.(Resilient); !ok {
			return stepErr // nothing that a panic may have half changed is kept
		}
		tx.fail(stepErr)
		stepErr = nil
	}
	if !tx.begun && len(tx.positions) == 0 && stepErr == nil && tx.failed() == nil {
		w.progress.idle(len(given) > 0)
		w.passUnread(tx)
		return nil
	}
	committed, err := tx.end(txCtx, stepErr)
	if !committed {
		w.pending = slices.Clone(w.carried)
		w.progress.failed(cmp.Or(err, tx.failed()))
		if err := w.learn(tx); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if committed {
		w.quarantine.committed(tx.attempt(), tx.positions)
		w.progress.well()
		w.carried = slices.Clone(w.pending)
	}
	w.stage.Ended(committed)
	if committed {
		w.passUnread(tx)
	}
	return nil
}

// passUnread lets the client read on behind the batches that it stopped at, once they are
// ended. Only then: after an abort it stops there once more.
func (w *worker) passUnread(tx *Tx) {
	for _, r := range tx.unread {
		w.passed[Partition{r.Topic, r.Partition}] = r.Offset + 1
		w.cfg.Watch.Skipped(r.Topic)
		w.cfg.Watch.Poisoned(w.progress.stage, schemas.ReasonBatchTooLarge)
		w.pass(r)
	}
}

func (w *worker) pass(r *kgo.Record) {
	w.session.Client().SetOffsets(map[string]map[int32]kgo.EpochOffset{r.Topic: {r.Partition: {Epoch: r.LeaderEpoch, Offset: r.Offset + 1}}})
}

// errPoisoned is a panic of one record, which is poison from now on.
var errPoisoned = errors.New("a record made the stage panic")

// step runs the stage's Step. A panic while it decides a record makes that record poison.
func (w *worker) step(ctx context.Context, tx *Tx, given []*kgo.Record) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		stack := string(debug.Stack())
		if tx.on == (place{}) {
			err = fmt.Errorf("panic: %v", v)
			w.cfg.Logger.Error("a stage panicked", "group", w.cfg.Group, "panic", v, "stack", stack)
			return
		}
		why := fmt.Errorf("panic: %v", v)
		w.cfg.Watch.Poisoned(w.progress.stage, schemas.ReasonInternalError)
		w.cfg.Logger.Error("a record made the stage panic; it is ended without being processed", "group", w.cfg.Group, "record", tx.on.String(), "panic", v, "stack", stack)
		if err = w.quarantine.panicked(tx.on, why); err == nil {
			err = fmt.Errorf("%w: %s: %w", errPoisoned, tx.on, why)
		}
	}()
	return w.stage.Step(ctx, tx, given)
}

// learn finds the record that made a transaction fail, if one did.
func (w *worker) learn(tx *Tx) error {
	found, err := w.quarantine.aborted(tx.attempt())
	for _, at := range found {
		w.cfg.Watch.Poisoned(w.progress.stage, w.quarantine.poison[at].Reason)
		w.cfg.Logger.Error("a record cannot be processed; it is ended without being processed", "group", w.cfg.Group, "record", at.String(), "error", w.quarantine.poison[at])
	}
	return err
}

func (w *worker) batchBytes(topic string) int {
	if w.cfg.BatchBytes == nil {
		return 1_000_012 // the client's default
	}
	return int(w.cfg.BatchBytes(topic))
}

// poll returns what is there, waiting for it until ctx ends. Once it has
// returned, no rebalance begins until AllowRebalance, whether or not there were
// records.
func (w *worker) poll(ctx context.Context) ([]*kgo.Record, error) {
	if len(w.pending) > 0 { // no more than what tells of errors
		//lint:ignore SA1012 as in drain
		return w.judge(w.session.PollRecords(nil, 1))
	}
	if recs, err := w.drain(); len(recs) > 0 || err != nil {
		return recs, err
	}
	return w.judge(w.session.PollRecords(ctx, w.cfg.MaxPoll))
}

// drain returns what has been fetched already.
func (w *worker) drain() ([]*kgo.Record, error) {
	//lint:ignore SA1012 a nil context is the client's way to say: do not wait
	return w.judge(w.session.PollRecords(nil, w.cfg.MaxPoll))
}

// judge tells the errors that end the worker from those that the client mends.
func (w *worker) judge(fetches kgo.Fetches) ([]*kgo.Record, error) {
	var errs []error
	var unread []*kgo.ErrDecompressTooLarge
	fetches.EachError(func(topic string, p int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, kgo.ErrClientClosed):
		case errors.Is(err, kerr.OffsetOutOfRange):
			errs = append(errs, Fatal(fmt.Errorf("%s/%d: group %s: %w: %w", topic, p, w.cfg.Group, ErrOffsetOutOfRange, err)))
		case isDataLoss(err):
			errs = append(errs, Fatal(fmt.Errorf("%s/%d: group %s: %w: %w", topic, p, w.cfg.Group, ErrDataLoss, err)))
		case errors.Is(err, kgo.ErrMaxDecompress):
			if at, ok := Oversized(err); ok {
				unread = append(unread, at)
			}
		default:
			w.failed.Warn(w.cfg.Logger, "fetch failed", topic, p, err)
		}
	})
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	records := fetches.Records()
	n := 0
	for _, r := range records {
		p := Partition{r.Topic, r.Partition}
		if r.Attrs.IsControl() {
			if was, known := w.read[p]; known {
				w.read[p] = reading{was.record, r.Offset + 1, w.epochOf(p, r.LeaderEpoch)}
			}
			continue
		}
		w.read[p] = reading{r.Offset + 1, r.Offset + 1, w.epochOf(p, r.LeaderEpoch)}
		records[n] = r
		n++
	}
	clear(records[n:])
	records = records[:n]
	for _, at := range unread {
		r, p := Unread(at), Partition{at.Topic, at.Partition}
		if at.NextOffset <= w.passed[p] {
			w.pass(r)
			continue
		}
		if slices.ContainsFunc(w.pending, func(was *kgo.Record) bool { return placeOf(was) == placeOf(r) }) {
			continue // the client stopped there once more
		}
		w.read[p] = reading{at.NextOffset, at.NextOffset, w.epochOf(p, at.Epoch)}
		w.cfg.Logger.Error("a batch is skipped: it decompresses to more than the bound", "group", w.cfg.Group, "topic", at.Topic, "partition", at.Partition, "from", at.Offset, "to", at.NextOffset-1)
		records = append(records, r)
	}
	return records, nil
}

// reading is how far a partition has been read: the offset after the last record
// that the stage was given, or where it began, and the one after what lies behind
// that. In between is no record, but markers of transactions and what aborted ones
// wrote.
//
// epoch is the leader's epoch to commit with any offset up to all, or -1. With it the broker says
// whether it still has what was read (KIP-320). It is the highest of what was read: epochs only
// grow along a log, and so it is never lower than that of the record before the offset. One
// that is lower would be taken for a loss. One that is higher would not hide any: who leads a log that
// was cut begins with an epoch that is higher still.
type reading struct {
	record, all int64
	epoch       int32
}

// past returns all for an offset in between, and any other as it is.
func (r reading) past(at int64) int64 {
	if at < r.record {
		return at
	}
	return max(at, r.all)
}

// begin notes where the partitions of an assignment are read from. Of one that begins
// where its log does nothing is known before its first record.
func (w *worker) begin(committed map[Partition]Position, start map[Partition]int64) {
	clear(w.read)
	for p, pos := range committed {
		at, ok := start[p]
		if !ok {
			at = pos.Offset
		}
		epoch := int32(-1)
		if at == pos.Offset {
			epoch = pos.Epoch
		}
		if at >= 0 {
			w.read[p] = reading{at, at, epoch}
		}
	}
}

// epochOf is the epoch of a partition after something of this epoch was read; batches of an old format have -1.
func (w *worker) epochOf(p Partition, epoch int32) int32 {
	if was, known := w.read[p]; known && epoch >= 0 {
		return max(was.epoch, epoch)
	}
	return epoch
}

func isDataLoss(err error) bool {
	_, ok := errors.AsType[*kgo.ErrDataLoss](err)
	return ok
}

func (w *worker) setRevoked() {
	w.mu.Lock()
	w.revoked = true
	w.mu.Unlock()
	w.waker.Wake()
}

func (w *worker) setBlocked() {
	w.mu.Lock()
	w.blocked = time.Now()
	w.mu.Unlock()
	w.waker.Wake()
}

func (w *worker) rebalanceWaits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.blocked.IsZero()
}

// allowRebalance lets a rebalance begin between two turns, unless the stage has
// work under way that it may still settle in time.
func (w *worker) allowRebalance() {
	st, ok := w.stage.(Settler)
	busy := ok && st.Busy()
	w.mu.Lock()
	if busy && (w.blocked.IsZero() || time.Since(w.blocked) < settleWithin) {
		w.mu.Unlock()
		return
	}
	w.blocked = time.Time{}
	w.mu.Unlock()
	w.session.AllowRebalance()
}

func (w *worker) takeRevoked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.revoked
	w.revoked = false
	return r
}
