package faultsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Result is what a cycle showed.
type Result struct {
	Plan   *Plan
	Trace  *Trace
	Tally  *Tally
	Oracle *e2e.Report
	Audit  *audit.Report
	Lives  []string // of messages that a judge objects to, as weir.status has them
	Faults []string // why it failed; empty when all is well
}

// String says all that a failure needs.
func (r *Result) String() string {
	if r == nil {
		return "no result"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "PLAN %s\nTRACE (seconds of simulated time)\n%s\n", r.Plan, r.Trace)
	if r.Oracle != nil {
		fmt.Fprintf(&b, "\nORACLE %s\n", r.Oracle)
	}
	for _, l := range r.Lives {
		fmt.Fprintf(&b, "%s\n", l)
	}
	if r.Audit != nil {
		b.WriteString("\nAUDIT ")
		_ = r.Audit.WriteText(&b)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "\nFAILED: %s", f)
	}
	return b.String()
}

// drainsWithin is how long after its traffic and its faults a cycle may need
// until every message has ended: its expiry of a minute, the longest tier that
// a wait of that length uses, sessions and transactions of the dead.
const drainsWithin = 5 * time.Minute

// cycle is one run of a plan.
type cycle struct {
	plan    *Plan
	trace   *Trace
	names   topics.Names
	brokers []string
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	inject  *injector
	cl      *kgo.Client // of the cycle itself: no fault is aimed at it
	follow  *kgo.Client
	pol     *policy.Watcher
	slots   []*slot
	all     sync.WaitGroup
	stopped chan struct{} // closed when the workers have ended
	broken  atomic.Bool   // there is no sense in going on

	mu      sync.Mutex
	tally   *Tally
	failed  []string
	calls   map[string]map[string]int
	acked   []e2e.Offset // of messages
	actions []e2e.Offset // of the rest
	once    map[string][]e2e.Offset
	oracle  *e2e.Oracle
	decided map[schemas.Source]bool
	readmit []e2e.Offset
	seen    map[string]map[int32]int64 // by the follower: next offsets
	lives   map[string][]string        // by message, a line for each record of weir.status
	doors   map[schemas.Source]*came
	replies *replies
	answers map[at]*schemas.Event // the last words of limits
}

// Run runs a plan and writes into trace what happens. It must be called in a
// bubble of testing/synctest.
func Run(plan *Plan, trace *Trace) *Result {
	time.Sleep(time.Until(plan.Start.Add(-time.Second)))
	c := &cycle{
		plan: plan, trace: trace, net: new(kfake.VirtualNetwork), tally: newTally(), stopped: make(chan struct{}),
		calls: make(map[string]map[string]int), once: make(map[string][]e2e.Offset), decided: make(map[schemas.Source]bool),
		seen: make(map[string]map[int32]int64), lives: make(map[string][]string),
		doors: make(map[schemas.Source]*came), replies: newReplies(), answers: make(map[at]*schemas.Event),
	}
	c.trace.start()
	r := &Result{Plan: plan, Trace: c.trace, Tally: c.tally}
	if err := c.run(r); err != nil {
		c.fail("%v", err)
	}
	c.all.Wait()
	c.tally.Transcripts = 1
	c.tally.Simulated = time.Since(plan.Start).Seconds()
	r.Faults = c.failed
	return r
}

func (c *cycle) fail(format string, args ...any) {
	c.trace.Say("FAIL "+format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, fmt.Sprintf(format, args...))
}

func (c *cycle) count(fn func(*Tally)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(c.tally)
}

func (c *cycle) called(provider, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[provider] == nil {
		c.calls[provider] = make(map[string]int)
	}
	c.calls[provider][id]++
}

// plain compresses nothing. The client's own option writes to what it was given,
// so clients that begin at the same time cannot share it.
type plain struct{}

func (plain) Compress(_ *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	return src, kgo.CodecNone
}

// own are the options of the cycle's own clients.
func (c *cycle) own(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(c.brokers...), kgo.Dialer(c.net.DialContext), kgo.DisableClientMetrics(),
		kgo.WithCompressor(plain{}), kgo.FetchMaxWait(time.Second),
	}, more...)
}

func (c *cycle) run(r *Result) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opts := []kfake.Opt{kfake.ListenFn(c.net.Listen), kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone))}
	var ports []int
	for i := range c.plan.Brokers {
		ports = append(ports, 9092+i)
		c.brokers = append(c.brokers, fmt.Sprintf("127.0.0.1:%d", 9092+i))
	}
	opts = append(opts, kfake.NumBrokers(c.plan.Brokers), kfake.Ports(ports...))
	if c.plan.Before40 {
		opts = append(opts, kfake.MaxVersions(kversion.V3_8_0()))
	}
	if c.cluster, err = kfake.NewCluster(opts...); err != nil {
		return err
	}
	defer c.cluster.Close()
	broker.AnswerWholePartitions(c.cluster)
	if err := broker.StampAppendTime(c.cluster); err != nil {
		return err
	}
	c.inject = &injector{cluster: c.cluster, trace: c.trace, plan: c.plan.Faults, counts: make(map[kmsg.Key]int), tally: c.tally, over: true}
	c.inject.plan = append([]Fault(nil), c.plan.Faults...)
	referee := newReferee(c)
	c.inject.spare = referee.own
	if c.cl, err = kgo.NewClient(c.own(kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		return err
	}
	defer c.cl.Close()
	all, err := parsed()
	if err != nil {
		return err
	}
	choice := all[c.plan.Providers-1]
	if c.plan.Gate {
		choice = all[c.plan.Providers+1]
	}
	first := choice[0]
	first.Inputs = c.plan.inputs(0)
	if err := c.setUp(ctx, &first); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	c.all.Go(func() { _ = c.pol.Run(ctx) })
	revisions := map[int64]*schemas.Policy{0: {}}
	publish := func(i int) error {
		p := choice[c.plan.Policies[i]]
		p.Inputs = c.plan.inputs(i)
		rev, err := c.pol.Publish(ctx, c.cl, c.pol.Latest().Revision, "sim", p)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		revisions[rev.Revision] = &rev.Policy
		return nil
	}
	if err := publish(0); err != nil {
		return fmt.Errorf("publish the first policy: %w", err)
	}
	// The oracle reads the map while revisions are added: both under c.mu.
	c.oracle = e2e.NewOracle(revisions, c.names.Requests(), c.names.Readmit(), c.plan.Partitions)
	if c.follow, err = kgo.NewClient(c.own(kgo.ConsumeTopics(c.followed()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords())...); err != nil {
		return err
	}
	c.all.Go(func() { c.read(ctx) })
	time.Sleep(time.Until(c.plan.Start))

	// Workers, traffic and faults.
	c.inject.start()
	working, stop := context.WithCancel(context.Background())
	defer stop()
	var workers sync.WaitGroup
	for n := range c.plan.Workers + 1 {
		s := &slot{c: c, num: n}
		s.clock.Store(int64(c.plan.Clocks[n]))
		c.slots = append(c.slots, s)
		if n < c.plan.Workers {
			workers.Go(func() { s.keep(working) })
		}
	}
	refereeing, leave := context.WithCancel(ctx)
	defer leave()
	var watching sync.WaitGroup
	watching.Go(func() { referee.run(refereeing) })
	var doing sync.WaitGroup
	doing.Go(func() { c.produce(ctx) })
	for _, k := range knocks(c.plan) {
		doing.Go(func() { c.knock(ctx, &k) })
	}
	doing.Go(func() {
		next := 1
		joined := false
		for _, e := range c.plan.Events {
			time.Sleep(time.Until(c.plan.Start.Add(e.At)))
			c.trace.Say("EVENT %s", e)
			s := c.slots[e.Worker]
			if e.What != WhatKill && e.What != WhatCut && e.What != WhatCompact && (e.What != WhatJoin || !joined) {
				c.count(func(t *Tally) { t.Events[e.What]++ })
			}
			switch e.What {
			case WhatJoin:
				if !joined {
					joined = true
					workers.Go(func() { s.keep(working) })
				}
			case WhatLeave:
				s.leave(e.For)
			case WhatKill:
				s.kill(e.For)
			case WhatCut:
				doing.Go(func() { s.cut(e.For) })
			case WhatClock:
				s.clock.Add(int64(e.By))
			case WhatCoordinators:
				c.cluster.RehashCoordinators()
			case WhatLeaders:
				c.cluster.ShufflePartitionLeaders()
			case WhatCompact:
				doing.Go(c.compact)
			case WhatPolicy:
				if err := publish(next); err != nil {
					c.fail("publish policy %d: %v", next, err)
				}
				next++
			}
		}
	})
	doing.Wait()
	c.inject.end()
	for _, s := range c.slots {
		s.clock.Store(0)
	}
	drained := c.drain()
	if c.broken.Load() {
		for _, s := range c.slots { // nobody starts again
			s.leave(0)
		}
	}
	stop()
	workers.Wait()
	leave()
	watching.Wait()
	close(c.stopped)
	c.trace.Say("all workers have ended")
	if !drained {
		return nil // said already
	}
	return c.judge(ctx, r)
}

// setUp creates the topics and begins to watch the policy.
func (c *cycle) setUp(ctx context.Context, p *schemas.Policy) error {
	adm := kadm.NewClient(c.cl)
	if c.plan.Doors { // as their producers have them
		stamp := "LogAppendTime"
		for topic, parts := range doors {
			if _, err := adm.CreateTopic(ctx, parts, 1, map[string]*string{"message.timestamp.type": &stamp}, topic); err != nil {
				return err
			}
		}
	}
	diff, err := topics.Plan(ctx, adm, topics.Catalogue(topics.Config{Partitions: c.plan.Partitions, Replication: 1, Replies: replyPartitions}, p))
	if err != nil {
		return err
	}
	if err := topics.Apply(ctx, adm, diff, nil); err != nil {
		return err
	}
	c.pol, err = policy.Watch(ctx, c.names.Config(), slog.New(slog.DiscardHandler), c.own()...)
	return err
}

// produce writes the traffic at its times.
func (c *cycle) produce(ctx context.Context) {
	for _, s := range traffic(c.plan) {
		time.Sleep(time.Until(c.plan.Start.Add(s.at)))
		r := &kgo.Record{Topic: c.names.Requests(), Partition: s.partition, Value: s.value}
		if s.key != "" {
			r.Key = []byte(s.key)
		}
		if s.replyTo != "" {
			r.Headers = []kgo.RecordHeader{{Key: schemas.HeaderReply, Value: []byte(s.replyTo)}}
		}
		if s.ask != nil {
			c.mu.Lock()
			c.replies.asks[s.replyTo] = s.ask
			c.mu.Unlock()
			r.Topic, r.Value = c.names.Readmit(), schemas.EncodeQuotaAsk(s.ask)
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: schemas.HeaderReason, Value: []byte(schemas.ReadmitQuota)})
		}
		c.cl.Produce(ctx, r, func(r *kgo.Record, err error) {
			if err != nil {
				c.fail("produce a request: %v", err)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if s.ask != nil {
				return // the follower reads it
			}
			c.tally.Requests++
			if s.replyTo != "" {
				c.replies.waits[schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}] = s.replyTo
			}
			at := e2e.Offset{Partition: r.Partition, Offset: r.Offset}
			if !s.message {
				c.actions = append(c.actions, at)
				return
			}
			c.acked = append(c.acked, at)
			c.oracle.Requested(at, s.metadata)
			if s.once != "" {
				c.once[s.once] = append(c.once[s.once], at)
			}
		})
	}
	if err := c.cl.Flush(ctx); err != nil {
		c.fail("produce: %v", err)
	}
}

// read follows weir.status and weir.readmit and shows the oracle what comes.
func (c *cycle) read(ctx context.Context) {
	defer c.follow.Close()
	for {
		fetches := c.follow.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if c.seen[r.Topic] == nil {
				c.seen[r.Topic] = make(map[int32]int64)
			}
			if r.Offset < c.seen[r.Topic][r.Partition] {
				return
			}
			c.seen[r.Topic][r.Partition] = r.Offset + 1
			switch {
			case r.Attrs.IsControl():
			case r.Topic == c.names.Requests(), r.Topic == c.names.DLQ(), doors[r.Topic] != 0:
				c.throughDoor(r)
			case r.Topic == c.names.Readmit():
				c.readmit = append(c.readmit, e2e.Offset{Partition: r.Partition, Offset: r.Offset})
				for _, h := range r.Headers {
					if h.Key == schemas.HeaderReply {
						c.replies.waits[schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}] = string(h.Value)
					}
				}
			case r.Topic == c.names.Replies():
				at := schemas.ReplyTo(r.Partition, string(r.Key))
				reply, err := schemas.DecodeReply(r.Value)
				if err != nil {
					c.failed = append(c.failed, fmt.Sprintf("replies/%d/%d: %v", r.Partition, r.Offset, err))
					return
				}
				c.replies.told[at] = append(c.replies.told[at], reply)
			default:
				e, err := schemas.DecodeEvent(r.Value)
				if err != nil {
					c.failed = append(c.failed, fmt.Sprintf("status/%d/%d: %v", r.Partition, r.Offset, err))
					return
				}
				if e.Decision != nil && e.Decision.Input != nil {
					c.decided[*e.Decision.Input] = true
				}
				c.asked(e)
				c.lives[e.MessageID] = append(c.lives[e.MessageID], line(r, e))
				if e.Source != nil && doors[e.Source.Topic] != 0 && e.Decision == nil {
					at := c.of(*e.Source)
					at.ended = append(at.ended, e)
					return
				}
				c.oracle.Take(e2e.Record{Partition: r.Partition, Offset: r.Offset, Event: e})
				c.tells(e2e.Record{Partition: r.Partition, Offset: r.Offset, Event: e})
			}
		})
		c.mu.Unlock()
	}
}

// followed are the topics that the cycle reads.
func (c *cycle) followed() []string {
	out := []string{c.names.Status(), c.names.Readmit(), c.names.Replies()}
	if c.plan.Doors {
		out = append(append(out, c.names.Requests(), c.names.DLQ()), slices.Collect(maps.Keys(doors))...)
	}
	return out
}

// pass takes up a message that came through a bound topic. c.mu is held.
func (c *cycle) pass(r *kgo.Record) {
	at := e2e.Offset{Partition: r.Partition, Offset: r.Offset}
	c.acked = append(c.acked, at)
	c.oracle.Requested(at, nil)
}

// tell keeps a message's life for the report, once.
func (c *cycle) tell(r *Result, id string) {
	if lines := c.lives[id]; len(lines) > 0 && len(r.Lives) < 10 {
		r.Lives = append(r.Lives, "LIFE "+id+"\n"+strings.Join(lines, "\n"))
		delete(c.lives, id)
	}
}

// line is a record of weir.status in a line, without the recipient.
func line(r *kgo.Record, e *schemas.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  status/%d/%d %s", r.Partition, r.Offset, e.Status)
	if e.Attempt > 0 {
		fmt.Fprintf(&b, ":%d", e.Attempt)
	}
	d := e.Decision
	if d == nil {
		return b.String()
	}
	fmt.Fprintf(&b, " %s %s t %d revision %d", d.Verdict, e.Reason, d.T, d.Revision)
	if d.Input != nil {
		fmt.Fprintf(&b, " of %s", d.Input)
	}
	charges := func(what string, list []schemas.Charge) {
		for _, c := range list {
			if i := strings.Index(c.Scope, e.To); i >= 0 && e.To != "" {
				c.Scope = c.Scope[:i] + "(to)" + c.Scope[i+len(e.To):]
			}
			fmt.Fprintf(&b, " %s %s[%s]@%d*%d", what, c.Limit, c.Scope, c.T, c.Cost)
		}
	}
	charges("took", d.Charges)
	charges("carried", d.Carried)
	charges("returned", d.Returned)
	charges("missing", d.Missing)
	charges("restored", d.Restored)
	charges("released", d.Released)
	charges("reinstated", d.Reinstated)
	for _, a := range d.Passed {
		fmt.Fprintf(&b, " passed %s[%s]*%d", a.Limit, a.Scope, a.Cost)
	}
	for _, v := range d.Evidence {
		fmt.Fprintf(&b, " full %s %s", v.Limit, v.Window)
	}
	if d.Onward != nil {
		fmt.Fprintf(&b, " onward %d", *d.Onward)
	}
	return b.String()
}

// drain waits until every message has ended, every record that admission reads
// has been decided, and nothing has come of it for a while.
func (c *cycle) drain() bool {
	deadline := time.Now().Add(drainsWithin)
	quiet := 0
	for time.Now().Before(deadline) && !c.broken.Load() {
		time.Sleep(time.Second)
		if c.open() == "" {
			if quiet++; quiet == 5 {
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
		ends, err := adm.ListEndOffsets(ctx, c.followed()...)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err
		}
		behind := ""
		c.mu.Lock()
		ends.Each(func(o kadm.ListedOffset) {
			if c.seen[o.Topic][o.Partition] < o.Offset {
				behind = fmt.Sprintf("%s/%d read to %d of %d", o.Topic, o.Partition, c.seen[o.Topic][o.Partition], o.Offset)
			}
		})
		c.mu.Unlock()
		if behind == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("a transaction stays open: " + behind)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// judge lets both judges look.
func (c *cycle) judge(ctx context.Context, r *Result) error {
	if err := c.caughtUp(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	r.Oracle = c.oracle.Finish(c.acked, c.readmit, c.calls)
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
	if r.Audit.Outcome != audit.Proven {
		c.fail("the audit: %s %v %v", r.Audit.Outcome, r.Audit.Faults, r.Audit.Untold)
	}
	c.judgeDoors(r.Audit)
	if len(c.plan.Policies) == 1 {
		if err := c.decideAgain(ctx); err != nil {
			return err
		}
	}
	if r.Audit.Clock.Ahead > clockMayBeAhead {
		c.fail("a decision is stamped %s ahead of the broker's clock", r.Audit.Clock.Ahead)
	}
	// A clock that steps forward while a transaction is written looks right
	// when the two are compared, and what was decided is behind. The process's
	// own clock, which is monotonic, does not.
	steps := slices.ContainsFunc(c.plan.Events, func(e Event) bool { return e.What == WhatClock })
	if r.Audit.Clock.Behind > clockMayBeBehind && !steps {
		c.fail("a decision is stamped %s behind the broker's clock", r.Audit.Clock.Behind)
	}
	c.count(func(t *Tally) {
		t.Decisions += r.Audit.Checked.Decisions
		t.Wide.Add(r.Oracle.Wide)
		t.Released += r.Oracle.Released
		t.NotHeld += r.Oracle.NotHeld
	})
	return nil
}

// clockMayBeAhead is how far ahead of its append a decision may be stamped: two
// seconds, and one more by which a clock may step between two comparisons.
const clockMayBeAhead = 3 * time.Second

// clockMayBeBehind is how far behind it may be: as much, and the time that a
// transaction may take to be written under faults.
const clockMayBeBehind = 25 * time.Second
