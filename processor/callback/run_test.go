package callback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	parts = 2
	whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// world is a broker in a bubble, with the real stages on it.
type world struct {
	t     *testing.T
	names topics.Names
	net   *kfake.VirtualNetwork
	cl    *kgo.Client

	mu     sync.Mutex
	answer func(tenant string, at time.Time) (int, time.Duration)
	first  map[string]time.Time // by webhook-id
	order  []string
	calls  int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: new(kfake.VirtualNetwork), first: make(map[string]time.Time)}
	c, err := kfake.NewCluster(kfake.ListenFn(w.net.Listen), kfake.NumBrokers(1), kfake.Ports(9092), kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker.AnswerWholePartitions(c)
	if err := broker.StampAppendTime(c); err != nil {
		t.Fatal(err)
	}
	if w.cl, err = kgo.NewClient(append(w.options(w.net.DialContext), kgo.SeedBrokers("127.0.0.1:9092"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	adm := kadm.NewClient(w.cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: parts, Replication: 1}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := topics.Apply(t.Context(), w.cl, diff, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) options(dial func(context.Context, string, string) (net.Conn, error)) []kgo.Opt {
	return []kgo.Opt{kgo.Dialer(dial), kgo.DisableClientMetrics(), kgo.ProducerBatchCompression(kgo.NoCompression())}
}

func (w *world) logger() *slog.Logger {
	if os.Getenv("CALLBACK_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// delays runs the delay stage, which does not crash here. Its fetches wait longer than they do
// elsewhere: an hour of those that wait 50 ms is most of a test's work.
func (w *world) delays(ctx context.Context) error {
	return delay.Run(ctx, delay.Config{
		Stream: stream.Config{Brokers: []string{"127.0.0.1:9092"}, TransactionalID: "delay-0", Options: append(w.options(w.net.DialContext), kgo.FetchMaxWait(time.Second))},
		Names:  w.names, Partitions: parts, DelayPartitions: parts, Returns: map[string]int32{w.names.Callbacks(): parts}, Logger: w.logger(),
	})
}

// life is one process: its connections break when it is killed.
type life struct {
	w     *world
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

var errDead = errors.New("killed")

func (l *life) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := l.w.net.DialContext(ctx, network, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead && err == nil {
		c.Close()
		return nil, errDead
	}
	l.conns = append(l.conns, c)
	return c, err
}

func (l *life) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, c := range l.conns {
		if c != nil {
			c.Close()
		}
	}
}

// Post is the receivers.
func (l *life) Post(ctx context.Context, address, _ string, h http.Header, body []byte) (*outbound.Answer, error) {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(address, "https://"), ".")
	w := l.w
	w.mu.Lock()
	code, took := w.answer(tenant, time.Now())
	w.calls++
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(took):
	}
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead || code == 0 {
		return nil, errDead
	}
	if code == 200 {
		wh, err := standardwebhooks.NewWebhook(whsec)
		if err == nil {
			err = wh.Verify(body, h)
		}
		if err != nil {
			w.t.Errorf("the official library: %v", err)
		}
		w.mu.Lock()
		if id := h.Get("webhook-id"); w.first[id].IsZero() {
			w.first[id] = time.Now()
			w.order = append(w.order, id)
		}
		w.mu.Unlock()
	}
	return &outbound.Answer{Code: code}, nil
}

// run runs the stage until ctx ends, in one life.
func (w *world) run(ctx context.Context, l *life, slot string) error {
	rev := &schemas.Revision{Revision: 1}
	for _, name := range []string{"acme", "calm"} {
		rev.Policy.Tenants = append(rev.Policy.Tenants, schemas.Tenant{Name: name, Callback: &schemas.Callback{URL: "https://" + name + ".example/hook", Secret: "${S}"}})
	}
	return callback.Run(ctx, callback.Config{
		Stream: stream.Config{Brokers: []string{"127.0.0.1:9092"}, TransactionalID: "callbacks-" + slot, BatchBytes: w.names.BatchBytes, FetchMaxWait: time.Second, Options: w.options(l.dial)},
		Read:   stream.ReadConfig{Brokers: []string{"127.0.0.1:9092"}, Options: w.options(l.dial)},
		Names:  w.names, Partitions: parts, DelayPartitions: parts, DLQPartitions: parts, Slot: slot, Client: l,
		Policy: func() *schemas.Revision { return rev }, Getenv: func(string) string { return whsec }, Logger: w.logger(),
	})
}

// On a broker, with the real delays: an endpoint is away, workers come and die, and each
// callback is told, in order for its message; the other tenant's at once.
func TestOnABroker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		away  time.Duration
		kills bool
	}{{"an hour", time.Hour, false}, {"a quarter of an hour, and workers die", 15 * time.Minute, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				began := time.Now()
				w.answer = func(tenant string, at time.Time) (int, time.Duration) {
					if tenant == "acme" && at.Sub(began) < c.away {
						return 0, 10 * time.Second
					}
					return 200, 20 * time.Millisecond
				}
				ctx, stop := context.WithCancel(context.Background())
				var all sync.WaitGroup
				defer all.Wait()
				defer stop()
				all.Go(func() {
					if err := w.delays(ctx); err != nil {
						t.Errorf("delays: %v", err)
					}
				})
				rnd := rand.New(rand.NewPCG(1, 2))
				for i, slot := range []string{"0", "1"} {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 40 * time.Second)
						for n := 0; ctx.Err() == nil; n++ {
							l := &life{w: w}
							lifeCtx, end := context.WithCancel(ctx)
							done := make(chan struct{})
							all.Go(func() {
								defer close(done)
								if err := w.run(lifeCtx, l, slot); err != nil && lifeCtx.Err() == nil {
									t.Errorf("callbacks: %v", err)
								}
							})
							if !c.kills || time.Since(began) > c.away+10*time.Minute {
								<-ctx.Done()
								end()
								<-done
								return
							}
							w.mu.Lock()
							lives := time.Duration(20+rnd.IntN(160)) * time.Second
							kill := rnd.IntN(3) > 0
							w.mu.Unlock()
							select {
							case <-ctx.Done():
							case <-time.After(lives):
							}
							if kill {
								l.kill()
							}
							end()
							if !kill {
								<-done
							}
						}
					})
				}
				var want []schemas.Event
				steps := []schemas.Status{schemas.StatusQueued, schemas.StatusSending, schemas.StatusSent, schemas.StatusDelivered}
				for i := range 30 {
					for n, st := range steps {
						for _, tenant := range []string{"acme", "calm"} {
							to := fmt.Sprintf("+86138%08d", i)
							e := schemas.Event{Kind: schemas.KindStatus, MessageID: fmt.Sprintf("%s-%d", tenant, i), Tenant: tenant, To: to, Status: st, At: schemas.MillisOf(time.Now()), Attempt: n}
							want = append(want, e)
							if err := w.cl.ProduceSync(ctx, &kgo.Record{Topic: w.names.Status(), Partition: schemas.PartitionOf(to, parts), Value: schemas.AppendEvent(nil, &e)}).FirstErr(); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(7 * time.Second)
					}
				}
				told := func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return len(w.first) == len(want)
				}
				for until := time.Now().Add(4 * time.Hour); !told() && time.Now().Before(until); {
					time.Sleep(10 * time.Second)
				}
				time.Sleep(2 * time.Second)
				w.mu.Lock()
				defer w.mu.Unlock()
				place := make(map[string]int)
				for i, id := range w.order {
					place[id] = i
				}
				last := make(map[string]int)
				worst := time.Duration(0)
				for i := range want {
					e := &want[i]
					id := callback.ID(e)
					at, ok := w.first[id]
					if !ok {
						t.Errorf("%s %s was not told", e.MessageID, e.Status)
						continue
					}
					if before, ok := last[e.MessageID]; ok && place[id] < before {
						t.Errorf("%s %s overtook", e.MessageID, e.Status)
					}
					last[e.MessageID] = place[id]
					if e.Tenant == "calm" {
						worst = max(worst, at.Sub(e.At.Time()))
					}
				}
				if !c.kills && worst > 5*time.Second || worst > 2*time.Minute {
					t.Errorf("the other tenant waited %v", worst)
				}
				t.Logf("%d callbacks, %d calls; the other tenant waited %v at most; simulated %v", len(want), w.calls, worst, time.Since(began).Round(time.Second))
			})
		})
	}
}
