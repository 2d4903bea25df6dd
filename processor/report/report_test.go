package report_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

const topic = "weir.reports"

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
	seeds := streamtest.Broker(t)
	cl := streamtest.Client(t, seeds)
	streamtest.Create(t, cl, topic)
	say(t, cl, schemas.ReportKeySink("3"), sink(1000, 7))
	say(t, cl, schemas.ReportKeySink("3"), sink(2000, 9))
	log := new(streamtest.Log)
	w, err := report.Watch(t.Context(), topic, log.Logger(), seeds)
	if err != nil {
		t.Fatal(err)
	}
	// Before Run: what was there at the start, the latest of it.
	first := w.Now()
	if r := first["sink/3"]; len(first) != 1 || r.At != 2000 || time.Since(r.Written.Time()) > time.Hour || r.By != "3" || r.Sink.Rows != 9 || r.Sink.Difference != 2 {
		t.Errorf("%+v", first)
	}
	streamtest.Run(t, w)

	// What does not count harms nothing that does.
	raw(t, cl, "sink/3", `{"at":`)
	raw(t, cl, "", `{"at":"2026-11-22T00:00:00Z"}`)
	said := time.Now()
	say(t, cl, schemas.ReportKeyAudit, schemas.Report{At: 3000, By: "root@box", Audit: &schemas.AuditReport{Outcome: schemas.AuditProven, Decisions: 12}})
	streamtest.Eventually(t, "the audit is known", func() bool { return w.Now()[schemas.ReportKeyAudit].Audit != nil })
	t.Logf("known %v after it was written", time.Since(said))
	if r := w.Now()["sink/3"]; r.Sink == nil || r.Sink.Rows != 9 || len(w.Now()) != 2 || !log.Has("torn") || !log.Has("no key") {
		t.Errorf("%+v", w.Now())
	}
	if len(first) != 1 {
		t.Error("a snapshot changed under its reader")
	}
	// A tombstone takes a word back.
	raw(t, cl, "sink/3", "")
	streamtest.Eventually(t, "the sink is forgotten", func() bool { _, ok := w.Now()["sink/3"]; return !ok })
}

// The metrics take the violations from the audit that found them, and how far an audit is
// from the one that goes on.
func TestAuditMetrics(t *testing.T) {
	seeds := streamtest.Broker(t)
	cl := streamtest.Client(t, seeds)
	streamtest.Create(t, cl, topic)
	w, err := report.Watch(t.Context(), topic, slog.New(slog.DiscardHandler), seeds)
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Run(t, w)
	const (
		cut  = `weir_audit_judged_timestamp_seconds{following="%t"} %d` + "\n"
		rest = "weir_audit_proven %d\nweir_audit_violations %d\n"
	)
	metrics := func() string {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(w)
		var out strings.Builder
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
				t.Fatal(err)
			}
		}
		return regexp.MustCompile("(?m)^#.*\n").ReplaceAllString(out.String(), "")
	}
	if got := metrics(); got != "" {
		t.Errorf("no audit was run: %s", got)
	}
	for i, c := range []struct {
		key  string
		r    schemas.AuditReport
		want string
	}{
		{schemas.ReportKeyAudit, schemas.AuditReport{Outcome: schemas.AuditProven, Until: 5000}, fmt.Sprintf(cut+rest, false, 5, 1, 0)},
		{schemas.ReportKeyFollowed, schemas.AuditReport{Outcome: schemas.AuditProven, Cut: 7000, Following: true}, fmt.Sprintf(cut+rest, true, 7, 1, 0)},
		{schemas.ReportKeyAudit, schemas.AuditReport{Outcome: schemas.AuditUnsure, Cut: 8000}, fmt.Sprintf(cut+cut+rest, false, 8, true, 7, 0, 0)}, // the one that follows may have been killed
		{schemas.ReportKeyAudit, schemas.AuditReport{Outcome: schemas.AuditViolated, Violations: 2, Cut: 9000}, fmt.Sprintf(cut+cut+rest, false, 9, true, 7, 0, 2)},
		{schemas.ReportKeyFollowed, schemas.AuditReport{Outcome: schemas.AuditUnsure, Cut: 8000}, fmt.Sprintf(cut+rest, false, 9, 0, 2)},
	} {
		at := schemas.Millis(1000 * (i + 1))
		say(t, cl, c.key, schemas.Report{At: at, Audit: &c.r})
		streamtest.Eventually(t, "the audit is known", func() bool { return w.Now()[c.key].At == at })
		if got := metrics(); got != c.want {
			t.Errorf("report %d:\n%swant\n%s", i, got, c.want)
		}
	}
}

// TestUncommitted: what a transaction takes back was never said.
func TestUncommitted(t *testing.T) {
	seeds := streamtest.Broker(t)
	cl := streamtest.Client(t, seeds)
	streamtest.Create(t, cl, topic)
	tx := streamtest.Client(t, seeds, kgo.TransactionalID("a"))
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
	seeds := streamtest.Broker(t)
	cl := streamtest.Client(t, seeds)
	log := new(streamtest.Log)
	began := time.Now()
	w, err := report.Watch(t.Context(), topic, log.Logger(), seeds, kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute || len(w.Now()) != 0 || !log.Has("not known yet") {
		t.Errorf("%v, %v", took, w.Now())
	}
	streamtest.Run(t, w)
	streamtest.Create(t, cl, topic)
	say(t, cl, "sink/3", sink(1000, 7))
	streamtest.Eventually(t, "it is read", func() bool { return w.Now()["sink/3"].Sink != nil })
}

func TestWriteRefusesWhatNobodyCouldRead(t *testing.T) {
	cl := streamtest.Client(t, streamtest.Broker(t))
	streamtest.Create(t, cl, topic)
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

// TestWhatStaysIsSaidNowAndThen: a topic that may not be read is asked for all the same.
func TestWhatStaysIsSaidNowAndThen(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, broker []kgo.Opt) {
		streamtest.Create(t, streamtest.Client(t, broker...), topic)
		log := new(streamtest.Log)
		w, err := report.Watch(t.Context(), topic, log.Logger(), broker...)
		if err != nil {
			t.Fatal(err)
		}
		streamtest.Run(t, w)
		streamtest.Spares(t, c, log, "reading the reports")
	})
}
