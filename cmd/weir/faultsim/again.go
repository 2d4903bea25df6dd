package faultsim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/schemas"
)

// at is a decision's place in the log.
type at struct {
	partition int32
	seq       int64
}

// asked notes a decision in which limits had the last word on a message. c.mu is
// held.
func (c *cycle) asked(e *schemas.Event) {
	d := e.Decision
	if d == nil || e.Kind != schemas.KindStatus {
		return
	}
	switch d.Verdict {
	case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictRefuse:
	case schemas.VerdictDefer:
		if e.Reason != "limited" {
			return
		}
	default:
		return
	}
	c.answers[at{d.Partition, d.Seq}] = e
}

// decideAgain replays the log under the policy that was in force all the time:
// every answer must be the one that was given, with the same places.
func (c *cycle) decideAgain(ctx context.Context) error {
	rev := c.pol.Latest()
	n := 0
	var failed []string
	differ := func(format string, args ...any) {
		if len(failed) < 10 {
			failed = append(failed, fmt.Sprintf(format, args...))
		}
	}
	c.mu.Lock()
	given := c.answers
	c.mu.Unlock()
	r, err := backtest.Run(ctx, backtest.Config{
		Brokers: c.brokers, Names: c.names, Options: c.own(), Tried: &rev.Policy, InForce: rev,
		Each: func(a backtest.Answer) {
			c.mu.Lock()
			defer c.mu.Unlock()
			n++
			e := given[at{a.Partition, a.Seq}]
			if e == nil {
				differ("%d:%d of message %s is none in which limits had the last word", a.Partition, a.Seq, a.MessageID)
				return
			}
			d := e.Decision
			refused := d.Verdict == schemas.VerdictRefuse || d.Verdict == schemas.VerdictDefer
			var took []schemas.Charge
			if !refused {
				took = slices.Concat(d.Carried, d.Charges)
			}
			if a.Now.Refused != refused || a.Now.Observed != e.Observed || a.Now.Limit != e.Limit || a.Now.Window != e.Window || !samePlaces(a.Now.Places, took) {
				differ("%d:%d of message %s at %d: %s %s %s observed %v with %+v; again: refused %v %s %s observed %v with %+v", a.Partition, a.Seq, a.MessageID, a.T,
					d.Verdict, e.Limit, e.Window, e.Observed, took, a.Now.Refused, a.Now.Limit, a.Now.Window, a.Now.Observed, a.Now.Places)
				c.trace.Say("AGAIN %s", strings.Join(c.lives[a.MessageID], "\n"))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("backtest: %w", err)
	}
	if n != len(given) {
		differ("%d decisions were replayed, and there are %d", n, len(given))
	}
	if r.NewlyAdmitted+r.NewlyRefused > 0 || r.Then != r.Now {
		differ("the result says then %v, now %v, %d newly admitted, %d newly refused", r.Then, r.Now, r.NewlyAdmitted, r.NewlyRefused)
	}
	for _, f := range failed {
		c.fail("decided again: %s", f)
	}
	c.count(func(t *Tally) { t.Again += int64(n) })
	return nil
}

func samePlaces(a, b []schemas.Charge) bool {
	if len(a) != len(b) {
		return false
	}
	for _, c := range a {
		if !slices.Contains(b, c) {
			return false
		}
	}
	return true
}
