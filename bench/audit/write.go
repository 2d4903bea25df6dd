package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/simulated"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// policyText refuses about half: a recipient's requests come all at once.
const policyText = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/60s, 5/1h, 10/calendar-day], timezone: Asia/Shanghai}
  - {name: everyone, per: [recipient], allow: [30/24h]}
providers:
  - {name: sim, type: simulated, channels: [sms], concurrency: 512, settings: {latency: 0ms-0ms}}
tenants:
  - {name: default, default_region: CN}
`

// load is the log that is audited.
type load struct {
	requests, recipients, partitions int
	lanes                            bool
}

// write makes the log and returns the prefix of its topics.
func (l load) write(ctx context.Context, kafka *rig.Cluster, log io.Writer) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w, err := kafka.NewWorld(ctx, "audit", l.partitions, policyText)
	if err != nil {
		return "", err
	}
	watch, stop, err := w.Watch(ctx)
	if err != nil {
		return "", err
	}
	defer stop()
	if err := l.produce(ctx, w); err != nil {
		return "", err
	}
	stages := make(chan struct{})
	running := 0
	start := func(name string, stage func() error) {
		running++
		go func() {
			err := stage()
			if ctx.Err() == nil {
				cancel(fmt.Errorf("%w: %s: %w", errEnded, name, err))
			}
			stages <- struct{}{}
		}()
	}
	n := w.Topics.Partitions
	start("admission", func() error { return admission.Run(ctx, w.Admission("admission"), watch) })
	start("delay", func() error {
		return delay.Run(ctx, delay.Config{Stream: w.Stream("delay"), Names: w.Names, Partitions: n, DelayPartitions: n})
	})
	if l.lanes {
		start("lane", func() error {
			return lane.Supervise(ctx, lane.Config{Stream: w.Stream("lane"), Read: stream.ReadConfig{Brokers: w.Brokers}, Names: w.Names,
				Partitions: n, DelayPartitions: n, DLQPartitions: n, Policy: watch,
				Open: func(p schemas.Provider) (provider.Provider, error) {
					return simulated.Open(p, provider.Deps{Logger: discard})
				}})
		})
	}
	err = l.settle(ctx, w.Admin, w.Names, log)
	cancel(nil)
	for range running {
		<-stages
	}
	return w.Names.Prefix, err
}

// produce writes every recipient's requests in turn; one in twenty lands in a
// partition that does not own it.
func (l load) produce(ctx context.Context, w *rig.World) error {
	cl, err := w.Producer()
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed error
	for i := range l.requests {
		to := fmt.Sprintf("+86138%08d", i%l.recipients)
		q := schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: fmt.Sprintf("Your code is %06d. It is valid for five minutes.", i%1_000_000)}
		at := schemas.PartitionOf(to, w.Topics.Partitions)
		if i%20 == 0 {
			at = (at + 1) % w.Topics.Partitions
		}
		cl.Produce(ctx, &kgo.Record{Topic: w.Names.Requests(), Partition: at, Key: []byte(to), Value: schemas.RequestJSON(&q)},
			func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	return errors.Join(cl.Flush(ctx), failed)
}

// settle waits until every stage has done all that lies before it.
func (l load) settle(ctx context.Context, adm *kadm.Client, names topics.Names, log io.Writer) error {
	groups := map[string][]string{admission.Group(names): {names.Requests(), names.Readmit()}}
	if l.lanes {
		groups[lane.Group(names, "sim")] = []string{names.Dispatch("sim", topics.QueueNormal)}
	}
	began, quiet := time.Now(), 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for said := 0; quiet < 3; said++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		behind := int64(0)
		for group, topics := range groups {
			n, err := lag(ctx, adm, group, topics)
			if err != nil {
				return err
			}
			behind += n
		}
		if quiet++; behind > 0 {
			quiet = 0
		}
		if said%10 == 0 {
			fmt.Fprintf(log, "%s: %d records behind\n", time.Since(began).Round(time.Second), behind)
		}
	}
	return nil
}

// lag is how many offsets lie before a group. A partition that ends in the
// marker of a transaction counts one.
func lag(ctx context.Context, adm *kadm.Client, group string, topics []string) (sum int64, err error) {
	done, err := adm.FetchOffsets(ctx, group)
	if err != nil && !kerr.IsRetriable(err) && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, err
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return 0, err
	}
	ends.Each(func(o kadm.ListedOffset) {
		at := int64(0)
		if d, ok := done.Lookup(o.Topic, o.Partition); ok {
			at = max(d.At, 0)
		}
		if n := o.Offset - at; n > 1 {
			sum += n
		}
	})
	return sum, nil
}
