package faultsim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
)

// drainsWithin is how long after its traffic and its faults a cycle may need
// until every message has ended: its expiry of a minute, the longest tier that
// a wait of that length uses, sessions and transactions of the dead.
const drainsWithin = 5 * time.Minute

// tell keeps a message's life for the report, once.
func (c *cycle) tell(r *Result, id string) {
	if lines := c.lives[id]; len(lines) > 0 && len(r.Lives) < 10 {
		r.Lives = append(r.Lives, "LIFE "+id+"\n"+strings.Join(lines, "\n"))
		delete(c.lives, id)
	}
}

// drain waits until every message has ended, every record that admission reads
// has been decided, and nothing has come of it for a while. An open transaction hides
// what others have committed behind it: so all must be over.
func (c *cycle) drain(ctx context.Context) bool {
	deadline := time.Now().Add(drainsWithin)
	adm := kadm.NewClient(c.cl)
	quiet := 0
	for time.Now().Before(deadline) && !c.broken.Load() {
		time.Sleep(time.Second)
		behind, err := c.behind(ctx, adm)
		if c.open() == "" && behind == "" && err == nil {
			if quiet++; quiet == 5 {
				c.mu.Lock()
				c.drained = len(c.readmit)
				c.mu.Unlock()
				c.trace.Say("drained")
				return true
			}
			continue
		}
		quiet = 0
	}
	if c.broken.Load() {
		return false
	}
	c.fail("not drained within %s of the last fault: %s", drainsWithin, c.open())
	return false
}

// open says what has not ended.
func (c *cycle) open() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.acked {
		if id, _, ok := c.oracle.Ended(at); !ok {
			return fmt.Sprintf("the request at %d/%d (message %q) has no end; by last status %v", at.Partition, at.Offset, id, c.oracle.Unended(c.acked))
		}
	}
	if shut := c.shut(); shut != "" {
		return shut
	}
	for _, at := range c.actions {
		if !c.decided[schemas.Source{Topic: c.names.Requests(), Partition: at.Partition, Offset: at.Offset}] {
			return fmt.Sprintf("the action at %d/%d was not decided", at.Partition, at.Offset)
		}
	}
	for _, at := range c.readmit {
		if !c.oracle.Decided(at) {
			return fmt.Sprintf("the record of readmit at %d/%d was not decided", at.Partition, at.Offset)
		}
	}
	return ""
}

// caughtUp waits until the follower has read all that is committed.
func (c *cycle) caughtUp(ctx context.Context) error {
	adm := kadm.NewClient(c.cl)
	deadline := time.Now().Add(time.Minute)
	for {
		behind, err := c.behind(ctx, adm)
		if err != nil || behind == "" {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("a transaction stays open: " + behind)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// behind says what the follower has not read; "" when it has read all.
func (c *cycle) behind(ctx context.Context, adm *kadm.Client) (string, error) {
	ends, err := adm.ListEndOffsets(ctx, c.followed()...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return "", err
	}
	behind := ""
	c.mu.Lock()
	defer c.mu.Unlock()
	ends.Each(func(o kadm.ListedOffset) {
		if at := c.seen[o.Topic][o.Partition]; at < o.Offset {
			behind = fmt.Sprintf("%s/%d read to %d of %d", o.Topic, o.Partition, at, o.Offset)
		}
	})
	return behind, nil
}

// judge lets both judges look.
func (c *cycle) judge(ctx context.Context, r *Result) error {
	if err := c.caughtUp(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	due := c.readmit
	if c.drained > 0 { // what comes back later, of messages that have ended, nobody may be there to decide
		due = due[:c.drained]
	}
	r.Oracle = c.oracle.Finish(c.acked, due, c.calls)
	c.oracle.Received(c.reached, c.plan.clocks())
	for _, v := range r.Oracle.Violations {
		c.tell(r, v.Message)
	}
	var taken []string
	for what, at := range c.once {
		n := 0
		for _, a := range at {
			if _, end, ok := c.oracle.Ended(a); ok && end != schemas.StatusDuplicate {
				n++
			}
		}
		if n == 0 || n > 1 && strings.HasPrefix(what, "key") {
			taken = append(taken, fmt.Sprintf("of %d requests with %s, %d were taken", len(at), what, n))
		}
	}
	taken = append(taken, c.judgeRepeats()...)
	c.mu.Unlock()
	for _, t := range taken {
		c.fail("%s", t)
	}
	if !r.Oracle.OK() {
		c.fail("the oracle: %v", r.Oracle.Faults)
	}
	c.judgeReplies()
	var err error
	if r.Audit, err = audit.Run(ctx, audit.Config{Brokers: c.brokers, Names: c.names, Partitions: c.plan.Partitions, Options: c.own()}); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for _, v := range r.Audit.Violations {
		c.tell(r, v.MessageID)
	}
	if c.plan.Mixed {
		c.judgeMixed(r.Audit)
	} else if r.Audit.Outcome != audit.Proven {
		c.fail("the audit: %s %v %v", r.Audit.Outcome, r.Audit.Faults, r.Audit.Untold)
	}
	if c.beside != nil {
		c.beside.agrees(c, r.Audit)
	}
	c.judgeDoors(r.Audit)
	if len(c.plan.Policies) == 1 && !c.plan.Mixed {
		if err := c.decideAgain(ctx); err != nil {
			return err
		}
	}
	if r.Audit.Clock.Ahead > clockMayBeAhead {
		c.fail("a decision is stamped %s ahead of the broker's clock", r.Audit.Clock.Ahead)
	}
	if r.Audit.Clock.Behind > clockMayBeBehind {
		c.fail("a decision is stamped %s behind the broker's clock", r.Audit.Clock.Behind)
	}
	c.count(func(t *Tally) {
		t.Decisions += r.Audit.Checked.Decisions
		t.Wide.Add(r.Oracle.Wide)
		t.Released += r.Oracle.Released
		t.NotHeld += r.Oracle.NotHeld
		t.Judged += r.Oracle.Judged
		t.Doubted += r.Oracle.Again
		t.Late += r.Oracle.Late
		t.Appended += r.Oracle.Appended
	})
	return nil
}

// clockMayBeAhead is how far ahead of its append a decision may be stamped: two
// seconds, and one more by which a clock may step between two comparisons.
const clockMayBeAhead = 3 * time.Second

// clockMayBeBehind is how far behind it may be: the five seconds that a transaction
// may take, the two by which a clock may be wrong, and one more.
const clockMayBeBehind = 8 * time.Second
