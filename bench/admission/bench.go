package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const policyText = `
limits:
  - {name: verify, per: [recipient], allow: [5/60s, 10/1h, 20/calendar-day], timezone: Asia/Shanghai}
providers:
  - {name: simulated, type: simulated, channels: [sms]}
`

type bench struct {
	load
	brokers []string
	adm     *kadm.Client
	log     io.Writer
	samples *samples
	turn    int
}

// world is a fresh set of topics, so that no run inherits a state.
type world struct {
	*bench
	cfg     topics.Config
	names   topics.Names
	specs   []topics.Spec
	records int
}

func (b *bench) newWorld(ctx context.Context, records int) (*world, error) {
	doc, err := schemas.ParsePolicy("bench.yaml", []byte(policyText))
	if err != nil {
		return nil, err
	}
	b.turn++
	w := &world{bench: b, records: records}
	w.cfg = topics.Config{Prefix: fmt.Sprintf("bench-%d-%d.", time.Now().UnixMilli(), b.turn), Partitions: int32(b.partitions), Replication: 1}
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
	watch, err := policy.Watch(ctx, w.names.Config(), discard, kgo.SeedBrokers(b.brokers...))
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go watch.Run(runCtx) //nolint:errcheck // Publish reports what Run meets
	if _, err := watch.Publish(ctx, cl, 0, "bench", doc.Policy); err != nil {
		return nil, err
	}
	return w, w.produce(ctx)
}

// produce writes all requests before anything is measured: every recipient in
// turn, to the partition that owns it.
func (w *world) produce(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed error
	for i := range w.records {
		to := fmt.Sprintf("+86138%08d", i%w.recipients)
		q := schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: fmt.Sprintf("Your code is %06d. ", i%1_000_000)}
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

// admission measures one worker.
func (b *bench) admission(ctx context.Context) (rate, error) {
	w, err := b.newWorld(ctx, b.records)
	if err != nil {
		return 0, err
	}
	defer w.drop()
	r, err := w.measure(ctx, admission.Group(w.names), w.admit)
	if err != nil {
		return 0, err
	}
	return r, w.allAdmitted(ctx)
}

// allAdmitted makes sure that every request was admitted: a refusal writes
// less, and the two rates would not be comparable.
func (w *world) allAdmitted(ctx context.Context) error {
	topic := w.names.Dispatch("simulated", topics.QueueNormal)
	ends, err := w.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if end, _ := ends.Lookup(topic, 0); end.Offset < int64(w.records) { // markers only add
		return fmt.Errorf("%d of %d requests were dispatched", end.Offset, w.records)
	}
	return nil
}

func (w *world) admit(ctx context.Context) error {
	watch, err := policy.Watch(ctx, w.names.Config(), discard, kgo.SeedBrokers(w.brokers...))
	if err != nil {
		return err
	}
	go watch.Run(ctx) //nolint:errcheck // nothing is published any more
	return admission.Run(ctx, admission.Config{
		Stream:     w.stream("admission"),
		Read:       stream.ReadConfig{Brokers: w.brokers},
		Names:      w.names,
		Partitions: w.cfg.Partitions, DelayPartitions: w.cfg.Partitions, DLQPartitions: w.cfg.Partitions,
	}, watch)
}

func (w *world) stream(name string) stream.Config {
	return stream.Config{Brokers: w.brokers, TransactionalID: w.names.Requests() + name, ClientID: name}
}

// measure runs a worker until its group has committed every request. The rate
// is that between the first and the last commit seen, so that joining the group
// and restoring are not part of it.
func (w *world) measure(ctx context.Context, group string, work func(context.Context) error) (rate, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	var first time.Time
	var began int64
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			done <- err
			return 0, fmt.Errorf("the worker ended: %w", err)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
		at, err := w.committed(ctx, group)
		if err != nil {
			return 0, err
		}
		now := time.Now()
		switch {
		case at == 0:
		case first.IsZero():
			first, began = now, at
		case at >= int64(w.records):
			return rate(float64(at-began) / now.Sub(first).Seconds()), nil
		}
	}
}

func (w *world) committed(ctx context.Context, group string) (int64, error) {
	offsets, err := w.adm.FetchOffsets(ctx, group)
	if kerr.IsRetriable(err) {
		return 0, nil // a fresh broker makes its coordinator first
	}
	if err != nil {
		return 0, err
	}
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == w.names.Requests() && o.At > 0 {
			sum += o.At
		}
	})
	return sum, nil
}
