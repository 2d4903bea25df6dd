package dlq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const partitions = 4

type world struct {
	t   *testing.T
	cl  *kgo.Client
	box *dlq.Box
	n   topics.Names

	brokers []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{t: t, brokers: c.ListenAddrs()}
	if w.cl, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(topics.MaxDLQMessageBytes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	adm := kadm.NewClient(w.cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: partitions, Replication: 1}, nil))
	if err == nil {
		err = topics.Apply(t.Context(), w.cl, diff, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.box, err = dlq.Open(dlq.Config{Brokers: c.ListenAddrs(), Names: w.n}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.box.Close)
	return w
}

func (w *world) bury(i int, value string, change func(*schemas.Envelope)) string {
	w.t.Helper()
	to := fmt.Sprintf("+861380000%04d", i)
	id, err := schemas.NewID()
	if err != nil {
		w.t.Fatal(err)
	}
	if value == "" {
		value = fmt.Sprintf(`{"channel":"sms","to":%q,"body":"x"}`, to)
	}
	env := schemas.Envelope{ID: id, Key: to, Reason: "attempts_exhausted", Attempt: 1}
	if change != nil {
		change(&env)
	}
	r := &kgo.Record{Topic: w.n.DLQ(), Partition: int32(i % partitions), Key: []byte(to), Value: []byte(value)}
	env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	if err := w.cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) asked() (n int64) {
	w.t.Helper()
	ends, err := kadm.NewClient(w.cl).ListEndOffsets(w.t.Context(), w.n.Readmit())
	if err != nil {
		w.t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// TestWhatCannotBeSentAgain is counted, by why.
func TestWhatCannotBeSentAgain(t *testing.T) {
	w := newWorld(t)
	w.bury(0, "", nil)
	w.bury(1, `hello`, nil)
	w.bury(2, `{"action":"suppress","to":"+8613800000000"}`, nil)
	w.bury(3, "", func(e *schemas.Envelope) { e.Key = "" })
	w.bury(4, "", func(e *schemas.Envelope) { e.Reason = dlq.SkipForeign })
	w.bury(5, `{"channel":"sms","to":"+8613800000000","body":"`+string(make([]byte, 300<<10))+`"}`, nil)
	w.bury(6, `{"tenant":"globex","channel":"sms","to":"+8613800000000","body":"x"}`, func(e *schemas.Envelope) { e.Tenant = "acme" })
	w.bury(7, "", func(e *schemas.Envelope) { e.ValueBytes, e.ValueSHA256 = 3<<20, "ab" })
	if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.n.DLQ(), Headers: []kgo.RecordHeader{{Key: schemas.HeaderAttempt, Value: []byte("many")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	sum, err := w.box.Redrive(t.Context(), dlq.Filter{}, dlq.RedriveOptions{})
	if err != nil || sum.Matched != 9 || sum.Redriven != 1 || w.asked() != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for _, why := range []string{"not_json", dlq.SkipAction, dlq.SkipRecipient, dlq.SkipForeign, "too_large", dlq.SkipTenant, dlq.SkipHeaders, dlq.SkipTruncated} {
		if sum.Skipped[why] != 1 {
			t.Errorf("%s: %d, want 1", why, sum.Skipped[why])
		}
	}
}

// TestResume: a redrive that broke off goes on where it was, with its filter, up
// to its own ends.
func TestResume(t *testing.T) {
	w := newWorld(t)
	if _, err := w.box.Resume(t.Context(), dlq.RedriveOptions{}); !errors.Is(err, dlq.ErrNothing) {
		t.Fatalf("before any: %v", err)
	}
	const n = 200
	for i := range n {
		w.bury(i, "", func(e *schemas.Envelope) { e.Reason = []string{"attempts_exhausted", "no_route"}[i/4%2] })
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := dlq.RedriveOptions{Rate: 100, Keep: true, Progress: func(s dlq.Summary) {
		if s.Redriven >= 30 {
			cancel()
		}
	}}
	first, err := w.box.Redrive(ctx, dlq.Filter{Reason: "attempts_exhausted"}, o)
	if !errors.Is(err, context.Canceled) || first.Redriven < 30 || first.Redriven >= n/2 || w.asked() != first.Redriven || first.Cursor == "" {
		t.Fatalf("interrupted: %+v, %v, %d records", first, err, w.asked())
	}
	w.bury(1, "", nil) // after its ends
	second, err := w.box.Resume(t.Context(), dlq.RedriveOptions{Rate: 5000})
	if err != nil || first.Redriven+second.Redriven != n/2 || w.asked() != n/2 || second.Cursor != "" {
		t.Fatalf("%+v, then %+v, %v, %d records", first, second, err, w.asked())
	}
	if _, err := w.box.Resume(t.Context(), dlq.RedriveOptions{}); !errors.Is(err, dlq.ErrNothing) {
		t.Fatalf("after its end: %v", err)
	}
}

// TestStartOfADryRun: a redrive that begins there sends what the dry run counted,
// also where that took several calls, and nothing that was given up on since.
func TestStartOfADryRun(t *testing.T) {
	w := newWorld(t)
	const n = 40
	for i := range n {
		w.bury(i, "", func(e *schemas.Envelope) { e.Reason = []string{"attempts_exhausted", "no_route"}[i/4%2] })
	}
	f := dlq.Filter{Reason: "attempts_exhausted"}
	dry, err := w.box.Redrive(t.Context(), f, dlq.RedriveOptions{DryRun: true, Most: 7})
	if err != nil || dry.Redriven != 7 || dry.Start == "" || dry.Cursor == "" {
		t.Fatalf("%+v, %v", dry, err)
	}
	for i := range 8 {
		w.bury(i, "", nil)
	}
	rest, err := w.box.Redrive(t.Context(), f, dlq.RedriveOptions{DryRun: true, Cursor: dry.Cursor})
	if err != nil || dry.Redriven+rest.Redriven != n/2 || rest.Start != "" || w.asked() != 0 {
		t.Fatalf("the dry run went on: %+v, %v, %d records", rest, err, w.asked())
	}
	sent, err := w.box.Redrive(t.Context(), f, dlq.RedriveOptions{Rate: 5000, Cursor: dry.Start})
	if err != nil || sent.Redriven != n/2 || sent.Cursor != "" || sent.Start != "" || w.asked() != n/2 {
		t.Fatalf("%+v, %v, %d records", sent, err, w.asked())
	}
	if _, err := w.box.Redrive(t.Context(), dlq.Filter{}, dlq.RedriveOptions{Cursor: dry.Start}); !errors.Is(err, dlq.ErrCursor) {
		t.Fatalf("the start of another filter: %v", err)
	}
	if all, err := w.box.Redrive(t.Context(), f, dlq.RedriveOptions{DryRun: true}); err != nil || all.Redriven != 8 || all.Skipped[dlq.SkipRedriven] != n/2 {
		t.Fatalf("as of now: %+v, %v", all, err)
	}
}

func TestRateIsACap(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		w.bury(i, "", nil)
	}
	began := time.Now()
	sum, err := w.box.Redrive(t.Context(), dlq.Filter{}, dlq.RedriveOptions{Rate: 50})
	// 60 at 50 a second: the last no sooner than 59/50 s after the first, but for
	// what is made up.
	if took := time.Since(began); err != nil || sum.Redriven != 60 || took < 59*20*time.Millisecond-100*time.Millisecond {
		t.Fatalf("%+v, %v, in %v", sum, err, took)
	}
	part, err := w.box.Redrive(t.Context(), dlq.Filter{Again: true}, dlq.RedriveOptions{Rate: 10, Within: 1500 * time.Millisecond})
	if err != nil || part.Redriven == 0 || part.Redriven > 20 || part.Cursor == "" {
		t.Fatalf("a call of 1.5 s: %+v, %v", part, err)
	}
	rest, err := w.box.Redrive(t.Context(), dlq.Filter{Again: true}, dlq.RedriveOptions{Rate: 5000, Cursor: part.Cursor})
	if err != nil || part.Redriven+rest.Redriven != 60 || rest.Cursor != "" {
		t.Fatalf("%+v, then %+v, %v", part, rest, err)
	}
	if _, err := w.box.Redrive(t.Context(), dlq.Filter{Class: "x"}, dlq.RedriveOptions{Cursor: part.Cursor}); !errors.Is(err, dlq.ErrCursor) {
		t.Fatalf("a cursor of another filter: %v", err)
	}
	for _, forged := range []string{"x", `{"o":true,"q":{},"s":[{"p":99,"f":0,"t":1}]}`, `{"o":true,"q":{},"s":[{"p":0,"f":0,"t":1000}]}`, `{"o":true,"q":{},"s":[{"p":0,"f":-5,"t":1}]}`} {
		if _, err := w.box.Redrive(t.Context(), dlq.Filter{}, dlq.RedriveOptions{Cursor: base64.RawURLEncoding.EncodeToString([]byte(forged))}); !errors.Is(err, dlq.ErrCursor) {
			t.Errorf("cursor %s: %v", forged, err)
		}
	}
	// What has left by age meanwhile is not asked for.
	if _, err := kadm.NewClient(w.cl).DeleteRecords(t.Context(), kadm.Offsets{w.n.DLQ(): {0: {Topic: w.n.DLQ(), At: 5}}}); err != nil {
		t.Fatal(err)
	}
	whole := `{"o":true,"q":{"again":true},"s":[{"p":0,"f":0,"t":15}]}`
	if aged, err := w.box.Redrive(t.Context(), dlq.Filter{Again: true}, dlq.RedriveOptions{Rate: 5000, Cursor: base64.RawURLEncoding.EncodeToString([]byte(whole))}); err != nil || aged.Redriven != 10 {
		t.Errorf("after 5 of 15 left: %+v, %v", aged, err)
	}
}

// TestRedriveWarns: what may have been received is counted, before and as it is sent again.
func TestRedriveWarns(t *testing.T) {
	w := newWorld(t)
	for i, taint := range []schemas.Taint{schemas.TaintNone, schemas.TaintReceived, schemas.TaintUnknown} {
		w.bury(i, "", func(e *schemas.Envelope) { e.Reason, e.Taint = "attempts_exhausted", taint })
	}
	for _, dry := range []bool{true, false} {
		sum, err := w.box.Redrive(t.Context(), dlq.Filter{}, dlq.RedriveOptions{DryRun: dry, Rate: 5000})
		if err != nil || sum.Redriven != 3 || sum.MayBeReceived != 2 {
			t.Fatalf("dry %v: %+v, %v", dry, sum, err)
		}
	}
}

// TestRedriveLeavesOut: what ended for good is left out unless it is named, and what
// was sent again is marked: a list shows it and a second redrive leaves it out.
func TestRedriveLeavesOut(t *testing.T) {
	w := newWorld(t)
	for i, reason := range []string{"attempts_exhausted", "permanent", "key_reused", "unknown_template"} {
		w.bury(i, "", func(e *schemas.Envelope) { e.Reason = reason })
	}
	redrive := func(f dlq.Filter, dry bool) dlq.Summary {
		t.Helper()
		sum, err := w.box.Redrive(t.Context(), f, dlq.RedriveOptions{DryRun: dry, Rate: 5000})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for _, dry := range []bool{true, false} {
		sum := redrive(dlq.Filter{}, dry)
		if sum.Matched != 4 || sum.Redriven != 2 || sum.Skipped["permanent"] != 1 || sum.Skipped["key_reused"] != 1 || sum.ByReason["attempts_exhausted"] != 1 || sum.ByReason["unknown_template"] != 1 {
			t.Fatalf("dry %v: %+v", dry, sum)
		}
	}
	if n := w.asked(); n != 2 {
		t.Fatalf("%d records", n)
	}
	if sum := redrive(dlq.Filter{}, false); sum.Redriven != 0 || sum.Skipped[dlq.SkipRedriven] != 2 || w.asked() != 2 {
		t.Fatalf("a second time: %+v", sum)
	}
	// Another process sees the marks too.
	other, err := dlq.Open(dlq.Config{Brokers: w.brokers, Names: w.n})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	page, err := other.List(t.Context(), dlq.Filter{}, dlq.ListOptions{})
	if err != nil || len(page.Entries) != 4 {
		t.Fatalf("%+v, %v", page, err)
	}
	at := ""
	for _, e := range page.Entries {
		if want := e.Reason == "attempts_exhausted" || e.Reason == "unknown_template"; (e.RedrivenAt != 0) != want {
			t.Errorf("listed as %+v", e)
		}
		if e.Reason == "key_reused" {
			at = e.Position
		}
	}
	if sum := redrive(dlq.Filter{Reason: "permanent"}, false); sum.Redriven != 1 || w.asked() != 3 {
		t.Errorf("the reason is named: %+v", sum)
	}
	if sum := redrive(dlq.Filter{IDs: []string{at}}, false); sum.Redriven != 1 || w.asked() != 4 {
		t.Errorf("the record is named: %+v", sum)
	}
	if sum := redrive(dlq.Filter{IDs: []string{at}, Again: true}, false); sum.Redriven != 1 || w.asked() != 5 {
		t.Errorf("again: %+v", sum)
	}
}

// TestListsOverManyChunks: order and completeness where one partition has most.
func TestListsOverManyChunks(t *testing.T) {
	w := newWorld(t)
	var recs []*kgo.Record
	const n = 12000
	for i := range n {
		p := int32(0)
		if i >= n-100 { // later than all of the other partition
			p = 1
		}
		env := schemas.Envelope{ID: schemas.DerivedID(schemas.Source{Topic: "t", Offset: int64(i)}, 1), Key: "k", Reason: []string{"rare", "often"}[min(i%2980, 1)]}
		r := &kgo.Record{Topic: w.n.DLQ(), Partition: p, Value: []byte(`{"channel":"push","to":"k","body":"x"}`)}
		env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		recs = append(recs, r)
	}
	for _, batch := range [][]*kgo.Record{recs[:n-100], recs[n-100:]} {
		if err := w.cl.ProduceSync(t.Context(), batch...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		filter dlq.Filter
		scan   int
		want   int
	}{{"all", dlq.Filter{}, 0, n}, {"rare", dlq.Filter{Reason: "rare"}, 0, 5}, {"rare, in small steps", dlq.Filter{Reason: "rare"}, 1, 5}} {
		for _, oldest := range []bool{false, true} {
			seen := make(map[string]bool)
			pages, last := 0, schemas.Millis(0)
			for o := (dlq.ListOptions{Oldest: oldest, Limit: 1000, Scan: c.scan}); ; pages++ {
				page, err := w.box.List(t.Context(), c.filter, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					if seen[e.MessageID] {
						t.Fatalf("%s: %s twice", c.name, e.Position)
					}
					if last != 0 && e.At != last && oldest != (e.At > last) {
						t.Fatalf("%s, oldest %v: %s out of its order", c.name, oldest, e.Position)
					}
					last = e.At
					seen[e.MessageID] = true
				}
				if o.Cursor = page.Cursor; o.Cursor == "" {
					break
				}
				if pages > 100 {
					t.Fatalf("%s: no end", c.name)
				}
			}
			if len(seen) != c.want || c.scan > 0 && pages == 0 {
				t.Errorf("%s, oldest %v: %d entries in %d pages, want %d", c.name, oldest, len(seen), pages+1, c.want)
			}
		}
	}
	r, err := w.box.Show(t.Context(), "0/17")
	if err != nil || r.Position != "0/17" {
		t.Fatalf("%+v, %v", r, err)
	}
	if byID, err := w.box.Show(t.Context(), r.MessageID); err != nil || byID.Position != "0/17" {
		t.Fatalf("by its id: %+v, %v", byID, err)
	}
	for _, what := range []string{"0/99999", "77/1", "nobody"} {
		if _, err := w.box.Show(t.Context(), what); !errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
