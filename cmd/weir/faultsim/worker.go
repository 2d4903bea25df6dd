package faultsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/input"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/simulated"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// slot is where one worker runs, one life after another.
type slot struct {
	c     *cycle
	num   int
	clock atomic.Int64 // by how much it is wrong

	mu   sync.Mutex
	life *life // nil while none runs
	away time.Duration
}

// life is one process, from its start to its end.
type life struct {
	who     string
	c       *cycle
	wire    *wire
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	mu      sync.Mutex
	members map[string]map[string]bool // of groups: ids that the broker gave
	owned   bool                       // it has had partitions of admission
	there   bool                       // it has the other time zones and numbering plans
}

// startsAgain is how long after its death a worker starts again.
func (s *slot) startsAgain(life int) time.Duration {
	return time.Duration((s.c.plan.Seed*7919+uint64(s.num*31+life*977))%2500) * time.Millisecond
}

// keep starts the worker again whenever it ends, as an operator's supervisor
// does, until the cycle stops.
func (s *slot) keep(ctx context.Context) {
	for n := 1; ctx.Err() == nil && !s.c.broken.Load(); n++ {
		lifeCtx, cancel := context.WithCancel(context.Background())
		l := &life{who: fmt.Sprintf("worker %d.%d", s.num, n), c: s.c, cancel: cancel, done: make(chan struct{}), members: make(map[string]map[string]bool), there: s.c.plan.Mixed && (s.num+n)%2 == 1}
		l.wire = newWire(s.c.net.DialContext, func(k *call) fate { return s.c.inject.fate(l.who, k) }, l.answered)
		s.mu.Lock()
		s.life, s.away = l, 0
		s.mu.Unlock()
		s.c.trace.Say("%s starts", l.who)
		s.c.all.Go(func() {
			defer close(l.done)
			l.err = s.run(lifeCtx, l)
		})
		var wait time.Duration
		select {
		case <-l.wire.died:
			s.c.trace.Say("%s DIES", l.who)
			s.c.count(func(t *Tally) { t.Deaths++ })
			cancel()
			s.c.all.Go(func() { l.bury() })
			s.mu.Lock()
			wait = max(s.startsAgain(n), s.away)
			s.mu.Unlock()
		case <-l.done:
			wait = s.ended(l)
		case <-ctx.Done():
			cancel()
			select {
			case <-l.done:
				_ = s.ended(l)
			case <-l.wire.died:
			case <-time.After(time.Minute):
				s.c.fail("%s was told to end, and did not within a minute", l.who)
				l.wire.Kill()
			}
			return
		}
		s.mu.Lock()
		s.life = nil
		s.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// ended looks at why a process ended on its own or in good order, and returns
// how long it stays away.
func (s *slot) ended(l *life) time.Duration {
	l.wire.Kill()
	l.cancel()
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if l.err == nil {
		s.c.trace.Say("%s ended in good order", l.who)
		return away
	}
	s.c.trace.Say("%s ENDED: %v", l.who, l.err)
	s.c.count(func(t *Tally) { t.Restarts++ })
	s.c.all.Go(func() { l.bury() })
	if strings.Contains(l.err.Error(), "state and log disagree") {
		if !s.c.broken.Swap(true) {
			s.c.fail("%s ended: %v", l.who, l.err)
		}
	}
	return max(away, time.Second)
}

// leave ends the worker in good order for a while.
func (s *slot) leave(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil {
		s.away = d
		s.life.cancel()
	}
}

// kill ends the worker's process at once, for a while.
func (s *slot) kill(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return
	}
	s.c.count(func(t *Tally) { t.Events[WhatKill]++ })
	s.away = d
	s.life.wire.Kill()
}

// cut holds the worker's network back for a while.
func (s *slot) cut(d time.Duration) {
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	if l == nil {
		return
	}
	s.c.count(func(t *Tally) { t.Events[WhatCut]++ })
	s.c.trace.Say("%s is cut off", l.who)
	l.wire.Freeze(d)
	s.c.trace.Say("%s is back", l.who)
}

// network is that of the process that runs; nil while none does.
func (s *slot) network() *wire {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return nil
	}
	return s.life.wire
}

func (s *slot) now() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }

// run is a process: what weir run does, without HTTP and ClickHouse.
func (s *slot) run(ctx context.Context, l *life) error {
	c := s.c
	logger := slog.New(&logTo{tr: c.trace, who: l.who, saw: l.logged})
	opts := []kgo.Opt{
		kgo.Dialer(l.wire.Dial), kgo.WithCompressor(plain{}), kgo.DisableClientMetrics(),
		// Longer than the stages', for there are many idle partitions and few
		// cores; new records end a fetch at once.
		kgo.FetchMaxWait(time.Second),
	}
	config, data := c.names.Config(), admission.Data{}
	if l.there {
		config, data = configThere, others
	}
	watch, err := policy.Watch(ctx, config, logger, append([]kgo.Opt{kgo.SeedBrokers(c.brokers...)}, opts...)...)
	if err != nil {
		return err
	}
	amend, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		watch.Close()
		return err
	}
	defer amend.Close()
	// A client that is closed while it has records, and no producer id yet, asks
	// for one for ever and without a pause: time would stand still.
	if _, _, err := amend.ProducerID(ctx); err != nil {
		watch.Close()
		return fmt.Errorf("take the producer id for receipts: %w", err)
	}
	n := c.plan.Partitions
	references := provider.NewSigner("of all workers") // as receipts.reference_key_file
	receipts := receipt.NewWriter(amend, receipt.TopicOf(c.names, n), logger)
	streaming := func(stage string) stream.Config {
		return stream.Config{
			Brokers: c.brokers, ClientID: fmt.Sprintf("%d-%s", s.num, stage), TransactionalID: fmt.Sprintf("%s.%d", stage, s.num),
			SessionTimeout: session, BatchBytes: c.names.BatchBytes, Logger: logger, Options: opts,
		}
	}
	read := stream.ReadConfig{Brokers: c.brokers, Options: opts}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watch.Run(ctx) })
	g.Go(func() error {
		return admission.Run(ctx, admission.Config{
			Stream: streaming("admission"), Read: read, Names: c.names, Partitions: n, DelayPartitions: n, DLQPartitions: n, ReplyPartitions: replyPartitions, Now: s.now, Logger: logger,
			Standby: c.plan.Standby, Data: data,
		}, watch)
	})
	if c.plan.Doors {
		g.Go(func() error {
			return input.Run(ctx, input.Config{
				Stream: streaming("inputs"), Topics: topics.Config{Partitions: n, Replication: 1}, DLQPartitions: n, Policy: watch, Now: s.now, Logger: logger,
			})
		})
	}
	g.Go(func() error {
		return lane.Supervise(ctx, lane.Config{
			Stream: streaming("lane"), Read: read, Names: c.names, Partitions: n, DelayPartitions: n, DLQPartitions: n, Policy: watch, References: references, Logger: logger,
			Open: func(p schemas.Provider) (provider.Provider, error) {
				inner, err := simulated.Open(p, provider.Deps{Logger: logger, Receipts: receipts.Take})
				return &recording{inner, l, p.Name}, err
			},
		})
	})
	// Delays go by elapsed time, which is monotonic: a clock that is wrong when
	// the process starts is wrong by as much later, whatever steps there are.
	wrong, began := s.now(), time.Now()
	steady := func() time.Time { return wrong.Add(time.Since(began)) }
	g.Go(func() error {
		return delay.Run(ctx, delay.Config{Stream: streaming("delay"), Names: c.names, Partitions: n, DelayPartitions: n, DLQPartitions: n, Returns: map[string]int32{c.names.Receipts(): n}, Now: steady, Logger: logger})
	})
	g.Go(func() error {
		return receipt.Run(ctx, receipt.Config{Stream: streaming("receipts"), Names: c.names, Partitions: n, DelayPartitions: n, DLQPartitions: n, References: references, Now: s.now, Logger: logger})
	})
	return g.Wait()
}

// recording counts what a provider receives.
type recording struct {
	provider.Provider
	life *life
	name string
}

func (r *recording) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	if !r.life.wire.alive() { // the dead call nobody
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true}
	}
	r.life.c.called(r.name, call.ID)
	at := time.Now()
	out := r.Provider.Send(ctx, call)
	if out.Kind == provider.Accepted || out.MayBeReceived {
		r.life.c.received(r.name, call, at)
	}
	return out
}

// logged counts takeovers: a process that has partitions for the first time, and
// not all of them from the start of the log, has what its standby built.
func (l *life) logged(r slog.Record) {
	if strings.HasPrefix(r.Message, "this partition was decided with other") {
		l.c.count(func(t *Tally) { t.Versions++ })
	}
	if r.Message != "partitions restored" {
		return
	}
	var owned, cold int64
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "owned":
			owned = a.Value.Int64()
		case "cold":
			cold = a.Value.Int64()
		}
		return true
	})
	l.mu.Lock()
	first := !l.owned
	l.owned = true
	l.mu.Unlock()
	if first && cold < owned {
		l.c.count(func(t *Tally) { t.Takeovers++ })
	}
}

// answered looks at what brokers tell a worker.
func (l *life) answered(k *call, body []byte) {
	switch k.key {
	case kmsg.JoinGroup:
		req, _ := k.request().(*kmsg.JoinGroupRequest)
		resp, _ := k.response(body).(*kmsg.JoinGroupResponse)
		if req == nil || resp == nil {
			return
		}
		l.mu.Lock()
		if l.members[req.Group] == nil {
			l.members[req.Group] = make(map[string]bool)
		}
		l.members[req.Group][resp.MemberID] = true
		l.mu.Unlock()
		if resp.ErrorCode == 0 && resp.LeaderID == resp.MemberID {
			l.c.trace.Say("%s leads %s, generation %d, %d members", l.who, req.Group, resp.Generation, len(resp.Members))
			l.c.count(func(t *Tally) { t.Rebalances++ })
		}
	case kmsg.SyncGroup:
		req, _ := k.request().(*kmsg.SyncGroupRequest)
		resp, _ := k.response(body).(*kmsg.SyncGroupResponse)
		if req != nil && resp != nil && resp.ErrorCode == 0 {
			var a kmsg.ConsumerMemberAssignment
			if a.ReadFrom(resp.MemberAssignment) == nil {
				var has []string
				for _, t := range a.Topics {
					has = append(has, fmt.Sprintf("%s%v", strings.TrimPrefix(t.Topic, "weir."), t.Partitions))
				}
				l.c.trace.Say("%s has %s generation %d: %s", l.who, req.Group, req.Generation, strings.Join(has, " "))
			}
		}
	case kmsg.EndTxn:
		req, _ := k.request().(*kmsg.EndTxnRequest)
		resp, _ := k.response(body).(*kmsg.EndTxnResponse)
		if req == nil || resp == nil {
			return
		}
		what := map[bool]string{true: "commit", false: "abort"}[req.Commit]
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			l.c.trace.Say("%s %s %s epoch %d: %v", l.who, req.TransactionalID, what, req.ProducerEpoch, err)
			return
		}
		l.c.trace.Say("%s %s %s epoch %d", l.who, req.TransactionalID, what, req.ProducerEpoch)
		if l.there && req.Commit && strings.HasPrefix(req.TransactionalID, "admission.") {
			l.c.decidedThere.Store(true)
		}
		l.c.count(func(t *Tally) {
			if req.Commit {
				t.Committed++
			} else {
				t.Aborted++
			}
		})
	}
}

// bury takes a dead worker's members out of their groups when their sessions
// end. A broker does that itself, but kfake starts no session for a member
// whose connection breaks while it waits to join: it would be waited for until
// the rebalance times out, and then for ever.
func (l *life) bury() {
	select {
	case <-time.After(session):
	case <-l.c.stopped:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for group, members := range l.members {
		for m := range members {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = group, m
			gone := kmsg.NewLeaveGroupRequestMember()
			gone.MemberID = m
			req.Members = append(req.Members, gone)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if _, err := req.RequestWith(ctx, l.c.cl); err != nil && !errors.Is(err, kgo.ErrClientClosed) {
				l.c.trace.Say("bury a member of %s: %v", group, err)
			}
			cancel()
		}
	}
}
