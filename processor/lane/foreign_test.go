package lane_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// notDispatched are headers of records that admission never wrote, each with what
// its dead letter says is wrong.
var notDispatched = []struct {
	name, header, value, says string
}{
	{"no place", schemas.HeaderPlace, "[{", "weir-place"},
	{"no number", schemas.HeaderAttempt, "three", "weir-attempt"},
	{"a huge number", schemas.HeaderAttempt, "99999999999999999999", "weir-attempt"},
	{"more attempts than there are", schemas.HeaderAttempt, "9223372036854775807", "weir-attempt"},
	{"attempts below none", schemas.HeaderAttempt, "-7", "weir-attempt"},
	{"no time", schemas.HeaderDecidedAt, "soon", "weir-decided-at"},
	{"no decision", schemas.HeaderDecidedAt, "", "weir-decided-at"},
	{"no message", schemas.HeaderID, "", "weir-id"},
	{"a huge id", schemas.HeaderID, strings.Repeat("x", 5000), "weir-id"},
	{"no recipient", schemas.HeaderKey, "", "weir-key"},
	{"no origin", schemas.HeaderOrigin, strings.Repeat("é", 5000), "weir-origin"},
	{"no round", schemas.HeaderRound, "{]", "weir-round"},
}

// TestForeignDispatchRecords: what admission did not write is no call and no
// status. It goes to the DLQ, what is before and behind it is sent, and a lane that
// starts later meets none of it again.
func TestForeignDispatchRecords(t *testing.T) {
	simulated(t, oneProvider(nil), func(r *rig) {
		t := r.t
		r.dispatch(message{id: "before"})
		for _, bad := range notDispatched {
			env := schemas.Envelope{ID: "bad", Key: "+8613800000000", Origin: schemas.Source{Topic: "t"}, DecidedAt: schemas.MillisOf(time.Now())}
			rec := &kgo.Record{Topic: r.names.Dispatch("p", topics.QueueNormal), Value: []byte(bad.name)}
			env.Each(func(k string, v []byte) {
				if k != bad.header {
					rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v})
				}
			})
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: bad.header, Value: []byte(bad.value)}, kgo.RecordHeader{Key: "theirs", Value: []byte("x")})
			if err := r.cl.ProduceSync(t.Context(), rec, &kgo.Record{Topic: rec.Topic}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		r.dispatch(message{id: "after"})
		stop := r.run(r.config("a"))
		r.statuses("before", schemas.StatusSending, schemas.StatusSent)
		r.statuses("after", schemas.StatusSending, schemas.StatusSent)
		aside := 2 * len(notDispatched)
		end := int64(2 + aside)
		r.eventually("all of the queue is done", func() bool { return r.position(topics.QueueNormal) >= end })
		stop()
		if got := r.fake.ids(); len(got) != 2 || len(r.events()) != 2 {
			t.Errorf("calls of %v, statuses of %d messages", got, len(r.events()))
		}
		dead := r.read(r.names.DLQ())
		if len(dead) != aside {
			t.Fatalf("%d dead letters, want %d", len(dead), aside)
		}
		said := make(map[string]string)
		for _, rec := range dead {
			env := r.envelope(rec)
			if env.Reason != schemas.ReasonForeignRecord || len(env.Error) > 400 || !strings.HasPrefix(env.Error, r.names.Dispatch("p", topics.QueueNormal)+"/0/") {
				t.Errorf("%s: %q", env.Reason, env.Error)
			}
			said[string(rec.Value)] = env.Error
		}
		for _, bad := range notDispatched {
			if !strings.Contains(said[bad.name], bad.says) {
				t.Errorf("%s: %q, want it to name %s", bad.name, said[bad.name], bad.says)
			}
		}

		// Another process has nothing left to do.
		stop = r.run(r.config("b"))
		r.dispatch(message{id: "later"})
		r.statuses("later", schemas.StatusSending, schemas.StatusSent)
		stop()
		if got := r.read(r.names.DLQ()); len(got) != aside {
			t.Errorf("%d dead letters after a restart, want %d", len(got), aside)
		}
	})
}

// notJournal are records that no lane wrote. They stand in no transaction.
func notJournal(topic string) (out []*kgo.Record) {
	ours := `"topic":"weir.dispatch.p.normal","partition":0`
	for _, value := range []string{
		"", "garbage", "{}", "[]", `{"kind":7}`, `{"kind":"permit"`,
		`{"kind":"permit","id":"x","t":"9999-12-31T00:00:00Z",` + ours + `,"offset":1}`,
		`{"kind":"outcome","id":"x","t":"9999-12-31T00:00:00Z",` + ours + `,"offset":1}`,
		`{"kind":"permit","id":"x","t":"2026-11-21T00:00:00Z","topic":"weir.dispatch.p.normal","partition":7,"offset":1}`,
		`{"kind":"outcome","id":"x","t":"2026-11-21T00:00:00Z",` + ours + `,"offset":-1}`,
		`{"kind":"permit","id":"x","t":null,` + ours + `,"offset":9223372036854775807}`,
	} {
		out = append(out, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)})
	}
	return append(out, &kgo.Record{Topic: topic})
}

// TestForeignJournalRecords: what no lane wrote is left out of the state, and its
// messages are called as if it were not there.
func TestForeignJournalRecords(t *testing.T) {
	simulated(t, oneProvider(nil), func(r *rig) {
		t := r.t
		r.dispatch(message{id: "a"})
		stop := r.run(r.config("a"))
		r.statuses("a", schemas.StatusSending, schemas.StatusSent)
		stop()
		if err := r.cl.ProduceSync(t.Context(), notJournal(r.names.Journal("p"))...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		large, err := kgo.NewClient(r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(90<<20))...)
		if err != nil {
			t.Fatal(err)
		}
		defer large.Close()
		if err := large.ProduceSync(t.Context(), &kgo.Record{Topic: r.names.Journal("p"), Value: bytes.Repeat([]byte("a"), 20<<20)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		var log streamtest.Log
		cfg := r.config("b")
		reg := prometheus.NewRegistry()
		cfg.Logger, cfg.Metrics = log.Logger(), reg
		r.dispatch(message{id: "b"})
		stop = r.run(cfg)
		r.statuses("b", schemas.StatusSending, schemas.StatusSent)
		stop()
		if got := r.fake.ids(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("called %v, want a and b once each", got)
		}
		if n, want := figure(t, reg, "weir_foreign_records_total"), len(notJournal(""))+1; n != float64(want) {
			t.Errorf("%v records are left out, want %d", n, want)
		}
		if n := log.Count("a record that Weir did not write is left out"); n != 1 { // at most one in ten seconds
			t.Errorf("%d lines", n)
		}
	})
}

// TestSkippedJournalRecord: a record that may be a lane's and cannot be read stops
// the lane, whose error names the command. After it the lane goes on without the
// record, and without nothing else.
func TestSkippedJournalRecord(t *testing.T) {
	simulated(t, oneProvider(nil), func(r *rig) {
		t := r.t
		r.dispatch(message{id: "a"})
		stop := r.run(r.config("a"))
		r.statuses("a", schemas.StatusSending, schemas.StatusSent)
		stop()
		w, err := kgo.NewClient(r.client(kgo.TransactionalID("torn"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		torn := []*kgo.Record{
			{Topic: r.names.Journal("p"), Value: []byte(`{"kind":"permit","id":"b","att`)},
			{Topic: r.names.Journal("p"), Value: []byte(`{"kind":"later","id":"b"}`)},
		}
		if err := w.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := w.ProduceSync(t.Context(), torn...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := w.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		r.dispatch(message{id: "b"})
		read := stream.ReadConfig{Brokers: r.seeds, Options: r.options}
		for i, rec := range torn {
			at := skip.SourceOf(rec)
			err := lane.Run(t.Context(), r.config(fmt.Sprintf("torn%d", i)))
			if !errors.Is(err, skip.ErrUnreadable) || !strings.Contains(err.Error(), fmt.Sprintf("weir skip %s --reason", at)) {
				t.Fatalf("record %d: %v, want an error that names the command", i, err)
			}
			found, err := skip.Find(t.Context(), read, r.names, at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := skip.Write(t.Context(), r.cl, r.names, others, found, "ann", "a test", schemas.MillisOf(time.Now())); err != nil {
				t.Fatal(err)
			}
		}
		stop = r.run(r.config("b"))
		r.statuses("b", schemas.StatusSending, schemas.StatusSent)
		stop()
		if got := r.fake.ids(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("called %v, want a and b once each", got)
		}
	})
}

// TestOffsetsThatNoLaneCommitted: where someone set the group's offsets back, the
// journal says what was called.
func TestOffsetsThatNoLaneCommitted(t *testing.T) {
	simulated(t, oneProvider(nil), func(r *rig) {
		t := r.t
		r.dispatch(message{id: "a"}, message{id: "b"})
		stop := r.run(r.config("a"))
		r.statuses("a", schemas.StatusSending, schemas.StatusSent)
		r.statuses("b", schemas.StatusSending, schemas.StatusSent)
		stop()
		back := make(kadm.Offsets)
		for _, q := range topics.Queues {
			back.Add(kadm.Offset{Topic: r.names.Dispatch("p", q), LeaderEpoch: -1, Metadata: "reset"})
		}
		adm := kadm.NewClient(r.cl)
		set := func() {
			t.Helper()
			if got, err := adm.CommitOffsets(t.Context(), lane.Group(r.names, "p"), back); err != nil || got.Error() != nil {
				t.Fatal(err, got.Error())
			}
		}
		set()
		r.dispatch(message{id: "c"})
		stop = r.run(r.config("b"))
		r.statuses("c", schemas.StatusSending, schemas.StatusSent)
		stop()
		if got := r.fake.ids(); len(got) != 3 {
			t.Errorf("called %v, want each once", got)
		}
		for topic, parts := range back {
			for p, o := range parts {
				o.Metadata = "v2 j=0"
				back[topic][p] = o
			}
		}
		set()
		if err := lane.Run(t.Context(), r.config("c")); err == nil || !strings.Contains(err.Error(), "newer Weir") {
			t.Errorf("%v, want that a newer Weir committed it", err)
		}
	})
}
