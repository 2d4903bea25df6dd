package health_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/health"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

const topic = "weir.health"

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
	seeds := streamtest.Broker(t)
	cl := streamtest.Client(t, seeds)
	streamtest.Create(t, cl, topic)
	now := schemas.MillisOf(time.Now())
	down := schemas.Health{Provider: "a/b", Breaker: schemas.BreakerOpen, ProbeAt: now + 600_000, At: now}
	lane := streamtest.Client(t, seeds, kgo.TransactionalID("a"))
	if err := lane.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	say(t, lane, down)
	if err := lane.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	log := new(streamtest.Log)
	w, err := health.Watch(t.Context(), topic, log.Logger(), seeds)
	if err != nil {
		t.Fatal(err)
	}
	if got := share(w, "a/b", 0); got != route.ShareNone { // before Run
		t.Errorf("what was there at the start: %s", got)
	}
	streamtest.Run(t, w)

	// A record that does not count harms none that do.
	write(t, cl, "a/b/0", []byte(`{"provider":"a/b","breaker":"ajar"}`))
	write(t, cl, "nobody", nil)
	other := schemas.Health{Provider: "c", Lane: 3, Breaker: schemas.BreakerClosed, Calls: 50, Failures: 40, At: now}
	said := time.Now()
	say(t, cl, other)
	streamtest.Eventually(t, "c is degraded", func() bool { return share(w, "c", 3) == route.ShareDegraded })
	t.Logf("known %v after it was written", time.Since(said))
	if got := share(w, "a/b", 0); got != route.ShareNone || !log.Has("ajar") || !log.Has("nobody") {
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
	tx := streamtest.Client(t, seeds, kgo.TransactionalID("lane"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	say(t, tx, schemas.Health{Provider: "c", Lane: 3, Breaker: schemas.BreakerOpen, ProbeAt: now + 600_000, At: now})
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	// A tombstone takes a lane's word back.
	write(t, cl, schemas.HealthKey("a/b", 0), nil)
	streamtest.Eventually(t, "a/b is well", func() bool { return share(w, "a/b", 0) == route.ShareFull })
	if got := share(w, "c", 3); got != route.ShareDegraded {
		t.Errorf("an aborted record counts: %s", got)
	}
	if _, ok := w.Now()["a/b"]; ok {
		t.Error("a provider without lanes is kept")
	}
}

// TestAMarkerIsTheEnd: a topic whose last record is a transaction's marker is read at
// once, as one that does not answer is not.
func TestAMarkerIsTheEnd(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, _ *kfake.Cluster, broker []kgo.Opt) {
		cl := streamtest.Client(t, append(broker, kgo.TransactionalID("a"))...)
		streamtest.Create(t, cl, topic)
		now := schemas.MillisOf(time.Now())
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		say(t, cl, schemas.Health{Provider: "a", Breaker: schemas.BreakerOpen, ProbeAt: now + 600_000, At: now})
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w, err := health.Watch(t.Context(), topic, new(streamtest.Log).Logger(), broker...)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 900*time.Millisecond {
			t.Errorf("took %v to see that a marker is the end", took)
		}
		if got := share(w, "a", 0); got != route.ShareNone {
			t.Errorf("what was there at the start: %s", got)
		}
		streamtest.Run(t, w)
	})
}

// TestWithoutTheTopic: all are well, it is said once, and when the topic is
// there it is read.
func TestWithoutTheTopic(t *testing.T) {
	seeds := streamtest.Broker(t)
	cl := streamtest.Client(t, seeds)
	log := new(streamtest.Log)
	began := time.Now()
	w, err := health.Watch(t.Context(), topic, log.Logger(), seeds, kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute || len(w.Now()) != 0 || !log.Has("not known yet") {
		t.Errorf("%v, %v", took, w.Now())
	}
	streamtest.Run(t, w)
	streamtest.Create(t, cl, topic)
	now := schemas.MillisOf(time.Now())
	say(t, cl, schemas.Health{Provider: "a", Breaker: schemas.BreakerOpen, ProbeAt: now + 600_000, At: now})
	streamtest.Eventually(t, "it is read", func() bool { return share(w, "a", 0) == route.ShareNone })
}
