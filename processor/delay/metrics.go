package delay

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/lag"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// metrics are the stage's figures. Each process counts the partitions that it
// has, so over all processes they add up.
type metrics struct {
	waiting *prometheus.GaugeVec
	lag     prometheus.Gauge
	moved   prometheus.Gauge
	dead    *prometheus.CounterVec
	foreign *stream.Foreign
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_delay_waiting", Help: "Records that wait, by tier, of the partitions of this process; the markers of the transactions that wrote them are counted with them."}, []string{"tier"}),
		dead:    stream.DeadLetters(reg),
		foreign: stream.ForeignRecords(reg, "delay"),
		moved:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_delay_clock_moved_seconds", Help: "By how much this machine's clock was put right by the broker's; below 0 it was ahead."}),
	}
	if reg != nil {
		reg.MustRegister(m.waiting, m.moved)
	}
	for _, t := range topics.Tiers {
		m.waiting.WithLabelValues(t.Name).Set(0)
	}
	// A record of a tier is as old as its wait when it is due: what counts is
	// by how much it is older.
	m.lag = lag.Gauge(reg, "delay")
	return m
}

// place is where the stage stands in a partition.
type place struct {
	at    int64          // offset of the next to return
	empty schemas.Millis // since when nothing that was read waits; 0 when something does
}

// places are handed from the stage to whoever counts what waits.
type places struct {
	mu  sync.Mutex
	now map[stream.Partition]place
}

func (p *places) set(now map[stream.Partition]place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
}

func (p *places) get() map[stream.Partition]place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

const (
	// countEvery is how often it is looked up how much waits.
	countEvery = 5 * time.Second
	// readWithin is when a partition that is read and brings nothing is empty:
	// what is beyond its position is a transaction's marker.
	readWithin = 2 * time.Second
)

// count sets how much waits, until ctx ends. It asks for the end of each tier
// and reads nothing.
func (m *metrics) count(ctx context.Context, cfg Config, at *places) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Stream.Brokers...), kgo.ClientID(cfg.Stream.ClientID)}, cfg.Stream.Options...)...)
	if err != nil {
		cfg.Logger.Warn("what waits is not counted", "error", err)
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	names := make([]string, 0, len(topics.Tiers))
	for _, t := range topics.Tiers {
		names = append(names, cfg.Names.Delay(t.Name))
	}
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ends, err := adm.ListEndOffsets(ctx, names...)
		if err != nil && ctx.Err() == nil {
			cfg.Logger.Warn("what waits could not be counted", "error", err)
			continue
		}
		end := make(map[stream.Partition]int64)
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err == nil {
				end[stream.Partition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
			}
		})
		for tier, n := range waiting(cfg.Names, at.get(), end, schemas.MillisOf(cfg.Now())) {
			m.waiting.WithLabelValues(tier).Set(float64(n))
		}
	}
}

// waiting says how many records wait in each tier, markers of transactions
// among them, in the partitions of at.
func waiting(names topics.Names, at map[stream.Partition]place, end map[stream.Partition]int64, now schemas.Millis) map[string]int64 {
	n := make(map[string]int64)
	for _, t := range topics.Tiers {
		n[t.Name] = 0
	}
	for tp, p := range at {
		tier, ok := names.TierOf(tp.Topic)
		if !ok || p.at < 0 || p.empty != 0 && now.Sub(p.empty) > readWithin {
			continue
		}
		n[tier.Name] += max(end[tp]-p.at, 0)
	}
	return n
}
