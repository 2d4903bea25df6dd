package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

const (
	// maxPoll is by how many records the memory allowed may be exceeded.
	maxPoll      = 2_000
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// stopWithin bounds the end of inserts that are under way when the sink is
	// told to stop. What is cut off is done by the next owner.
	stopWithin = 10 * time.Second
)

// ErrTopicAnew means that weir.status was deleted and made again while the group
// kept its offsets: rows of the old topic cannot be told from those of the new.
var ErrTopicAnew = errors.New("weir.status was made anew")

// Run loads weir.status until ctx ends, and then returns nil. ClickHouse or
// Kafka being away is waited out. It returns an error only for what waiting does
// not mend: warehouse.ErrUnfit, ErrTopicAnew, ErrNewerMetadata, and records that
// the group has read and Kafka has no longer heard of.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	cfg = cfg.withDefaults()
	conn, err := connect(ctx, cfg)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	s := &sink{
		cfg: cfg, conn: conn, metrics: newMetrics(cfg.Metrics), name: cfg.Names.Status(),
		parts: make(map[int32]*partition), ledger: newLedger(), cancels: make(map[*partition]context.CancelFunc),
		paused: make(map[int32]bool), results: make(chan result, cfg.Inserts), checked: make(chan checked, 1),
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	return nil
}

// connect waits for ClickHouse, migrates it and checks it. It returns nil and no
// error when ctx ended.
func connect(ctx context.Context, cfg Config) (driver.Conn, error) {
	for n := 0; ; n++ {
		conn, err := prepare(ctx, cfg)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, warehouse.ErrUnfit):
			return nil, fmt.Errorf("sink: %w", err)
		case ctx.Err() != nil:
			return nil, nil
		}
		wait := backoff(n)
		cfg.Logger.Warn("ClickHouse is not ready; nothing is lost, weir.status waits", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(wait):
		}
	}
}

func prepare(ctx context.Context, cfg Config) (driver.Conn, error) {
	if !cfg.KeepSchema {
		if err := warehouse.Migrate(ctx, cfg.URL); err != nil {
			return nil, err
		}
	}
	conn, err := warehouse.Open(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := warehouse.Check(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// backoff is how long to wait after n failures before the next try: doubling,
// capped, with jitter so that partitions do not come back together.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n, 20), maxBackoff)
	return d/2 + rand.N(d/2+1)
}

// sink is one member of the group. Its fields belong to the goroutine of run,
// but for what mu guards.
type sink struct {
	cfg     Config
	conn    driver.Conn
	cl      *kgo.Client
	metrics *metrics
	name    string // of the topic
	topic   string // its id

	parts   map[int32]*partition
	ledger  *ledger
	cancels map[*partition]context.CancelFunc // of inserts under way
	results chan result
	running int
	paused  map[int32]bool
	inserts sync.WaitGroup

	checked   chan checked
	checking  bool
	nextCheck time.Time

	mu       sync.Mutex
	metadata map[int32]string // of the last offset fetch
	revoked  bool
	assigned map[int32]position // since
	wake     context.CancelFunc
}

// position is where the group stands in a partition; offset -1 is nowhere.
type position struct {
	offset   int64
	metadata string
}

// result is the end of one try of an insert, or of a look.
type result struct {
	p       *partition
	looked  bool
	present map[int64]struct{}
	none    bool
	err     error
}

func (s *sink) run(ctx context.Context) (err error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.cfg.Brokers...),
		kgo.ClientID("weir-sink"),
		kgo.ConsumerGroup(Group(s.cfg.Names)),
		kgo.ConsumeTopics(s.name),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(s.cfg.SessionTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, s.cfg.SessionTimeout/3)),
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// What the group has not read and Kafka no longer has is never guessed.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(16 << 20),
		kgo.FetchMaxPartitionBytes(4 << 20),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {}), // gates the assignment against polls
		kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) { s.setRevoked() }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { s.setRevoked() }),
		kgo.OnOffsetsFetched(s.offsetsFetched),
		kgo.AdjustFetchOffsetsFn(s.setAssigned),
	}
	if s.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(s.cfg.InstanceID))
	}
	s.cl, err = kgo.NewClient(append(opts, s.cfg.Options...)...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer s.cl.CloseAllowingRebalance()
	defer s.inserts.Wait()
	defer s.dropAll()
	if s.topic, err = s.topicID(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := s.turn(ctx); err != nil {
			return err
		}
	}
	return s.finish()
}

// topicID waits for the topic to exist.
func (s *sink) topicID(ctx context.Context) (string, error) {
	adm := kadm.NewClient(s.cl)
	for n := 0; ; n++ {
		ts, err := adm.ListTopics(ctx, s.name)
		if err == nil {
			err = ts.Error()
		}
		if err == nil {
			id := ts[s.name].ID.String()
			return id, nil
		}
		if ctx.Err() != nil {
			return "", nil
		}
		wait := backoff(n)
		s.cfg.Logger.Warn("the status topic cannot be read", "topic", s.name, "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return "", nil
		case <-time.After(wait):
		}
	}
}

// turn takes in what happened, and does what is due. No rebalance happens
// between the poll's return and AllowRebalance.
func (s *sink) turn(ctx context.Context) error {
	defer s.cl.AllowRebalance()
	recs, err := s.poll(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.rebalance(); err != nil {
		return err
	}
	now := time.Now()
	for _, r := range recs {
		if p := s.parts[r.Partition]; p != nil {
			p.add(r, now)
		}
	}
	s.collect(now)
	pressed := s.held() >= s.cfg.Memory
	for _, p := range s.parts {
		p.expire(now)
		p.makePlan(now, pressed)
	}
	if err := s.commit(ctx); err != nil {
		return err
	}
	s.start(ctx, time.Now())
	s.pause()
	s.check(ctx, now)
	s.lag(now)
	return nil
}

// poll returns what was fetched. It waits for it until something else is due.
// Once it has returned no rebalance begins until AllowRebalance.
func (s *sink) poll(ctx context.Context) ([]*kgo.Record, error) {
	ctx, cancel := context.WithDeadline(ctx, s.due())
	defer cancel()
	s.mu.Lock()
	s.wake = cancel
	if s.revoked || len(s.assigned) > 0 || len(s.results) > 0 {
		cancel()
	}
	s.mu.Unlock()
	// First without waiting: a context that has ended already would hide what
	// is there.
	//lint:ignore SA1012 a nil context is the client's way to say: do not wait
	fetches := s.cl.PollRecords(nil, maxPoll)
	if fetches.Empty() {
		fetches = s.cl.PollRecords(ctx, maxPoll)
	}
	var errs []error
	fetches.EachError(func(topic string, p int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
		case errors.Is(err, kerr.OffsetOutOfRange), isDataLoss(err):
			errs = append(errs, s.skip(ctx, p, err))
		default:
			s.cfg.Logger.Warn("fetch failed", "topic", topic, "partition", p, "error", err)
		}
	})
	return fetches.Records(), errors.Join(errs...)
}

func isDataLoss(err error) bool {
	_, ok := errors.AsType[*kgo.ErrDataLoss](err)
	return ok
}

// skip goes on at the log's start where Kafka deleted records before they were
// loaded: they are lost, and waiting would lose more. Anything else that makes
// the group's offset impossible is fatal.
func (s *sink) skip(_ context.Context, id int32, cause error) error {
	p := s.parts[id]
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	starts, err := kadm.NewClient(s.cl).ListStartOffsets(ctx, s.name)
	if err != nil {
		s.cfg.Logger.Warn("fetch failed", "partition", id, "error", errors.Join(cause, err))
		return nil
	}
	start, ok := starts.Lookup(s.name, id)
	if !ok || start.Err != nil || start.Offset <= p.read {
		return fmt.Errorf("%s/%d: offset %d was read before and Kafka has no longer heard of it: %w", s.name, id, p.read, cause)
	}
	s.cfg.Logger.Error("Kafka deleted status events before they were loaded into ClickHouse", "partition", id, "from", p.read, "to", start.Offset)
	s.metrics.skipped.Add(float64(start.Offset - p.read))
	p.skipped(start.Offset, time.Now())
	s.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.name: {id: {Epoch: -1, Offset: p.read}}})
	return nil
}

// due is when the next turn must be although nothing happens.
func (s *sink) due() time.Time {
	now := time.Now()
	at := now.Add(time.Second)
	for _, p := range s.parts {
		if t, ok := p.wakes(now); ok && t.Before(at) {
			if _, insert := p.wants(now); insert && s.running >= s.cfg.Inserts {
				continue // an insert that ends wakes us
			}
			at = t
		}
	}
	return at
}

// rebalance drops what was revoked and takes what was assigned.
func (s *sink) rebalance() error {
	s.mu.Lock()
	revoked, assigned := s.revoked, s.assigned
	s.revoked, s.assigned = false, nil
	s.mu.Unlock()
	if revoked {
		s.dropAll()
	}
	for id, at := range assigned {
		plan, err := s.standing(id, at)
		if err != nil {
			return err
		}
		s.parts[id] = newPartition(s.topic, plan, s.cfg.limits())
		s.ledger.start(id)
		if plan.planned() {
			s.cfg.Logger.Info("a planned insert is taken over", "partition", id, "from", plan.From, "to", plan.To, "try", plan.Try)
		}
	}
	return nil
}

// standing reads where the group stands in a partition.
func (s *sink) standing(id int32, at position) (Plan, error) {
	plan, err := ParseMetadata(id, at.offset, at.metadata)
	switch {
	case errors.Is(err, ErrForeignMetadata):
		if at.offset >= 0 {
			s.cfg.Logger.Warn("the group's offset was not set by a sink: rows that are there already are left out", "partition", id, "offset", at.offset)
		}
		start := max(at.offset, 0)
		return Plan{Topic: s.topic, Partition: id, From: start, To: start, Doubt: math.MaxInt64}, nil
	case err != nil:
		return Plan{}, fmt.Errorf("partition %d: %w", id, err)
	case plan.Topic != s.topic:
		return Plan{}, fmt.Errorf("%w: group %s stands in topic %s and %s is now %s: delete the group, and the old topic's rows or the database",
			ErrTopicAnew, Group(s.cfg.Names), plan.Topic, s.name, s.topic)
	}
	return plan, nil
}

func (s *sink) dropAll() {
	for _, cancel := range s.cancels {
		cancel() // whoever is next sends it again under the same token
	}
	clear(s.parts)
	s.ledger.clear()
	if len(s.paused) > 0 {
		s.setPaused(nil)
	}
}

// collect takes in the inserts that ended.
func (s *sink) collect(now time.Time) {
	for {
		select {
		case r := <-s.results:
			s.running--
			s.cancels[r.p]()
			delete(s.cancels, r.p)
			r.p.running = false
			if s.parts[r.p.id] != r.p {
				continue // not ours any more
			}
			p := r.p
			if r.err != nil {
				wait := backoff(p.failures)
				p.failed(now.Add(wait))
				s.metrics.failures.Inc()
				s.cfg.Logger.Warn("ClickHouse did not take or tell what it was asked; it is tried again", "partition", p.id, "phase", p.phase,
					"from", p.from, "to", p.plan.To, "try", p.plan.Try, "failures", p.failures, "error", r.err, "retry_in", wait)
				continue
			}
			confirmed := p.rows
			if r.looked {
				confirmed = confirmed[:p.looked(r.present, r.none, now)]
			} else {
				p.inserted()
			}
			s.ledger.loaded(p.id, p.from, confirmed, now)
			s.metrics.rows.Add(float64(len(confirmed)))
		default:
			return
		}
	}
}

// commit commits every position that changed, in one request.
func (s *sink) commit(ctx context.Context) error {
	offsets := make(map[int32]kgo.EpochOffset)
	metadata := make(map[int32]string)
	for id, p := range s.parts {
		if pos, ok := p.position(); ok {
			offsets[id] = kgo.EpochOffset{Epoch: -1, Offset: pos.From}
			metadata[id] = pos.Metadata()
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	// A stop of the process must not make a commit's outcome unknown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				m := metadata[p.Partition]
				p.Metadata = &m
			}
		}
		return nil
	})
	failed := func(err error) {
		s.cfg.Logger.Warn("offsets were not committed; they will be committed again", "error", err)
	}
	s.cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.name: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				failed(err)
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						failed(fmt.Errorf("partition %d: %w", p.Partition, err))
						continue
					}
					if own := s.parts[p.Partition]; own != nil {
						own.committed()
					}
				}
			}
		})
	return nil
}

// start begins the inserts that are due, a limited number at once.
func (s *sink) start(ctx context.Context, now time.Time) {
	for id, p := range s.parts {
		at, ok := p.wants(now)
		if !ok || at.After(now) {
			continue
		}
		if s.running >= s.cfg.Inserts {
			return
		}
		s.running++
		p.running = true
		insertCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		s.cancels[p] = cancel
		plan, rows, r := p.plan, p.rows, result{p: p, looked: p.phase == looking}
		from, to := p.from, p.from
		if len(rows) > 0 {
			to = rows[len(rows)-1].Offset + 1
		}
		s.inserts.Go(func() {
			if r.looked {
				r.present, r.none, r.err = present(insertCtx, s.conn, id, from, to)
			} else {
				r.err = load(insertCtx, s.conn, s.cfg.HashKey, plan, rows)
			}
			s.results <- r // has room for all that run
			s.wakeUp()
		})
	}
}

// pause stops the fetching of partitions that hold a full range beside the one
// that is being inserted, and of all but one when memory is short. That one is a
// former owner's range: until it is whole nothing of it can be let go.
func (s *sink) pause() {
	want := make(map[int32]bool)
	short := s.held() >= s.cfg.Memory
	spared := int32(math.MaxInt32)
	for id, p := range s.parts {
		if p.phase == rereading {
			spared = min(spared, id)
		}
	}
	for id, p := range s.parts {
		if p.full() || short && id != spared {
			want[id] = true
		}
	}
	s.setPaused(want)
}

func (s *sink) setPaused(want map[int32]bool) {
	var stop, resume []int32
	for id := range want {
		if !s.paused[id] {
			stop = append(stop, id)
		}
	}
	for id := range s.paused {
		if !want[id] {
			resume = append(resume, id)
		}
	}
	if len(stop) > 0 {
		s.cl.PauseFetchPartitions(map[string][]int32{s.name: stop})
	}
	if len(resume) > 0 {
		s.cl.ResumeFetchPartitions(map[string][]int32{s.name: resume})
	}
	if want == nil {
		want = make(map[int32]bool)
	}
	s.paused = want
}

func (s *sink) held() int {
	n := 0
	for _, p := range s.parts {
		n += p.held()
	}
	return n
}

func (s *sink) lag(now time.Time) {
	var lag time.Duration
	for _, p := range s.parts {
		if at, ok := p.oldest(); ok {
			lag = max(lag, now.Sub(at))
		}
	}
	s.metrics.lag.Set(lag.Seconds())
	s.metrics.held.Set(float64(s.held()))
}

// finish waits for the inserts under way and confirms them. It plans nothing.
func (s *sink) finish() error {
	defer s.cl.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	for s.running > 0 {
		pollCtx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		s.mu.Lock()
		s.wake = stop
		if len(s.results) > 0 {
			stop()
		}
		s.mu.Unlock()
		s.cl.PauseFetchTopics(s.name)
		s.cl.PollRecords(pollCtx, 1)
		stop()
		if err := s.rebalance(); err != nil {
			return err
		}
		s.collect(time.Now())
		if err := s.commit(ctx); err != nil {
			return err
		}
		s.cl.AllowRebalance()
		if ctx.Err() != nil {
			return nil // the next owner sends it again
		}
	}
	return nil
}

func (s *sink) wakeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		s.wake()
	}
}

func (s *sink) setRevoked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked, s.assigned = true, nil
	if s.wake != nil {
		s.wake()
	}
}

func (s *sink) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	got := make(map[int32]string)
	keep := func(topic string, p int32, metadata *string) {
		if metadata != nil && (topic == s.name || topic == "") {
			got[p] = *metadata
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata = got
	return nil
}

// setAssigned runs on the client's group goroutine, after the group's offsets
// were fetched and before anything is read from them.
func (s *sink) setAssigned(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assigned == nil {
		s.assigned = make(map[int32]position)
	}
	for id, at := range offsets[s.name] {
		pos := position{offset: -1}
		if eo := at.EpochOffset(); eo.Offset >= 0 {
			pos = position{offset: eo.Offset, metadata: s.metadata[id]}
		}
		s.assigned[id] = pos
	}
	if s.wake != nil {
		s.wake()
	}
	return offsets, nil
}
