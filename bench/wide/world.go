package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/schemas"
)

type world struct {
	*bench
	*rig.World
}

func (b *bench) newWorld(ctx context.Context, limits string) (*world, error) {
	made, err := b.cluster.NewWorld(ctx, "wide", b.partitions, "limits:\n"+limits+"\nproviders:\n  - {name: simulated, type: simulated, channels: [sms]}\n")
	return &world{bench: b, World: made}, err
}

// produce writes all requests before anything is measured: the recipients that may
// be drawn, and of so many tenants, in turn.
func (w *world) produce(ctx context.Context, tenants int, may func(to string) bool) error {
	cl, err := w.Producer()
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
	return w.Produce(ctx, cl, w.records, func(i int) schemas.Request {
		return rig.Pad(schemas.Request{
			Tenant: fmt.Sprintf("t%d", i%tenants), Channel: schemas.ChannelSMS, To: all[i%len(all)], Class: "verify", Body: fmt.Sprintf("Your code is %06d. ", i%1_000_000),
		}, w.valueBytes)
	})
}

// worker is an admission worker in this process, and its own count of committed
// decisions.
type worker struct {
	counts *prometheus.Registry
	done   chan error
	stop   func()
}

func (w *world) start(ctx context.Context, name string) (*worker, error) {
	watch, stopWatch, err := w.Watch(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	k := &worker{counts: prometheus.NewRegistry(), done: make(chan error, 1)}
	cfg := w.Admission(name)
	cfg.Metrics = k.counts
	go func() { k.done <- admission.Run(ctx, cfg, watch) }()
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
