package callback_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// TestForeignRecordsDoNotStopCallbacks: garbage in the callbacks' topics goes to the
// DLQ or is left out, and callbacks are made. A record of the state that may be the
// stage's own stops it, until it is skipped.
func TestForeignRecordsDoNotStopCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(string, time.Time) (int, time.Duration) { return 200, time.Millisecond }
		header := func(v string) []kgo.RecordHeader {
			return []kgo.RecordHeader{{Key: schemas.HeaderTenant, Value: []byte("acme")}, {Key: schemas.HeaderCallback, Value: []byte(v)}}
		}
		key := strings.Repeat("ab", 16)
		foreign := []*kgo.Record{
			{}, {Value: []byte("garbage")}, {Value: []byte("{}"), Headers: header("{")}, {Value: []byte("{}"), Headers: header(`{"id":"x","key":"zz"}`)},
			{Value: []byte("{}"), Headers: header(`{"id":"x","key":"` + key + `","hop":-1}`)},
			{Value: []byte("{}"), Headers: header(`{"id":"x","key":"` + key + `","hop":1,"seq":-5}`)},
		}
		// It says that it comes back, and nothing was away.
		nowhere := &kgo.Record{Value: []byte("{}"), Headers: header(`{"id":"x","key":"` + key + `","hop":1,"seq":9223372036854775807}`)}
		all := append(slices.Clone(foreign), nowhere)
		for _, r := range all {
			r.Topic = w.names.Callbacks()
		}
		state := func(k, v string) *kgo.Record {
			return &kgo.Record{Topic: w.names.CallbackState(), Key: []byte(k), Value: []byte(v)}
		}
		own := string([]byte{'w'}) + strings.Repeat("k", 16)
		all = append(all, state("", ""), state("x", "garbage"), state("meta", "garbage"), state(own, "torn"), state(own, `{"tenant":"acme","away":[]}`))
		if err := w.cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()

		// The group has no position, so how far the stage was cannot be known.
		read := stream.ReadConfig{Brokers: []string{"127.0.0.1:9092"}, Options: w.options(w.net.DialContext)}
		unread := func(want *kgo.Record) {
			t.Helper()
			err := w.run(ctx, &life{w: w}, "0")
			at := skip.SourceOf(want)
			if !errors.Is(err, skip.ErrUnreadable) || !strings.Contains(err.Error(), "weir skip "+at.String()+" --reason") {
				t.Fatalf("%v, want an error that says how to skip %s", err, at)
			}
			rec, err := skip.Find(ctx, read, w.names, at)
			if err == nil {
				_, err = skip.Write(ctx, w.cl, w.names, parts, rec, "ann", "a test", schemas.MillisOf(time.Now()))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		unread(all[len(all)-3])
		torn := state("w"+strings.Repeat("q", 16), `{"tenant":`)
		if err := w.cl.ProduceSync(ctx, torn).FirstErr(); err != nil {
			t.Fatal(err)
		}
		unread(torn)
		large, err := kgo.NewClient(append(w.options(w.net.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(90<<20))...)
		if err != nil {
			t.Fatal(err)
		}
		defer large.Close()
		batch := state("w"+strings.Repeat("r", 16), strings.Repeat("a", 20<<20))
		if err := large.ProduceSync(ctx, batch).FirstErr(); err != nil {
			t.Fatal(err)
		}
		unread(batch)

		done := make(chan error, 1)
		go func() { done <- w.run(ctx, &life{w: w}, "0") }()
		e := schemas.Event{Kind: schemas.KindStatus, MessageID: "m", Tenant: "acme", To: "+8613800000000", Status: schemas.StatusSent, At: schemas.MillisOf(time.Now())}
		if err := w.cl.ProduceSync(ctx, &kgo.Record{Topic: w.names.Status(), Partition: schemas.PartitionOf(e.To, parts), Value: schemas.AppendEvent(nil, &e)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		adm := kadm.NewClient(w.cl)
		at := int64(-1)
		for range 60 {
			time.Sleep(time.Second)
			got, err := adm.FetchOffsets(ctx, callback.Group(w.names))
			if o, ok := got.Lookup(w.names.Callbacks(), 0); err == nil && ok {
				at = o.At
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(w.order) != 1 || w.order[0] != callback.ID(&e) {
			t.Errorf("told %v, want the one status", w.order)
		}
		if want := int64(len(foreign) + 1); at != want {
			t.Errorf("the group is at %d of the callbacks' topic, want %d: nothing holds it back", at, want)
		}
		var reasons []string
		if err := stream.Read(t.Context(), read, []stream.Range{{Partition: stream.Partition{Topic: w.names.DLQ()}}, {Partition: stream.Partition{Topic: w.names.DLQ(), Partition: 1}}}, func(r *kgo.Record) error {
			for _, h := range r.Headers {
				if h.Key == schemas.HeaderReason {
					reasons = append(reasons, string(h.Value))
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(reasons)
		want := append(slices.Repeat([]string{schemas.ReasonForeignRecord}, len(foreign)), "skipped", "skipped", "skipped")
		if !slices.Equal(reasons, want) {
			t.Errorf("dead letters %v, want %v", reasons, want)
		}
	})
}
