package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestAuditSaysWhatItCannotTell(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"audit", "--kafka-brokers", "127.0.0.1:1", "--dir", t.TempDir()}, exitUntold},
		{[]string{"audit", "--since", "yesterday"}, exitUsage},
		{[]string{"audit", "--memory", "plenty"}, exitUsage},
		{[]string{"audit", "--memory", "1KiB"}, exitUsage},
	} {
		var out, errs bytes.Buffer
		if got := run(t.Context(), c.args, func(string) string { return "" }, &out, &errs); got != c.want || errs.Len() == 0 {
			t.Errorf("weir %v: exit %d, want %d: %s", c.args, got, c.want, errs.String())
		}
	}
}

// handmade is a broker with a log of two decisions: a revision came into force,
// and a request was rejected, whose bytes are in weir.dlq. change may forge the second.
func handmade(t *testing.T, at time.Time, change func(*schemas.Event)) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	names := topics.Names{}
	made, err := kadm.NewClient(cl).CreateTopics(t.Context(), 1, 1, nil, names.Requests(), names.Readmit(), names.Status(), names.Config(), names.Reports(), names.DLQ())
	if err != nil || made.Error() != nil {
		t.Fatal(err, made.Error())
	}
	rev, err := json.Marshal(schemas.Revision{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := schemas.MillisOf(at)
	marker := &schemas.Event{Kind: schemas.KindDecision, At: now, Decision: &schemas.Decision{Verdict: schemas.VerdictMarker, Seq: 1, T: now, Revision: 1,
		Marker: &schemas.Marker{Revision: 1, Seq: 1, T: now}}}
	in := &schemas.Source{Topic: names.Requests()}
	rejected := &schemas.Event{Kind: schemas.KindStatus, MessageID: "00000000-0000-8000-8000-000000000001", Status: schemas.StatusRejected, Reason: "malformed",
		At: now + 1, AcceptedAt: now, Source: in, Decision: &schemas.Decision{Verdict: schemas.VerdictReject, Seq: 2, T: now + 1, Revision: 1, Input: in}}
	change(rejected)
	letter := &kgo.Record{Topic: names.DLQ(), Value: []byte("{")}
	(&schemas.Envelope{ID: rejected.MessageID, Reason: rejected.Reason, AcceptedAt: now}).Each(func(k string, v []byte) {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: k, Value: v})
	})
	for _, r := range []*kgo.Record{
		{Topic: names.Config(), Value: rev},
		{Topic: names.Requests(), Value: []byte("{")},
		{Topic: names.Status(), Value: schemas.AppendEvent(nil, marker)},
		{Topic: names.Status(), Value: schemas.AppendEvent(nil, rejected)},
		letter,
	} {
		r.Timestamp = at
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c.ListenAddrs()[0]
}

func TestAuditExitCodes(t *testing.T) {
	hourAgo := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name    string
		change  func(*schemas.Event)
		args    []string
		want    int
		outcome audit.Outcome
		says    []string
	}{
		{"proven", func(*schemas.Event) {}, nil, exitOK, audit.Proven, []string{"PROVEN: 2 decisions of 1 partitions", "requests answered once      1"}},
		{"violated", func(e *schemas.Event) { e.Decision.Seq = 7 }, nil, exitError, audit.Violated,
			[]string{"VIOLATED", "sequence: weir.status/0/1 seq 7 t ", "appended ", "partition 0 seq 7 after 1"}},
		{"could not tell", func(*schemas.Event) {}, []string{"--since", "1m"}, exitUntold, audit.CouldNotTell,
			[]string{"COULD NOT TELL", "the log has no decision to judge"}},
		{"since before it all", func(*schemas.Event) {}, []string{"--since", "2h"}, exitOK, audit.Proven, []string{"PROVEN: 2 decisions"}},
		{"violated before since", func(e *schemas.Event) { e.Decision.Seq = 7 }, []string{"--since", "1m"}, exitUntold, audit.CouldNotTell, []string{"COULD NOT TELL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := handmade(t, hourAgo, c.change)
			args := append([]string{"audit", "--kafka-brokers", broker, "--dir", t.TempDir()}, c.args...)
			var out, errs bytes.Buffer
			began := time.Now()
			if got := run(t.Context(), args, func(string) string { return "" }, &out, &errs); got != c.want {
				t.Fatalf("exit %d, want %d: %s%s", got, c.want, out.String(), errs.String())
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("it does not say %q:\n%s", s, out.String())
				}
			}
			if errs.Len() > 0 && time.Since(began) < time.Second {
				t.Errorf("it took no second, and stderr says: %s", errs.String())
			}
			out.Reset()
			if got := run(t.Context(), append(args, "--json"), func(string) string { return "" }, &out, &errs); got != c.want {
				t.Fatalf("--json: exit %d, want %d", got, c.want)
			}
			var r audit.Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Outcome != c.outcome || r.Partitions != 1 {
				t.Errorf("--json: %v: %s", err, out.String())
			}
		})
	}
}

// TestAuditIsTold: what an audit came to stands in weir.reports, unless it is
// not to; and where it cannot be written the exit code is the same.
func TestAuditIsTold(t *testing.T) {
	broker := handmade(t, time.Now().Add(-time.Hour), func(e *schemas.Event) { e.Decision.Seq = 7 })
	names := topics.Names{}
	audited := func(args ...string) (code int, said string) {
		t.Helper()
		var out, errs bytes.Buffer
		code = run(t.Context(), append([]string{"audit", "--kafka-brokers", broker, "--dir", t.TempDir()}, args...), func(string) string { return "" }, &out, &errs)
		return code, errs.String()
	}
	told := func() map[string]schemas.Report {
		t.Helper()
		w, err := report.Watch(t.Context(), names.Reports(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(broker))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		return w.Now()
	}
	if code, said := audited("--no-report"); code != exitError || said != "" || len(told()) != 0 {
		t.Errorf("--no-report: exit %d, %q: %+v", code, said, told())
	}
	if code, said := audited(); code != exitError || said != "" {
		t.Fatalf("exit %d, %q", code, said)
	}
	r := told()[schemas.ReportKeyAudit]
	if r.By == "" || time.Since(r.At.Time()) > time.Hour || r.Audit == nil || r.Audit.Outcome != schemas.AuditViolated || r.Audit.Violations == 0 || r.Audit.Decisions != 2 || !strings.HasPrefix(r.Audit.First, "sequence: weir.status/0/1 seq 7") {
		t.Errorf("%+v %+v", r, r.Audit)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(t.Context(), names.Reports()); err != nil {
		t.Fatal(err)
	}
	if code, said := audited(); code != exitError || !strings.Contains(said, "warning: the console and alerts will not know of this audit") {
		t.Errorf("without the topic: exit %d, %q", code, said)
	}
}

// An audit that a signal ends says how much is done, and nothing of its inside.
func TestAuditIsInterrupted(t *testing.T) {
	broker := handmade(t, time.Now().Add(-time.Hour), func(*schemas.Event) {})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopSignal{os.Interrupt})
	for _, more := range [][]string{nil, {"--follow"}} {
		var out, errs bytes.Buffer
		code := run(ctx, append([]string{"audit", "--no-report", "--kafka-brokers", broker, "--dir", t.TempDir()}, more...), func(string) string { return "" }, &out, &errs)
		if want := "weir audit: interrupted. Nothing was changed. Run it again; --since judges less.\n"; code != exitUntold || errs.String() != want || out.Len() > 0 {
			t.Errorf("%v: exit %d, %q%q", more, code, errs.String(), out.String())
		}
	}
}

// A second audit that follows warns of the first, and not of one that is over.
func TestTwoFollowers(t *testing.T) {
	broker := handmade(t, time.Now().Add(-time.Hour), func(*schemas.Event) {})
	follow := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out, errs bytes.Buffer
		stdout := writerFunc(func(b []byte) (int, error) { cancel(); return out.Write(b) }) // it ends with its first line
		args = append([]string{"audit", "--follow", "--kafka-brokers", broker, "--dir", t.TempDir()}, args...)
		if code := run(ctx, args, func(string) string { return "" }, stdout, &errs); code != exitOK {
			t.Fatalf("exit %d: %s%s", code, out.String(), errs.String())
		}
		return errs.String()
	}
	const warning = "warning: another audit follows (somebody@else"
	if said := follow(); strings.Contains(said, "warning") {
		t.Errorf("the first: %s", said)
	}
	if said := follow(); strings.Contains(said, "warning") {
		t.Errorf("after one that is over: %s", said)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := report.Write(t.Context(), cl, topics.Names{}.Reports(), schemas.ReportKeyFollowed, schemas.Report{At: 1, By: "somebody@else", Audit: &schemas.AuditReport{Following: true}}); err != nil {
		t.Fatal(err)
	}
	if said := follow("--no-report"); strings.Contains(said, "warning") {
		t.Errorf("one without a report: %s", said)
	}
	if said := follow(); !strings.Contains(said, warning) {
		t.Errorf("the second does not say %q: %s", warning, said)
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// What makes no sense is wrong usage, before anything is read.
func TestAuditUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"now", `takes no argument "now"`},
		{"--since 2999-01-01T00:00:00Z", "--since 2999-01-01T00:00:00Z is in the future"},
		{"--since soon", `"soon" is neither a duration`},
		{"--slack -1s", "--slack -1s: 0 is the least"},
		{"--memory 1MiB", "512MiB is the least"},
		{"--every 5s", "--every needs --follow"},
		{"--follow --every 10ms", "one second is the least"},
		{"--follow --every -5s", "one second is the least"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"audit", "--kafka-brokers", "127.0.0.1:1", "--dir", t.TempDir()}, strings.Fields(c.args)...)
		if got := run(t.Context(), args, func(string) string { return "" }, &out, &errs); got != exitUsage || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit %d: %s", c.args, got, errs.String())
		}
	}
}

func TestAuditHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if got := run(t.Context(), []string{"audit", "--help"}, func(string) string { return "" }, &out, &errs); got != exitOK {
		t.Fatalf("exit %d: %s", got, errs.String())
	}
	for _, s := range []string{"Exit codes:\n  0 proven\n  1 violated", "3 could not tell", "--memory", "-since", "-json", "Example:\n  weir audit --since 24h --json"} {
		if !strings.Contains(out.String(), s) {
			t.Errorf("help does not say %q:\n%s", s, out.String())
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	for text, want := range map[string]time.Time{
		"7d": now.Add(-7 * 24 * time.Hour), "90m": now.Add(-90 * time.Minute), "2026-11-22T01:00:00Z": time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC),
	} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"1GiB": 1 << 30, "512MiB": 512 << 20, "4GiB": 4 << 30, "524288KiB": 512 << 20} {
		if got, err := size(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "512", "MiB", "-1GiB", "511MiB", "1.5GiB", "1GB"} {
		if got, err := size(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}
