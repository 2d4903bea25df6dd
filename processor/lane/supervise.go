package lane

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/weirhq/weir/schemas"
)

// reopenEvery is how long a provider that cannot be opened waits until it is
// tried again; a change of its settings is tried at once.
const reopenEvery = 30 * time.Second

// Supervise runs one Run for each provider of the policy and follows its
// revisions: new providers start, removed ones drain and then end, also those
// that were removed while nobody ran, and one whose adapter must be opened anew
// restarts. cfg.Stream.TransactionalID is the slot's; the
// provider's name is added to it. A provider that cannot be opened is logged
// and tried again, and disturbs no other; any other error of a Run ends all
// and is returned. ErrCutOff is returned only when nothing worse happened.
func Supervise(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg      sync.WaitGroup
		ended   = make(chan string)
		failed  = make(chan error, schemas.MaxPolicyBytes/64)
		running = make(map[string]bool)
		rev     = cfg.Policy.Latest()
		next    = make(chan *schemas.Revision)
		past    = named{all: make(map[string]bool)}
		sweep   = time.NewTicker(sweepEvery)
	)
	defer sweep.Stop()
	wg.Go(func() { // follows the policy for all
		for at := rev.Revision; ; at++ {
			r, err := cfg.Policy.Get(ctx, at+1)
			if err != nil {
				if ctx.Err() == nil {
					failed <- err
				}
				return
			}
			select {
			case next <- r:
			case <-ctx.Done():
				return
			}
		}
	})
	var errs, cut []error
	report := func(err error) {
		if errors.Is(err, ErrCutOff) {
			cut = append(cut, err)
		} else {
			errs = append(errs, err)
		}
	}
	start := func(name string) {
		if running[name] {
			return
		}
		running[name] = true
		one := cfg
		one.Provider = name
		one.Stream.TransactionalID += "." + name
		wg.Go(func() {
			if err := keep(ctx, one); err != nil {
				failed <- err
			}
			select {
			case ended <- name:
			case <-ctx.Done():
			}
		})
	}
	drain := func() {
		gone, err := past.removed(ctx, cfg)
		if err != nil && ctx.Err() == nil {
			failed <- err
		}
		for _, name := range gone {
			start(name)
		}
	}
	drain()
	for ctx.Err() == nil {
		for _, p := range rev.Policy.Providers {
			if p.HasLane() {
				start(p.Name)
			}
		}
		select {
		case rev = <-next:
		case <-sweep.C:
			drain()
		case name := <-ended:
			delete(running, name)
			rev = cfg.Policy.Latest()
		case err := <-failed:
			report(err)
			cancel()
		case <-ctx.Done():
		}
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		report(err)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(cut...)
}

// How often a provider that left the policy is looked at: while its lanes drain,
// and afterwards, because a partition of admission that was down while it left
// may still dispatch to it.
const (
	drainEvery = time.Second
	sweepEvery = time.Minute
)

// keep runs a provider until it has left the policy and is drained, or ctx
// ends.
func keep(ctx context.Context, cfg Config) error {
	for {
		rev := cfg.Policy.Latest()
		was, ok := served(&rev.Policy, cfg.Provider)
		if ctx.Err() != nil || was.Type == schemas.ProviderExternal {
			return nil
		}
		if !ok {
			left, err := undrained(ctx, cfg)
			if err != nil && ctx.Err() == nil {
				cfg.Logger.Warn("cannot tell whether a removed provider is drained", "provider", cfg.Provider, "error", err, "again_in", sweepEvery)
			}
			if err != nil || !left {
				return nil
			}
			cfg.Logger.Info("lane drains: its provider left the policy", "provider", cfg.Provider)
		}
		runCtx, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			for at := rev.Revision; ; at++ {
				next, err := cfg.Policy.Get(runCtx, at+1)
				if err != nil { // the end, or reported by Supervise
					return
				}
				is, declared := served(&next.Policy, cfg.Provider)
				switch {
				case !declared && ok:
					cfg.Logger.Info("lane drains: its provider left the policy", "provider", cfg.Provider, "revision", next.Revision)
				case declared && (!ok || reopens(was, is)):
					cfg.Logger.Info("lane restarts: its provider has changed", "provider", cfg.Provider, "revision", next.Revision)
					stop()
					return
				}
			}
		})
		watch.Go(func() {
			if drained(runCtx, cfg) {
				cfg.Logger.Info("provider is drained: its lane ends", "provider", cfg.Provider)
				stop()
			}
		})
		err := Run(runCtx, cfg)
		if errors.Is(err, ErrOpen) {
			cfg.Logger.Error("provider cannot be opened", "provider", cfg.Provider, "error", err, "again_in", reopenEvery)
			select {
			case <-time.After(reopenEvery):
			case <-runCtx.Done():
			}
			err = nil
		}
		stop()
		watch.Wait()
		if (errors.Is(err, ErrCutOff) || errors.Is(err, ErrInDoubt)) && ctx.Err() == nil {
			err = nil // of a lane that only restarts; Run has logged it
		}
		if err != nil {
			return fmt.Errorf("provider %s: %w", cfg.Provider, err)
		}
	}
}

// drained waits until a provider is not in the policy and its queues hold
// nothing, twice in a row: what was decided under the revision before is there
// by then, or is found by a sweep. It returns false when ctx ends.
func drained(ctx context.Context, cfg Config) bool {
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for empty := 0; empty < 2; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if _, ok := served(&cfg.Policy.Latest().Policy, cfg.Provider); ok {
			empty = 0
			continue
		}
		left, err := undrained(ctx, cfg)
		if err != nil || left {
			empty = 0
			continue
		}
		empty++
	}
	return true
}

// reopens reports whether a change of a provider needs its adapter opened anew,
// or the group's members to find new lanes. All else acts on the next permit.
func reopens(was, is schemas.Provider) bool {
	return was.Type != is.Type || was.Lanes != is.Lanes || !reflect.DeepEqual(was.Settings, is.Settings)
}
