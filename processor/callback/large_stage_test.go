package callback_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestLargeCallbacks: a callback that fits into its topic, and not into a delay topic with
// the heading that it would have there, goes to the DLQ; others are told.
func TestLargeCallbacks(t *testing.T) {
	const to, room = "+8613800000000", topics.MaxMessageBytes - 450
	key := strings.Repeat("ab", 16)
	for name, large := range map[string]func(w *world, e *schemas.Event) *kgo.Record{
		"a status": func(w *world, e *schemas.Event) *kgo.Record {
			e.Error = strings.Repeat("x", room)
			return &kgo.Record{Topic: w.names.Status(), Value: schemas.AppendEvent(nil, e)}
		},
		"a status's own address": func(w *world, e *schemas.Event) *kgo.Record {
			e.CallbackURL = "https://acme.example/" + strings.Repeat("&", 300_000)
			return &kgo.Record{Topic: w.names.Status(), Value: schemas.AppendEvent(nil, e)}
		},
		"a replay": func(w *world, _ *schemas.Event) *kgo.Record {
			return &kgo.Record{Topic: w.names.Callbacks(), Value: []byte(strings.Repeat("x", room+250)), Headers: []kgo.RecordHeader{
				{Key: schemas.HeaderTenant, Value: []byte("acme")}, {Key: schemas.HeaderCallback, Value: []byte(`{"id":"x","key":"` + key + `","status":"sent","replay":true}`)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.answer = func(tenant string, _ time.Time) (int, time.Duration) {
					if tenant == "acme" {
						return 500, time.Millisecond // what is told there has to wait
					}
					return 200, time.Millisecond
				}
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				done := make(chan error, 1)
				go func() { done <- w.run(ctx, &life{w: w}, "0") }()
				cl, err := kgo.NewClient(append(w.options(w.net.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(topics.MaxMessageBytes))...)
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				var want []string
				put := func(r *kgo.Record) {
					t.Helper()
					r.Partition = schemas.PartitionOf(to, parts)
					if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
				for i, tenant := range []string{"calm", "acme", "calm"} {
					e := &schemas.Event{Kind: schemas.KindStatus, MessageID: "m", Tenant: tenant, To: to, Status: schemas.StatusSent, At: schemas.MillisOf(time.Now()), Attempt: i}
					if tenant == "acme" {
						put(large(w, e))
					} else {
						put(&kgo.Record{Topic: w.names.Status(), Value: schemas.AppendEvent(nil, e)})
						want = append(want, callback.ID(e))
					}
					time.Sleep(time.Minute)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if !slices.Equal(w.order, want) {
					t.Errorf("told %v, want %v", w.order, want)
				}
				var reasons []string
				var ranges []stream.Range
				for p := range int32(parts) {
					ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: w.names.DLQ(), Partition: p}})
				}
				if err := stream.Read(t.Context(), stream.ReadConfig{Brokers: []string{"127.0.0.1:9092"}, Options: w.options(w.net.DialContext)}, ranges, func(r *kgo.Record) error {
					for _, h := range r.Headers {
						if h.Key == schemas.HeaderReason {
							reasons = append(reasons, string(h.Value))
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(reasons, []string{schemas.ReasonTooLarge}) {
					t.Errorf("dead letters %v", reasons)
				}
			})
		})
	}
}
