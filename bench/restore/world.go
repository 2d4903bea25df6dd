package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
}

// world is a set of topics with a ledger.
type world struct {
	*bench
	names topics.Names
	n     int32
}

func (b *bench) newWorld(ctx context.Context) (*world, error) {
	doc, err := schemas.ParsePolicy("bench.yaml", []byte(policyText))
	if err != nil {
		return nil, err
	}
	cfg := topics.Config{Prefix: fmt.Sprintf("bench-%d.", time.Now().UnixMilli()), Partitions: int32(b.partitions), Replication: 1}
	w := &world{bench: b, names: cfg.Names(), n: cfg.Partitions}
	diff, err := topics.Plan(ctx, b.adm, topics.Catalogue(cfg, &doc.Policy))
	if err != nil {
		return nil, err
	}
	if err := topics.Apply(ctx, b.adm, diff, nil); err != nil {
		return nil, err
	}
	cl, err := w.producer()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	watch, stop, err := w.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if _, err := watch.Publish(ctx, cl, 0, "bench", doc.Policy); err != nil {
		return nil, err
	}
	fmt.Fprintf(b.log, "deciding a request for each of %d recipients\n", b.recipients)
	began := time.Now()
	if err := w.produce(ctx, cl, 0, b.recipients); err != nil {
		return nil, err
	}
	err = w.decideAll(ctx, watch)
	fmt.Fprintf(b.log, "the ledger is written after %v\n", time.Since(began).Round(time.Second))
	return w, err
}

func (w *world) producer() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(100_000))
}

// produce writes a request for each of n recipients, to its owner.
func (w *world) produce(ctx context.Context, cl *kgo.Client, from, n int) error {
	var failed error
	for i := range n {
		to := fmt.Sprintf("+86138%08d", from+i)
		q := schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "Your code is 123456."}
		cl.Produce(ctx, &kgo.Record{Topic: w.names.Requests(), Partition: schemas.PartitionOf(to, w.n), Key: []byte(to), Value: schemas.RequestJSON(&q)},
			func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed
}

// watch follows the policy until stop.
func (w *world) watch(ctx context.Context) (watch *policy.Watcher, stop func(), err error) {
	watch, err = policy.Watch(ctx, w.names.Config(), discard, kgo.SeedBrokers(w.brokers...))
	if err != nil {
		return nil, nil, err
	}
	ctx, stop = context.WithCancel(ctx)
	go watch.Run(ctx) //nolint:errcheck // Get and Publish report what Run meets
	return watch, stop, nil
}

// worker is admission as weir run runs it.
func (w *world) worker(slot string) admission.Config {
	return admission.Config{
		Stream:     stream.Config{Brokers: w.brokers, TransactionalID: w.names.Requests() + slot, ClientID: slot, BatchBytes: w.names.BatchBytes},
		Read:       stream.ReadConfig{Brokers: w.brokers},
		Names:      w.names,
		Partitions: w.n, DelayPartitions: w.n, DLQPartitions: w.n,
	}
}

// start runs a worker; its end is sent on done.
func start(ctx context.Context, cfg admission.Config, watch *policy.Watcher) (stop func() error, done <-chan error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- admission.Run(ctx, cfg, watch) }()
	return func() error { cancel(); return <-ended }, ended
}

// decideAll runs a worker until the group has committed every request.
func (w *world) decideAll(ctx context.Context, watch *policy.Watcher) error {
	stop, done := start(ctx, w.worker("first"), watch)
	for {
		select {
		case err := <-done:
			return errors.Join(errEnded, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
		at, err := w.committed(ctx)
		if err != nil {
			return err
		}
		if at >= int64(w.recipients) {
			return stop()
		}
	}
}

func (w *world) committed(ctx context.Context) (int64, error) {
	offsets, err := w.adm.FetchOffsets(ctx, admission.Group(w.names))
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

// restore runs a new worker until it has restored every partition, and returns
// what the worker says of it.
func (w *world) restore(ctx context.Context, run int) (read, error) {
	watch, stopWatch, err := w.watch(ctx)
	if err != nil {
		return read{}, err
	}
	defer stopWatch()
	cfg := w.worker(fmt.Sprintf("restore-%d", run))
	said := make(restored, 1)
	cfg.Logger = slog.New(said)
	stop, done := start(ctx, cfg, watch)
	select {
	case r := <-said:
		if r.records < int64(w.recipients) {
			return r, fmt.Errorf("%d records restored of %d recipients", r.records, w.recipients)
		}
		return r, stop()
	case err := <-done:
		return read{}, errors.Join(errEnded, err)
	case <-ctx.Done():
		return read{}, context.Cause(ctx)
	}
}

// restored is a log handler that hands on what the worker says of a restore.
type restored chan read

func (restored) Enabled(context.Context, slog.Level) bool { return true }
func (s restored) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s restored) WithGroup(string) slog.Handler          { return s }

func (s restored) Handle(_ context.Context, rec slog.Record) error {
	if rec.Message != "partitions restored" {
		return nil
	}
	var r read
	rec.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "records":
			r.records = a.Value.Int64()
		case "took":
			r.took = a.Value.Duration()
		}
		return true
	})
	select {
	case s <- r:
	default:
	}
	return nil
}

// bare reads what a restore reads, and drops it.
func (w *world) bare(ctx context.Context) (read, error) {
	began := time.Now()
	consume := make(map[string]map[int32]kgo.Offset)
	left := make(map[stream.Partition]int64)
	for _, topic := range []string{w.names.Ledger(), w.names.Seen()} {
		ends, err := w.adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return read{}, err
		}
		consume[topic] = make(map[int32]kgo.Offset)
		ends.Each(func(o kadm.ListedOffset) {
			if o.Offset > 0 {
				consume[topic][o.Partition] = kgo.NewOffset().AtStart()
				left[stream.Partition{Topic: topic, Partition: o.Partition}] = o.Offset
			}
		})
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(consume))
	if err != nil {
		return read{}, err
	}
	defer cl.Close()
	var r read
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return r, err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			tp := stream.Partition{Topic: p.Topic, Partition: p.Partition}
			p.EachRecord(func(rec *kgo.Record) {
				r.records++
				if rec.Offset+1 >= left[tp] {
					delete(left, tp)
				}
			})
		})
	}
	r.took = time.Since(began)
	return r, nil
}

var discard = slog.New(slog.DiscardHandler)
