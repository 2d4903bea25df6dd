package admission

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what admission needs to run.
type Config struct {
	Stream          stream.Config // brokers, transactional id, logger; topics and group are set here
	Read            stream.ReadConfig
	Names           topics.Names
	Partitions      int32 // N
	DelayPartitions int32 // of each delay topic
	DLQPartitions   int32
	ReplyPartitions int32         // of weir.replies; 0: who waits for a decision is told none
	CommitEvery     time.Duration // under load; default 100 ms. Idle, it commits at once.
	RestoreDeadline time.Duration // for what a restore waits for beside the log; default 30 s
	// Standby follows the ledgers of the partitions that others own, so that a
	// takeover reads only the rest. It costs the memory of all N partitions in
	// each worker, and reading all that all workers write to the ledger.
	Standby bool
	// Health tells how providers are, for routing: package health's Now. Nil is
	// all well.
	Health func() route.Health
	// Clock is told how far ahead of the broker's clock this machine's was found,
	// each time that it stalls the worker, and 0 when it was found right. It must
	// not block. Nil tells nobody.
	Clock func(ahead time.Duration)
	// Data names the time zones and numbering plans; zero is this program's. The fault
	// simulation runs groups of two versions.
	Data    Data
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Group is the consumer group of admission under a prefix.
func Group(names topics.Names) string { return names.Requests() + ".admission" }

// Run decides until ctx ends.
func Run(ctx context.Context, cfg Config, pol *policy.Watcher) error {
	cfg.CommitEvery = cmp.Or(cfg.CommitEvery, 100*time.Millisecond)
	cfg.RestoreDeadline = cmp.Or(cfg.RestoreDeadline, 30*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Stream.Group = Group(cfg.Names)
	cfg.Stream.Topics = []string{cfg.Names.Requests(), cfg.Names.Readmit()}
	cfg.Stream.Logger = cfg.Logger
	metrics := newMetrics(cfg.Metrics, cfg.Logger, cfg.Now)
	env := environment{names: cfg.Names, partitions: cfg.Partitions, delays: cfg.DelayPartitions, dlq: cfg.DLQPartitions, replies: cfg.ReplyPartitions, routing: newRouting(cfg.Health), data: cmp.Or(cfg.Data, ownData)}
	cfg.Read = skip.Batches(ctx, cfg.Read, cfg.Names, cfg.Logger)
	reader, err := stream.OpenReader(cfg.Read)
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	defer reader.Close()
	var follow *standby
	if cfg.Standby {
		if follow, err = startStandby(ctx, cfg, env); err != nil {
			return fmt.Errorf("admission: %w", err)
		}
		defer follow.close()
	}
	var last *stage
	defer func() { last.drop() }()
	if err := stream.Run(ctx, cfg.Stream, nil, func(f stream.Fetching) stream.Stage {
		last.drop()
		if follow != nil {
			follow.exchange(nil, nil) // nobody has what the last stage had
		}
		last = &stage{
			cfg:      cfg,
			policy:   pol,
			metrics:  metrics,
			env:      env,
			reader:   reader,
			standby:  follow,
			parts:    make(map[int32]*partition),
			touched:  make(map[int32]bool),
			readings: make(map[int32]reading),
			fetch:    f,
			clock:    newClock(cfg.Now),
		}
		return last
	}); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// stage is admission as one stream.Stage: the transaction around decisions.
type stage struct {
	cfg      Config
	policy   *policy.Watcher
	metrics  *metrics
	env      environment
	reader   *stream.Reader
	standby  *standby // nil: none
	parts    map[int32]*partition
	touched  map[int32]bool // partitions of the open transaction
	fetch    stream.Fetching
	clock    *clock
	readings map[int32]reading // of the clocks of the partitions' leaders
	apart    bool              // those differ
	stalled  time.Time         // until then nothing is decided; zero when not stalled
	began    time.Time
	batch    []input // what read returned last

	unusable int64 // the last revision that could not be followed

	cuts map[stream.Partition]int64 // of Inspect; a worker learns of them from its client
}

func (s *stage) requests(n int32) stream.Partition {
	return stream.Partition{Topic: s.env.names.Requests(), Partition: n}
}

func (s *stage) readmit(n int32) stream.Partition {
	return stream.Partition{Topic: s.env.names.Readmit(), Partition: n}
}

// Revoke keeps the state: most partitions come back with the next assignment.
// Whoever has them meanwhile writes on; Assign reads that.
func (s *stage) Revoke() {
	if s.standby != nil {
		s.standby.exchange(s.parts, nil)
		s.parts = make(map[int32]*partition)
	}
}

// Wait is long: what admission does is always caused by a record, but for the
// end of a stall.
func (s *stage) Wait() time.Duration {
	if !s.stalled.IsZero() {
		return max(time.Until(s.stalled), time.Millisecond)
	}
	return time.Second
}

// Step decides what was polled and, as long as more is there, goes on until it
// is time to commit.
func (s *stage) Step(ctx context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	if len(polled) > 0 {
		s.sitOut(ctx)
	}
	s.resume()
	if len(polled) == 0 {
		if s.stalled.IsZero() {
			s.metrics.idle()
			return s.rest(tx)
		}
		return nil
	}
	s.began = time.Now()
	for _, p := range s.parts {
		s.move(tx, p)
	}
	for len(polled) > 0 {
		for records := range slices.Chunk(polled, foreseen) {
			inputs := s.read(records)
			for i := range inputs {
				if err := s.take(tx, records[i], &inputs[i]); err != nil {
					return err
				}
			}
		}
		if time.Since(s.began) >= s.cfg.CommitEvery {
			break
		}
		polled = tx.More()
	}
	tx.On(nil)
	for n := range s.touched {
		if err := s.finish(tx, s.parts[n]); err != nil {
			return err
		}
	}
	return s.checkClock(ctx, tx)
}

// rest lets the partitions in which nothing happens stand behind the markers of
// transactions, where those came after their last record was decided. What never
// decided anything has no position.
func (s *stage) rest(tx *stream.Tx) error {
	for _, p := range s.parts {
		s.move(tx, p)
		m := &p.base.meta
		if s.touched[p.num] {
			if err := s.finish(tx, p); err != nil {
				return err
			}
			continue
		}
		if m.Seq == 0 || tx.Past(s.requests(p.num), m.Requests) == m.Requests && tx.Past(s.readmit(p.num), m.Readmit) == m.Readmit {
			continue
		}
		s.began = time.Now()
		p.begin()
		s.touched[p.num] = true
		if err := s.finish(tx, p); err != nil {
			return err
		}
	}
	return nil
}

// move sends on opt-outs that a partition has from before keys ignored letter case.
func (s *stage) move(tx *stream.Tx, p *partition) {
	if p.base.meta.Seq == 0 || !p.moves() {
		return
	}
	s.began = time.Now()
	p.begin()
	s.touched[p.num] = true
	for _, o := range p.moveOptOuts(mostMoved) {
		tx.Produce(o.record(nil))
	}
}

// take decides one record, which was read as in.
func (s *stage) take(tx *stream.Tx, r *kgo.Record, in *input) error {
	p := s.parts[r.Partition]
	if p == nil {
		return fmt.Errorf("record of %s/%d, which was not assigned", r.Topic, r.Partition)
	}
	poison := tx.On(r)
	p.begin()
	s.touched[p.num] = true
	next := &p.cur.meta.Requests
	if in.readmit {
		next = &p.cur.meta.Readmit
	}
	if r.Offset < *next {
		return stream.Fatal(fmt.Errorf("%s/%d: offset %d came after %d", r.Topic, r.Partition, r.Offset, *next-1))
	}
	p.advance(s.clock.now().Add(p.lift))
	if rev := s.policy.Latest(); rev.Revision > p.cur.meta.Marker.Revision {
		switch e, err := p.switchTo(rev); {
		case err == nil:
			s.status(tx, p.num, &e)
		case s.unusable != rev.Revision: // say it once
			s.unusable = rev.Revision
			s.cfg.Logger.Error("the policy's latest revision is not followed", "revision", rev.Revision, "in_force", p.cur.meta.Marker.Revision, "error", err)
		}
	}
	o, err := p.decideOr(in, poison)
	if err != nil {
		return stream.Fatal(fmt.Errorf("%s: %w", in.source, err))
	}
	if in.readmit && isAside(o.event.Reason) {
		s.metrics.aside.Log(s.cfg.Logger, "a record is put aside; its bytes are in the DLQ. Let no one else write to this topic, and give every process the same kafka.partitions",
			"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "why", o.event.Reason)
	}
	*next = r.Offset + 1
	s.status(tx, p.num, &o.event)
	for i := range o.send {
		tx.Produce(o.send[i].record(r))
	}
	if o.reply != nil {
		if rec := o.reply.record(s.env.names.Replies(), s.env.replies); rec != nil {
			tx.Produce(rec)
		}
	}
	s.metrics.decided(&o, p.cur.pol)
	if !in.readmit && in.req != nil {
		s.metrics.unknown.Met(in.req.Unknown, in.source)
		s.metrics.unknown.Met(request.Extensions(r), in.source)
	}
	s.metrics.waited(p.cur.meta.T, in.appended)
	return nil
}

// finish writes what the transaction changed in a partition: its places, the
// keys it learnt, and the meta record with the positions that the group
// commits.
func (s *stage) finish(tx *stream.Tx, p *partition) error {
	p.cur.meta.Requests = tx.Past(s.requests(p.num), p.cur.meta.Requests)
	p.cur.meta.Readmit = tx.Past(s.readmit(p.num), p.cur.meta.Readmit)
	p.table.Sweep(p.cur.rules, p.cur.meta.T, sweepSlots)
	ledger, known := s.env.names.Ledger(), s.env.names.Seen()
	p.finished = s.clock.now()
	if err := p.changes(
		func(key, value []byte) {
			p.sent.ledger = &kgo.Record{Topic: ledger, Partition: p.num, Key: key, Value: value}
			tx.Produce(p.sent.ledger)
		},
		func(r *seenRecord) {
			p.sent.seen = &kgo.Record{Topic: known, Partition: p.num, Key: r.key[:], Value: r.encode()}
			tx.Produce(p.sent.seen)
		},
	); err != nil {
		return err
	}
	tx.Stand(s.requests(p.num), stream.Position{Offset: p.cur.meta.Requests})
	tx.Stand(s.readmit(p.num), stream.Position{Offset: p.cur.meta.Readmit})
	return nil
}

// sweepSlots is how many slots a commit looks at, beside those for what it
// changed, for places that no window can see any more.
const sweepSlots = 64

// Ended makes the overlay permanent, or drops it.
func (s *stage) Ended(committed bool) {
	for n := range s.touched {
		if committed {
			s.parts[n].commit()
			s.parts[n].log.fresh = s.began
		} else {
			s.parts[n].rollback()
		}
	}
	clear(s.touched)
	s.metrics.ended(committed)
	if committed {
		s.metrics.commit.Observe(time.Since(s.began).Seconds())
	}
}

func (s *stage) status(tx *stream.Tx, partition int32, e *schemas.Event) {
	key := e.To
	if key == "" {
		key = e.MessageID
	}
	tx.Produce(&kgo.Record{Topic: s.env.names.Status(), Partition: partition, Key: []byte(key), Value: schemas.AppendEvent(nil, e)})
}
