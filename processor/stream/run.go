package stream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fencedAgain is how soon a second fencing means another process rather than a
// pause of this one: after a pause, one new client is enough.
const fencedAgain = time.Minute

// maxFailures is how often in a row a stage may fail for a reason that a new
// start may mend, such as a restore from a broker that went away.
const maxFailures = 5

// Run reads cfg.Topics and drives the stage that newStage makes, until ctx ends
// (then it finishes the transaction under way and returns nil) or something
// fatal happens. After an unknown outcome or a lost session it closes the
// client, drops the stage, makes new ones and goes on.
//
// waker may be nil. newStage is called with a function that pauses or resumes
// fetching of partitions.
func Run(ctx context.Context, cfg Config, waker *Waker, newStage func(Fetching) Stage) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("stream %s: %w", cfg.Group, err)
	}
	cfg = cfg.withDefaults()
	if waker == nil {
		waker = &Waker{}
	}
	quarantine, progress := newQuarantine(), newProgress(cfg)
	defer progress.gone()
	var lastFenced time.Time
	failures := 0
	backoff := 100 * time.Millisecond
	for {
		started := time.Now()
		err := runOnce(ctx, cfg, waker, newStage, quarantine, progress)
		switch {
		case err == nil || ctx.Err() != nil && !errors.Is(err, errFatal):
			return nil
		case errors.Is(err, ErrFenced):
			if !lastFenced.IsZero() && time.Since(lastFenced) < fencedAgain {
				return fmt.Errorf("stream %s: %w", cfg.Group, err)
			}
			lastFenced = time.Now()
		case errors.Is(err, ErrUnknownOutcome), errors.Is(err, errPoisoned):
		case errors.Is(err, errFatal) || failures >= maxFailures:
			return fmt.Errorf("stream %s: %w", cfg.Group, err)
		default:
			failures++
		}
		progress.restarted(err)
		if time.Since(started) > time.Minute {
			backoff, failures = 100*time.Millisecond, 0
		}
		cfg.Logger.Warn("stream restarts from its log", "group", cfg.Group, "error", err, "in", backoff)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, 5*time.Second)
	}
}

// errFatal marks what must be reported even when the process is stopping.
var errFatal = errors.New("state and log disagree")

// Fatal marks err as one that no restart mends: Run returns it.
func Fatal(err error) error { return fmt.Errorf("%w: %w", errFatal, err) }
