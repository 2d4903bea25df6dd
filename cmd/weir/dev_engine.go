package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weirhq/weir/deploy/embedded/child"
)

const (
	// restartFirst and restartMost bound the wait before a child is started once more:
	// none for one that ran for restartMost, else doubling.
	restartFirst = time.Second
	restartMost  = 30 * time.Second
)

// nextRestart is how long to wait before the next start of a child that ran for a while,
// after a wait.
func nextRestart(ran, waited time.Duration) time.Duration {
	if ran >= restartMost {
		return 0
	}
	return min(max(2*waited, restartFirst), restartMost)
}

// keepRunning starts a child again whenever it ends, with start, until stop is
// called: the engine, without which Weir goes on, and whose data outlives it. stop ends the
// child that runs then, and must be called.
func keepRunning(ctx context.Context, logger *slog.Logger, what string, p *child.Process, start func(ctx context.Context) (*child.Process, error)) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan *child.Process, 1) // the one that runs last, if any
	go func() {
		began, wait := time.Now(), time.Duration(0)
		for {
			select {
			case <-ctx.Done():
				ended <- p
				return
			case <-p.Done():
			}
			why := p.Err()
			if why == nil {
				why = errors.New("it exited without an error")
			}
			for p = nil; p == nil; {
				wait = nextRestart(time.Since(began), wait)
				logger.Warn("the embedded "+what+" ended, and is started again: see children.log", "error", why, "in", wait)
				select {
				case <-ctx.Done():
					ended <- nil
					return
				case <-time.After(wait):
				}
				began = time.Now()
				p, why = start(ctx)
			}
		}
	}()
	return func() error {
		cancel()
		if p := <-ended; p != nil {
			return stopChild(what, p)
		}
		return nil
	}
}
