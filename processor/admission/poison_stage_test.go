package admission_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// hostile produces records of any size, compressed.
func (w *world) hostile(recs ...*kgo.Record) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(90<<20), kgo.ProducerLinger(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs { // a batch each
		if err := cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// hostileTogether writes one batch of n records that is beyond the bound.
func (w *world) hostileTogether(topic string, partition int32, n int) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(90<<20), kgo.ProducerLinger(time.Minute))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for range n {
		cl.Produce(w.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k"), Value: bytes.Repeat([]byte("a"), 10<<20)}, func(_ *kgo.Record, err error) {
			if err != nil {
				w.t.Error(err)
			}
		})
	}
	if err := cl.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// end returns where a partition ends.
func (w *world) end(topic string, partition int32) int64 {
	w.t.Helper()
	p := stream.Partition{Topic: topic, Partition: partition}
	extents, err := stream.Extents(w.t.Context(), stream.ReadConfig{Brokers: w.seeds}, []stream.Partition{p})
	if err != nil {
		w.t.Fatal(err)
	}
	return extents[p].End
}

// dlq reads all dead letters.
func (w *world) dead() (out []schemas.Envelope, values []int) {
	w.t.Helper()
	var ranges []stream.Range
	for p := range int32(partitions) {
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: w.names.DLQ(), Partition: p}})
	}
	if err := stream.Read(w.t.Context(), stream.ReadConfig{Brokers: w.seeds}, ranges, func(r *kgo.Record) error {
		var env schemas.Envelope
		for _, h := range r.Headers {
			if err := env.Set(h.Key, string(h.Value)); err != nil {
				return err
			}
		}
		out, values = append(out, env), append(values, len(r.Value))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out, values
}

// audited holds that the audit finds nothing wrong, and says what it did not judge.
func (w *world) audited() *audit.Report {
	w.t.Helper()
	r, err := audit.Run(w.t.Context(), audit.Config{Brokers: w.seeds, Names: w.names, Partitions: partitions})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range r.Violations {
		w.t.Errorf("audit: %+v", v)
	}
	return r
}

// TestABatchIsNamed: of a batch that is not read the dead letter and the audit say where it
// is, from its first offset to its last. It is no violation.
func TestABatchIsNamed(t *testing.T) {
	w := newWorld(t)
	const to = "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	send := func() { w.request(home, `{"channel":"sms","to":"`+to+`","class":"verify","body":"x"}`) }
	send()
	w.hostileTogether(w.names.Requests(), home, 3)
	send()
	stop := w.admit("0")
	w.statuses(2)
	stop()
	letters, _ := w.dead()
	want := fmt.Sprintf("the batch of the offsets 1 to 3 of %s/%d", w.names.Requests(), home)
	if len(letters) != 1 || letters[0].Reason != schemas.ReasonBatchTooLarge || !strings.Contains(letters[0].Error, want) {
		t.Errorf("%+v, want %s", letters, want)
	}
	r := w.audited()
	if is := (audit.Unread{Topic: w.names.Requests(), Partition: home, First: 1, Last: 3}); !slices.Equal(r.Unread, []audit.Unread{is}) || r.Checked.Unread != 1 {
		t.Errorf("%+v of %d, want %+v", r.Unread, r.Checked.Unread, is)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), fmt.Sprintf("%s/%d, offsets 1 to 3\n", w.names.Requests(), home)) {
		t.Errorf("%v\n%s", err, &text)
	}
}

// TestHostileSizes: no size of a value, of headers or of a batch stops admission. What
// comes before and after is decided.
func TestHostileSizes(t *testing.T) {
	w := newWorld(t)
	to := "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	away := (home + 1) % partitions
	valid := []byte(`{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`)
	header := func(n int) []kgo.RecordHeader {
		return []kgo.RecordHeader{{Key: "x", Value: bytes.Repeat([]byte("a"), n)}}
	}
	topic := w.names.Requests()
	w.request(home, `{"channel":"sms","to":"+8613800000001","class":"verify","body":"before"}`)
	w.hostile(
		&kgo.Record{Topic: topic, Partition: home, Value: bytes.Repeat([]byte("a"), 3<<20)},
		&kgo.Record{Topic: topic, Partition: home, Value: valid, Headers: header(1500 << 10)},
		&kgo.Record{Topic: topic, Partition: away, Value: valid, Headers: header(1500 << 10)},
		&kgo.Record{Topic: topic, Partition: away, Value: valid, Key: bytes.Repeat([]byte("k"), 1500<<10)},
		&kgo.Record{Topic: topic, Partition: home, Value: valid, Headers: []kgo.RecordHeader{{Key: strings.Repeat("h", 3<<20)}}},
		&kgo.Record{Topic: topic, Partition: home, Value: bytes.Repeat([]byte("a"), 60<<20)}, // its batch is not read
	)
	// At the bound it goes through, also where it is forwarded.
	w.hostile(&kgo.Record{Topic: topic, Partition: away, Value: []byte(`{"channel":"sms","to":"+8613800000000","class":"verify","body":"` + strings.Repeat("b", 900) + `"}`), Headers: header(schemas.MaxHeaderBytes - 100)})
	for p := range int32(partitions) {
		w.request(p, `{"channel":"sms","to":"+86138000001%02d","class":"verify","body":"after"}`, p)
	}
	stop := w.admit("0")
	events := w.statuses(1 + 5 + 1 + partitions)
	if n := len(only(events, schemas.StatusQueued)); n != 1+1+partitions {
		t.Errorf("%d were let through: %s", n, text(events))
	}
	rejected := only(events, schemas.StatusRejected)
	for _, e := range rejected {
		if e.Reason != schemas.ReasonTooLarge {
			t.Errorf("rejected for %s: %s", e.Reason, e.Error)
		}
	}
	if len(rejected) != 5 {
		t.Errorf("%d were rejected", len(rejected))
	}
	unread := 0
	for _, e := range events {
		if e.Reason == schemas.ReasonBatchTooLarge && e.Decision != nil && e.Decision.Verdict == schemas.VerdictNothing {
			unread++
		}
	}
	if unread != 1 {
		t.Errorf("%d batches were answered as too large", unread)
	}
	stop()
	letters, values := w.dead()
	if len(letters) != 6 {
		t.Fatalf("%d dead letters", len(letters))
	}
	for i, env := range letters {
		switch {
		case env.Reason == schemas.ReasonBatchTooLarge:
			if !strings.Contains(env.Error, fmt.Sprintf("%s/%d", topic, home)) || env.Origin.Topic != topic {
				t.Errorf("it does not say which batch: %q, %v", env.Error, env.Origin)
			}
		case !env.Cut() || len(env.ValueSHA256) != 64 || values[i] > 64<<10:
			t.Errorf("a dead letter of %d bytes: %+v", values[i], env)
		}
	}
	w.audited()
	// Another worker reads none of it again.
	w.request(home, `{"channel":"sms","to":"+8613800000002","class":"verify","body":"later"}`)
	w.admit("1")
	if later := w.statuses(1); len(only(later, schemas.StatusQueued)) != 1 {
		t.Errorf("after a restart: %s", text(later))
	}
}

// TestStateBeyondTheBound: a batch beyond the bound in a topic that holds state stops the
// next start with the command that resolves it. Once it is skipped admission starts, and
// knows what it knew.
func TestStateBeyondTheBound(t *testing.T) {
	for name, topic := range map[string]func(*world) string{
		"ledger": func(w *world) string { return w.names.Ledger() },
		"seen":   func(w *world) string { return w.names.Seen() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			const to = "+8613800000000"
			home := schemas.PartitionOf(to, partitions)
			send := func() { w.request(home, `{"channel":"sms","to":"`+to+`","class":"verify","body":"x"}`) }
			send()
			stop := w.admit("0")
			w.statuses(1)
			stop()
			batch := &kgo.Record{Topic: topic(w), Partition: home, Key: []byte("k"), Value: bytes.Repeat([]byte("a"), 60<<20)}
			w.hostile(batch)
			at := skip.SourceOf(batch)
			err := admission.Run(t.Context(), admission.Config{
				Stream: stream.Config{Brokers: w.seeds, TransactionalID: "a", SessionTimeout: 6 * time.Second, BatchBytes: w.names.BatchBytes},
				Read:   stream.ReadConfig{Brokers: w.seeds}, Names: w.names,
				Partitions: partitions, DelayPartitions: partitions, DLQPartitions: partitions,
			}, w.pol)
			if !errors.Is(err, skip.ErrUnreadable) || !strings.Contains(err.Error(), "weir skip "+at.String()+" --reason") {
				t.Fatalf("%v, want the command that skips %s", err, at)
			}
			read := stream.ReadConfig{Brokers: w.seeds}
			found, err := skip.Find(t.Context(), read, w.names, at)
			if err != nil {
				t.Fatal(err)
			}
			if found.Offset != batch.Offset || len(found.Value) < 1000 || len(found.Value) > 1<<20 || found.Timestamp.IsZero() {
				t.Errorf("%d bytes at %d, of %v", len(found.Value), found.Offset, found.Timestamp)
			}
			cl, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if _, err := skip.Write(t.Context(), cl, w.names, partitions, found, "ann", "a test", 1); err != nil {
				t.Fatal(err)
			}
			send()
			w.admit("1")
			if events := w.statuses(1); len(only(events, schemas.StatusLimited)) != 1 {
				t.Errorf("after it: %s", text(events))
			}
			// What can be read is still for weir ledger repair, and an offset within
			// a batch is not the batch.
			if at.Offset > 0 {
				if _, err := skip.Find(t.Context(), read, w.names, schemas.Source{Topic: at.Topic, Partition: at.Partition}); err == nil || !strings.Contains(err.Error(), "weir ledger repair") {
					t.Errorf("a record that can be read: %v", err)
				}
			}
			w.hostileTogether(topic(w), home, 3)
			last := schemas.Source{Topic: at.Topic, Partition: at.Partition, Offset: w.end(topic(w), home) - 1}
			if _, err := skip.Find(t.Context(), read, w.names, last); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("weir skip %s/%d/%d", at.Topic, at.Partition, last.Offset-2)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAPanicEndsItsRecord: a fault of the program while one message is decided ends that
// message, and no other. When every message has it, the worker stops.
func TestAPanicEndsItsRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		panics func(n int32) bool
		stops  bool
	}{
		"one":                        {func(n int32) bool { return n == 5 }, false},
		"all":                        {func(n int32) bool { return n > 5 }, true},
		"three, with others between": {nil, false}, // others are ended between, whatever one poll brings
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sent := 0
			send := func(n int) {
				for range n {
					w.request(1, `{"channel":"sms","to":"+86138000000%02d","class":"verify","body":"%d"}`, sent, sent)
					sent++
				}
			}
			var asked atomic.Int32
			var next atomic.Bool // the next one panics
			if tt.panics == nil {
				next.Store(true)
				send(7)
			} else {
				send(20)
			}
			done := make(chan error, 1)
			go func() {
				done <- admission.Run(t.Context(), admission.Config{
					Stream: stream.Config{Brokers: w.seeds, TransactionalID: "a", SessionTimeout: 6 * time.Second, BatchBytes: w.names.BatchBytes},
					Read:   stream.ReadConfig{Brokers: w.seeds}, Names: w.names,
					Partitions: partitions, DelayPartitions: partitions, DLQPartitions: partitions,
					Health: func() route.Health {
						if tt.panics != nil && tt.panics(asked.Add(1)) || tt.panics == nil && next.CompareAndSwap(true, false) {
							panic("a bug")
						}
						return nil
					},
				}, w.pol)
			}()
			if tt.stops {
				select {
				case err := <-done:
					if err == nil || !strings.Contains(err.Error(), "a bug") {
						t.Errorf("it ended with %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it goes on")
				}
				return
			}
			events := w.statuses(sent)
			for sent < 20 {
				next.Store(true)
				before := sent
				send(min(7, 20-sent))
				events = append(events, w.statuses(sent-before)...)
			}
			rejected := only(events, schemas.StatusRejected)
			want := 1
			if name != "one" {
				want = 3
			}
			if len(rejected) != want || len(only(events, schemas.StatusQueued)) != 20-want {
				t.Errorf("%s", text(events))
			}
			for _, e := range rejected {
				if e.Reason != schemas.ReasonInternalError || e.MessageID == "" {
					t.Errorf("rejected as %s for %s", strconv.Quote(e.MessageID), e.Reason)
				}
			}
			dense(t, events)
			w.audited()
		})
	}
}
