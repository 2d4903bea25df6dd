package receipt

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what the stage needs to run.
type Config struct {
	Stream          stream.Config // brokers, transactional id; topics and group are set here
	Names           topics.Names
	Partitions      int32 // N, of weir.status and weir.requests
	DelayPartitions int32
	DLQPartitions   int32
	Store           Store // nil is none: what would have to be looked up goes to weir.dlq
	// References verifies what providers give back; nil verifies nothing, and then each
	// receipt is looked up. It must sign as the lanes' does.
	References *provider.Signer
	Policy     func() *schemas.Revision // whose providers metrics name; nil: none
	Now        func() time.Time
	Logger     *slog.Logger
	Metrics    prometheus.Registerer // nil: not counted
}

// Group is the consumer group of the stage under a prefix.
func Group(names topics.Names) string { return names.Receipts() + ".amend" }

// commitEvery bounds a transaction under load. Idle, it commits at once.
const commitEvery = 100 * time.Millisecond

// Run amends messages by their receipts until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Stream.Group = Group(cfg.Names)
	cfg.Stream.Topics = []string{cfg.Names.Receipts()}
	cfg.Stream.Logger = cfg.Logger
	f := &finder{store: cfg.Store, logger: cfg.Logger}
	m := newMetrics(cfg.Metrics, f)
	var probing sync.WaitGroup
	defer probing.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if cfg.Store != nil {
		probing.Go(func() { f.probe(ctx) })
	}
	if err := stream.Run(ctx, cfg.Stream, nil, func(stream.Fetching) stream.Stage { return newStage(cfg, f, m) }); err != nil {
		return fmt.Errorf("receipts: %w", err)
	}
	return nil
}

type stage struct {
	cfg     Config
	finder  *finder
	metrics *metrics

	at   map[stream.Partition]*place
	open map[counted]int // receipts of the open transaction
}

// place is where the stage stands in a partition.
type place struct {
	base  int64 // as committed; -1 is none
	next  int64 // everything below is done with the open transaction
	known *memory
}

func newStage(cfg Config, f *finder, m *metrics) *stage {
	return &stage{cfg: cfg, finder: f, metrics: m, at: make(map[stream.Partition]*place), open: make(map[counted]int)}
}

// Assign goes on where the group stands. What a partition's memory knew is gone
// with a rebalance, unless the partition comes back where it was.
func (s *stage) Assign(_ context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	was := s.at
	s.at = make(map[stream.Partition]*place, len(committed))
	clear(s.open)
	for tp, pos := range committed {
		p := &place{base: pos.Offset, next: pos.Offset, known: newMemory(remembered)}
		if old := was[tp]; old != nil && old.base == pos.Offset {
			p.known = old.known
		}
		s.at[tp] = p
	}
	return nil, nil
}

func (s *stage) Revoke() {
	for _, p := range s.at { // nothing of an open transaction was committed
		p.known.ended(false)
	}
	clear(s.open)
	s.metrics.lag.Set(0)
}

func (s *stage) Wait() time.Duration { return time.Second }

// Step does what was polled and, as long as more is there, goes on until it is time
// to commit.
func (s *stage) Step(ctx context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	if len(polled) == 0 {
		s.metrics.lag.Set(0)
	}
	var sought []*arrived
	for began := time.Now(); len(polled) > 0; polled = tx.More() {
		for _, r := range polled {
			a, err := s.take(tx, r)
			if err != nil {
				return err
			}
			if a != nil {
				sought = append(sought, a)
			}
		}
		if time.Since(began) >= commitEvery {
			break
		}
	}
	s.seek(ctx, tx, sought)
	for tp, p := range s.at {
		if p.next = tx.Past(tp, p.next); p.next != p.base {
			tx.Stand(tp, stream.Position{Offset: p.next})
		}
	}
	return nil
}

// arrived is a receipt in hand.
type arrived struct {
	*provider.Receipt
	rec   *kgo.Record
	place *place
	came  schemas.Millis // when it first came
	tries int            // answers of the store that did not have it
	again bool           // it has waited
}

// take does with a record what can be done at once, and returns the receipt if it
// has to be looked up.
func (s *stage) take(tx *stream.Tx, r *kgo.Record) (*arrived, error) {
	p := s.at[stream.Partition{Topic: r.Topic, Partition: r.Partition}]
	if p == nil {
		return nil, fmt.Errorf("record of %s/%d, which was not assigned", r.Topic, r.Partition)
	}
	if r.Offset < p.next {
		return nil, stream.Fatal(fmt.Errorf("%s/%d: offset %d came after %d", r.Topic, r.Partition, r.Offset, p.next-1))
	}
	p.next = r.Offset + 1
	appended := schemas.MillisOf(r.Timestamp)
	s.metrics.lag.Set(max(schemas.MillisOf(s.cfg.Now()).Sub(appended), 0).Seconds())
	a := &arrived{rec: r, place: p, came: appended}
	if why := tx.On(r); why != nil {
		s.dead(tx, r, &provider.Receipt{}, appended, why.Reason, why.Error())
		s.count(&provider.Receipt{}, outcomeUnreadable)
		return nil, nil
	}
	var env schemas.Envelope
	for _, h := range r.Headers {
		if err := env.Set(h.Key, string(h.Value)); err != nil {
			s.unreadable(tx, r, appended, "its headers cannot be read")
			return nil, nil
		}
	}
	a.came, a.tries, a.again = cmp.Or(env.AcceptedAt, appended), env.Attempt, env.AcceptedAt != 0
	var rc *provider.Receipt
	var err error
	if len(r.Value) > maxBytes {
		err = errTooLarge
	} else {
		rc, err = decode(r.Value)
	}
	if err != nil {
		s.unreadable(tx, r, a.came, "it is no receipt")
		return nil, nil
	}
	ref, verified := s.cfg.References.Verify(rc.Provider, rc.Reference)
	if verified {
		*rc = proven(*rc, ref)
	} else {
		*rc = claimed(*rc)
	}
	known := verified && whole(ref)
	a.Receipt = rc
	switch {
	case !says(rc):
		s.count(rc, outcomeEmpty)
	case !a.again && !p.known.add(markOf(rc, known)):
		s.count(rc, outcomeRepeated)
	case known:
		s.amend(tx, rc, a.came)
	default:
		return a, nil
	}
	return nil, nil
}

func (s *stage) amend(tx *stream.Tx, rc *provider.Receipt, came schemas.Millis) {
	event, suppress := amended(*rc, came)
	to, partition := []byte(rc.To), schemas.PartitionOf(rc.To, s.cfg.Partitions)
	outcome := outcomeSuppressed
	if event != nil {
		outcome = outcomeAmended
		tx.Produce(&kgo.Record{Topic: s.cfg.Names.Status(), Partition: partition, Key: to, Value: schemas.AppendEvent(nil, event)})
	}
	if suppress != nil {
		tx.Produce(&kgo.Record{Topic: s.cfg.Names.Requests(), Partition: partition, Key: to, Value: suppress})
	}
	s.count(rc, outcome)
}

// seek looks receipts up, amends those whose messages are found, and lets the
// others wait.
func (s *stage) seek(ctx context.Context, tx *stream.Tx, sought []*arrived) {
	if len(sought) == 0 {
		return
	}
	if s.cfg.Store == nil {
		for _, a := range sought {
			tx.On(a.rec)
			s.unmatched(tx, a, outcomeUnmatched, "it does not prove which message it is about, and there is no ClickHouse to look it up in")
		}
		return
	}
	var asked []history.Handed
	once := make(map[history.Handed]bool)
	for _, a := range sought {
		if h := handed(a.Receipt); !once[h] {
			once[h] = true
			asked = append(asked, h)
		}
	}
	tx.On(nil)
	found, answered := s.finder.find(ctx, asked)
	for _, a := range sought {
		if why := tx.On(a.rec); why != nil {
			s.dead(tx, a.rec, a.Receipt, a.came, why.Reason, why.Error())
			s.count(a.Receipt, outcomeUnreadable)
			continue
		}
		h := handed(a.Receipt)
		c, miss := match(a.Receipt, found[h])
		switch {
		case !answered[h]:
			s.wait(tx, a, waitAway(schemas.MillisOf(s.cfg.Now()).Sub(a.came)))
			s.count(a.Receipt, outcomeAway)
		case miss == "":
			rc := filled(*a.Receipt, c)
			if a.place.known.add(markOf(&rc, true)) {
				s.amend(tx, &rc, a.came)
			} else {
				s.count(&rc, outcomeRepeated)
			}
		case miss == outcomeAmbiguous:
			s.unmatched(tx, a, miss, whyNot[miss])
		default: // the send, or its retry with this provider, may not be recorded yet
			next := wait(a.tries)
			if next == 0 {
				s.unmatched(tx, a, miss, whyNot[miss])
				continue
			}
			a.tries++
			s.wait(tx, a, next)
			s.count(a.Receipt, outcomeWaiting)
		}
	}
}

// wait sends a receipt through the delay topics, back to where it stood.
func (s *stage) wait(tx *stream.Tx, a *arrived, d time.Duration) {
	key := string(a.rec.Key)
	env := schemas.Envelope{
		Key: key, Provider: a.Provider, Attempt: a.tries, AcceptedAt: a.came,
		DueAt: schemas.MillisOf(s.cfg.Now()).Add(d), Return: s.cfg.Names.Receipts(),
	}
	out := &kgo.Record{Topic: s.cfg.Names.Delay(topics.TierFor(d).Name), Partition: schemas.PartitionOf(key, s.cfg.DelayPartitions), Key: a.rec.Key, Value: a.rec.Value}
	env.Each(func(k string, v []byte) { out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	tx.Produce(out)
}

// whyNot is what stands in weir.dlq of a receipt that fits no message.
var whyNot = map[string]string{
	outcomeUnmatched:      "no message has the id: it was not sent through Weir, or its send was never recorded",
	outcomeOtherProvider:  "the message was not given to this provider",
	outcomeOtherRecipient: "the message was given to this provider for another recipient",
	outcomeAmbiguous:      "the id names several messages, and the receipt does not say which of them",
}

func (s *stage) unmatched(tx *stream.Tx, a *arrived, outcome, why string) {
	s.dead(tx, a.rec, a.Receipt, a.came, schemas.ReasonUnmatchedReceipt, why)
	s.count(a.Receipt, outcome)
}

func (s *stage) unreadable(tx *stream.Tx, r *kgo.Record, came schemas.Millis, why string) {
	s.dead(tx, r, &provider.Receipt{}, came, schemas.ReasonUnreadableReceipt, why)
	s.count(&provider.Receipt{}, outcomeUnreadable)
}

// dead gives a record up: its bytes go to weir.dlq.
func (s *stage) dead(tx *stream.Tx, r *kgo.Record, rc *provider.Receipt, came schemas.Millis, reason, why string) {
	env := request.Dead(schemas.Envelope{
		ID: rc.MessageID, Tenant: rc.Tenant, Provider: rc.Provider, AcceptedAt: came,
		Origin: schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset},
	}, reason, why)
	tx.Produce(request.DeadLetter(r, s.cfg.Names.DLQ(), schemas.PartitionOf(string(r.Key), s.cfg.DLQPartitions), &env))
}

func (s *stage) count(rc *provider.Receipt, outcome string) {
	s.open[counted{s.label(rc.Provider), outcome}]++
}

// label is a provider of the policy, or unknown: who writes weir.receipts chooses names.
// "" is a record that names none.
func (s *stage) label(name string) string {
	if name == "" {
		return ""
	}
	if s.cfg.Policy != nil {
		if _, known := s.cfg.Policy().Policy.Provider(name); known {
			return name
		}
	}
	return "unknown"
}

// Ended keeps where the stage stands; after an abort it is handed all since then
// again.
func (s *stage) Ended(committed bool) {
	for _, p := range s.at {
		p.known.ended(committed)
		if committed {
			p.base = p.next
		} else {
			p.next = p.base
		}
	}
	if committed {
		s.metrics.committed(s.open)
	}
	clear(s.open)
}
