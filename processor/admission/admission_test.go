package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/presets"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	partitions      = 4
	replyPartitions = 3
)

var discard = slog.New(slog.DiscardHandler)

// world is a fake broker with Weir's topics and the policy of weir dev.
type world struct {
	t      *testing.T
	broker *kfake.Cluster
	seeds  []string
	names  topics.Names
	cl     *kgo.Client // produces, and reads status
	pol    *policy.Watcher
	now    func() time.Time // nil is the machine's clock
	log    *slog.Logger     // nil: none
}

func newWorld(t *testing.T) *world { return newWorldOf(t, 1) }

func newWorldOf(t *testing.T, brokers int) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{t: t, broker: c, seeds: c.ListenAddrs()}
	doc, err := schemas.ParsePolicy("dev.yaml", append(bytes.Replace(presets.Dev, []byte(", unknown: reject"), nil, 1), "    default_region: CN\n"...))
	if err != nil {
		t.Fatal(err)
	}
	w.cl, err = kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(w.names.Status()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	adm := kadm.NewClient(w.cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: partitions, Replication: 1, Replies: replyPartitions}, &doc.Policy))
	if err == nil {
		err = topics.Apply(t.Context(), w.cl, diff, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.pol, err = policy.Watch(t.Context(), w.names.Config(), discard, kgo.SeedBrokers(w.seeds...))
	if err != nil {
		t.Fatal(err)
	}
	go w.pol.Run(t.Context())
	if _, err := w.pol.Publish(t.Context(), w.cl, 0, "test", doc.Policy); err != nil {
		t.Fatal(err)
	}
	return w
}

// admit runs an admission worker; stop waits for its orderly end.
func (w *world) admit(slot string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- admission.Run(ctx, admission.Config{
			Stream:     stream.Config{Brokers: w.seeds, TransactionalID: "admission-" + slot, SessionTimeout: 6 * time.Second, BatchBytes: w.names.BatchBytes},
			Read:       stream.ReadConfig{Brokers: w.seeds},
			Names:      w.names,
			Partitions: partitions, DelayPartitions: partitions, DLQPartitions: partitions, ReplyPartitions: replyPartitions,
			Now: w.now, Logger: w.log,
		}, w.pol)
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("admission: %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

// request writes one request to a partition of the caller's choice.
func (w *world) request(partition int32, format string, args ...any) {
	w.t.Helper()
	if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: w.names.Requests(), Partition: partition, Value: fmt.Appendf(nil, format, args...)}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// statuses reads until n statuses of messages were seen, and returns them with
// all decisions.
func (w *world) statuses(n int) (events []*schemas.Event) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	seen := 0
	for seen < n {
		fetches := w.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("saw %d of %d statuses: %s", seen, n, text(events))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			events = append(events, e)
			if e.Kind == schemas.KindStatus {
				seen++
			}
		})
	}
	return events
}

func text(events []*schemas.Event) (s string) {
	for _, e := range events {
		s += "\n" + string(schemas.AppendEvent(nil, e))
	}
	return s
}

func only(events []*schemas.Event, s schemas.Status) (out []*schemas.Event) {
	for _, e := range events {
		if e.Status == s {
			out = append(out, e)
		}
	}
	return out
}

func lastStatus(events []*schemas.Event) (last *schemas.Event) {
	for _, e := range events {
		if e.Kind == schemas.KindStatus {
			last = e
		}
	}
	return last
}

// TestOneRecipientManySpellings: however a number is written and wherever its
// request lands, it is one recipient with one place a minute.
func TestOneRecipientManySpellings(t *testing.T) {
	w := newWorld(t)
	stop := w.admit("0")
	spellings := []string{"+8613800000000", "138 0000 0000", "+86 138-0000-0000", "0138 0000 0000", "+86 0 138 0000 0000"}
	for i, to := range spellings {
		w.request(int32(i%partitions), `{"channel":"sms","to":%q,"class":"verify","body":"code 1"}`, to)
	}
	events := w.statuses(len(spellings))
	if q, l := only(events, schemas.StatusQueued), only(events, schemas.StatusLimited); len(q) != 1 || len(l) != len(spellings)-1 {
		t.Fatalf("%d queued, %d limited: %s", len(q), len(l), text(events))
	}
	for _, e := range only(events, schemas.StatusLimited) {
		if e.Limit != "verify" || e.Window != "1/60s" || e.RetryAt == 0 || len(e.Decision.Evidence) == 0 {
			t.Errorf("limited without saying why: %s", text([]*schemas.Event{e}))
		}
	}
	// A new owner knows what stands.
	stop()
	w.admit("1")
	w.request(0, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"code 2"}`)
	if more := w.statuses(1); lastStatus(more).Status != schemas.StatusLimited {
		t.Fatalf("after a restart: %s", text(more))
	} else {
		dense(t, append(events, more...))
	}
}

// dense checks the decision log: no number missing, none twice, time never back.
func dense(t *testing.T, events []*schemas.Event) {
	t.Helper()
	byPartition := make(map[int32]map[int64]*schemas.Decision)
	for _, e := range events {
		if d := e.Decision; d != nil {
			if byPartition[d.Partition] == nil {
				byPartition[d.Partition] = make(map[int64]*schemas.Decision)
			}
			if byPartition[d.Partition][d.Seq] != nil {
				t.Errorf("partition %d: two decisions have seq %d", d.Partition, d.Seq)
			}
			byPartition[d.Partition][d.Seq] = d
		}
	}
	for p, ds := range byPartition {
		last := schemas.Millis(0)
		for seq := range int64(len(ds)) {
			d := ds[seq+1]
			if d == nil {
				t.Errorf("partition %d: seq %d is missing of %d", p, seq+1, len(ds))
				continue
			}
			if d.T < last {
				t.Errorf("partition %d: time goes back at seq %d", p, d.Seq)
			}
			last = d.T
		}
	}
}

// TestBadInput sends what no producer should; each gets one end with a stable
// reason, and the message after it is decided as if nothing had been.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.admit("0")
	id := func(i int) string { return fmt.Sprintf("0b6f0e7e-0000-4000-8000-%012d", i) }
	cases := []struct {
		name, value, status, reason string
	}{
		{"not json", `hello`, "rejected", "not_json"},
		{"no object", `[1]`, "rejected", "not_object"},
		{"missing to", `{"channel":"sms","body":"x"}`, "rejected", "required"},
		{"missing channel", `{"to":"+8613800000001","body":"x"}`, "rejected", "required"},
		{"impossible number", `{"channel":"sms","to":"+86138","body":"x"}`, "rejected", "bad_recipient_phone"},
		{"send_at in 1970", `{"channel":"sms","to":"+8613800000001","body":"x","send_at":"1970-01-01T00:00:00Z"}`, "rejected", "send_at_out_of_range"},
		{"template without its variable", `{"channel":"sms","to":"+8613800000001","template":"login-code"}`, "rejected", "missing_variable"},
		{"template nobody declared", `{"channel":"sms","to":"+8613800000001","template":"nope"}`, "rejected", "unknown_template"},
		{"provider that does not exist", `{"channel":"sms","to":"+8613800000001","body":"x","provider":"nope"}`, "rejected", "unknown_provider"},
		{"broken schema registry prefix", "\x00\x01", "rejected", "bad_schema_registry_prefix"},
		{"too large", `{"channel":"sms","to":"+8613800000001","body":"` + string(make([]byte, 300<<10)) + `"}`, "rejected", "too_large"},
		{"as large as Kafka takes", string(make([]byte, 999_000)), "rejected", "too_large"},
		{"class nobody declared", `{"channel":"sms","to":"+8613800000002","class":"nobody","body":"x"}`, "queued", ""},
		{"expired", `{"channel":"sms","to":"+8613800000003","body":"x","expires_at":"2020-01-01T00:00:00Z"}`, "expired", "expired"},
		{"first of an id", `{"id":"` + id(1) + `","channel":"sms","to":"+8613800000004","body":"x"}`, "queued", ""},
		{"first of a key", `{"idempotency_key":"k","channel":"sms","to":"+8613800000005","body":"x"}`, "queued", ""},
		{"key again", `{"idempotency_key":"k","channel":"sms","to":"+86 138 0000 0005","body":"x"}`, "duplicate", "duplicate"},
		{"key with other content", `{"idempotency_key":"k","channel":"sms","to":"+8613800000005","body":"y"}`, "rejected", "key_reused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.names.Requests(), Partition: 1, Value: []byte(c.value)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			events := w.statuses(1)
			e := lastStatus(events)
			if string(e.Status) != c.status || e.Reason != c.reason {
				t.Errorf("got %s %q, want %s %q: %.400s", e.Status, e.Reason, c.status, c.reason, text(events))
			}
		})
	}
	// A repeat of an id is a decision and no second status.
	w.t = t
	w.request(2, `{"id":%q,"channel":"sms","to":"+8613800000004","body":"x"}`, id(1))
	w.request(2, `{"channel":"sms","to":"+8613800000006","body":"x"}`)
	repeats := 0
	for _, e := range w.statuses(1) {
		if e.Reason == "repeated" && e.Kind == schemas.KindDecision {
			repeats++
		}
	}
	// It may still be on its way to its owner while the other was decided.
	for repeats == 0 {
		fetches := w.cl.PollFetches(t.Context())
		fetches.EachRecord(func(r *kgo.Record) {
			if e, err := schemas.DecodeEvent(r.Value); err != nil || e.Kind == schemas.KindStatus {
				t.Fatalf("unexpected %s", r.Value)
			} else if e.Reason == "repeated" {
				repeats++
			}
		})
	}
}

// TestPolicyChangesLive: a revision comes into force in a running partition by
// a marker in the transaction of the next decision, keeps the history of the
// windows it leaves alone, and a new owner decides under it.
func TestPolicyChangesLive(t *testing.T) {
	w := newWorld(t)
	stop := w.admit("0")
	const request = `{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`
	p := schemas.PartitionOf("+8613800000000", partitions)
	var log []*schemas.Event
	send := func(want schemas.Status) *schemas.Event {
		t.Helper()
		w.request(p, request)
		log = append(log, w.statuses(1)...)
		e := lastStatus(log)
		if e.Status != want {
			t.Fatalf("got %s, want %s: %s", e.Status, want, text(log))
		}
		return e
	}
	send(schemas.StatusQueued)
	send(schemas.StatusLimited)

	rev := w.pol.Latest()
	next := rev.Policy
	next.Limits = append([]schemas.Limit(nil), next.Limits...)
	raised, err := schemas.ParseWindow("2/60s")
	if err != nil {
		t.Fatal(err)
	}
	next.Limits[0].Allow = append([]schemas.Window{raised}, next.Limits[0].Allow[1:]...)
	if _, err := w.pol.Publish(t.Context(), w.cl, rev.Revision, "test", next); err != nil {
		t.Fatal(err)
	}
	// One place stands: raising keeps it, so exactly one more passes.
	if e := send(schemas.StatusQueued); e.Decision.Revision != rev.Revision+1 {
		t.Errorf("decided under revision %d", e.Decision.Revision)
	}
	send(schemas.StatusLimited)
	stop()
	w.admit("1")
	if e := send(schemas.StatusLimited); e.Decision.Revision != rev.Revision+1 || e.Window != "2/60s" {
		t.Errorf("a new owner decides under revision %d by %s", e.Decision.Revision, e.Window)
	}
	markers := 0
	for _, e := range log {
		if e.Decision != nil && e.Decision.Verdict == schemas.VerdictMarker && e.Decision.Partition == p {
			markers++
		}
	}
	if markers != 2 {
		t.Errorf("%d markers, want one for each revision", markers)
	}
	// A revision whose parent is no longer in force is void.
	if _, err := w.pol.Publish(t.Context(), w.cl, rev.Revision, "late", rev.Policy); err != policy.ErrConflict {
		t.Errorf("a late edit: %v", err)
	}
}

// TestInForceEverywhere: what another process publishes is what every
// partition soon decides by, in workers that go on running.
func TestInForceEverywhere(t *testing.T) {
	w := newWorld(t)
	w.admit("0")
	byPartition := make(map[int32]string)
	for i := 0; len(byPartition) < partitions; i++ {
		to := fmt.Sprintf("+86138000%05d", i)
		byPartition[schemas.PartitionOf(to, partitions)] = to
	}
	sent := 0
	all := func(revision int64) bool { // one message to every partition
		for p, to := range byPartition {
			w.request(p, `{"channel":"sms","to":%q,"class":"c%d","body":"x"}`, to, sent)
			sent++
		}
		in := 0
		for _, e := range w.statuses(partitions) {
			if e.Kind == schemas.KindStatus && e.Decision.Revision == revision {
				in++
			}
		}
		return in == partitions
	}
	if !all(1) { // every partition has an owner, which has decided
		t.Fatal("not under the first revision")
	}
	cli, err := policy.Watch(t.Context(), w.names.Config(), discard, kgo.SeedBrokers(w.seeds...))
	if err != nil {
		t.Fatal(err)
	}
	go cli.Run(t.Context()) //nolint:errcheck // Publish reports what Run meets
	for revision := int64(2); revision < 5; revision++ {
		next := cli.Latest().Policy
		next.Classes = append([]schemas.Class{{Name: fmt.Sprintf("class-%d", revision)}}, next.Classes...)
		if _, err := cli.Publish(t.Context(), w.cl, revision-1, "test", next); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for !all(revision) {
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("after %v revision %d is not in force everywhere", time.Since(began), revision)
			}
		}
		took := time.Since(began)
		t.Logf("revision %d in force in every partition after %v", revision, took.Round(time.Millisecond))
		if took > time.Minute { // make chaos holds the program to a second
			t.Errorf("revision %d took %v", revision, took)
		}
	}
}

// TestAbortedTransactionLeavesNothing makes the broker refuse a commit: what
// was decided in it is decided anew, once, as if it had not been.
func TestAbortedTransactionLeavesNothing(t *testing.T) {
	w := newWorld(t)
	refuse, refused := streamtest.RefuseOffsets(w.broker)
	refuse.Store(2)
	p := schemas.PartitionOf("+8613800000000", partitions)
	w.request(p, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"x","idempotency_key":"k"}`)
	w.request(p, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"y"}`)
	w.admit("0")
	events := w.statuses(2)
	if len(only(events, schemas.StatusQueued)) != 1 || len(only(events, schemas.StatusLimited)) != 1 {
		t.Fatalf("after two aborts: %s", text(events))
	}
	dense(t, events)
	if refused.Load() != 2 {
		t.Fatalf("the broker refused %d commits, want 2", refused.Load())
	}
}

// TestRequestsAreNotTrusted: headers of Weir's own that a producer writes are
// dropped, and others travel on.
func TestRequestsAreNotTrusted(t *testing.T) {
	w := newWorld(t)
	w.admit("0")
	p := schemas.PartitionOf("+8613800000000", partitions)
	rec := &kgo.Record{Topic: w.names.Requests(), Partition: p, Value: []byte(`{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`), Headers: []kgo.RecordHeader{
		{Key: schemas.HeaderID, Value: []byte("forged")}, {Key: "Weir-Place", Value: []byte("forged")}, {Key: schemas.HeaderTraceParent, Value: []byte("00-trace")},
	}}
	if err := w.cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	e := lastStatus(w.statuses(1))
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.ConsumeTopics(w.names.Dispatch("simulated", topics.QueueUrgent)), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got := cl.PollFetches(ctx).Records()
	if len(got) != 1 {
		t.Fatalf("%d records dispatched", len(got))
	}
	values := make(map[string][]string)
	for _, h := range got[0].Headers {
		values[strings.ToLower(h.Key)] = append(values[strings.ToLower(h.Key)], string(h.Value))
	}
	if id := values[schemas.HeaderID]; len(id) != 1 || id[0] != e.MessageID {
		t.Errorf("weir-id %q, want %q alone", id, e.MessageID)
	}
	if place := values[schemas.HeaderPlace]; len(place) != 1 || place[0] == "forged" {
		t.Errorf("weir-place %q", place)
	}
	if tp := values[schemas.HeaderTraceParent]; len(tp) != 1 || tp[0] != "00-trace" {
		t.Errorf("traceparent %q", tp)
	}
}

// TestStallsWhenItsClockIsAhead: with a clock far ahead of the broker's nothing
// is decided, and as soon as it is right everything is, under the right time.
func TestStallsWhenItsClockIsAhead(t *testing.T) {
	w := newWorld(t)
	var ahead atomic.Int64
	ahead.Store(int64(10 * time.Second))
	w.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w.admit("0")
	w.request(0, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`)
	w.request(1, `{"channel":"sms","to":"+8613800000001","class":"verify","body":"x"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // more than one try
	defer cancel()
	if got := w.cl.PollFetches(ctx).Records(); len(got) > 0 {
		t.Fatalf("decided with a clock 10 s ahead: %s", got[0].Value)
	}
	ahead.Store(0)
	events := w.statuses(2)
	for _, e := range only(events, schemas.StatusQueued) {
		if d := time.Until(e.Decision.T.Time()); d > time.Second {
			t.Errorf("decided %v in the future", d)
		}
	}
	if len(only(events, schemas.StatusQueued)) != 2 {
		t.Errorf("after the clock was put right: %s", text(events))
	}
	dense(t, events)
}

// TestStallsWhenItsClockSteps: a step between two comparisons, here right after
// one, commits nothing either.
func TestStallsWhenItsClockSteps(t *testing.T) {
	w := newWorld(t)
	var off atomic.Int64
	w.now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	w.admit("0")
	for _, step := range []time.Duration{90 * time.Second, -90 * time.Second, 90 * time.Second} {
		off.Store(0)
		w.request(0, `{"channel":"sms","to":"+8613800000000","class":"notice","body":"x"}`)
		w.statuses(1)
		off.Store(int64(step))
		w.request(0, `{"channel":"sms","to":"+8613800000000","class":"notice","body":"x"}`)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		for _, r := range w.cl.PollFetches(ctx).Records() {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Until(e.Decision.T.Time()); d > 2*time.Second {
				t.Errorf("after a step of %v decided %v in the future", step, d)
			}
			step = 0 // decided, as it may be with a clock that is behind
		}
		cancel()
		off.Store(0)
		if step != 0 {
			w.statuses(1)
		}
	}
}

// clockBound is more than these tests take, and less than their clocks are wrong.
const clockBound = 10 * time.Minute

// TestNothingIsDecidedFarInThePast: a machine whose clock lags is lifted to the
// broker's by the first comparison, and what it had decided before is aborted
// and decided again.
func TestNothingIsDecidedFarInThePast(t *testing.T) {
	w := newWorld(t)
	w.now = func() time.Time { return time.Now().Add(-time.Hour) }
	w.admit("0")
	for n := range partitions {
		w.request(int32(n), `{"channel":"sms","to":"+861380000000%d","class":"verify","body":"x"}`, n)
	}
	w.request(0, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"y"}`)
	events := w.statuses(partitions + 1)
	for _, e := range events {
		if d := time.Since(e.Decision.T.Time()); d > clockBound {
			t.Errorf("decided %v in the past", d)
		}
	}
	dense(t, events)
}

// TestALaggingClockIsLiftedForEveryPartition: the comparison passes for a
// partition that stands at its log's time, whatever the clock says; what speaks
// for the next second must hold for one without a log as well.
func TestALaggingClockIsLiftedForEveryPartition(t *testing.T) {
	w := newWorld(t)
	stop := w.admit("0")
	first := "+8613800000000"
	owner := schemas.PartitionOf(first, partitions)
	other := first
	for n := 1; schemas.PartitionOf(other, partitions) == owner; n++ {
		other = fmt.Sprintf("+861380000%04d", n)
	}
	w.request(owner, `{"channel":"sms","to":%q,"class":"notice","body":"x"}`, first)
	w.statuses(1)
	stop()
	w.now = func() time.Time { return time.Now().Add(-time.Hour) }
	w.admit("1")
	w.request(owner, `{"channel":"sms","to":%q,"class":"notice","body":"y"}`, first)
	w.statuses(1)
	w.request(schemas.PartitionOf(other, partitions), `{"channel":"sms","to":%q,"class":"notice","body":"y"}`, other)
	for _, e := range w.statuses(1) {
		if d := time.Since(e.Decision.T.Time()); d > clockBound {
			t.Errorf("decided %v in the past", d)
		}
	}
}
