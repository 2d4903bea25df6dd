package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/admission"
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
	cluster *rig.Cluster
	log     io.Writer
	samples *samples
}

// world has all requests before anything is measured.
type world struct {
	*bench
	*rig.World
	records int
}

func (b *bench) newWorld(ctx context.Context, records int) (*world, error) {
	made, err := b.cluster.NewWorld(ctx, "admission", b.partitions, policyText)
	if err != nil {
		return nil, err
	}
	w := &world{bench: b, World: made, records: records}
	cl, err := w.Producer()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return w, w.Produce(ctx, cl, records, func(i int) schemas.Request { // every recipient in turn
		return rig.Pad(schemas.Request{
			Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86138%08d", i%b.recipients), Class: "verify", Body: fmt.Sprintf("Your code is %06d. ", i%1_000_000),
		}, b.valueBytes)
	})
}

// admission measures one worker.
func (b *bench) admission(ctx context.Context) (figures, error) {
	w, err := b.newWorld(ctx, b.records)
	if err != nil {
		return figures{}, err
	}
	defer w.Drop()
	r, err := w.measure(ctx, admission.Group(w.Names), w.admit)
	if err != nil {
		return figures{}, err
	}
	return r, w.allAdmitted(ctx)
}

// allAdmitted makes sure that every request was admitted: a refusal writes
// less, and the two rates would not be comparable.
func (w *world) allAdmitted(ctx context.Context) error {
	topic := w.Names.Dispatch("simulated", topics.QueueNormal)
	ends, err := w.Admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if end, _ := ends.Lookup(topic, 0); end.Offset < int64(w.records) { // markers only add
		return fmt.Errorf("%d of %d requests were dispatched", end.Offset, w.records)
	}
	return nil
}

func (w *world) admit(ctx context.Context) error {
	watch, stop, err := w.Watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return admission.Run(ctx, w.Admission("admission"), watch)
}

// measure runs a worker until its group has committed every request. The figures
// are those between the first and the last commit seen, so that joining the group
// and restoring are not part of them.
func (w *world) measure(ctx context.Context, group string, work func(context.Context) error) (figures, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	var first time.Time
	var began int64
	var used time.Duration
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			done <- err
			return figures{}, fmt.Errorf("the worker ended: %w", err)
		case <-ctx.Done():
			return figures{}, context.Cause(ctx)
		case <-tick.C:
		}
		at, err := w.Committed(ctx, group)
		if err != nil {
			return figures{}, err
		}
		now := time.Now()
		cpu, err := rig.CPU(os.Getpid())
		if err != nil {
			return figures{}, err
		}
		switch {
		case at == 0:
		case first.IsZero():
			first, began, used = now, at, cpu
		case at >= int64(w.records):
			n := at - began
			return figures{rate(float64(n) / now.Sub(first).Seconds()), (cpu - used) / time.Duration(n)}, nil
		}
	}
}
