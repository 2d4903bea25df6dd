package receipt_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// TestAPanicEndsItsRecord: a receipt on which the program panics goes to the DLQ with
// all its bytes. Those before and after it amend their messages, once.
func TestAPanicEndsItsRecord(t *testing.T) {
	w := newWorld(t, nil)
	w.end() // this test's stage has a fault
	reg := prometheus.NewRegistry()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	asked := 0
	go func() {
		done <- receipt.Run(ctx, receipt.Config{
			Stream: stream.Config{Brokers: w.seeds, TransactionalID: "receipts-1", SessionTimeout: 6 * time.Second, Watch: stream.NewWatch(reg)},
			Names:  w.names, Partitions: n, DelayPartitions: delays, DLQPartitions: deadBoxes, References: references,
			Policy: func() *schemas.Revision { // asked for each receipt that can be read
				if asked++; asked == 2 {
					panic("a bug")
				}
				return new(schemas.Revision)
			},
		})
	}()
	before, bad, after := named("a", schemas.StatusDelivered), named("a", schemas.StatusUndelivered), named("a", schemas.StatusUndelivered)
	after.Code = "550" // of one message, so of one partition
	w.tell(before, bad, after)

	want := w.topic.Record(&bad)
	dead := w.come(w.names.DLQ(), 1)[0]
	var env schemas.Envelope
	for _, h := range dead.Headers {
		if err := env.Set(h.Key, string(h.Value)); err != nil {
			t.Error(err)
		}
	}
	if origin := (schemas.Source{Topic: w.topic.Name, Partition: want.Partition, Offset: 1}); env.Reason != schemas.ReasonInternalError || env.Error != "panic: a bug" || env.Origin != origin || !bytes.Equal(dead.Value, want.Value) {
		t.Errorf("a dead letter of %s: %+v", dead.Value, env)
	}
	w.come(w.names.Status(), 2)
	for i, e := range w.statuses() {
		if was := []string{"", "550"}[i]; e.MessageID != "a" || e.ErrorCode != was {
			t.Errorf("%+v, want the code %q", e, was)
		}
	}
	if got := streamtest.Sum(t, reg, "weir_poison_records_total"); got != 1 {
		t.Errorf("%v poison records", got)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAPanicWhileLookingUp: what receipts that are looked up together come to is decided
// one by one, after all were read: a panic is of the one that was decided.
func TestAPanicWhileLookingUp(t *testing.T) {
	w := newWorld(t, nil)
	w.end() // this test's stage has a fault
	var recs []*kgo.Record
	for _, id := range []string{"a", "b", "c"} {
		r := w.topic.Record(&provider.Receipt{Provider: "p", ProviderMessageID: id, Status: schemas.StatusDelivered})
		r.Partition = 0
		recs = append(recs, r)
	}
	if err := w.cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	asked := 0
	go func() {
		done <- receipt.Run(ctx, receipt.Config{
			Stream: stream.Config{Brokers: w.seeds, TransactionalID: "receipts-1", SessionTimeout: 6 * time.Second},
			Names:  w.names, Partitions: n, DelayPartitions: delays, DLQPartitions: deadBoxes,
			Policy: func() *schemas.Revision { // asked for each receipt that is counted
				if asked++; asked == 1 {
					panic("a bug")
				}
				return new(schemas.Revision)
			},
		})
	}()
	for i, dead := range w.come(w.names.DLQ(), 3) {
		var env schemas.Envelope
		for _, h := range dead.Headers {
			if err := env.Set(h.Key, string(h.Value)); err != nil {
				t.Error(err)
			}
		}
		want := schemas.ReasonUnmatchedReceipt
		if env.Origin.Offset == 0 {
			want = schemas.ReasonInternalError
		}
		if env.Reason != want {
			t.Errorf("dead letter %d, of offset %d, is %s, want %s", i, env.Origin.Offset, env.Reason, want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
