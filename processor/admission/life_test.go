package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// bench is one partition without Kafka: inputs in, outcomes out, at times of
// the test's choice.
type bench struct {
	t      *testing.T
	p      *partition
	now    schemas.Millis
	offset int64
	log    ledgerLog // what the partition wrote
}

const lifePolicy = `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s]}
classes:
  - {name: code, expires_after: 5m, retries: [5s]}
providers:
  - {name: one, type: simulated, channels: [sms]}
templates:
  - {name: hi, channel: sms, body: "hi {{name}}"}
`

func newBench(t *testing.T) *bench {
	t.Helper()
	p, err := newPartition(0, environment{partitions: 1, delays: 1, dlq: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, p: p, now: schemas.MillisOf(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))}
	b.apply(1, lifePolicy)
	return b
}

func (b *bench) apply(revision int64, text string) {
	b.t.Helper()
	doc, err := schemas.ParsePolicy("test.yaml", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.p.begin()
	b.p.advance(b.now)
	if _, err := b.p.switchTo(&schemas.Revision{Revision: revision, Policy: doc.Policy}); err != nil {
		b.t.Fatal(err)
	}
	b.commit()
	b.now = b.p.base.meta.T // the marker moved it on by one
}

// decide commits one input and checks what holds for every outcome.
func (b *bench) decide(in *input) outcome {
	b.t.Helper()
	seq := b.p.base.meta.Seq
	in.source = schemas.Source{Topic: "weir.requests", Offset: b.offset}
	if in.readmit {
		in.source.Topic = "weir.readmit"
	}
	b.offset++
	in.header = func(string) (string, bool) { return "", false }
	in.appended = b.now
	b.p.begin()
	b.p.advance(b.now)
	o, err := b.p.decide(in)
	if err != nil {
		b.t.Fatal(err)
	}
	b.commit()
	if d := o.event.Decision; d == nil || d.Seq != seq+1 || d.Revision != b.p.base.meta.Marker.Revision || d.T < b.now || *d.Input != in.source {
		b.t.Fatalf("decision %+v after seq %d", d, seq)
	}
	return o
}

func (b *bench) request(format string, args ...any) outcome {
	b.t.Helper()
	return b.decide(&input{value: fmt.Appendf(nil, format, args...)})
}

// back brings what was sent on back through readmit, as lane or delay do.
func (b *bench) back(reason string, s send, value string, change func(*schemas.Envelope)) outcome {
	b.t.Helper()
	env := s.env
	env.Reason = reason
	if change != nil {
		change(&env)
	}
	return b.decide(&input{readmit: true, value: []byte(value), env: env})
}

// brief is an outcome in one line.
func brief(o outcome) string {
	s := string(o.event.Kind)
	if o.event.Kind == schemas.KindStatus {
		s = string(o.event.Status)
	}
	s += " " + string(o.event.Decision.Verdict)
	if o.event.Reason != "" {
		s += " " + o.event.Reason
	}
	if n := len(o.event.Decision.Charges); n > 0 {
		s += fmt.Sprintf(" +%d", n)
	}
	if n := len(o.event.Decision.Returned); n > 0 {
		s += fmt.Sprintf(" -%d", n)
	}
	if n := len(o.event.Decision.Missing); n > 0 {
		s += fmt.Sprintf(" ?%d", n)
	}
	for _, out := range o.send {
		s += " > " + strings.TrimPrefix(out.topic, topics.DefaultPrefix)
	}
	return s
}

func (b *bench) want(o outcome, want string) outcome {
	b.t.Helper()
	if got := brief(o); got != want {
		b.t.Fatalf("got  %s\nwant %s\n%+v", got, want, o.event)
	}
	return o
}

const code = `{"channel":"sms","to":"+8613800000000","class":"code","body":"x"}`

// TestPlaceMovesWithTheLatestAttempt: a retry is charged at the time of its own decision,
// also where the attempt before may have been received.
func TestPlaceMovesWithTheLatestAttempt(t *testing.T) {
	for _, taint := range []schemas.Taint{schemas.TaintNone, schemas.TaintReceived, schemas.TaintUnknown} {
		t.Run("taint "+string(taint), func(t *testing.T) { placeMoves(t, taint) })
	}
}

func placeMoves(t *testing.T, taint schemas.Taint) {
	b := newBench(t)
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.want(b.request(code), "limited refuse limited")
	b.now += 30_000
	attempt := func(e *schemas.Envelope) { e.Attempt, e.Taint = 1, taint }
	moved := b.want(b.back(schemas.ReadmitRetry, first.send[0], code, attempt), "queued move +1 -1 > dispatch.one.again")
	if moved.event.Decision.Charges[0].T != b.now || moved.send[0].env.Place[0].T != b.now {
		t.Fatalf("the place did not move to %v: %+v", b.now, moved.event.Decision.Charges)
	}
	b.now += 30_000 // 60 s after the first attempt, 30 s after the second
	b.want(b.request(code), "limited refuse limited")
	b.now += 29_999
	b.want(b.request(code), "limited refuse limited")
	b.now++
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
}

func TestRefusedRetryWaitsWithItsOldPlace(t *testing.T) {
	b := newBench(t)
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.now += 60_000
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal") // took the next place
	b.now += 5_000
	parked := b.want(b.back(schemas.ReadmitRetry, first.send[0], code, func(e *schemas.Envelope) { e.Attempt = 1 }), "deferred defer limited > delay.30s")
	if due := parked.send[0].env.DueAt; due != b.now+55_000 || parked.event.RetryAt != due {
		t.Errorf("due %v, want %v", due, b.now+55_000)
	}
	if env := parked.send[0].env; len(env.Place) != 1 || env.Place[0] != first.send[0].env.Place[0] || env.Return != "weir.readmit" || env.Reason != schemas.ReadmitRetry {
		t.Errorf("parked as %+v", env)
	}
	b.now += 55_000
	// By now its old place has left every window: there is nothing to remove.
	b.want(b.back(schemas.ReadmitRetry, parked.send[0], code, nil), "queued move +1 ?1 > dispatch.one.again")
}

func TestEndsGiveBackWhatCannotHaveBeenReceived(t *testing.T) {
	for _, c := range []struct {
		taint schemas.Taint
		want  string
		next  string
	}{
		{schemas.TaintNone, "expired expire expired -1", "queued admit +1 > dispatch.one.normal"},
		{schemas.TaintReceived, "expired expire expired", "queued admit +1 > dispatch.one.normal"},
		{schemas.TaintUnknown, "unknown expire expired", "queued admit +1 > dispatch.one.normal"},
	} {
		t.Run("expired "+string(c.taint), func(t *testing.T) {
			b := newBench(t)
			first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
			b.now += 5 * 60_000
			b.want(b.back(schemas.ReadmitRetry, first.send[0], code, func(e *schemas.Envelope) { e.Attempt, e.Taint = 1, c.taint }), c.want)
			b.want(b.request(code), c.next)
		})
	}
	t.Run("given back", func(t *testing.T) {
		b := newBench(t)
		first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
		b.want(b.request(code), "limited refuse limited")
		b.want(b.back(schemas.ReadmitGiveBack, first.send[0], "", nil), "decision give_back -1")
		b.want(b.back(schemas.ReadmitGiveBack, first.send[0], "", nil), "decision give_back ?1")
		b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
		b.want(b.request(code), "limited refuse limited")
	})
}

func TestStaleComesBackOnAgain(t *testing.T) {
	b := newBench(t)
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.now += 61_000
	b.want(b.back(schemas.ReadmitStale, first.send[0], code, nil), "queued move +1 -1 > dispatch.one.again")
}

// TestStaleReturnsWhereItsLaneReads: the lane names a queue that is short; it
// counts for its own provider alone, and never is the message's own queue, where it
// would look like a first attempt.
func TestStaleReturnsWhereItsLaneReads(t *testing.T) {
	names := topics.Names{Prefix: topics.DefaultPrefix}
	for asked, want := range map[string]string{
		names.Dispatch("one", topics.QueueUrgent): "urgent",
		names.Dispatch("one", topics.QueueBulk):   "bulk",
		names.Dispatch("one", topics.QueueNormal): "again",
		names.Dispatch("two", topics.QueueUrgent): "again",
		names.Readmit(): "again",
		"elsewhere":     "again",
	} {
		b := newBench(t)
		first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
		b.now += 61_000
		o := b.want(b.back(schemas.ReadmitStale, first.send[0], code, func(e *schemas.Envelope) { e.Return = asked }), "queued move +1 -1 > dispatch.one."+want)
		if o.send[0].env.Return != "" {
			t.Errorf("%s travels on", o.send[0].env.Return)
		}
	}
}

// TestRetryComesBackOnAgain: a retry does not wait behind the backlog. An urgent
// one keeps its queue.
func TestRetryComesBackOnAgain(t *testing.T) {
	for priority, queue := range map[schemas.Priority]string{"": "again", schemas.PriorityNormal: "again", schemas.PriorityBulk: "again", schemas.PriorityUrgent: "urgent"} {
		b := newBench(t)
		value := strings.Replace(code, "{", `{"priority":"`+string(priority)+`",`, 1)
		if priority == "" {
			value = code
		}
		o := b.request("%s", value)
		b.want(b.back(schemas.ReadmitRetry, o.send[0], value, func(e *schemas.Envelope) { e.Attempt = 1 }), "queued move +1 -1 > dispatch.one."+queue)
	}
}

// What a lane hands back uncalled is decided anew, on its own priority's queue.
func TestReroutedComesBackOnItsQueue(t *testing.T) {
	b := newBench(t)
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.want(b.back(schemas.ReadmitReroute, first.send[0], code, nil), "queued move +1 -1 > dispatch.one.normal")
}

func TestScheduledIsDecidedWhenDue(t *testing.T) {
	b := newBench(t)
	at := b.now + 3_600_000
	value := fmt.Sprintf(`{"channel":"sms","to":"+8613800000000","class":"code","body":"x","send_at":%q,"idempotency_key":"k"}`, at)
	s := b.want(b.request("%s", value), "scheduled defer send_at > delay.1h")
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal") // it holds no place meanwhile
	b.now = at
	b.want(b.back(schemas.ReadmitDue, s.send[0], value, nil), "queued admit +1 > dispatch.one.normal")
}

func TestTemplateGoneMeanwhile(t *testing.T) {
	b := newBench(t)
	value := `{"channel":"sms","to":"+8613800000000","class":"code","template":"hi","vars":{"name":"x"}}`
	first := b.want(b.request("%s", value), "queued admit +1 > dispatch.one.normal")
	b.apply(2, strings.Replace(lifePolicy, "hi {{name}}", "hi {{nick}}", 1))
	b.want(b.back(schemas.ReadmitRetry, first.send[0], value, func(e *schemas.Envelope) { e.Attempt = 1 }), "rejected reject missing_variable -1 > dlq")
}

func TestRollbackLeavesNothing(t *testing.T) {
	b := newBench(t)
	before := b.p.base.meta
	b.p.begin()
	b.p.advance(b.now)
	in := &input{value: []byte(`{"channel":"sms","to":"+8613800000000","class":"code","body":"x","idempotency_key":"k"}`), header: func(string) (string, bool) { return "", false }, appended: b.now}
	o, err := b.p.decide(in)
	if err != nil || o.event.Status != schemas.StatusQueued {
		t.Fatal(o, err)
	}
	b.p.rollback()
	if b.p.base.meta.Seq != before.Seq || b.p.cur.meta.Seq != before.Seq {
		t.Errorf("seq %d after a rollback, want %d", b.p.cur.meta.Seq, before.Seq)
	}
	b.want(b.request(`{"channel":"sms","to":"+8613800000000","class":"code","body":"x","idempotency_key":"k"}`), "queued admit +1 > dispatch.one.normal")
}

func TestReadmitIsJudgedByItsEnvelope(t *testing.T) {
	b := newBench(t)
	b.want(b.decide(&input{readmit: true, value: []byte(code), foreign: true}), "decision nothing foreign_record > dlq")
	b.want(b.decide(&input{readmit: true, value: []byte(code), env: schemas.Envelope{Reason: "made up"}}), "decision nothing foreign_record > dlq")

	// One hop always suffices.
	two, err := newPartition(1, environment{partitions: 2, delays: 1, dlq: 1})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"+8613800000000", "+8613800000001", "+8613800000002", "+8613800000003"}
	two.begin()
	away := keys[slices.IndexFunc(keys, func(k string) bool { return schemas.PartitionOf(k, 2) == 0 })]
	here, there := ownedBy(t, 1), ownedBy(t, 0)
	charge := func(scope string) schemas.Charge { return schemas.Charge{Limit: "wide", Scope: scope, T: 1, Cost: 1} }
	for name, env := range map[string]schemas.Envelope{
		"forward":                         {Reason: schemas.ReadmitForward},
		"retry":                           {Reason: schemas.ReadmitRetry, Attempt: 1},
		"charge":                          {Reason: schemas.ReadmitCharge, Round: &schemas.Round{Ask: []schemas.Ask{{Limit: "wide", Scope: there, Cost: 1}}}},
		"charged":                         {Reason: schemas.ReadmitCharged, Round: &schemas.Round{Channel: schemas.ChannelSMS}},
		"unwind":                          {Reason: schemas.ReadmitUnwind, Place: []schemas.Charge{charge(here), charge(there)}},
		"giveback of the recipient's own": {Reason: schemas.ReadmitGiveBack, Place: []schemas.Charge{{Limit: "own", Scope: away, T: 1, Cost: 1}}},
		"restore":                         {Reason: schemas.ReadmitUnwind, Place: []schemas.Charge{charge(here)}, Restore: []schemas.Charge{charge(there)}},
	} {
		env.Key, env.ID = away, someID
		o, err := two.decide(&input{readmit: true, value: []byte(code), header: func(string) (string, bool) { return "", false }, env: env})
		if err != nil {
			t.Errorf("%s: a misrouted record ends the stage: %v", name, err)
			continue
		}
		d := o.event.Decision
		if d.Verdict != schemas.VerdictNothing || o.event.Reason != schemas.ReasonMisroutedRecord || len(d.Returned)+len(d.Missing)+len(d.Restored)+len(d.Charges) > 0 {
			t.Errorf("%s: %s %s, %+v: want a decision that changes nothing", name, d.Verdict, o.event.Reason, d)
		}
		if len(o.send) != 1 || !o.send[0].dead || !strings.Contains(o.send[0].env.Error, "partition 0 owns it, and it is in partition 1 of 2") {
			t.Errorf("%s: sends %+v: want one dead letter that names the owner", name, o.send)
		}
	}
}

// TestAnIdEndsOnce: whatever comes under an id that was used, valid or not,
// the message that had it first is the only one that ends under it.
func TestAnIdEndsOnce(t *testing.T) {
	const id = "0b6f0e7e-0000-4000-8000-000000000001"
	valid := fmt.Sprintf(`{"id":%q,"channel":"sms","to":"+8613800000000","class":"code","body":"x"}`, id)
	invalid := fmt.Sprintf(`{"id":%q,"channel":"sms","to":"+8613800000000","class":"code"}`, id)
	nobody := fmt.Sprintf(`{"id":%q,"channel":"sms","to":"+86138","class":"code","body":"x"}`, id)
	t.Run("invalid after valid", func(t *testing.T) {
		b := newBench(t)
		b.want(b.request("%s", valid), "queued admit +1 > dispatch.one.normal")
		b.want(b.request("%s", invalid), "decision duplicate key_reused")
	})
	t.Run("invalid twice", func(t *testing.T) {
		b := newBench(t)
		o := b.want(b.request("%s", invalid), "rejected reject content_required > dlq")
		if o.event.MessageID != id {
			t.Errorf("rejected under %s", o.event.MessageID)
		}
		b.want(b.request("%s", invalid), "decision duplicate repeated")
		b.want(b.request("%s", valid), "decision duplicate key_reused")
	})
	t.Run("without a recipient there is no owner to know the id", func(t *testing.T) {
		b := newBench(t)
		one := b.want(b.request("%s", nobody), "rejected reject bad_recipient_phone > dlq")
		two := b.want(b.request("%s", nobody), "rejected reject bad_recipient_phone > dlq")
		if a, c := one.event.MessageID, two.event.MessageID; a == id || c == id || a == c {
			t.Errorf("rejected under %s and %s", a, c)
		}
	})
	t.Run("an id that is none", func(t *testing.T) {
		b := newBench(t)
		const none = `{"id":"7","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`
		one := b.want(b.request(none), "rejected reject bad_id > dlq")
		two := b.want(b.request(none), "rejected reject bad_id > dlq") // it names nothing, so nothing is repeated
		if a, c := one.event.MessageID, two.event.MessageID; a == "7" || a == c {
			t.Errorf("rejected under %s and %s", a, c)
		}
	})
}

// ownedBy returns the scope of a limit without a recipient that partition n of two
// owns.
func ownedBy(t *testing.T, n int32) string {
	t.Helper()
	for i := range 100 {
		if scope := fmt.Sprintf("tenant=t%d", i); limit.Owner(scope, 2) == n {
			return scope
		}
	}
	t.Fatal("no such scope")
	return ""
}
