package broker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/deploy/embedded/broker"
)

// TestWantNoMetrics: a client that closes sends its metrics to kfake, and not to a
// cluster that wants none.
func TestWantNoMetrics(t *testing.T) {
	for _, none := range []bool{false, true} {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if none {
			broker.WantNoMetrics(c)
		}
		asked := &answered{done: make(chan struct{})}
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.WithHooks(asked))
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t"}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		select {
		case <-asked.done:
		case <-ctx.Done():
			t.Fatal("the client does not ask which metrics are wanted")
		}
		cl.Close()
		if pushed := asked.pushed.Load() > 0; pushed == none {
			t.Errorf("wants none: %v; metrics were sent: %v", none, pushed)
		}
	}
}

// answered notes the broker's answers about metrics.
type answered struct {
	done   chan struct{}
	once   sync.Once
	pushed atomic.Int32
}

func (a *answered) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	switch {
	case err != nil:
	case key == kmsg.GetTelemetrySubscriptions.Int16():
		a.once.Do(func() { close(a.done) })
	case key == kmsg.PushTelemetry.Int16():
		a.pushed.Add(1)
	}
}
