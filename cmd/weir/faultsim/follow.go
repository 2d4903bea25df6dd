package faultsim

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/weirhq/weir/processor/audit"
)

// following is an audit that follows the logs from cut to cut, beside the faults.
type following struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	last   *audit.Report
	cuts   int
	failed error
}

// followEvery is how often it takes a cut, in simulated time.
const followEvery = 5 * time.Second

// follows starts it. What is missing at a cut may be on its way, but nothing is wrong.
func (c *cycle) follows(ctx context.Context) *following {
	f := new(following)
	ctx, f.cancel = context.WithCancel(ctx)
	f.ended.Go(func() {
		err := audit.Follow(ctx, audit.Config{Brokers: c.brokers, Names: c.names, Partitions: c.plan.Partitions, Options: c.own()}, followEvery, func(r *audit.Report, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				return // a transaction is open, and its owner is gone
			}
			f.cuts++
			f.last = r
			if r.Outcome == audit.Violated && r.Checked.Decisions > 0 {
				c.fail("the audit that follows, at cut %d: %v %v", f.cuts, r.Faults, r.Violations)
			}
		})
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed = err
	})
	return f
}

// agrees ends it, after a cut that has all that the whole audit has judged.
func (f *following) agrees(c *cycle, whole *audit.Report) {
	defer f.ended.Wait()
	defer f.cancel()
	now := time.Now()
	for wait := now.Add(10 * time.Minute); time.Now().Before(wait); time.Sleep(followEvery) {
		f.mu.Lock()
		r, cuts, err := f.last, f.cuts, f.failed
		f.mu.Unlock()
		if err != nil {
			c.fail("the audit that follows: %v", err)
			return
		}
		if r == nil || !r.Cut.Time().After(now) {
			continue
		}
		if r.Outcome != whole.Outcome || !reflect.DeepEqual(r.Checked, whole.Checked) || !reflect.DeepEqual(r.Ends, whole.Ends) {
			c.fail("the audit that follows, after %d cuts: %s %+v %v; in one go %s %+v", cuts, r.Outcome, r.Checked, r.Untold, whole.Outcome, whole.Checked)
		}
		c.count(func(t *Tally) { t.Cuts += int64(cuts) })
		return
	}
	c.fail("the audit that follows took no cut for ten minutes")
}
