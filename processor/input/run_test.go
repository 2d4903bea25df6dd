package input_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/input"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const partitions = 4

// world is a broker, a policy and what has come to weir.requests and weir.status.
type world struct {
	*testing.T
	seeds []string
	cfg   topics.Config
	names topics.Names
	cl    *kgo.Client
	adm   *kadm.Client
	pol   *policy.Watcher

	mu   sync.Mutex
	came map[string][]string // tenant, recipient and text of what was passed on, and where
	ends []*schemas.Event
	logs []string
}

func newWorld(t *testing.T) *world {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{T: t, seeds: c.ListenAddrs(), cfg: topics.Config{Partitions: partitions, Replication: 1}, came: make(map[string][]string)}
	w.names = w.cfg.Names()
	if w.cl, err = kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	w.adm = kadm.NewClient(w.cl)
	w.create(&schemas.Policy{})
	if w.pol, err = policy.Watch(t.Context(), w.names.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(w.seeds...)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait() })
	wg.Go(func() { _ = w.pol.Run(ctx) })
	follow, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.ConsumeTopics(w.names.Requests(), w.names.Status()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		defer follow.Close()
		for ctx.Err() == nil {
			follow.PollFetches(ctx).EachRecord(w.take)
		}
	})
	return w
}

func (w *world) take(r *kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Topic == w.names.Status() {
		e, err := schemas.DecodeEvent(r.Value)
		if err != nil {
			w.Errorf("an end that cannot be read: %v", err)
			return
		}
		w.ends = append(w.ends, e)
		return
	}
	q, err := schemas.DecodeRequest(r.Value, nil)
	if err != nil {
		w.Errorf("a request that cannot be read: %v", err)
		return
	}
	key := q.Tenant + " " + q.Body
	w.came[key] = append(w.came[key], q.ID)
}

func (w *world) create(p *schemas.Policy) {
	w.Helper()
	diff, err := topics.Plan(w.Context(), w.adm, topics.Catalogue(w.cfg, p))
	if err == nil {
		err = topics.Apply(w.Context(), w.cl, diff, nil)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// bind brings a policy with these inputs into force; at is when.
func (w *world) bind(inputs ...schemas.Input) {
	w.Helper()
	if _, err := w.pol.Publish(w.Context(), w.cl, w.pol.Latest().Revision, "test", schemas.Policy{Inputs: inputs}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(topic string, parts int, from, to int) {
	w.Helper()
	var recs []*kgo.Record
	for i := from; i < to; i++ {
		recs = append(recs, &kgo.Record{Topic: topic, Partition: int32(i % parts), Value: fmt.Appendf(nil, `{"channel":"sms","to":"+8613800%06d","body":"%s %d"}`, i, topic, i)})
	}
	if err := w.cl.ProduceSync(w.Context(), recs...).FirstErr(); err != nil {
		w.Fatal(err)
	}
}

// run starts the stage and returns what ends it, once it has.
func (w *world) run(slot string, reg prometheus.Registerer, now func() time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- input.Run(ctx, input.Config{
			Stream: stream.Config{Brokers: w.seeds, TransactionalID: "inputs." + slot, SessionTimeout: 6 * time.Second},
			Topics: w.cfg, DLQPartitions: partitions, Policy: w.pol, Metrics: reg, Now: now,
			Logger: slog.New(slog.NewTextHandler(logTo{w}, nil)),
		})
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.Errorf("the stage ended: %v", err)
			}
		})
	}
	w.Cleanup(stop)
	return stop
}

type logTo struct{ w *world }

func (l logTo) Write(b []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.logs = append(l.w.logs, string(b))
	return len(b), nil
}

// until waits until ok holds of what has come.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(2 * time.Minute) // of a test that fails
	for time.Now().Before(deadline) {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		time.Sleep(10 * time.Millisecond) // polls
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Fatalf("not in time: %s; %d came, %d ended\n%s", what, len(w.came), len(w.ends), strings.Join(w.logs, ""))
}

// has reports whether all these came.
func (w *world) has(tenant, topic string, from, to int) func() bool {
	return func() bool {
		for i := from; i < to; i++ {
			if len(w.came[fmt.Sprintf("%s %s %d", tenant, topic, i)]) == 0 {
				return false
			}
		}
		return true
	}
}

// eachOnce holds that n different requests came, each once.
func (w *world) eachOnce(n int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.came) != n {
		w.Errorf("%d requests came, want %d", len(w.came), n)
	}
	for key, ids := range w.came {
		if len(ids) != 1 {
			w.Errorf("%s came %d times: %v", key, len(ids), ids)
		}
	}
}

// TestFollowsThePolicy: inputs come, go and come back while the stage runs, with
// any number of partitions, and nothing is lost or doubled.
func TestFollowsThePolicy(t *testing.T) {
	w := newWorld(t)
	acme, globex := schemas.Input{Topic: "acme.sends", Tenant: "acme"}, schemas.Input{Topic: "globex", Tenant: "globex"}
	for topic, parts := range map[string]int32{"acme.sends": 3, "globex": 1} {
		if _, err := w.adm.CreateTopic(t.Context(), parts, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewRegistry()
	w.run("0", reg, nil)
	stop := w.run("1", nil, nil)
	w.write("acme.sends", 3, 0, 50) // before it is bound
	w.bind(acme)
	w.until("what was there before", w.has("acme", "acme.sends", 0, 50))
	began := time.Now()
	w.write("globex", 1, 0, 10)
	w.bind(globex, acme)
	w.until("a second input", w.has("globex", "globex", 0, 10))
	t.Logf("a second input after %v", time.Since(began))
	w.write("acme.sends", 3, 50, 100)
	w.until("the first goes on", w.has("acme", "acme.sends", 50, 100))

	w.bind(globex)
	w.until("unbound", func() bool { return strings.Contains(strings.Join(w.logs, ""), "input ends") })
	stop() // and only one worker is left
	w.write("acme.sends", 3, 100, 119)
	w.write("globex", 1, 10, 20)
	w.until("the other goes on", w.has("globex", "globex", 10, 20))
	w.bind(globex, acme)
	w.until("bound again", w.has("acme", "acme.sends", 100, 119))

	// Its owner gives it more partitions, and then another tenant has it.
	if _, err := w.adm.UpdatePartitions(t.Context(), 5, "acme.sends"); err != nil {
		t.Fatal(err)
	}
	w.until("its producer knows", func() bool {
		w.cl.ForceMetadataRefresh()
		return w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: "acme.sends", Partition: 4, Value: []byte(`{"channel":"sms","to":"+8613800138000","body":"acme.sends 119"}`)}).FirstErr() == nil
	})
	w.write("acme.sends", 5, 120, 140)
	w.bind(globex, schemas.Input{Topic: "acme.sends", Tenant: "umbrella"})
	w.until("all partitions", func() bool {
		for i := 119; i < 140; i++ {
			if len(w.came[fmt.Sprintf("acme acme.sends %d", i)])+len(w.came[fmt.Sprintf("umbrella acme.sends %d", i)]) == 0 {
				return false
			}
		}
		return true
	})
	w.write("acme.sends", 5, 140, 150)
	w.until("another tenant's", w.has("umbrella", "acme.sends", 140, 150))
	w.eachOnce(150 + 20)
	if len(w.ends) != 0 {
		t.Errorf("%d ended", len(w.ends))
	}
	if got := series(t, reg, "weir_input_records_total"); got["acme.sends passed"]+got["globex passed"] == 0 || len(got) > 2 {
		t.Errorf("weir_input_records_total %v", got)
	}
}

// TestOneThatCannotBeReadDisturbsNoOther: it is told, and read once it can be.
func TestOneThatCannotBeReadDisturbsNoOther(t *testing.T) {
	w := newWorld(t)
	w.create(&schemas.Policy{Inputs: []schemas.Input{{Topic: "good", Tenant: "acme"}}})
	compact := "compact"
	if _, err := w.adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &compact}, "compacted"); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	w.bind(schemas.Input{Topic: "good", Tenant: "acme"}, schemas.Input{Topic: "gone", Tenant: "acme"}, schemas.Input{Topic: "compacted", Tenant: "acme"}, schemas.Input{Topic: "weir.requests", Tenant: "acme"})
	w.run("0", reg, nil)
	w.write("good", partitions, 0, 20)
	w.write("compacted", 1, 0, 1)
	w.until("the good one", w.has("acme", "good", 0, 20))
	w.until("the others are told", func() bool {
		logs := strings.Join(w.logs, "")
		return strings.Contains(logs, "missing gone") && strings.Contains(logs, "is compacted") && strings.Contains(logs, "one of Weir's own")
	})
	if got := series(t, reg, "weir_input_stopped"); !maps.Equal(got, map[string]float64{"good": 0, "gone": 1, "compacted": 1, "weir.requests": 1}) {
		t.Errorf("weir_input_stopped %v", got)
	}
	w.create(&schemas.Policy{Inputs: []schemas.Input{{Topic: "gone", Tenant: "acme"}}})
	w.write("gone", partitions, 0, 5)
	w.until("the one that was gone", w.has("acme", "gone", 0, 5))
	w.eachOnce(25)
}

// series are those of a metric, by topic and outcome.
func series(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append([]string{l.GetValue()}, labels...)
			}
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// TestALostPositionIsNoStart: what the group once knew and has forgotten is not
// read from the start again, which would send all of it twice.
func TestALostPositionIsNoStart(t *testing.T) {
	w := newWorld(t)
	in := schemas.Input{Topic: "acme.sends", Tenant: "acme"}
	w.create(&schemas.Policy{Inputs: []schemas.Input{in}})
	w.bind(in)
	later := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }

	// A day after it was bound it has positions, though nothing was written.
	stop := w.run("0", nil, nil)
	w.until("the group's positions", func() bool {
		at, err := w.adm.FetchOffsetsForTopics(t.Context(), input.Group(w.names), in.Topic)
		if err != nil {
			return false
		}
		for _, o := range at[in.Topic] {
			if o.At != 0 {
				return false
			}
		}
		return len(at[in.Topic]) == partitions
	})
	stop()
	stop = w.run("0", nil, later(48*time.Hour))
	w.write(in.Topic, partitions, 0, 10)
	w.until("goes on", w.has("acme", in.Topic, 0, 10))
	stop()

	if _, err := w.adm.DeleteGroup(t.Context(), input.Group(w.names)); err != nil {
		t.Fatal(err)
	}
	w.write(in.Topic, partitions, 10, 20)
	stop = w.run("0", nil, later(48*time.Hour))
	w.until("told", func() bool { return strings.Contains(strings.Join(w.logs, ""), "has no position in it") })
	stop()
	w.eachOnce(10)

	// An operator says where to go on.
	to := make(kadm.Offsets)
	for p := range int32(partitions) { // what was passed on: 10 records over 4 partitions
		to.Add(kadm.Offset{Topic: in.Topic, Partition: p, At: int64([]int{3, 3, 2, 2}[p]), LeaderEpoch: -1})
	}
	if err := w.adm.CommitAllOffsets(t.Context(), input.Group(w.names), to); err != nil {
		t.Fatal(err)
	}
	w.run("0", nil, later(48*time.Hour))
	w.until("told where", w.has("acme", in.Topic, 10, 20))
	w.eachOnce(20)
}

// TestTwoProcessesInOneSlot: the one that is fenced says so and ends, whatever it
// waits for.
func TestTwoProcessesInOneSlot(t *testing.T) {
	w := newWorld(t)
	in := schemas.Input{Topic: "acme.sends", Tenant: "acme"}
	w.create(&schemas.Policy{Inputs: []schemas.Input{in}})
	w.bind(in)
	ends := make(chan error, 2)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for range 2 {
		go func() {
			ends <- input.Run(ctx, input.Config{
				Stream: stream.Config{Brokers: w.seeds, TransactionalID: "inputs.0", SessionTimeout: 6 * time.Second},
				Topics: w.cfg, DLQPartitions: partitions, Policy: w.pol, Logger: slog.New(slog.NewTextHandler(logTo{w}, nil)),
			})
		}()
	}
	deadline := time.After(2 * time.Minute)
	for i := 0; ; i++ {
		w.write(in.Topic, partitions, i*8, i*8+8)
		select {
		case err := <-ends:
			if !errors.Is(err, stream.ErrFenced) {
				t.Fatalf("ended with %v", err)
			}
			stop()
			<-ends
			return
		case <-deadline:
			t.Fatal("neither was fenced")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
