package audit_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestForeignRecordsAndSkips: what Weir did not write, and what changed nothing, is
// counted and breaks no promise. A record that an operator skipped is named, and then
// nothing is called proven that it would have shown.
func TestForeignRecordsAndSkips(t *testing.T) {
	l := newLive(t)
	l.publish(calmPolicy)
	stop := l.start()
	away := ""
	for _, to := range []string{"+8613800000000", "+8613800000001", "+8613800000002", "+8613800000003", "+8613800000004", "+8613800000005", "+8613800000006"} {
		if schemas.PartitionOf(to, parts) != 0 {
			away = to
		}
	}
	var forged []*kgo.Record
	for _, env := range []schemas.Envelope{
		{ID: "00000000-0000-4000-8000-000000000001", Key: away, Reason: schemas.ReadmitForward, AcceptedAt: 1},
		{ID: "00000000-0000-4000-8000-000000000002", Key: away, Reason: schemas.ReadmitRetry, Attempt: 1, AcceptedAt: 1},
		{ID: "00000000-0000-4000-8000-000000000003", Key: away, Reason: schemas.ReadmitUnwind, Place: []schemas.Charge{{Limit: "verify", Scope: away, T: 1, Cost: 1}}},
		{ID: "00000000-0000-4000-8000-000000000004", Key: away, Reason: schemas.ReadmitCharged, DecidedAt: 1, Round: &schemas.Round{Channel: schemas.ChannelSMS}},
	} {
		r := &kgo.Record{Topic: l.names.Readmit(), Value: []byte(`{"channel":"sms","to":"` + away + `","class":"verify","body":"x"}`)}
		env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		forged = append(forged, r)
	}
	journal := l.names.Journal("sim")
	forged = append(forged, &kgo.Record{Topic: l.names.Dispatch("sim", topics.QueueNormal), Value: []byte("x")}, &kgo.Record{Topic: l.names.Dispatch("sim", topics.QueueBulk)},
		&kgo.Record{Topic: journal, Value: []byte("x")}, &kgo.Record{Topic: journal, Value: []byte(`{"kind":"permit","id":"x","t":"9999-01-01T00:00:00Z","topic":"x","partition":0,"offset":1}`)})
	if err := l.cl.ProduceSync(t.Context(), forged...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.send(5, 60)
	l.settled()
	stop()
	aside := func(r *audit.Report) (n int64) {
		for _, u := range r.Aside {
			n += u.Count
		}
		return n
	}
	if r := l.audit(); r.Outcome != audit.Proven || aside(r) != 4 || len(r.Skips) != 0 {
		t.Fatalf("%d put aside, want 4: %s", aside(r), text(r))
	}

	// A record that a lane may have written.
	w, err := kgo.NewClient(kgo.SeedBrokers(l.seeds...), kgo.TransactionalID("torn"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	torn := &kgo.Record{Topic: journal, Value: []byte(`{"kind":"perm`)}
	if err := w.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := w.ProduceSync(t.Context(), torn).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := w.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if r := l.audit(); r.Outcome != audit.Violated || r.Faults[audit.KindTorn] != 1 {
		t.Fatalf("before it is skipped: %s", text(r))
	}
	rec, err := skip.Find(t.Context(), stream.ReadConfig{Brokers: l.seeds}, l.names, skip.SourceOf(torn))
	if err == nil {
		_, err = skip.Write(t.Context(), l.cl, l.names, parts, rec, "ann", "a test", schemas.MillisOf(time.Now()))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := l.audit()
	if r.Outcome != audit.CouldNotTell || len(r.Skips) != 1 || r.Skips[0].By != "ann" {
		t.Fatalf("after it is skipped: %s", text(r))
	}
	mentions(t, text(r), "Skipped by an operator")
	mentions(t, text(r), "that an operator skipped: what they permitted or ended")
}
