package health_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/health"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

const topic = "weir.health"

// lines is a log that a test may read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

func newBroker(t *testing.T) (seeds kgo.Opt, cl *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds = kgo.SeedBrokers(c.ListenAddrs()...)
	return seeds, client(t, seeds)
}

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func create(t *testing.T, cl *kgo.Client) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, w *health.Watcher) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func share(w *health.Watcher, name string, lane int32) route.Share {
	s, ok := w.Now()[name]
	if !ok {
		return route.ShareFull
	}
	return s.Share(lane, schemas.MillisOf(time.Now()))
}

func say(t *testing.T, cl *kgo.Client, h schemas.Health) {
	t.Helper()
	write(t, cl, schemas.HealthKey(h.Provider, h.Lane), h.Encode())
}

func write(t *testing.T, cl *kgo.Client, key string, value []byte) {
	t.Helper()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	seeds, cl := newBroker(t)
	create(t, cl)
	now := schemas.MillisOf(time.Now())
	down := schemas.Health{Provider: "a/b", Breaker: schemas.BreakerOpen, ProbeAt: now + 30_000, At: now}
	lane := client(t, seeds, kgo.TransactionalID("a"))
	if err := lane.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	say(t, lane, down)
	if err := lane.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	began := time.Now()
	w, err := health.Watch(t.Context(), topic, slog.New(slog.NewTextHandler(log, nil)), seeds)
	if err != nil {
		t.Fatal(err)
	}
	if got := share(w, "a/b", 0); got != route.ShareNone { // before Run
		t.Errorf("what was there at the start: %s", got)
	}
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("took %v to see that a marker is the end", took)
	}
	run(t, w)

	// A record that does not count harms none that do.
	write(t, cl, "a/b/0", []byte(`{"provider":"a/b","breaker":"ajar"}`))
	write(t, cl, "nobody", nil)
	other := schemas.Health{Provider: "c", Lane: 3, Breaker: schemas.BreakerClosed, Calls: 50, Failures: 40, At: now}
	said := time.Now()
	say(t, cl, other)
	eventually(t, "c is degraded", func() bool { return share(w, "c", 3) == route.ShareDegraded })
	t.Logf("known %v after it was written", time.Since(said))
	if got := share(w, "a/b", 0); got != route.ShareNone || !log.has("ajar") || !log.has("nobody") {
		t.Errorf("%s", got)
	}

	reg := prometheus.NewRegistry()
	reg.MustRegister(w)
	figures := map[string]float64{}
	if got, err := reg.Gather(); err != nil || len(got) != 1 || got[0].GetName() != "weir_routing_share" {
		t.Errorf("%v, %v", got, err)
	} else {
		for _, m := range got[0].GetMetric() {
			figures[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	if figures["a/b"] != 0 || figures["c"] != 0.25 || len(figures) != 2 {
		t.Errorf("%v", figures)
	}

	// What is not committed is not said.
	tx := client(t, seeds, kgo.TransactionalID("lane"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	say(t, tx, schemas.Health{Provider: "c", Lane: 3, Breaker: schemas.BreakerOpen, ProbeAt: now + 30_000, At: now})
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	// A tombstone takes a lane's word back.
	write(t, cl, schemas.HealthKey("a/b", 0), nil)
	eventually(t, "a/b is well", func() bool { return share(w, "a/b", 0) == route.ShareFull })
	if got := share(w, "c", 3); got != route.ShareDegraded {
		t.Errorf("an aborted record counts: %s", got)
	}
	if _, ok := w.Now()["a/b"]; ok {
		t.Error("a provider without lanes is kept")
	}
}

// TestWithoutTheTopic: all are well, it is said once, and when the topic is
// there it is read.
func TestWithoutTheTopic(t *testing.T) {
	seeds, cl := newBroker(t)
	log := &lines{}
	began := time.Now()
	w, err := health.Watch(t.Context(), topic, slog.New(slog.NewTextHandler(log, nil)), seeds, kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second || len(w.Now()) != 0 || !log.has("not known yet") {
		t.Errorf("%v, %v", took, w.Now())
	}
	run(t, w)
	create(t, cl)
	now := schemas.MillisOf(time.Now())
	say(t, cl, schemas.Health{Provider: "a", Breaker: schemas.BreakerOpen, ProbeAt: now + 30_000, At: now})
	eventually(t, "it is read", func() bool { return share(w, "a", 0) == route.ShareNone })
}
