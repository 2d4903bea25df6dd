// Package streamtest is what tests of stages, and of topics that only advise
// (stream.Advice), have in common: a broker in the same process, a log to read, a watcher
// that runs, and transactions that are refused.
package streamtest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
)

// Log is a log that a test may read while it is written.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Logger writes into it.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Has reports whether the text was said.
func (l *Log) Has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// Count is how many of its lines have the text.
func (l *Log) Count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Broker starts one, which ends with the test, and returns its seeds.
func Broker(t *testing.T) kgo.Opt {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker.WantNoMetrics(c)
	return kgo.SeedBrokers(c.ListenAddrs()...)
}

// SimulatedAddr is where the broker of a bubble listens, in its own network.
const SimulatedAddr = "127.0.0.1:9092"

// Simulated runs a test in a bubble with a broker in it, which these options reach: what
// it says of time holds on any machine, however busy that is.
func Simulated(t *testing.T, test func(t *testing.T, c *kfake.Cluster, broker []kgo.Opt)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := new(kfake.VirtualNetwork)
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(network.Listen), kfake.Ports(9092),
			kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		test(t, c, []kgo.Opt{kgo.SeedBrokers(SimulatedAddr), kgo.Dialer(network.DialContext), kgo.DisableClientMetrics(),
			kgo.ProducerBatchCompression(kgo.NoCompression())})
	})
}

// Client returns one that writes to the partition that a record names.
func Client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Sum returns a counter or gauge, over all its labels.
func Sum(t *testing.T, reg *prometheus.Registry, name string) (v float64) {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				v += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return v
}

// Create makes a topic of one partition.
func Create(t *testing.T, cl *kgo.Client, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// Run runs a watcher until the test ends, and waits for it.
func Run(t *testing.T, w interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// Eventually waits for what another goroutine does.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}
