package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// watched is how long a stage is watched while its tier is full, or empty.
const watched = 20 * time.Second

// memory starts the stage beside what waits, and beside nothing.
func (b *bench) memory(ctx context.Context) (string, error) {
	var t strings.Builder
	t.WriteString("\n## Memory\n\nA stage that was started with this many records in the 5m tier, all to be read, after 20 s.\n\n| waiting | peak memory | largest heap |\n|---|---|---|\n")
	for _, n := range []int{0, b.waiting} {
		w, err := b.newWorld(ctx)
		if err != nil {
			return "", err
		}
		if err := w.fill(ctx, n); err != nil {
			return "", err
		}
		p, err := w.start(ctx)
		if err != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
		case <-time.After(watched):
		}
		peak, err := p.end()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&t, "| %d | %.1f MB | %.1f MB |\n", n, float64(peak)/1e6, float64(p.heap)/1e6)
		fmt.Fprintf(b.log, "%d waiting: peak %.1f MB, heap %.1f MB, cpu %v\n", n, float64(peak)/1e6, float64(p.heap)/1e6, p.cpu)
	}
	return t.String(), nil
}

// fill writes n records that wait five minutes.
func (w *world) fill(ctx context.Context, n int) error {
	cl, err := w.producer()
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed error
	due := schemas.MillisOf(time.Now().Add(5 * time.Minute))
	for i := range n {
		// Promises of one client run one after another.
		cl.Produce(ctx, w.record(i, due, topics.TierFor(5*time.Minute)), func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed
}
