package callback_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// faulty is a log that panics on a line, once: a fault of the program where the line is
// written.
type faulty struct {
	slog.Handler
	on   string
	left *atomic.Int32
}

func (f faulty) Enabled(context.Context, slog.Level) bool { return true }
func (f faulty) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, f.on) && f.left.CompareAndSwap(1, 0) {
		panic("a bug")
	}
	return nil
}

// TestAPanicEndsItsRecord: a record on which the program panics goes to the DLQ with all
// its bytes, and no callback tells of it; those before and after it are told. If it is a
// callback that came back, what waits behind it is told, too.
func TestAPanicEndsItsRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		back bool // the record is a callback that comes back
	}{{"a status", false}, {"a callback that comes back", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.answer = func(string, time.Time) (int, time.Duration) { return 200, time.Millisecond }
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				var left atomic.Int32
				if !c.back {
					left.Store(1)
				}
				reg := prometheus.NewRegistry()
				bad := schemas.Tenant{Name: "bad", Callback: &schemas.Callback{URL: "https://bad.example/hook", Secret: "${NONE}"}}
				acme := schemas.Tenant{Name: "acme", Callback: &schemas.Callback{URL: "https://acme.example/hook", Secret: "${S}"}}
				rev := atomic.Pointer[schemas.Revision]{}
				rev.Store(&schemas.Revision{Revision: 1, Policy: schemas.Policy{Tenants: []schemas.Tenant{acme, bad}}})
				l := &life{w: w}
				done := make(chan error, 2)
				go func() { done <- w.delays(ctx) }()
				go func() {
					done <- callback.Run(ctx, callback.Config{
						Stream: stream.Config{Brokers: []string{"127.0.0.1:9092"}, TransactionalID: "callbacks-0", FetchMaxWait: time.Second, Options: w.options(l.dial), Watch: stream.NewWatch(reg)},
						Read:   stream.ReadConfig{Brokers: []string{"127.0.0.1:9092"}, Options: w.options(l.dial)},
						Names:  w.names, Partitions: parts, DelayPartitions: parts, DLQPartitions: parts, Slot: "0", Client: l, Policy: rev.Load,
						Getenv: func(name string) string {
							if name == "NONE" {
								return ""
							}
							return whsec
						},
						// A tenant's secret cannot be read: its callbacks wait, and a line says so.
						Logger: slog.New(faulty{on: "callbacks fail", left: &left}),
					})
				}()
				const to = "+8613800000000"
				say := func(tenant string, st schemas.Status, attempt int) (*schemas.Event, []byte) {
					t.Helper()
					e := &schemas.Event{Kind: schemas.KindStatus, MessageID: "m-" + tenant, Tenant: tenant, To: to, Status: st, At: schemas.MillisOf(time.Now()), Attempt: attempt}
					value := schemas.AppendEvent(nil, e)
					if err := w.cl.ProduceSync(ctx, &kgo.Record{Topic: w.names.Status(), Partition: schemas.PartitionOf(to, parts), Value: value}).FirstErr(); err != nil {
						t.Fatal(err)
					}
					return e, value
				}
				var want []string
				before, _ := say("acme", schemas.StatusSent, 1)
				poisoned, value := say("bad", schemas.StatusSent, 1)
				after, _ := say("acme", schemas.StatusDelivered, 1)
				want = append(want, callback.ID(before), callback.ID(after))
				if c.back {
					behind, _ := say("bad", schemas.StatusDelivered, 1)
					time.Sleep(2 * time.Second) // both of tenant bad wait
					value = callback.Body(poisoned)
					left.Store(1)
					time.Sleep(10 * time.Minute) // it comes back after 5 s, 30 s and 5 min; a line is written once a minute
					bad.Callback = acme.Callback
					rev.Store(&schemas.Revision{Revision: 2, Policy: schemas.Policy{Tenants: []schemas.Tenant{acme, bad}}})
					want = append(want, callback.ID(behind))
				}
				told := func() int {
					w.mu.Lock()
					defer w.mu.Unlock()
					return len(w.order)
				}
				for until := time.Now().Add(time.Hour); told() < len(want) && time.Now().Before(until); {
					time.Sleep(10 * time.Second)
				}
				time.Sleep(time.Minute) // for what must not be told
				stop()
				for range 2 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if !slices.Equal(w.order, want) {
					t.Errorf("told %v, want %v", w.order, want)
				}
				if got := streamtest.Sum(t, reg, "weir_poison_records_total"); got != 1 {
					t.Errorf("%v poison records", got)
				}
				var dead []*kgo.Record
				var ranges []stream.Range
				for p := range int32(parts) {
					ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: w.names.DLQ(), Partition: p}})
				}
				if err := stream.Read(t.Context(), stream.ReadConfig{Brokers: []string{"127.0.0.1:9092"}, Options: w.options(w.net.DialContext)}, ranges, func(r *kgo.Record) error {
					dead = append(dead, r)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if len(dead) != 1 {
					t.Fatalf("%d dead letters", len(dead))
				}
				var env schemas.Envelope
				for _, h := range dead[0].Headers {
					if err := env.Set(h.Key, string(h.Value)); err != nil {
						t.Error(err)
					}
				}
				if env.Reason != schemas.ReasonInternalError || !strings.HasSuffix(env.Error, "panic: a bug") || string(dead[0].Value) != string(value) {
					t.Errorf("a dead letter of %s: %+v", dead[0].Value, env)
				}
				box, err := dlq.Open(dlq.Config{Brokers: []string{"127.0.0.1:9092"}, Names: w.names, Options: w.options(w.net.DialContext)})
				if err != nil {
					t.Fatal(err)
				}
				defer box.Close()
				if sum, err := box.Redrive(t.Context(), dlq.Filter{Reason: schemas.ReasonInternalError}, dlq.RedriveOptions{}); err != nil || sum.Matched != 1 || sum.Redriven != 0 {
					t.Errorf("a redrive of what is no message: %+v, %v", sum, err)
				}
			})
		})
	}
}
