package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Waker lets other goroutines end a worker's wait for records.
type Waker struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	woken  bool
}

// Wake makes the next Step run at once. It never blocks.
func (k *Waker) Wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.woken = true
	if k.cancel != nil {
		k.cancel()
	}
}

// arm returns a context that ends at Wake, or at once if Wake was called since
// the last arm.
func (k *Waker) arm(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = cancel
	if k.woken {
		k.woken = false
		cancel()
	}
	return ctx, cancel
}

func (k *Waker) disarm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = nil
	k.woken = false
}

// fencedAgain is how soon a second fencing means another process rather than a
// pause of this one: after a pause, one new client is enough.
const fencedAgain = time.Minute

// maxFailures is how often in a row a stage may fail for a reason that a new
// start may mend, such as a restore from a broker that went away.
const maxFailures = 5

// Run reads cfg.Topics and drives the stage that newStage makes, until ctx ends
// (then it finishes the transaction under way and returns nil) or something
// fatal happens. After an unknown outcome or a lost session it closes the
// client, drops the stage, makes new ones and goes on.
//
// waker may be nil. newStage is called with a function that pauses or resumes
// fetching of partitions.
func Run(ctx context.Context, cfg Config, waker *Waker, newStage func(Fetching) Stage) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("stream %s: %w", cfg.Group, err)
	}
	cfg = cfg.withDefaults()
	if waker == nil {
		waker = &Waker{}
	}
	var lastFenced time.Time
	failures := 0
	backoff := 100 * time.Millisecond
	for {
		started := time.Now()
		err := runOnce(ctx, cfg, waker, newStage)
		switch {
		case err == nil || ctx.Err() != nil && !errors.Is(err, errFatal):
			return nil
		case errors.Is(err, ErrFenced):
			if !lastFenced.IsZero() && time.Since(lastFenced) < fencedAgain {
				return fmt.Errorf("stream %s: %w", cfg.Group, err)
			}
			lastFenced = time.Now()
		case errors.Is(err, ErrUnknownOutcome):
		case errors.Is(err, errFatal) || failures >= maxFailures:
			return fmt.Errorf("stream %s: %w", cfg.Group, err)
		default:
			failures++
		}
		if time.Since(started) > time.Minute {
			backoff, failures = 100*time.Millisecond, 0
		}
		cfg.Logger.Warn("stream restarts from its log", "group", cfg.Group, "error", err, "in", backoff)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, 5*time.Second)
	}
}

// errFatal marks what must be reported even when the process is stopping.
var errFatal = errors.New("state and log disagree")

// Fatal marks err as one that no restart mends: Run returns it.
func Fatal(err error) error { return fmt.Errorf("%w: %w", errFatal, err) }

// Fetching pauses and resumes partitions; a paused one keeps its assignment.
type Fetching interface {
	Pause(...Partition)
	Resume(...Partition)
	// Rewind sets where to read the partitions next; for a stage that dropped
	// what it had polled.
	Rewind(map[Partition]int64)
}

// worker is one life of a client: from joining the group to its end.
type worker struct {
	cfg     Config
	session *kgo.GroupTransactSession
	waker   *Waker
	stage   Stage

	assigns chan assignment // from the client's group goroutine to Run's
	closed  chan struct{}

	mu        sync.Mutex
	committed map[Partition]Position // of the last offset fetch: metadata only
	revoked   bool                   // since the last look
}

type assignment struct {
	committed map[Partition]Position
	reply     chan assigned
}

type assigned struct {
	start map[Partition]int64
	err   error
}

func runOnce(ctx context.Context, cfg Config, waker *Waker, newStage func(Fetching) Stage) (err error) {
	w := &worker{cfg: cfg, waker: waker, assigns: make(chan assignment), closed: make(chan struct{})}
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
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
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
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
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
	defer w.session.AllowRebalance()
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
		w.stage.Revoke()
		// The session remembers a revocation until End, and would abort the
		// next transaction for it.
		if _, err := w.session.End(ctx, kgo.TryAbort); err != nil {
			return fmt.Errorf("%w: reset after a rebalance: %w", ErrUnknownOutcome, err)
		}
	}
	select {
	case a := <-w.assigns:
		start, err := w.stage.Assign(ctx, a.committed)
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
	tx := &Tx{w: w, ctx: txCtx}
	stepErr := w.stage.Step(txCtx, tx, recs)
	if !tx.begun && len(tx.positions) == 0 && stepErr == nil && tx.failed() == nil {
		return nil
	}
	committed, err := tx.end(txCtx, stepErr)
	if err != nil {
		return err
	}
	w.stage.Ended(committed)
	return nil
}

// poll returns what is there, waiting for it until ctx ends. Once it has
// returned, no rebalance begins until AllowRebalance, whether or not there were
// records.
func (w *worker) poll(ctx context.Context) ([]*kgo.Record, error) {
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
	fetches.EachError(func(topic string, p int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, kgo.ErrClientClosed):
		case errors.Is(err, kerr.OffsetOutOfRange):
			errs = append(errs, Fatal(fmt.Errorf("%s/%d: the group's offset is out of range: records were deleted before they were read, or the topic was made anew: %w", topic, p, err)))
		case isDataLoss(err):
			errs = append(errs, Fatal(fmt.Errorf("%s/%d: %w", topic, p, err)))
		default:
			w.cfg.Logger.Warn("fetch failed", "topic", topic, "partition", p, "error", err)
		}
	})
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return fetches.Records(), nil
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

func (w *worker) takeRevoked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.revoked
	w.revoked = false
	return r
}

func (w *worker) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	got := make(map[Partition]Position)
	keep := func(topic string, p int32, metadata *string) {
		if metadata != nil {
			got[Partition{topic, p}] = Position{Metadata: *metadata}
		}
	}
	for _, g := range resp.Groups { // OffsetFetch v8 and later
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				keep(t.Topic, p.Partition, p.Metadata)
			}
		}
	}
	for _, t := range resp.Topics { // before v8
		for _, p := range t.Partitions {
			keep(t.Topic, p.Partition, p.Metadata)
		}
	}
	w.mu.Lock()
	w.committed = got
	w.mu.Unlock()
	return nil
}

// assign runs on the client's group goroutine, after the group's offsets were
// fetched and before anything is read. It hands over to Run's goroutine, so
// that a stage's state has one owner.
func (w *worker) assign(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	w.mu.Lock()
	all := w.committed
	w.mu.Unlock()
	committed := make(map[Partition]Position)
	for topic, parts := range offsets {
		for p, at := range parts {
			pos := Position{Offset: -1, Epoch: -1, Metadata: all[Partition{topic, p}].Metadata}
			if eo := at.EpochOffset(); eo.Offset >= 0 {
				pos.Offset, pos.Epoch = eo.Offset, eo.Epoch
			}
			committed[Partition{topic, p}] = pos
		}
	}
	a := assignment{committed: maps.Clone(committed), reply: make(chan assigned, 1)}
	for sent := false; !sent; {
		w.waker.Wake()
		select {
		case w.assigns <- a:
			sent = true
		case <-time.After(50 * time.Millisecond): // the wake fell between two waits
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.closed:
			return nil, kgo.ErrClientClosed
		}
	}
	select {
	case r := <-a.reply:
		if r.err != nil {
			return nil, r.err
		}
		for p, at := range r.start {
			if committed[p].Offset != at {
				offsets[p.Topic][p.Partition] = kgo.NewOffset().At(at)
			}
		}
		return w.resolve(ctx, offsets)
	case <-w.closed:
		return nil, kgo.ErrClientClosed
	}
}

// resolve turns "the start of the log" into an offset. The client goes back to
// where a partition was assigned when a transaction aborts, and it can only go
// back to an offset.
func (w *worker) resolve(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	var missing []string
	for topic, parts := range offsets {
		for _, at := range parts {
			if at.EpochOffset().Offset < 0 {
				missing = append(missing, topic)
				break
			}
		}
	}
	if len(missing) == 0 {
		return offsets, nil
	}
	starts, err := kadm.NewClient(w.session.Client()).ListStartOffsets(ctx, missing...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list log starts: %w", err)
	}
	for _, topic := range missing {
		for p, at := range offsets[topic] {
			if st, ok := starts.Lookup(topic, p); ok && at.EpochOffset().Offset < 0 {
				offsets[topic][p] = kgo.NewOffset().At(st.Offset)
			}
		}
	}
	return offsets, nil
}

type fetching struct{ cl *kgo.Client }

func (f fetching) Pause(ps ...Partition)  { f.cl.PauseFetchPartitions(byTopic(ps)) }
func (f fetching) Resume(ps ...Partition) { f.cl.ResumeFetchPartitions(byTopic(ps)) }

func (f fetching) Rewind(to map[Partition]int64) {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for p, at := range to {
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	f.cl.SetOffsets(offsets)
}

func byTopic(ps []Partition) map[string][]int32 {
	m := make(map[string][]int32)
	for _, p := range ps {
		m[p.Topic] = append(m[p.Topic], p.Partition)
	}
	return m
}
