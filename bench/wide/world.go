package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// world is a fresh set of topics with a policy in force, so that no run inherits a
// state.
type world struct {
	*bench
	cfg   topics.Config
	names topics.Names
	specs []topics.Spec
}

func (b *bench) newWorld(ctx context.Context, limits string) (*world, error) {
	doc, err := schemas.ParsePolicy("bench.yaml", []byte("limits:\n"+limits+"\nproviders:\n  - {name: simulated, type: simulated, channels: [sms]}\n"))
	if err != nil {
		return nil, err
	}
	b.turn++
	w := &world{bench: b, cfg: topics.Config{Prefix: fmt.Sprintf("wide-%d-%d.", time.Now().UnixMilli(), b.turn), Partitions: int32(b.partitions), Replication: 1}}
	w.names = w.cfg.Names()
	w.specs = topics.Catalogue(w.cfg, &doc.Policy)
	diff, err := topics.Plan(ctx, b.adm, w.specs)
	if err != nil {
		return nil, err
	}
	if err := topics.Apply(ctx, b.adm, diff, nil); err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	watch, stop, err := w.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	_, err = watch.Publish(ctx, cl, 0, "bench", doc.Policy)
	return w, err
}

func (w *world) watch(ctx context.Context) (watch *policy.Watcher, stop func(), err error) {
	watch, err = policy.Watch(ctx, w.names.Config(), discard, kgo.SeedBrokers(w.brokers...))
	if err != nil {
		return nil, nil, err
	}
	ctx, stop = context.WithCancel(ctx)
	go watch.Run(ctx) //nolint:errcheck // Publish and the worker report what Run meets
	return watch, stop, nil
}

// produce writes all requests before anything is measured, each to its recipient's
// partition: the recipients that may be drawn, and of so many tenants, in turn.
func (w *world) produce(ctx context.Context, tenants int, may func(to string) bool) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	var all []string
	for i := 0; len(all) < w.recipients; i++ {
		if to := fmt.Sprintf("+86138%08d", i); may(to) {
			all = append(all, to)
		}
	}
	var failed error
	for i := range w.records {
		to := all[i%len(all)]
		q := schemas.Request{Tenant: fmt.Sprintf("t%d", i%tenants), Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: fmt.Sprintf("Your code is %06d. ", i%1_000_000)}
		if short := w.valueBytes - len(schemas.RequestJSON(&q)); short > 0 {
			q.Body += strings.Repeat("x", short)
		}
		cl.Produce(ctx, &kgo.Record{Topic: w.names.Requests(), Partition: schemas.PartitionOf(to, w.cfg.Partitions), Key: []byte(to), Value: schemas.RequestJSON(&q)},
			func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed
}

// drop deletes the world's topics.
func (w *world) drop() {
	var names []string
	for _, s := range w.specs {
		names = append(names, s.Name)
	}
	_, _ = w.adm.DeleteTopics(context.Background(), names...) // the next run has others
}

// worker is an admission worker in this process, and its own count of committed
// decisions.
type worker struct {
	counts *prometheus.Registry
	done   chan error
	stop   func()
}

func (w *world) start(ctx context.Context, name string) (*worker, error) {
	watch, stopWatch, err := w.watch(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	k := &worker{counts: prometheus.NewRegistry(), done: make(chan error, 1)}
	go func() {
		k.done <- admission.Run(ctx, admission.Config{
			Stream:     stream.Config{Brokers: w.brokers, TransactionalID: w.names.Requests() + name, ClientID: name, BatchBytes: w.names.BatchBytes},
			Read:       stream.ReadConfig{Brokers: w.brokers},
			Names:      w.names,
			Partitions: w.cfg.Partitions, DelayPartitions: w.cfg.Partitions, DLQPartitions: w.cfg.Partitions,
			Metrics: k.counts,
		}, watch)
	}()
	k.stop = func() {
		cancel()
		<-k.done
		stopWatch()
	}
	return k, nil
}

// decided is the number of committed decisions, by verdict.
func (k *worker) decided() (map[string]int, error) {
	families, err := k.counts.Gather()
	if err != nil {
		return nil, err
	}
	out := make(map[string]int)
	for _, f := range families {
		if f.GetName() != "weir_admission_decisions_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "verdict" {
					out[l.GetValue()] += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return out, nil
}

// of counts decisions of some verdicts.
func of(verdicts ...string) func(by map[string]int) int {
	return func(by map[string]int) (n int) {
		for _, v := range verdicts {
			n += by[v]
		}
		return n
	}
}

// until waits until n are done, as done counts them from the worker's decisions,
// and returns how many were a second: from the first commit of any decision on, so
// that joining the group and restoring are not part of it.
func (k *worker) until(ctx context.Context, n int, done func(by map[string]int) int) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("not all was decided in 2 min"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var first time.Time
	began := 0
	for {
		select {
		case err := <-k.done:
			k.done <- err
			return 0, fmt.Errorf("the worker ended: %w", err)
		case <-ctx.Done():
			by, _ := k.decided() // only for the error
			return 0, fmt.Errorf("%w: %v, of %d", context.Cause(ctx), by, n)
		case <-tick.C:
		}
		by, err := k.decided()
		if err != nil {
			return 0, err
		}
		now, any := time.Now(), 0
		for v, count := range by {
			if v != string(schemas.VerdictMarker) {
				any += count
			}
		}
		switch {
		case any == 0:
		case first.IsZero():
			first, began = now, done(by)
		case done(by) >= n:
			return float64(done(by)-began) / now.Sub(first).Seconds(), nil
		}
	}
}
