package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// What weir tail says of each kind of event, after the time.
func TestTailLines(t *testing.T) {
	const to, id = "+8613800000000", "m-1"
	status := func(s schemas.Status, more func(*schemas.Event)) *schemas.Event {
		e := &schemas.Event{Kind: schemas.KindStatus, MessageID: id, To: to, Class: "verify", Status: s}
		if more != nil {
			more(e)
		}
		return e
	}
	decision := func(class string, d *schemas.Decision) *schemas.Event {
		return &schemas.Event{Kind: schemas.KindDecision, MessageID: id, To: to, Class: class, Decision: d}
	}
	acme := []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: 1, Cost: 1}, {Limit: "all", T: 1, Cost: 1}}
	full := []schemas.Evidence{{Limit: "acme", Scope: "tenant=acme", Window: "3/24h", N: 3, Count: 3, Cost: 1}}
	for _, tt := range []struct {
		name  string
		event *schemas.Event
		want  string
	}{
		{"admitted", status(schemas.StatusQueued, func(e *schemas.Event) {
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Carried: acme}
		}), "queued      +8613800000000   m-1 class=verify"},
		{"limited", status(schemas.StatusLimited, func(e *schemas.Event) {
			e.Limit, e.Window, e.Reason = "acme", "3/24h", "limited"
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full}
		}), "limited     +8613800000000   m-1 class=verify limit=acme window=3/24h reason=limited"},
		{"home sends it on", decision("verify", &schemas.Decision{Verdict: schemas.VerdictCharge, Onward: new(int32(5))}),
			"(charge)    +8613800000000   m-1 class=verify onward=5"},
		{"an owner takes places", decision("", &schemas.Decision{Verdict: schemas.VerdictCharge, Charges: acme, Onward: new(int32(0))}),
			"(charge)    +8613800000000   m-1 took=acme,all onward=0"},
		{"an owner that observes", decision("", &schemas.Decision{Verdict: schemas.VerdictCharge, Evidence: full, Onward: new(int32(0))}),
			"(charge)    +8613800000000   m-1 onward=0"},
		{"an owner refuses", decision("", &schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full, Onward: new(int32(0))}),
			"(refuse)    +8613800000000   m-1 limit=acme window=3/24h onward=0"},
		{"a marker", &schemas.Event{Kind: schemas.KindDecision, Decision: &schemas.Decision{Verdict: schemas.VerdictMarker}}, "(marker)"},
		{"a decision without one, which is nobody's", &schemas.Event{Kind: schemas.KindDecision, MessageID: id}, "m-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got, _ := strings.Cut(line(tt.event), "  ")
			if got := strings.TrimSpace(got); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A limit of a day opens tomorrow: the time of day alone would say now.
func TestLocalTime(t *testing.T) {
	now := schemas.MillisOf(time.Date(2026, 11, 21, 18, 15, 24, 0, time.Local))
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{
		{time.Minute, "18:16:24"}, {6 * time.Hour, "00:15:24"}, {24*time.Hour - time.Second, "2026-11-22T18:15:23"}, {31 * 24 * time.Hour, "2026-12-22T18:15:24"},
	} {
		if got := localTime(now.Add(tt.after), now); got != tt.want {
			t.Errorf("in %v: %q, want %q", tt.after, got, tt.want)
		}
	}
	if got := localTime(0, now); got != "" {
		t.Errorf("never: %q", got)
	}
	m := &client.Message{ID: "m-1", Status: schemas.StatusLimited, Limit: "acme", Window: "3/24h", RetryAt: now.Add(24 * time.Hour)}
	if got, want := outcome(m, now.Time(), 0), "limited: acme 3/24h, try again at 2026-11-22T18:15:24 (86400 s)   m-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Events of the partitions come in the order of their times: the history sorted, and later ones held
// for a moment.
func TestTailOrder(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	topic := topics.Names{}.Status()
	if made, err := kadm.NewClient(cl).CreateTopics(t.Context(), 2, 1, nil, topic); err != nil || made.Error() != nil {
		t.Fatal(err, made.Error())
	}
	now := time.Now()
	put := func(partition int32, id, to string, at time.Time) {
		t.Helper()
		e := &schemas.Event{Kind: schemas.KindStatus, MessageID: id, To: to, Status: schemas.StatusFailed, At: schemas.MillisOf(at)}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: schemas.AppendEvent(nil, e), Timestamp: at}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const to = "+8613800000000"
	for i := range 4 { // all of partition 0 is read before any of partition 1, or the other way round
		put(0, fmt.Sprintf("h%d", 2*i), to, now.Add(time.Duration(2*i-60)*time.Second))
	}
	for i := range 4 {
		put(1, fmt.Sprintf("h%d", 2*i+1), to, now.Add(time.Duration(2*i+1-60)*time.Second))
	}
	put(1, "another's", "+8613900000000", now)
	out := &lines{got: make(chan string, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	var errs strings.Builder
	go func() {
		ended <- run(ctx, []string{"tail", "--since", "1h", "--to", "+86 138-0000 0000", "--status", "failed, sent", "--dir", t.TempDir(), "--kafka-brokers", c.ListenAddrs()[0]}, func(string) string { return "" }, out, &errs)
	}()
	for i := range 8 {
		if line := <-out.got; !strings.Contains(line, fmt.Sprintf(" h%d", i)) {
			t.Errorf("%d: %s", i, line)
		}
	}
	put(0, "second", to, now.Add(2*time.Millisecond))
	put(1, "first", to, now.Add(time.Millisecond))
	if line := <-out.got; !strings.Contains(line, "first") {
		t.Errorf("the second came first: %s", line)
	}
	cancel()
	if code := <-ended; code != exitOK || errs.String() != "--to \"+86 138-0000 0000\" is read as +8613800000000\n" {
		t.Errorf("exit %d: %s", code, &errs)
	}
}

// lines hands on what is written, line by line.
type lines struct{ got chan string }

func (l *lines) Write(b []byte) (int, error) {
	l.got <- string(b)
	return len(b), nil
}

// A partition whose history is not read holds back what is later than it, for a while.
func TestTailHoldsHistory(t *testing.T) {
	now := time.Now()
	o := &ordered{moved: now, behind: map[int32]*partRead{0: {end: 10}, 1: {end: 10}}}
	at := schemas.Millis(1_000_000)
	due := func(after time.Duration) string { return strings.Join(o.due(now.Add(after), false), " ") }
	o.held = []heldEvent{{at.Add(9 * time.Second), now, "c"}, {at, now, "a"}}
	o.read(0, 9, at)
	if got := due(time.Second); got != "" {
		t.Errorf("while partition 1 is not read: %q", got)
	}
	o.read(1, 5, at.Add(5*time.Second))
	o.held = append(o.held, heldEvent{at.Add(5 * time.Second), now, "b"})
	if got := due(time.Second); got != "a" {
		t.Errorf("with partition 1 read for 5 s: %q, want a", got)
	}
	if got := due(holdHistory + time.Second); got != "b c" {
		t.Errorf("with a partition from which nothing comes: %q, want b c", got)
	}
}

func TestTailRefusesWhatItCannotMean(t *testing.T) {
	for status, want := range map[string]string{"limted": `no status "limted"; did you mean limited? Known: accepted, scheduled`, "sent,": `no status "". Known`} {
		if code, _, stderr := weir(t, "tail", "--status", status); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("--status %s: exit %d, %s", status, code, stderr)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"+86 138 0000 0000", "+8613800000000"}, {"138 0000 0000", "+8613800000000"}, {"86138-0000-0000", "+8613800000000"}, {"Ann@EXAMPLE.com", "ann@example.com"},
	} {
		if keys, err := spellings(tt.text, []string{"CN"}); err != nil || !slices.Contains(keys, tt.want) {
			t.Errorf("%s: %v, %v", tt.text, keys, err)
		}
	}
	if _, err := spellings("12", []string{"CN"}); err == nil || !strings.Contains(err.Error(), "is no recipient") {
		t.Errorf("12: %v", err)
	}
}
