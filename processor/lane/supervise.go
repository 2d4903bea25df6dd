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
// revisions: new providers start, removed ones end, and one whose adapter must
// be opened anew restarts. cfg.Stream.TransactionalID is the slot's; the
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
	)
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
	for ctx.Err() == nil {
		for _, p := range rev.Policy.Providers {
			if p.Type == typeExternal || p.Type == typeNone || running[p.Name] {
				continue
			}
			running[p.Name] = true
			one := cfg
			one.Provider = p.Name
			one.Stream.TransactionalID += "." + p.Name
			wg.Go(func() {
				if err := keep(ctx, one); err != nil {
					failed <- err
				}
				select {
				case ended <- one.Provider:
				case <-ctx.Done():
				}
			})
		}
		select {
		case rev = <-next:
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

// Types without a lane: somebody else reads their dispatch topics, or nobody.
const (
	typeExternal = "external"
	typeNone     = "none"
)

// keep runs a provider until it leaves the policy or ctx ends.
func keep(ctx context.Context, cfg Config) error {
	for {
		rev := cfg.Policy.Latest()
		was, ok := rev.Policy.Provider(cfg.Provider)
		if !ok || ctx.Err() != nil {
			return nil
		}
		runCtx, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			for at := rev.Revision; ; at++ {
				next, err := cfg.Policy.Get(runCtx, at+1)
				if err != nil { // the end, or reported by Supervise
					return
				}
				if is, ok := next.Policy.Provider(cfg.Provider); !ok || reopens(was, is) {
					cfg.Logger.Info("lane restarts or ends: its provider has changed", "provider", cfg.Provider, "revision", next.Revision)
					stop()
					return
				}
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

// reopens reports whether a change of a provider needs its adapter, or its
// history of permits, anew. Pace, concurrency and timeout otherwise act on the
// next permit.
func reopens(was, is schemas.Provider) bool {
	return was.Type != is.Type || was.Lanes != is.Lanes || !reflect.DeepEqual(was.Settings, is.Settings) ||
		longest(is.Pace) > longest(was.Pace)
}
