package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/processor/lane"
)

// exitSignal is added to the number of the signal that ended the program at
// once: 130 for SIGINT, 143 for SIGTERM, as shells have it.
const exitSignal = 128

// stopSignal is why a context ended: someone asked the program to.
type stopSignal struct{ os.Signal }

func (s stopSignal) Error() string        { return "told to end by " + s.String() }
func (s stopSignal) Is(target error) bool { return target == context.Canceled }

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The
// second ends the program, which has these arguments, at once. The signals are kept to the end rather than
// given back to the system: it ignores those that would end process 1 of a
// container.
func untilSignal(args []string) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(stopSignal{<-signals})
		second := <-signals
		fmt.Fprintln(os.Stderr, endText(args, second))
		code := exitSignal
		if n, ok := second.(syscall.Signal); ok {
			code += int(n)
		}
		os.Exit(code)
	}()
	return ctx
}

// endText says what a second signal ends. Only weir run and weir dev call providers.
func endText(args []string, second os.Signal) string {
	text := fmt.Sprintf("weir: ends at once on a second signal (%v)", second)
	if len(args) > 0 && (args[0] == runCommand.name || args[0] == devCommand.name) {
		text += "; calls under way are in doubt until the next owner of their lane settles them"
	}
	return text
}

// stopStep is one step of a shutdown: which role ends, and what the log then says.
// Steps of one wave begin together.
type stopStep struct {
	role string
	text string
	wave int
}

// stopSteps is the order of a shutdown. What lets work in ends first; the work
// in hand ends next, side by side; what only copies what the others wrote comes
// last.
//
// That a stage has drained means that its last transaction is committed with its
// offsets and that it has left its group.
var stopSteps = []stopStep{
	{"ingest", "intake stopped", 0},
	{"inputs", "inputs drained", 0},
	{"admission", "admission drained", 1},
	{"delay", "delays drained", 1},
	{"lanes", "lanes drained", 1},
	{"receipts", "receipts drained", 2},
	{"sink", "sink drained", 2},
	{"callbacks", "callbacks drained", 2},
	{"alerts", "alerts written down", 2},
	{"metrics", "metrics closed", 2},
	{"policy", "policy log closed", 2},
	{"health", "health log closed", 2},
	{"clock", "clock's reports ended", 2},
	{"stuck", "reports of stuck stages ended", 2},
	{"unknown", "reports of unknown fields ended", 2},
	{"reports", "reports closed", 2},
}

// waveShares are the waves' shares of the grace, in percent. What one does not need
// the next may use: a machine that stalls for two seconds of ten leaves nothing behind.
var waveShares = [...]int{20, 60, 20}

// Shares of the grace within the lanes' step, in percent: for calls under way,
// and then for the outcomes of those that were cut off.
const (
	callsPct  = 45
	settlePct = 10
)

func share(grace time.Duration, pct int) time.Duration { return grace * time.Duration(pct) / 100 }

// stopWithinOf returns the time that a role's end may take at least.
func stopWithinOf(name string, grace time.Duration) time.Duration {
	i := slices.IndexFunc(stopSteps, func(s stopStep) bool { return s.role == name })
	return share(grace, waveShares[stopSteps[i].wave])
}

// role is a part of Weir that runs until its own context ends.
type role struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error     // valid after done
	at     time.Time // likewise: when it ended
}

// roles are those of one process. They do not end with the context that they
// are started under: stop ends them, in the order of stopSteps.
type roles struct {
	logger *slog.Logger
	list   []*role
	failed chan *role
}

func newRoles(logger *slog.Logger) *roles {
	return &roles{logger: logger, failed: make(chan *role, len(stopSteps))}
}

func (rs *roles) start(ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &role{name: name, cancel: cancel, done: make(chan struct{})}
	rs.list = append(rs.list, r)
	go func() {
		r.err = run(ctx)
		r.at = time.Now()
		close(r.done)
		if r.err != nil {
			rs.failed <- r
		}
	}()
}

// wait returns when ctx ends, or with the error of the first role that fails.
func (rs *roles) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case r := <-rs.failed:
		return r.err
	}
}

// stop ends all roles step by step, within the grace, and names each step in the log. A step that overruns does not hold up the next. The
// error joins those of roles that failed or had to be left behind, but for why;
// that calls or requests were cut off at the end of their time is logged and is
// no error.
func (rs *roles) stop(grace time.Duration, why error) error {
	began := time.Now()
	rs.logger.Info("shutdown: begins", "why", why, "grace", grace)
	var errs []error
	until := began
	for wave, pct := range waveShares {
		waveBegan := time.Now()
		until = until.Add(share(grace, pct))
		for _, s := range stopSteps {
			if r := rs.of(s); r != nil && s.wave == wave {
				r.cancel()
			}
		}
		for _, s := range stopSteps {
			if r := rs.of(s); r != nil && s.wave == wave {
				errs = append(errs, rs.await(r, s, waveBegan, until, why))
			}
		}
	}
	rs.logger.Info("shutdown: complete", "took", time.Since(began).Round(time.Millisecond))
	return errors.Join(errs...)
}

func (rs *roles) of(s stopStep) *role {
	i := slices.IndexFunc(rs.list, func(r *role) bool { return r.name == s.role })
	if i < 0 {
		return nil
	}
	return rs.list[i]
}

// await waits for one role's end and says in the log what came of it.
func (rs *roles) await(r *role, s stopStep, began, until time.Time, why error) error {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C:
		select {
		case <-r.done: // both, in a process that was stopped meanwhile
		default:
			within := until.Sub(began).Round(time.Millisecond)
			rs.logger.Warn("shutdown: "+s.text+": overran and is left behind", "within", within)
			return fmt.Errorf("shutdown: %s did not end within %v and was left behind", s.role, within)
		}
	}
	took := max(r.at.Sub(began), 0).Round(time.Millisecond)
	switch {
	case r.err != nil && r.err == why:
		rs.logger.Warn("shutdown: " + s.text + ": it had failed, which is why all end")
		return nil
	case r.err == nil, errors.Is(r.err, context.Canceled):
		rs.logger.Info("shutdown: "+s.text, "took", took)
		return nil
	case errors.Is(r.err, lane.ErrCutOff), errors.Is(r.err, ingest.ErrInFlight):
		rs.logger.Warn("shutdown: "+s.text+": overran", "took", took, "error", r.err)
		return nil
	}
	rs.logger.Error("shutdown: "+s.text+": failed", "took", took, "error", r.err)
	return r.err
}

// bounded runs one last step that has no role, such as the end of a child.
func bounded(logger *slog.Logger, text string, fn func() error) error {
	began := time.Now()
	err := fn()
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		logger.Warn("shutdown: "+text+": failed", "took", took, "error", err)
		return err
	}
	logger.Info("shutdown: "+text, "took", took)
	return nil
}
