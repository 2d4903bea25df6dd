package sink

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// sink is one member of the group. Its fields belong to the goroutine of run,
// but for what mu guards.
type sink struct {
	cfg     Config
	conn    driver.Conn // to ask
	insert  *warehouse.Inserter
	adm     *kadm.Client
	cl      *kgo.Client // of the group
	metrics *metrics
	name    string         // of the topic
	topic   string         // its id
	count   int            // of its partitions
	there   map[int32]bool // partitions of which ClickHouse had rows when it was asked; only the client's group goroutine uses it

	parts   map[int32]*partition
	ledger  *ledger
	minutes *minutes
	cancels map[*partition]context.CancelFunc // of inserts under way
	results chan result
	running int
	paused  map[int32]bool
	failed  stream.FetchErrors
	inserts sync.WaitGroup

	checked   chan checked
	checking  bool
	unfit     bool // the last look at the tables said so: nothing is inserted
	nextCheck time.Time

	nextCompare time.Time
	nextWhole   time.Time // when all of the account is to be compared
	nextMinutes time.Time // when the minutes of all of it are

	unsettled time.Time // since when commits fail; zero when the last did not

	health   health
	reporter *reporter

	mu       sync.Mutex
	metadata map[int32]string // of the last offset fetch
	revoked  bool
	assigned map[int32]position // since
	wake     context.CancelFunc
}

// position is where the group stands in a partition; atStart, where it stands
// nowhere or is to begin anew.
type position struct {
	offset   int64
	metadata string
	anew     string // why
	planned  bool   // and a plan stood there, whose insert may be under way
}

// result is the end of one try of an insert, or of a look.
type result struct {
	p     *partition
	phase phase // in which it was begun

	offsets    []int64            // inserting, looking: of its rows
	ats        []int64            // likewise: their times
	minutes    []int64            // likewise: the minutes of these
	panics     []panicked         // inserting: likewise
	poison     int                // inserting: of its rows
	remembered bool               // renewing
	present    map[int64]struct{} // looking
	doubt      int64              // looking

	err error
}

func (s *sink) run(ctx context.Context) (err error) {
	connect := append([]kgo.Opt{kgo.SeedBrokers(s.cfg.Brokers...), kgo.ClientID("weir-sink")}, s.cfg.Options...)
	asking, err := kgo.NewClient(connect...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer asking.Close()
	s.adm = kadm.NewClient(asking)
	// Before it joins the group: what it is assigned is judged by what this finds.
	if !s.await(ctx, s.findTopic) {
		return nil
	}
	s.metrics.ready.Set(1)
	defer s.metrics.ready.Set(0)
	defer s.metrics.difference.Reset()
	opts := []kgo.Opt{
		kgo.ConsumerGroup(Group(s.cfg.Names)),
		kgo.ConsumeTopics(s.name),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(s.cfg.SessionTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, s.cfg.SessionTimeout/3)),
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // to stand behind them
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// What the group has not read and Kafka no longer has is never guessed.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(16 << 20), stream.Bounded(),
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
	// A client that is closed while it joins the group waits until all others have
	// joined: the end of its context cuts that short.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s.cl, err = kgo.NewClient(append(append(opts, kgo.WithContext(alive)), connect...)...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer func() {
		late := time.AfterFunc(s.cfg.Grace/4, end)
		defer late.Stop()
		s.cl.CloseAllowingRebalance()
	}()
	defer s.inserts.Wait()
	defer s.dropAll()
	for ctx.Err() == nil {
		if err := s.turn(ctx); err != nil {
			return err
		}
	}
	return s.finish()
}

// turn takes in what happened, and does what is due. No rebalance happens
// between the poll's return and AllowRebalance.
func (s *sink) turn(ctx context.Context) error {
	defer s.cl.AllowRebalance()
	fetches := s.poll(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err := s.rebalance(); err != nil {
		return err
	}
	// Only now: a partition that was just assigned may be among those that failed.
	if err := s.failures(ctx, fetches); err != nil {
		return err
	}
	now, recs := time.Now(), fetches.Records()
	if len(recs) > 0 {
		s.metrics.behind.Set(behind(recs, now).Seconds())
	}
	for _, r := range recs {
		switch p := s.parts[r.Partition]; {
		case p == nil:
		case r.Attrs.IsControl():
			p.pass(r.Offset, now)
		default:
			p.add(r, now)
		}
	}
	s.collect(now)
	pressed := s.held() >= s.cfg.Memory
	for _, p := range s.parts {
		if p.overdue(now) {
			s.cancels[p]()
		}
		p.expire(now)
		p.makePlan(now, pressed)
	}
	if err := s.commit(ctx, commitWithin); err != nil {
		return err
	}
	s.start(ctx, time.Now())
	s.pause()
	s.check(ctx, now)
	s.lag(now)
	s.report(now)
	return nil
}

// poll returns what was fetched. It waits for it until something else is due.
// Once it has returned no rebalance begins until AllowRebalance.
func (s *sink) poll(ctx context.Context) kgo.Fetches {
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
	if fetches.Empty() && len(fetches.Errors()) == 0 { // errors alone are empty too
		fetches = s.cl.PollRecords(ctx, maxPoll)
	}
	return fetches
}

// failures are the errors of what was fetched.
func (s *sink) failures(ctx context.Context, fetches kgo.Fetches) error {
	var errs []error
	fetches.EachError(func(topic string, p int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
		case errors.Is(err, kerr.OffsetOutOfRange), isDataLoss(err):
			errs = append(errs, s.skip(ctx, p, err))
		case stream.PassOversized(s.cl, err): // of no Weir's making: nothing of it was to be loaded
			s.cfg.Logger.Error("a batch is skipped: it decompresses to more than the bound", "topic", topic, "partition", p, "error", err)
		case errors.Is(err, kerr.UnknownTopicID):
			errs = append(errs, errTopicAnew)
		default:
			s.failed.Warn(s.cfg.Logger, "fetch failed", topic, p, err)
		}
	})
	return errors.Join(errs...)
}

// behind is by how much a clock that says now is behind the broker's for certain: what was
// read was appended before.
func behind(recs []*kgo.Record, now time.Time) (by time.Duration) {
	for _, r := range recs {
		by = max(by, r.Timestamp.Sub(now))
	}
	return by
}

func isDataLoss(err error) bool {
	_, ok := errors.AsType[*kgo.ErrDataLoss](err)
	return ok
}

// due is when the next turn must be although nothing happens.
func (s *sink) due() time.Time {
	now := time.Now()
	at := now.Add(time.Second)
	for _, p := range s.parts {
		if t, ok := p.wakes(now); ok && t.Before(at) {
			if s.unfit {
				continue // the next look wakes us, or the second
			}
			if _, insert := p.wants(now); insert && s.running >= s.cfg.Inserts {
				continue // an insert that ends wakes us
			}
			at = t
		}
	}
	return at
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
				wait := s.cfg.wait(p.failures)
				p.failed(now.Add(wait))
				s.metrics.failures.Inc()
				what := explain(r.err)
				s.health.failed(p.id, what.why)
				if what.tables {
					s.nextCheck = now // it names the table and what to do
				}
				s.cfg.Logger.Warn("rows are not in ClickHouse yet; nothing is lost: they stand in Kafka and are sent again", "why", what.why, "do", what.do,
					"partition", p.id, "phase", p.phase, "from", p.from, "to", p.plan.To, "try", p.plan.Try, "failures", p.failures, "error", r.err, "retry_in", wait)
				continue
			}
			if p.failures > 0 {
				s.cfg.Logger.Info("ClickHouse takes rows again", "partition", p.id, "failures", p.failures)
			}
			s.health.well(p.id)
			if r.phase == renewing {
				s.renew(p, r.remembered, now)
				continue
			}
			confirmed := p.rows
			if r.phase == looking {
				confirmed = confirmed[:p.looked(r.present, r.doubt, now)]
			} else {
				p.inserted()
				p.days = daysOf(r.minutes)
				s.poisoned(r.panics)
				s.metrics.poison.Add(float64(r.poison))
			}
			n := len(confirmed)
			s.ledger.loaded(p.id, p.from, r.offsets[:n], r.ats[:n], r.minutes, now)
			s.minutes.loaded(r.minutes, now)
			s.metrics.rows.Add(float64(len(confirmed)))
			s.health.current.Rows += int64(len(confirmed))
		default:
			return
		}
	}
}

// poisoned reports records on which the program panicked, once their rows are there.
func (s *sink) poisoned(panics []panicked) {
	for _, v := range panics {
		s.cfg.Watch.Poisoned(stage, schemas.ReasonInternalError)
		s.cfg.Logger.Error("a record made the sink panic; its row has the kind poison", "topic", s.name, "partition", v.partition, "offset", v.offset, "panic", v.value, "stack", string(v.stack))
	}
}

// renew goes on with a plan that was over.
func (s *sink) renew(p *partition, remembered bool, now time.Time) {
	plan := []any{"partition", p.id, "from", p.plan.From, "to", p.plan.To, "made", p.plan.Made.Time()}
	if remembered {
		s.cfg.Logger.Info("a plan that was over is made once more: ClickHouse still remembers its token", plan...)
	} else {
		s.cfg.Logger.Warn("a plan was over before ClickHouse had its rows, and its token may be forgotten: what status_events and decisions have of it counts as loaded. Should an insert have broken off, other tables lack rows (docs/clickhouse.md, Compare)", plan...)
	}
	p.renew(remembered, now)
}

// start begins the inserts that are due, a limited number at once.
func (s *sink) start(ctx context.Context, now time.Time) {
	if s.unfit {
		return
	}
	for _, p := range s.parts {
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
		plan, rows, doubt, r := p.plan, p.rows, p.doubt, result{p: p, phase: p.phase}
		s.inserts.Go(func() {
			defer func() { // what runs must be collected, and others load on
				if v := recover(); v != nil {
					r.err = fmt.Errorf("panic: %v", v)
					s.cfg.Logger.Error("an insert panicked; it is tried again", "partition", r.p.id, "panic", v, "stack", string(debug.Stack()))
				}
				s.results <- r // has room for all that run
				s.wakeUp()
			}()
			switch r.phase {
			case renewing:
				r.remembered, r.err = remembered(insertCtx, s.conn, s.cfg.Cluster, plan)
			case looking:
				b := blockOf(s.cfg, EncoderVersion, rows)
				r.present, r.doubt, r.err = present(insertCtx, s.conn, s.cfg.Cluster, b, doubt)
				// What came in by itself may lack in other tables.
				r.offsets, r.ats, r.minutes = b.statusOffset, b.at, b.minutesOf()
			default:
				b := blockOf(s.cfg, plan.Encoder, rows)
				r.offsets, r.ats, r.minutes = b.statusOffset, b.at, b.minutesOf()
				r.panics, r.poison, r.err = b.panics, b.poison, load(insertCtx, s.insert, s.cfg, plan, b)
			}
		})
	}
}

// finish waits for the inserts under way and confirms them. It plans nothing.
func (s *sink) finish() error {
	defer s.cl.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Grace/2)
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
		if err := s.commit(ctx, s.cfg.Grace/2); err != nil {
			return err
		}
		s.cl.AllowRebalance()
		if ctx.Err() != nil {
			return nil // the next owner sends it again
		}
	}
	return nil
}

func (s *sink) lag(now time.Time) {
	var lag time.Duration
	for _, p := range s.parts {
		if at, ok := p.oldest(); ok {
			lag = max(lag, now.Sub(at))
		}
	}
	s.metrics.lag.Set(lag.Seconds())
	s.metrics.stage.Set(lag.Seconds())
	s.health.current.LagMillis = lag.Milliseconds()
	s.metrics.held.Set(float64(s.held()))
}

func (s *sink) wakeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		s.wake()
	}
}
