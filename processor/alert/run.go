package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what the role is made of.
type Config struct {
	Brokers []string
	Names   topics.Names
	Slot    string // of this process: for people
	Policy  func() *schemas.Revision
	Health  func() route.Health
	Reports func() map[string]schemas.Report
	Queues  func() []backlog.Queue // of all stages
	Watch   *stream.Watch          // is given the alerter's progress
	Sender  *Sender
	Logger  *slog.Logger
	Metrics prometheus.Registerer

	Session time.Duration // after which a silent alerter's place is taken; 10 s when 0
}

func (c *Config) session() time.Duration { return cmp.Or(c.Session, 10*time.Second) }

// Group is the consumer group whose member with weir.alerts/0 is the alerter.
func Group(names topics.Names) string { return names.Alerts() + ".alerter" }

// closeWithin is how long the group's client may take to close.
const closeWithin = time.Second

// Run stands by, or is the alerter while the group says so, until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	e := &election{cfg: cfg, metrics: newMetrics(cfg.Metrics)}
	e.metrics.standby()
	session := cfg.session()
	// A client that is closed while it joins the group waits until all others have
	// joined: the end of its context cuts that short.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	cl, err := kgo.NewClient(
		kgo.WithContext(alive),
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("weir-alerts"),
		kgo.ConsumerGroup(Group(cfg.Names)), kgo.ConsumeTopics(cfg.Names.Alerts()),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/5),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), stream.Bounded(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { e.change(ctx, got, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { e.change(ctx, lost, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { e.change(ctx, lost, false) }),
	)
	if err != nil {
		return fmt.Errorf("alerts: %w", err)
	}
	e.group = cl
	var failed stream.FetchErrors
	for ctx.Err() == nil {
		// Its records are read elsewhere: this keeps the group's errors from piling up.
		cl.PollFetches(ctx).EachError(func(topic string, p int32, err error) {
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) && !stream.PassOversized(cl, err) {
				failed.Warn(cfg.Logger, "electing the alerter failed; it is tried again", topic, p, err)
			}
		})
	}
	e.end()
	late := time.AfterFunc(closeWithin, end)
	defer late.Stop()
	cl.CloseAllowingRebalance()
	return nil
}

// election starts and ends a term as this process becomes the alerter and is it no
// longer.
type election struct {
	cfg     Config
	metrics *metrics
	group   *kgo.Client

	failing time.Time // since when terms fail; zero when the last one did not

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

func (e *election) change(ctx context.Context, parts map[string][]int32, mine bool) {
	for _, p := range parts[e.cfg.Names.Alerts()] {
		switch {
		case p != 0:
		case mine:
			e.begin(ctx)
		default:
			e.end()
		}
	}
}

func (e *election) begin(ctx context.Context) {
	e.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	e.cancel, e.done = cancel, done
	go func() {
		defer close(done)
		defer e.metrics.standby()
		defer e.cfg.Watch.Gone(stage)
		e.well()
		for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
			began := time.Now()
			err := e.guarded(ctx)
			if err == nil || ctx.Err() != nil {
				if err != nil && !errors.Is(err, context.Canceled) { // while it opened
					e.cfg.Logger.Warn("the alerter ended before it had written what it told: one notice may be repeated", "error", err)
				}
				return
			}
			e.metrics.standby()
			if time.Since(began) > time.Minute {
				wait = time.Second
			}
			if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
				// Another has been elected. The group will have said so by then, and
				// this one must not fence it.
				wait = 2 * e.cfg.session()
			} else {
				e.failed(err)
			}
			e.cfg.Logger.Error("the alerter begins anew", "error", err, "in", wait)
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}()
}

// stage is what Watch calls the alerter.
const stage = "alerts"

// guarded is a term. A panic in it is its error.
func (e *election) guarded(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			e.cfg.Logger.Error("the alerter panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	return e.term(ctx)
}

// failed notes that a term failed. It, and well, belong to the goroutine of the terms.
func (e *election) failed(why error) {
	if e.failing.IsZero() {
		e.failing = time.Now()
	}
	e.cfg.Watch.Failing(stage, e.failing, why.Error())
}

// well notes that a term has read something, stepped and written it down.
func (e *election) well() {
	e.failing = time.Time{}
	e.cfg.Watch.Failing(stage, time.Time{}, "")
}

// end ends a term and waits for it.
func (e *election) end() {
	e.mu.Lock()
	cancel, done := e.cancel, e.done
	e.cancel, e.done = nil, nil
	e.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}
