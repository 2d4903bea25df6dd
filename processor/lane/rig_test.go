package lane_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	parts  = 4 // N
	others = 2 // partitions of delay and dlq
)

// rig is a broker in this process with a provider's topics and a policy.
type rig struct {
	t       *testing.T
	cluster *kfake.Cluster
	seeds   []string
	names   topics.Names
	options []kgo.Opt // of every client
	cl      *kgo.Client
	policy  *policy.Watcher
	fake    *scripted
	sent    int
}

// newRig starts a broker of its own, or uses the cluster that KAFKA_BROKERS
// names, under a prefix of its own.
func newRig(t *testing.T, p schemas.Policy) *rig {
	t.Helper()
	brokers := os.Getenv("KAFKA_BROKERS")
	if brokers == "" {
		return newFakeRig(t, p)
	}
	r := &rig{t: t, fake: &scripted{}, seeds: strings.Split(brokers, ","), names: topics.Names{Prefix: fmt.Sprintf("t%d.", time.Now().UnixNano())}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.seeds...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	stamp := "LogAppendTime"
	for topic, n := range r.topics() {
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), n, 1, map[string]*string{"message.timestamp.type": &stamp}, topic); err != nil {
			t.Fatal(err)
		}
	}
	known := kadm.NewClient(cl)
	r.eventually("the brokers know the topics", func() bool { // a busy broker makes them known late
		ends, err := known.ListEndOffsets(t.Context(), slices.Collect(maps.Keys(r.topics()))...)
		return err == nil && ends.Error() == nil
	})
	r.open(p)
	return r
}

// topics returns what a rig needs, with partition counts.
func (r *rig) topics() map[string]int32 {
	all := map[string]int32{r.names.Status(): parts, r.names.Readmit(): parts, r.names.Requests(): parts, r.names.Config(): 1, r.names.Health(): 1, r.names.DLQ(): others, r.names.Skips(): 1}
	for _, tier := range topics.Tiers {
		all[r.names.Delay(tier.Name)] = others
	}
	for _, name := range []string{"p", "q"} {
		all[r.names.Journal(name)] = 1
		for _, q := range topics.Queues {
			all[r.names.Dispatch(name, q)] = 1
		}
	}
	return all
}

// newFakeRig starts a broker in this process, whose faults a test can plan.
func newFakeRig(t *testing.T, p schemas.Policy) *rig {
	t.Helper()
	r := &rig{t: t, fake: &scripted{}}
	r.startFake()
	r.seeds = r.cluster.ListenAddrs()
	r.open(p)
	return r
}

func (r *rig) startFake(opts ...kfake.Opt) {
	r.t.Helper()
	opts = append(opts, kfake.NumBrokers(1))
	for topic, n := range r.topics() {
		opts = append(opts, kfake.SeedTopics(n, topic))
	}
	var err error
	if r.cluster, err = kfake.NewCluster(opts...); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.cluster.Close)
}

// simulated runs a test in a bubble, on a broker in it: what it says of time holds
// on any machine, however busy that is.
func simulated(t *testing.T, p schemas.Policy, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC))) // bubbles begin in 2000
		network := new(kfake.VirtualNetwork)
		r := &rig{t: t, fake: &scripted{}, seeds: []string{"127.0.0.1:9092"},
			options: []kgo.Opt{kgo.Dialer(network.DialContext), kgo.DisableClientMetrics(), kgo.ProducerBatchCompression(kgo.NoCompression())}}
		r.startFake(kfake.ListenFn(network.Listen), kfake.Ports(9092), kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)))
		r.open(p)
		test(r)
	})
}

// timed runs a test whose times are all of it: in a bubble, or on the cluster that
// KAFKA_BROKERS names. There bound is false: how long things take at most says
// nothing, and how long at least is the same.
func timed(t *testing.T, p schemas.Policy, test func(r *rig, bound bool)) {
	t.Helper()
	if os.Getenv("KAFKA_BROKERS") != "" {
		test(newRig(t, p), false)
		return
	}
	simulated(t, p, func(r *rig) { test(r, true) })
}

func (r *rig) open(p schemas.Policy) {
	t := r.t
	t.Helper()
	r.connect()
	var err error
	if r.policy, err = policy.Watch(t.Context(), r.names.Config(), slog.New(slog.DiscardHandler), r.client()...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.policy.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	r.apply(p)
}

// client is how any client reaches the broker, with more.
func (r *rig) client(more ...kgo.Opt) []kgo.Opt {
	return slices.Concat([]kgo.Opt{kgo.SeedBrokers(r.seeds...)}, r.options, more)
}

func (r *rig) connect() {
	r.t.Helper()
	cl, err := kgo.NewClient(r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	r.cl = cl
}

func (r *rig) apply(p schemas.Policy) {
	r.t.Helper()
	if _, err := r.policy.Publish(r.t.Context(), r.cl, r.policy.Latest().Revision, "test", p); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) config(id string) lane.Config {
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("LANE_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return lane.Config{
		Stream: stream.Config{Brokers: r.seeds, TransactionalID: r.names.Prefix + id, SessionTimeout: 30 * time.Second, Options: r.options},
		Read:   stream.ReadConfig{Brokers: r.seeds, Options: r.options},
		Names:  r.names, Provider: "p", Partitions: parts, DelayPartitions: others, DLQPartitions: others,
		Policy: r.policy, Logger: logger, Grace: 3 * time.Second,
		Open: func(schemas.Provider) (provider.Provider, error) { return r.fake, nil },
	}
}

// run starts a lane and returns what stops it and waits for it.
func (r *rig) run(cfg lane.Config) (stop func()) {
	r.t.Helper()
	return r.start(func(ctx context.Context) error { return lane.Run(ctx, cfg) })
}

func (r *rig) start(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.t.Errorf("run: %v", err)
			}
		})
	}
	r.t.Cleanup(stop)
	return stop
}

// message is a dispatch record to be.
type message struct {
	id, key, class, body string
	queue                topics.Queue
	provider             string
	partition            int32
	pinned               bool
	change               func(*schemas.Envelope)
}

var place = []schemas.Charge{{Limit: "verify", Scope: "r", T: 1_780_000_000_000, Cost: 1}}

func (r *rig) dispatch(ms ...message) {
	r.t.Helper()
	var recs []*kgo.Record
	for _, m := range ms {
		m.key = cmp.Or(m.key, "+8613800000000")
		m.queue = cmp.Or(m.queue, topics.QueueNormal)
		now := schemas.MillisOf(time.Now())
		env := schemas.Envelope{
			ID: m.id, Key: m.key, Tenant: "default", Origin: schemas.Source{Topic: r.names.Requests(), Partition: 1, Offset: int64(r.sent)},
			Provider: "p", DecidedAt: now, AcceptedAt: now, ExpiresAt: now.Add(time.Hour), Place: place,
		}
		r.sent++
		if m.change != nil {
			m.change(&env)
		}
		body := m.body
		if body == "" {
			b, err := json.Marshal(schemas.Request{To: m.key, Channel: schemas.ChannelSMS, Class: cmp.Or(m.class, "notice"), Body: "hello", Provider: map[bool]string{true: env.Provider}[m.pinned]})
			if err != nil {
				r.t.Fatal(err)
			}
			body = string(b)
		}
		rec := &kgo.Record{Topic: r.names.Dispatch(cmp.Or(m.provider, "p"), m.queue), Partition: m.partition, Key: []byte(m.key), Value: []byte(body), Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-1")}}}
		env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		recs = append(recs, rec)
	}
	if err := r.cl.ProduceSync(r.t.Context(), recs...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) { // of a test that fails
		if time.Now().After(end) {
			r.t.Fatalf("never: %s", what)
		}
	}
}

// read returns all committed records of a topic.
func (r *rig) read(topic string) []*kgo.Record {
	r.t.Helper()
	adm := kadm.NewClient(r.cl)
	ends, err := adm.ListEndOffsets(r.t.Context(), topic)
	if err != nil || ends.Error() != nil {
		r.t.Fatal(err, ends.Error())
	}
	var ranges []stream.Range
	ends.Each(func(o kadm.ListedOffset) {
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: topic, Partition: o.Partition}})
	})
	var recs []*kgo.Record
	if err := stream.Read(r.t.Context(), stream.ReadConfig{Brokers: r.seeds, Stall: time.Minute, Options: r.options}, ranges, func(rec *kgo.Record) error {
		recs = append(recs, rec)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return recs
}

// events returns the statuses written, by message.
func (r *rig) events() map[string][]schemas.Event {
	r.t.Helper()
	out := make(map[string][]schemas.Event)
	for _, rec := range r.read(r.names.Status()) {
		var e schemas.Event
		if err := json.Unmarshal(rec.Value, &e); err != nil {
			r.t.Fatal(err)
		}
		if want := schemas.PartitionOf(e.To, parts); rec.Partition != want {
			r.t.Errorf("status of %s in partition %d, want %d", e.To, rec.Partition, want)
		}
		out[e.MessageID] = append(out[e.MessageID], e)
	}
	return out
}

// statuses waits until the message has as many statuses as want and compares.
func (r *rig) statuses(id string, want ...schemas.Status) []schemas.Event {
	r.t.Helper()
	var got []schemas.Event
	r.eventually(fmt.Sprintf("%d statuses of %s", len(want), id), func() bool {
		got = r.events()[id]
		return len(got) >= len(want)
	})
	var names []schemas.Status
	for _, e := range got {
		names = append(names, e.Status)
	}
	if !slices.Equal(names, want) {
		r.t.Fatalf("%s: %v, want %v", id, names, want)
	}
	return got
}

func (r *rig) envelope(rec *kgo.Record) (e schemas.Envelope) {
	r.t.Helper()
	for _, h := range rec.Headers {
		if err := e.Set(h.Key, string(h.Value)); err != nil {
			r.t.Fatal(err)
		}
	}
	return e
}

// position returns where the group stands in a queue; -1 when nowhere.
func (r *rig) position(q topics.Queue) int64 {
	r.t.Helper()
	got, err := kadm.NewClient(r.cl).FetchOffsets(r.t.Context(), lane.Group(r.names, "p"))
	if err != nil {
		r.t.Fatal(err)
	}
	o, ok := got.Lookup(r.names.Dispatch("p", q), 0)
	if !ok {
		return -1
	}
	return o.At
}

// entry is a journal record, read without the lane's own code.
type entry struct {
	Kind    string         `json:"kind"`
	Seq     int64          `json:"seq"`
	ID      string         `json:"id"`
	Attempt int            `json:"attempt"`
	T       schemas.Millis `json:"t"`
	Outcome string         `json:"outcome"`
	Topic   string         `json:"topic"`
	Offset  int64          `json:"offset"`
	CallBy  schemas.Millis `json:"call_by"`
	Late    bool           `json:"late"`
}

func (r *rig) journal() (out []entry) {
	r.t.Helper()
	for _, rec := range r.read(r.names.Journal("p")) {
		out = append(out, r.entry(rec))
	}
	return out
}

func (r *rig) entry(rec *kgo.Record) (e entry) {
	r.t.Helper()
	if err := json.Unmarshal(rec.Value, &e); err != nil {
		r.t.Fatal(err)
	}
	return e
}

// health returns the records of weir.health, oldest first; nil is a tombstone.
func (r *rig) health() (out []*schemas.Health) {
	r.t.Helper()
	for _, rec := range r.read(r.names.Health()) {
		if string(rec.Key) != schemas.HealthKey("p", 0) {
			r.t.Errorf("health under key %s", rec.Key)
		}
		if len(rec.Value) == 0 {
			out = append(out, nil)
			continue
		}
		h, err := schemas.DecodeHealth(rec.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, &h)
	}
	return out
}

// scripted is a provider that does as it is told.
type scripted struct {
	mu      sync.Mutex
	calls   []provider.Call
	at      []time.Time
	now     int
	most    int
	closed  int
	respond func(context.Context, provider.Call) provider.Outcome
}

func (s *scripted) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	s.mu.Lock()
	s.calls, s.at = append(s.calls, *c), append(s.at, time.Now())
	s.now++
	s.most = max(s.most, s.now)
	respond := s.respond
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if respond == nil {
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: "pm-" + c.ID}
	}
	return respond(ctx, *c)
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *scripted) made() []provider.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *scripted) ids() (out []string) {
	for _, c := range s.made() {
		out = append(out, c.ID)
	}
	return out
}

// twoProviders are that of oneProvider, and q, which sends SMS.
func twoProviders(change func(*schemas.Provider), classes ...schemas.Class) schemas.Policy {
	p := oneProvider(change, classes...)
	p.Providers = append(p.Providers, schemas.Provider{Name: "q", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}})
	return p
}

func oneProvider(change func(*schemas.Provider), classes ...schemas.Class) schemas.Policy {
	p := schemas.Provider{Name: "p", Type: "simulated", Channels: schemas.Channels}
	if change != nil {
		change(&p)
	}
	return schemas.Policy{Providers: []schemas.Provider{p}, Classes: append([]schemas.Class{{Name: "notice"}}, classes...)}
}
