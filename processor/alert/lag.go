package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// watched are the stages that must not be behind. Lanes are none of them: what waits for a
// provider's pace waits as it should.
var watched = []backlog.Stage{backlog.Admission, backlog.Inputs, backlog.Delay, backlog.Receipts, backlog.Sink, backlog.Callbacks}

// laggards finds stages that are behind, by the age of the oldest record that they
// have not taken, and providers that make no calls although messages wait.
type laggards struct {
	looker *backlog.Looker
	meter  backlog.Meter
	queues func() []backlog.Queue // those of a stage one after another
	policy func() *schemas.Revision
	health func() route.Health

	behind  map[string]Condition // stages that were behind when they were last asked about
	stalled []Condition          // as of the last look that succeeded; nil before
}

// waits is what a look found. nil: not known yet.
type waits struct{ behind, stalled []Condition }

// guarded is look. A panic in it is its error.
func (l *laggards) guarded(ctx context.Context, now schemas.Millis) (out waits, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return l.look(ctx, now)
}

// look returns all stages that are behind. Where a stage cannot be asked about the
// error says so, and it is as it was: the others are reported nevertheless.
func (l *laggards) look(ctx context.Context, now schemas.Millis) (waits, error) {
	out := waits{behind: []Condition{}}
	var errs []error
	was := l.behind
	l.behind = make(map[string]Condition)
	for queues := l.queues(); len(queues) > 0; {
		stage, n := queues[0].Stage, len(queues)
		if i := slices.IndexFunc(queues, func(q backlog.Queue) bool { return q.Stage != stage }); i > 0 {
			n = i
		}
		all, err := l.looker.Look(ctx, queues[:n])
		queues = queues[n:]
		if err != nil {
			errs = append(errs, fmt.Errorf("how far %s is behind: %w", stage, err))
		}
		if stage == backlog.Lanes {
			if err == nil {
				l.stalled = l.idle(ctx, all, now)
			}
			continue
		}
		before, late := was[string(stage)]
		after := schemas.AlertLagAfter
		if late {
			after /= 2 // so that it does not come and go
		}
		c := &before
		switch {
		case err == nil:
			c = l.worst(ctx, all, now.Add(-after))
		case !late:
			c = nil
		}
		if c != nil {
			l.behind[string(stage)] = *c
			out.behind = append(out.behind, *c)
		}
	}
	out.stalled = l.stalled
	return out, errors.Join(errs...)
}

// worst returns what has waited longest in a stage's queues, if it should have been taken by then.
func (l *laggards) worst(ctx context.Context, all []backlog.Waiting, by schemas.Millis) (worst *Condition) {
	for _, w := range all {
		due := w.Oldest.Add(w.Wait)
		if w.Records == 0 || due > by || worst != nil && worst.Since <= due {
			continue
		}
		worst = &Condition{
			Subject: Subject{Event: schemas.AlertLag, Stage: string(w.Stage)}, Since: due,
			Detail: fmt.Sprintf("the oldest record that waits in %s is of %s", w.Topic, clock(w.Oldest)) + l.absent(ctx, w.Group, "no process runs this stage"),
		}
	}
	return worst
}

// idle returns the providers that make no calls although messages wait in their queues.
func (l *laggards) idle(ctx context.Context, all []backlog.Waiting, now schemas.Millis) []Condition {
	out := []Condition{}
	for _, name := range l.meter.Stalled(&l.policy().Policy, l.health(), l.meter.Add(now, all), now) {
		c := Condition{Subject: Subject{Event: schemas.AlertProviderStalled, Provider: name}, Since: now}
		var waiting int64
		group := ""
		for _, w := range all {
			if w.Provider == name && w.Records > 0 {
				waiting, group, c.Since = waiting+w.Records, w.Group, min(c.Since, w.Oldest)
			}
		}
		c.Detail = plural(waiting, "message") + " in its queues" + l.absent(ctx, group, "no process has its lanes")
		out = append(out, c)
	}
	return out
}

// absent says so where no process is a member of a group.
func (l *laggards) absent(ctx context.Context, group, text string) string {
	if n, err := l.looker.Members(ctx, group); err != nil || n > 0 {
		return ""
	}
	return "; " + text
}
