package faultsim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// stages are admission, the lanes and the delays of one process without faults, and what
// their provider is called for.
type stages struct {
	t       *testing.T
	cl      *kgo.Client
	names   topics.Names
	respond func(*provider.Call) provider.Outcome

	mu    sync.Mutex
	calls []made
}

type made struct {
	at time.Time
	to string
}

// Send accepts everything, unless the test says otherwise.
func (s *stages) Send(_ context.Context, c *provider.Call) provider.Outcome {
	s.mu.Lock()
	s.calls = append(s.calls, made{time.Now(), c.To})
	s.mu.Unlock()
	if s.respond != nil {
		return s.respond(c)
	}
	return provider.Outcome{Kind: provider.Accepted}
}

func (s *stages) Close() error { return nil }

// to returns when a recipient was called.
func (s *stages) to(to string) (at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.to == to {
			at = append(at, c.at)
		}
	}
	return at
}

func (s *stages) request(format string, args ...any) {
	s.t.Helper()
	if err := s.cl.ProduceSync(s.t.Context(), &kgo.Record{Topic: s.names.Requests(), Value: fmt.Appendf(nil, format, args...)}).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// runStages runs a test beside the stages, in a bubble.
func runStages(t *testing.T, text string, test func(*stages)) {
	t.Helper()
	streamtest.Simulated(t, func(t *testing.T, cluster *kfake.Cluster, opts []kgo.Opt) {
		time.Sleep(time.Until(time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC))) // bubbles begin in 2000
		broker.AnswerWholePartitions(cluster)
		if err := broker.StampAppendTime(cluster); err != nil {
			t.Fatal(err)
		}
		doc, err := schemas.ParsePolicy("policy.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, kgo.WithCompressor(plain{}))
		s := &stages{t: t, cl: streamtest.Client(t, opts...)}
		diff, err := topics.Plan(t.Context(), kadm.NewClient(s.cl), topics.Catalogue(topics.Config{Partitions: 1, Replication: 1, Replies: 1}, &doc.Policy))
		if err == nil {
			err = topics.Apply(t.Context(), s.cl, diff, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		logger := slog.New(slog.DiscardHandler)
		watch, err := policy.Watch(t.Context(), s.names.Config(), logger, opts...)
		if err != nil {
			t.Fatal(err)
		}
		streaming := func(stage string) stream.Config {
			return stream.Config{Brokers: []string{streamtest.SimulatedAddr}, TransactionalID: stage, SessionTimeout: session, Logger: logger, Options: opts}
		}
		read := stream.ReadConfig{Brokers: []string{streamtest.SimulatedAddr}, Options: opts}
		ctx, stop := context.WithCancel(context.Background())
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return watch.Run(ctx) })
		t.Cleanup(func() {
			stop()
			if err := g.Wait(); err != nil {
				t.Errorf("the stages end with %v", err)
			}
		})
		if _, err := watch.Publish(t.Context(), s.cl, 0, "test", doc.Policy); err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			return admission.Run(ctx, admission.Config{Stream: streaming("admission"), Read: read, Names: s.names, Partitions: 1, DelayPartitions: 1, DLQPartitions: 1, ReplyPartitions: 1, Logger: logger}, watch)
		})
		g.Go(func() error {
			return lane.Supervise(ctx, lane.Config{Stream: streaming("lane"), Read: read, Names: s.names, Partitions: 1, DelayPartitions: 1, DLQPartitions: 1, Policy: watch, Logger: logger,
				Open: func(schemas.Provider) (provider.Provider, error) { return s, nil }})
		})
		g.Go(func() error {
			return delay.Run(ctx, delay.Config{Stream: streaming("delay"), Names: s.names, Partitions: 1, DelayPartitions: 1, DLQPartitions: 1, Logger: logger})
		})
		test(s)
	})
}

// TestCallsKeepTheWindow: what a slow provider holds up is not called in one burst. Four
// messages to one number are sent 11 s apart, each when its window of 10 s is open, and
// 120 others are before them.
func TestCallsKeepTheWindow(t *testing.T) {
	runStages(t, `
limits:
  - {name: one, per: [recipient], allow: [1/10s]}
tenants:
  - {name: default, default_region: CN}
providers:
  - {name: p, type: simulated, channels: [sms], pace: [2/1s]}
`, func(s *stages) {
		const to = "+8613800009999"
		send := func(to string) { s.request(`{"channel":"sms","to":%q,"body":"x"}`, to) }
		for i := range 120 {
			send(fmt.Sprintf("+861380000%04d", i))
		}
		for range 4 {
			send(to)
			time.Sleep(11 * time.Second)
		}
		began := time.Now()
		for len(s.to(to)) < 4 && time.Since(began) < 10*time.Minute {
			time.Sleep(time.Second)
		}
		at := s.to(to)
		s.t.Logf("called at %v, of %d calls in all", at, len(s.calls))
		if len(at) != 4 || len(s.calls) != 124 {
			s.t.Errorf("%d calls to the number, %d in all", len(at), len(s.calls))
		}
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap < 9*time.Second {
				s.t.Errorf("%v between two calls to one number", gap)
			}
		}
	})
}

// TestStopReachesTheLane: what a lane holds of a recipient who opts out is called for no
// longer than a decision may be called on, and so is what a cancel names.
func TestStopReachesTheLane(t *testing.T) {
	for _, c := range []struct {
		name   string
		action func(id int) string // of each message; it is made for the first only where it names none
	}{
		{"suppress", func(int) string { return `{"action":"suppress","to":"+8613800009999"}` }},
		{"cancel", func(id int) string {
			return fmt.Sprintf(`{"action":"cancel","to":"+8613800009999","id":"00000000-0000-4000-8000-%012d"}`, id)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			runStages(t, `
limits:
  - {name: many, per: [recipient], allow: [1000/30s]}
tenants:
  - {name: default, default_region: CN}
providers:
  - {name: p, type: simulated, channels: [sms], pace: [10/1s]}
`, func(s *stages) {
				const to, n = "+8613800009999", 300
				for i := range n {
					s.request(`{"channel":"sms","to":%q,"body":"x","id":"00000000-0000-4000-8000-%012d"}`, to, i)
				}
				time.Sleep(8 * time.Second)
				before := len(s.to(to))
				for i := range n {
					if s.request("%s", c.action(i)); c.action(0) == c.action(1) {
						break
					}
				}
				stopped := time.Now()
				time.Sleep(time.Minute)
				at := s.to(to)
				if before < 60 || len(at) == n {
					s.t.Errorf("%d calls before and %d in all: the test shows nothing", before, len(at))
				}
				if last := at[len(at)-1].Sub(stopped); last > 3100*time.Millisecond { // and what a decision takes
					s.t.Errorf("a call %v later", last)
				}
			})
		})
	}
}
