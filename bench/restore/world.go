package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

const policyText = `
limits:
  - {name: verify, per: [recipient], allow: [5/60s, 10/1h, 20/calendar-day], timezone: Asia/Shanghai}
providers:
  - {name: simulated, type: simulated, channels: [sms]}
`

type bench struct {
	load
	cluster *rig.Cluster
	log     io.Writer
}

// world has a ledger.
type world struct {
	*bench
	*rig.World
}

func (b *bench) newWorld(ctx context.Context) (*world, error) {
	made, err := b.cluster.NewWorld(ctx, "restore", b.partitions, policyText)
	if err != nil {
		return nil, err
	}
	w := &world{bench: b, World: made}
	cl, err := w.Producer()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	fmt.Fprintf(b.log, "deciding a request for each of %d recipients\n", b.recipients)
	began := time.Now()
	if err := w.produce(ctx, cl, 0, b.recipients); err != nil {
		return nil, err
	}
	err = w.decideAll(ctx)
	fmt.Fprintf(b.log, "the ledger is written after %v\n", time.Since(began).Round(time.Second))
	return w, err
}

// produce writes a request for each of n recipients.
func (w *world) produce(ctx context.Context, cl *kgo.Client, from, n int) error {
	return w.Produce(ctx, cl, n, func(i int) schemas.Request {
		return schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86138%08d", from+i), Class: "verify", Body: "Your code is 123456."}
	})
}

// start runs a worker; its end is sent on done.
func start(ctx context.Context, cfg admission.Config, watch *policy.Watcher) (stop func() error, done <-chan error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- admission.Run(ctx, cfg, watch) }()
	return func() error { cancel(); return <-ended }, ended
}

// decideAll runs a worker until the group has committed every request.
func (w *world) decideAll(ctx context.Context) error {
	watch, stopWatch, err := w.Watch(ctx)
	if err != nil {
		return err
	}
	defer stopWatch()
	stop, done := start(ctx, w.Admission("first"), watch)
	for {
		select {
		case err := <-done:
			return errors.Join(errEnded, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
		at, err := w.Committed(ctx, admission.Group(w.Names))
		if err != nil {
			return err
		}
		if at >= int64(w.recipients) {
			return stop()
		}
	}
}

// restore runs a new worker until it has restored every partition, and returns
// what the worker says of it.
func (w *world) restore(ctx context.Context, run int) (read, error) {
	watch, stopWatch, err := w.Watch(ctx)
	if err != nil {
		return read{}, err
	}
	defer stopWatch()
	cfg := w.Admission(fmt.Sprintf("restore-%d", run))
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
	for _, topic := range []string{w.Names.Ledger(), w.Names.Seen()} {
		ends, err := w.Admin.ListEndOffsets(ctx, topic)
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
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(consume))
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
