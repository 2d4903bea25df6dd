package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirhq/weir/cmd/weir/e2e"
)

const (
	workers    = 3
	kills      = 4
	storeKills = 3
	pauseFor   = session + 4*time.Second
)

// fault is one thing done to a system, after a share of the traffic's time.
type fault struct {
	after time.Duration
	what  string // kill, stop, cont; storeKill, storeStart
	slot  int
}

// schedule draws the faults from a seed: kill -9 of a worker somewhere in each
// quarter, one worker stopped for longer than its session, and the store killed
// three times, for 0.3 s to 2 s. A worker that was killed starts again at once.
func schedule(seed uint64, length time.Duration) []fault {
	rng := rand.New(rand.NewPCG(seed, 2))
	at := func(share float64) time.Duration { return time.Duration(share * float64(length)) }
	var all []fault
	for i := range kills {
		f := fault{at((float64(i) + 0.9*rng.Float64()) / kills), "kill", rng.IntN(workers)}
		all = append(all, f)
		if i == kills/2 {
			other := (f.slot + 1) % workers
			all = append(all, fault{f.after + time.Second, "stop", other}, fault{f.after + time.Second + pauseFor, "cont", other})
		}
	}
	for i := range storeKills {
		down := at(0.9 * (float64(i) + 0.3 + 0.5*rng.Float64()) / storeKills)
		all = append(all, fault{down, "storeKill", 0}, fault{down + 300*time.Millisecond + time.Duration(rng.Int64N(int64(1700*time.Millisecond))), "storeStart", 0})
	}
	slices.SortStableFunc(all, func(a, b fault) int { return int(a.after - b.after) })
	return all
}

// store is the limiter's own server, if the system has one.
type store interface {
	Kill()
	Restart(ctx context.Context) error
}

// crew is the worker processes of a system.
type crew struct {
	workers [workers]*e2e.Process
	start   func(slot int) (*e2e.Process, error)
	store   store // nil if there is none
	log     io.Writer
}

func (c *crew) startAll() error {
	for slot := range c.workers {
		if err := c.startOne(slot); err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) startOne(slot int) (err error) {
	c.workers[slot], err = c.start(slot)
	return err
}

// suffer does the faults to it, each in its time.
func (c *crew) suffer(ctx context.Context, faults []fault) error {
	began := time.Now()
	for _, f := range faults {
		timer := time.NewTimer(time.Until(began.Add(f.after)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		fmt.Fprintf(c.log, "%5.1fs: %s %d\n", time.Since(began).Seconds(), f.what, f.slot)
		var err error
		switch p := c.workers[f.slot]; f.what {
		case "kill":
			p.Kill()
			err = c.startOne(f.slot)
		case "stop":
			err = p.Pause()
		case "cont":
			err = p.Resume()
		case "storeKill":
			if c.store != nil {
				c.store.Kill()
			}
		case "storeStart":
			if c.store != nil {
				err = c.store.Restart(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("%s of %d: %w", f.what, f.slot, err)
		}
	}
	return nil
}

// alive reports a worker that ended by itself.
func (c *crew) alive() error {
	for _, p := range c.workers {
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended by itself: %w\n%s", p.Name, p.Err(), p.Tail(10))
		default:
		}
	}
	return nil
}

func (c *crew) killAll() {
	for _, p := range c.workers {
		if p != nil {
			p.Kill()
		}
	}
}
