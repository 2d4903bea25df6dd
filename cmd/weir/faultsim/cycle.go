package faultsim

import (
	"bytes"
	"cmp"
	"context"
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
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/recipient"
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
	there   *policy.Watcher // what workers with other time zones and numbering plans read; nil without such
	slots   []*slot
	all     sync.WaitGroup
	stopped chan struct{} // closed when the workers have ended
	broken  atomic.Bool   // there is no sense in going on

	decidedThere atomic.Bool // a worker with the other data has decided

	mu      sync.Mutex
	tally   *Tally
	failed  []string
	calls   map[string]map[string]int
	reached []e2e.Call   // those that recipients may have received
	acked   []e2e.Offset // of messages
	actions []e2e.Offset // of the rest
	once    map[string][]e2e.Offset
	oracle  *e2e.Oracle
	decided map[schemas.Source]bool
	readmit []e2e.Offset
	drained int                        // how many of readmit there were when all had ended; 0: it did not come to that
	seen    map[string]map[int32]int64 // by the follower: next offsets
	lives   map[string][]string        // by message, a line for each record of weir.status
	doors   map[schemas.Source]*came
	replies *replies
	beside  *following            // nil: there is none
	answers map[at]*schemas.Event // the last words of limits
	again   []*original           // that are sent more than once
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
		again: repeats(plan),
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

// received takes note of a call that its recipient may have received.
func (c *cycle) received(name string, call *provider.Call, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = append(c.reached, e2e.Call{Provider: name, Message: call.ID, To: cmp.Or(call.Key, call.To), At: schemas.MillisOf(at)})
	c.delivered(call)
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
	if c.plan.Mixed {
		if err := c.watchThere(ctx); err != nil {
			return err
		}
		c.all.Go(func() { _ = c.there.Run(ctx) })
	}
	revisions := map[int64]*schemas.Policy{0: {}}
	publish := func(i int) error {
		p := choice[c.plan.Policies[i]]
		p.Inputs = c.plan.inputs(i)
		if c.plan.Mixed {
			mix(&p)
		}
		// Known before a worker can have it: its marker may be read before the answer.
		latest := c.pol.Latest().Revision
		c.mu.Lock()
		revisions[latest+1] = &p
		c.mu.Unlock()
		_, err := c.pol.Publish(ctx, c.cl, latest, "sim", p)
		if err == nil && c.plan.Mixed {
			_, err = c.there.Publish(ctx, c.cl, latest, "sim", there(p))
		}
		return err
	}
	if err := publish(0); err != nil {
		return fmt.Errorf("publish the first policy: %w", err)
	}
	// The oracle reads the map while revisions are added: both under c.mu.
	c.oracle = e2e.NewOracle(revisions, c.names.Requests(), c.names.Readmit(), c.plan.Partitions)
	if c.plan.Mixed {
		c.oracle.Moved(zoneMoved)
	}
	if c.follow, err = kgo.NewClient(c.own(kgo.ConsumeTopics(c.followed()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords())...); err != nil {
		return err
	}
	c.all.Go(func() { c.read(ctx) })
	if c.plan.Seed%10 == 0 {
		c.beside = c.follows(ctx)
	}
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
	for _, k := range c.knocks() {
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
	drained := c.drain(ctx)
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
	if !drained && c.broken.Load() {
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
	if err := topics.Apply(ctx, c.cl, diff, nil); err != nil {
		return err
	}
	c.pol, err = policy.Watch(ctx, c.names.Config(), slog.New(slog.DiscardHandler), c.own()...)
	return err
}

// produce writes the traffic at its times.
func (c *cycle) produce(ctx context.Context) {
	for _, s := range c.sends() {
		time.Sleep(time.Until(c.plan.Start.Add(s.at)))
		r := &kgo.Record{Topic: c.names.Requests(), Partition: s.partition, Value: s.value, Headers: s.headers}
		if s.key != "" {
			r.Key = []byte(s.key)
		}
		if s.replyTo != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: schemas.HeaderReply, Value: []byte(s.replyTo)})
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
			if s.again != nil {
				s.again.of.direct = append(s.again.of.direct, at)
				c.acknowledged(s.again)
			}
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
				c.oracle.Take(e2e.Record{Partition: r.Partition, Offset: r.Offset, Event: e, Appended: schemas.MillisOf(r.Timestamp)})
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
			c.Scope = recipient.MaskScopes(c.Scope)
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
