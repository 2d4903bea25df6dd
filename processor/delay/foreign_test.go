package delay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// TestForeignRecordsDoNotStopDelays: a record that does not say where to it returns
// goes to the DLQ when its tier's time is over, and what waits behind it returns.
func TestForeignRecordsDoNotStopDelays(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, reach []kgo.Opt) {
		w := newWorldOn(t, c, []string{streamtest.SimulatedAddr}, reach...)
		header := func(k, v string) kgo.RecordHeader { return kgo.RecordHeader{Key: k, Value: []byte(v)} }
		readmit := header(schemas.HeaderReturn, w.names.Readmit())
		bad := []*kgo.Record{
			{},
			{Value: []byte("x"), Headers: []kgo.RecordHeader{header(schemas.HeaderReturn, w.names.Ledger())}},
			{Value: []byte("x"), Headers: []kgo.RecordHeader{header(schemas.HeaderReturn, strings.Repeat("\x00", 5000))}},
			{Value: []byte("x"), Headers: []kgo.RecordHeader{readmit, header(schemas.HeaderDueAt, "soon")}},
			{Value: []byte("x"), Headers: []kgo.RecordHeader{readmit, header(schemas.HeaderDueAt, "9999-01-01T00:00:00Z")}},
			{Value: []byte("x"), Headers: []kgo.RecordHeader{readmit, header(schemas.HeaderDueAt, "0001-01-01T00:00:00Z"), header(schemas.HeaderReturn, "")}},
		}
		for _, r := range bad {
			r.Topic = w.names.Delay("1s")
		}
		if err := w.cl.ProduceSync(t.Context(), bad...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.put(0, 20, "1s", time.Now().Add(time.Second), 10)
		end := w.start(func(cfg *delay.Config) { cfg.DLQPartitions = partitions })
		defer end()
		dlq, err := w.client(kgo.ConsumeTopics(w.names.DLQ()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		defer dlq.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		back, dead := 0, 0
		for back < 20 && ctx.Err() == nil {
			back += w.cl.PollFetches(ctx).NumRecords()
		}
		for dead < len(bad) && ctx.Err() == nil {
			dlq.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				dead++
				var env schemas.Envelope
				for _, h := range r.Headers {
					if err := env.Set(h.Key, string(h.Value)); err != nil {
						t.Error(err)
					}
				}
				if env.Reason != schemas.ReasonForeignRecord || !strings.HasPrefix(env.Error, w.names.Delay("1s")+"/0/") || env.Return != "" {
					t.Errorf("%+v", env)
				}
			})
		}
		if back != 20 || dead != len(bad) {
			t.Errorf("%d returned and %d put aside, want 20 and %d", back, dead, len(bad))
		}
	})
}
