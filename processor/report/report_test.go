package report_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/schemas"
)

const topic = "weir.reports"

// lines is a log that a test may read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

func newBroker(t *testing.T) (seeds kgo.Opt, cl *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds = kgo.SeedBrokers(c.ListenAddrs()...)
	cl, err = kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return seeds, cl
}

func create(t *testing.T, cl *kgo.Client) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, w *report.Watcher) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func say(t *testing.T, cl *kgo.Client, key string, r schemas.Report) {
	t.Helper()
	if err := report.Write(t.Context(), cl, topic, key, r); err != nil {
		t.Fatal(err)
	}
}

func raw(t *testing.T, cl *kgo.Client, key, value string) {
	t.Helper()
	r := &kgo.Record{Topic: topic, Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	if value == "" {
		r.Value = nil
	}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func sink(at schemas.Millis, rows int64) schemas.Report {
	return schemas.Report{At: at, By: "3", Sink: &schemas.SinkReport{Partitions: []int32{0, 4}, Rows: rows, LagMillis: 40, Difference: 2, CheckedAt: at}}
}

func TestWatch(t *testing.T) {
	seeds, cl := newBroker(t)
	create(t, cl)
	say(t, cl, schemas.ReportKeySink("3"), sink(1000, 7))
	say(t, cl, schemas.ReportKeySink("3"), sink(2000, 9))
	log := &lines{}
	w, err := report.Watch(t.Context(), topic, slog.New(slog.NewTextHandler(log, nil)), seeds)
	if err != nil {
		t.Fatal(err)
	}
	// Before Run: what was there at the start, the latest of it.
	first := w.Now()
	if r := first["sink/3"]; len(first) != 1 || r.At != 2000 || r.By != "3" || r.Sink.Rows != 9 || r.Sink.Difference != 2 {
		t.Errorf("%+v", first)
	}
	run(t, w)

	// What does not count harms nothing that does.
	raw(t, cl, "sink/3", `{"at":`)
	raw(t, cl, "", `{"at":"2026-11-22T00:00:00Z"}`)
	said := time.Now()
	say(t, cl, schemas.ReportKeyAudit, schemas.Report{At: 3000, By: "root@box", Audit: &schemas.AuditReport{Outcome: schemas.AuditProven, Decisions: 12}})
	eventually(t, "the audit is known", func() bool { return w.Now()[schemas.ReportKeyAudit].Audit != nil })
	t.Logf("known %v after it was written", time.Since(said))
	if r := w.Now()["sink/3"]; r.Sink == nil || r.Sink.Rows != 9 || len(w.Now()) != 2 || !log.has("torn") || !log.has("no key") {
		t.Errorf("%+v", w.Now())
	}
	if len(first) != 1 {
		t.Error("a snapshot changed under its reader")
	}
	// A tombstone takes a word back.
	raw(t, cl, "sink/3", "")
	eventually(t, "the sink is forgotten", func() bool { _, ok := w.Now()["sink/3"]; return !ok })
}

// TestUncommitted: what a transaction takes back was never said.
func TestUncommitted(t *testing.T) {
	seeds, cl := newBroker(t)
	create(t, cl)
	tx, err := kgo.NewClient(seeds, kgo.TransactionalID("a"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	raw(t, tx, "sink/0", string(new(sink(1000, 1)).Encode()))
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	say(t, cl, "sink/1", sink(1000, 1))
	w, err := report.Watch(t.Context(), topic, slog.New(slog.DiscardHandler), seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := w.Now(); len(got) != 1 || got["sink/1"].Sink == nil {
		t.Errorf("%+v", got)
	}
}

// TestWithoutTheTopic: nothing is known, it is said once, and when the topic is
// there it is read.
func TestWithoutTheTopic(t *testing.T) {
	seeds, cl := newBroker(t)
	log := &lines{}
	began := time.Now()
	w, err := report.Watch(t.Context(), topic, slog.New(slog.NewTextHandler(log, nil)), seeds, kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second || len(w.Now()) != 0 || !log.has("not known yet") {
		t.Errorf("%v, %v", took, w.Now())
	}
	run(t, w)
	create(t, cl)
	say(t, cl, "sink/3", sink(1000, 7))
	eventually(t, "it is read", func() bool { return w.Now()["sink/3"].Sink != nil })
}

func TestWriteRefusesWhatNobodyCouldRead(t *testing.T) {
	_, cl := newBroker(t)
	create(t, cl)
	for name, err := range map[string]error{
		"no key":  report.Write(t.Context(), cl, topic, "", sink(1000, 1)),
		"no time": report.Write(t.Context(), cl, topic, "sink/3", sink(0, 1)),
	} {
		if err == nil {
			t.Error(name + " was written")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := report.Write(ctx, cl, topic, "sink/3", sink(1000, 1)); err == nil || !strings.Contains(err.Error(), "write sink/3 to weir.reports") {
		t.Errorf("%v", err)
	}
}
