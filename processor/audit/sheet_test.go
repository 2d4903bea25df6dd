package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// start is the moment of a hand-made log: a whole minute, so that calendar
// windows are easy to follow.
const start = schemas.Millis(1_800_000_000_000)

const sheetPolicy = `
limits:
  - {name: two, match: {class: verify}, per: [recipient], allow: [2/10s, 5/calendar-hour]}
  - {name: pair, match: {class: pair}, per: [recipient, class], allow: [1/5s]}
classes:
  - {name: verify, expires_after: 60s, stale_after: 31d}
  - {name: pair, stale_after: 31d}
providers:
  - {name: sim, type: simulated, channels: [sms], pace: [3/1s]}
tenants:
  - {name: default, default_region: CN}
`

// written is one record of a hand-made log.
type written struct {
	offset   int64
	appended schemas.Millis
	event    *schemas.Event
	env      schemas.Envelope
	journal  journalled
	value    string
	outcome  string // what a lane says of an attempt beside its status; empty is nothing
	named    string // the record of the journal that a lane names beside its status; empty is none
}

// came is what comes of an attempt with a status, in a hand-made log.
var came = map[schemas.Status]string{
	schemas.StatusSent: "accepted", schemas.StatusRetrying: "transient", schemas.StatusFailed: "permanent", schemas.StatusUnknown: "unknown", schemas.StatusExpired: "expired",
}

// answers is an outcome with its permit, as the journal and the status beside it say it.
func answers(name, what string, received bool, attempt int, permit, t schemas.Millis) (journalled, string) {
	j := journalled{Kind: "outcome", ID: id(name), Attempt: attempt, T: t, Permit: permit, Outcome: what, Received: &received}
	if received {
		what += " received"
	}
	return j, what
}

// sheet is a hand-made log of a partition, with all that belongs to it.
type sheet struct {
	policies                                     []schemas.Policy
	status, requests, readmit, dispatch, journal []written
	committed                                    int64 // the group's offset of requests; 0 is what was answered
	since                                        schemas.Millis
	clocks                                       clocks
	partitions                                   int32
	seq                                          int64
	place                                        map[string][]schemas.Charge
	numbers                                      sequence // of the journal, as the audit begins with it
	lastSeq                                      int64    // the last number by the group of the lane
	skips                                        skips
}

func policyOf(t testing.TB, text string) schemas.Policy {
	t.Helper()
	doc, err := schemas.ParsePolicy("sheet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Policy
}

const (
	alice = "+8613800000001"
	bob   = "+8613800000002"
)

// id gives a message a UUID by its name.
func id(name string) string { return fmt.Sprintf("00000000-0000-8000-8000-%012x", []byte(name)) }

func (s *sheet) say(e *schemas.Event, t schemas.Millis) *schemas.Event {
	e.At = t
	s.status = append(s.status, written{offset: int64(len(s.status) * 2), appended: t + 5, event: e})
	return e
}

func (s *sheet) decide(e *schemas.Event, v schemas.Verdict, t schemas.Millis, in *schemas.Source) *schemas.Decision {
	s.seq++
	e.Decision = &schemas.Decision{Verdict: v, Seq: s.seq, T: t, Revision: int64(len(s.policies)), Input: in}
	s.say(e, t)
	return e.Decision
}

func (s *sheet) request(name, to, class string, t schemas.Millis) (*schemas.Event, *schemas.Source) {
	at := int64(len(s.requests) * 3)
	s.requests = append(s.requests, written{offset: at, appended: t - 10,
		value: fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":%q,"body":"b"}`, id(name), to, class)})
	in := &schemas.Source{Topic: "weir.requests", Offset: at}
	return &schemas.Event{Kind: schemas.KindStatus, MessageID: id(name), Tenant: "default", Channel: "sms", Class: class, To: to, AcceptedAt: t - 10, Source: in}, in
}

func (s *sheet) back(name, to, class, reason string, t schemas.Millis) (*schemas.Event, *schemas.Source) {
	at := int64(len(s.readmit) * 2)
	s.readmit = append(s.readmit, written{offset: at, appended: t - 5, env: schemas.Envelope{
		ID: id(name), Key: to, Reason: reason, Place: s.place[name], ExpiresAt: start + 60_000, AcceptedAt: start}})
	in := &schemas.Source{Topic: "weir.readmit", Offset: at}
	return &schemas.Event{Kind: schemas.KindStatus, MessageID: id(name), Tenant: "default", Channel: "sms", Class: class, To: to, Source: in}, in
}

func limitOf(class string) (string, func(to string) string) {
	if class == "pair" {
		return "pair", func(to string) string { return "recipient=" + to + ",class=pair" }
	}
	return "two", func(to string) string { return to }
}

func (s *sheet) charge(name, to, class string, t schemas.Millis) []schemas.Charge {
	l, scope := limitOf(class)
	s.place[name] = []schemas.Charge{{Limit: l, Scope: scope(to), T: t, Cost: 1}}
	return s.place[name]
}

func (s *sheet) dispatched(e *schemas.Event) {
	s.dispatch = append(s.dispatch, written{offset: int64(len(s.dispatch)), appended: e.At + 5, env: schemas.Envelope{
		ID: e.MessageID, Key: e.To, Origin: schemas.Source{Topic: "weir.requests"}, Provider: e.Provider, DecidedAt: e.At, Place: e.Decision.Charges}})
}

func (s *sheet) admit(name, to, class string, t schemas.Millis) *schemas.Event {
	e, in := s.request(name, to, class, t)
	e.Status, e.Provider = schemas.StatusQueued, "sim"
	s.decide(e, schemas.VerdictAdmit, t, in).Charges = s.charge(name, to, class, t)
	s.dispatched(e)
	return e
}

func (s *sheet) move(name, to, class string, t schemas.Millis) *schemas.Event {
	e, in := s.back(name, to, class, schemas.ReadmitRetry, t)
	e.Status, e.Provider, e.Attempt = schemas.StatusQueued, "sim", 1
	d := s.decide(e, schemas.VerdictMove, t, in)
	d.Returned = s.place[name]
	d.Charges = s.charge(name, to, class, t)
	s.dispatched(e)
	return e
}

func (s *sheet) step(name, to, class string, st schemas.Status, attempt int, t schemas.Millis) *schemas.Event {
	return s.say(&schemas.Event{Kind: schemas.KindStatus, MessageID: id(name), Tenant: "default", Channel: "sms", Class: class,
		To: to, Status: st, Provider: "sim", Attempt: attempt, AcceptedAt: start}, t)
}

// call is an attempt with its permit and its outcome.
func (s *sheet) call(name, to, class string, end schemas.Status, attempt int, t schemas.Millis) *schemas.Event {
	s.step(name, to, class, schemas.StatusSending, attempt, t)
	s.journal = append(s.journal, written{offset: int64(len(s.journal)), appended: t + 5, journal: journalled{Kind: "permit", ID: id(name), Attempt: attempt, T: t, CallBy: t}})
	e := s.step(name, to, class, end, attempt, t+50)
	j, said := answers(name, came[end], end == schemas.StatusSent || end == schemas.StatusUnknown, attempt, t, t+50)
	s.status[len(s.status)-1].outcome = said
	if end == schemas.StatusRetrying {
		e.Reason = came[end]
	}
	s.journal = append(s.journal, written{offset: int64(len(s.journal)), appended: t + 55, journal: j})
	return e
}

// received has the recipient perhaps have a message by an attempt that failed.
func received(status, journal []written, name string) {
	yes := true
	for i := range status {
		if w := &status[i]; w.event.MessageID == id(name) && w.outcome == "transient" {
			w.outcome = "transient received"
		}
	}
	for i := range journal {
		if j := &journal[i].journal; j.ID == id(name) && j.Outcome == "transient" {
			j.Received = &yes
		}
	}
}

func (s *sheet) refuse(name, to, class string, t schemas.Millis, at schemas.Millis, ev ...schemas.Evidence) *schemas.Event {
	e, in := s.request(name, to, class, t)
	e.Status, e.Reason, e.Limit, e.Window, e.RetryAt = schemas.StatusLimited, "limited", ev[0].Limit, ev[0].Window, at
	s.decide(e, schemas.VerdictRefuse, t, in).Evidence = ev
	return e
}

func (s *sheet) giveBack(name, to string, t schemas.Millis) *schemas.Event {
	e, in := s.back(name, to, "", schemas.ReadmitGiveBack, t)
	e.Kind = schemas.KindDecision
	s.decide(e, schemas.VerdictGiveBack, t, in).Returned = s.place[name]
	return e
}

func (s *sheet) marker(t schemas.Millis, since map[string]map[string]schemas.Millis) *schemas.Decision {
	e := &schemas.Event{Kind: schemas.KindDecision}
	d := s.decide(e, schemas.VerdictMarker, t, nil)
	d.Marker = &schemas.Marker{Revision: d.Revision, Seq: d.Seq, T: t, Since: since}
	return d
}

func evidence(t, oldest schemas.Millis) schemas.Evidence {
	return schemas.Evidence{Limit: "two", Scope: alice, Window: "2/10s", N: 2, Count: 2, Cost: 1, Oldest: oldest, Since: start}
}

func sinceAll(t schemas.Millis) map[string]map[string]schemas.Millis {
	return map[string]map[string]schemas.Millis{"two": {"10s": t, "calendar-hour": t}, "pair": {"5s": t}}
}

// newSheet is a clean log: a message sent at once, one sent at its second
// attempt, one refused, one failed that gave its place back, one rejected and
// one repeated, one that waits.
func newSheet(t testing.TB) *sheet {
	s := &sheet{place: make(map[string][]schemas.Charge), partitions: 1}
	s.policies = []schemas.Policy{policyOf(t, sheetPolicy)}
	s.marker(start, sinceAll(start))
	s.admit("a", alice, "verify", start+1000)
	s.call("a", alice, "verify", schemas.StatusSent, 1, start+1100)
	s.admit("b", alice, "verify", start+2000)
	s.call("b", alice, "verify", schemas.StatusRetrying, 1, start+2100).Reason = "transient"
	s.move("b", alice, "verify", start+3000)
	s.call("b", alice, "verify", schemas.StatusSent, 2, start+3100)
	s.refuse("c", alice, "verify", start+4000, start+11_000, evidence(start+4000, start+1000))
	s.admit("d", bob, "pair", start+5000)
	s.call("d", bob, "pair", schemas.StatusFailed, 1, start+5100)
	s.giveBack("d", bob, start+6000)
	s.admit("e", bob, "pair", start+6500)
	e, in := s.request("f", "12", "verify", start+7000)
	e.Status, e.Reason = schemas.StatusRejected, "bad_recipient"
	s.decide(e, schemas.VerdictReject, start+7000, in)
	e, in = s.request("a", alice, "verify", start+7100)
	e.Kind, e.Reason, e.DuplicateOf = schemas.KindDecision, "repeated", e.MessageID
	s.decide(e, schemas.VerdictDuplicate, start+7100, in)
	s.say(&schemas.Event{Kind: schemas.KindStatus, MessageID: id("a"), To: alice, Status: schemas.StatusDelivered, Provider: "sim", Reason: "receipt"}, start+7200)
	return s
}

// at returns the event of a message with a status, or with a verdict.
func (s *sheet) at(name string, what string) *schemas.Event {
	return s.status[s.indexOf(name, what)].event
}

func (s *sheet) indexOf(name, what string) int {
	i := slices.IndexFunc(s.status, func(w written) bool {
		e := w.event
		return (name == "" || e.MessageID == id(name)) && (string(e.Status) == what || e.Decision != nil && string(e.Decision.Verdict) == what)
	})
	if i < 0 {
		panic("no " + what + " of " + name)
	}
	return i
}

// drop takes a record out of weir.status and closes the ranks.
func (s *sheet) drop(i int) {
	gone := s.status[i].event.Decision != nil
	s.status = slices.Delete(s.status, i, i+1)
	if gone {
		for _, w := range s.status[i:] {
			if w.event.Decision != nil {
				w.event.Decision.Seq--
			}
		}
	}
}

func records(topic string, from []written) source {
	i := 0
	return func() (*kgo.Record, error) {
		if i == len(from) {
			return nil, nil
		}
		w := &from[i]
		i++
		r := &kgo.Record{Topic: topic, Offset: w.offset, Timestamp: time.UnixMilli(int64(w.appended)), Value: []byte(w.value)}
		switch {
		case w.event != nil:
			r.Value = schemas.AppendEvent(nil, w.event)
		case w.journal.Kind != "":
			r.Value, _ = json.Marshal(w.journal)
		}
		if w.outcome != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: schemas.HeaderOutcome, Value: []byte(w.outcome)})
		}
		if w.named != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: schemas.HeaderJournal, Value: []byte(w.named)})
		}
		w.env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		return r, nil
	}
}

func (s *sheet) audit(t testing.TB) *Report {
	t.Helper()
	return s.auditFrom(t, func(topic string) source {
		return records(topic, map[string][]written{"weir.status": s.status, "weir.requests": s.requests, "weir.readmit": s.readmit,
			"weir.dispatch.sim.normal": s.dispatch, "weir.journal.sim": s.journal}[topic])
	})
}

// auditFrom judges the logs that open opens, under the sheet's policies.
func (s *sheet) auditFrom(t testing.TB, open func(topic string) source) *Report {
	t.Helper()
	h := newHistory()
	for i := range s.policies {
		b, err := json.Marshal(schemas.Revision{Revision: int64(i + 1), Parent: int64(i), Policy: s.policies[i]})
		if err == nil {
			err = h.take(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const never = schemas.Millis(1 << 60)
	b := &bounds{
		partitions: s.partitions, statusTopic: "weir.status", requests: "weir.requests", readmit: "weir.readmit", config: h, doors: h.doors(), clocks: s.clocks,
		since: s.since, skips: s.skips, holes: make(map[string]int64), slack: 10 * time.Second, gone: map[string]bool{}, found: newFindings(),
		dispatched: newJoin(s.since, never), permitted: newJoin(s.since, never), ended: newJoin(s.since, never), dead: newJoin(s.since, never), refusals: newJoin(s.since, never), forwarded: newJoin(s.since, never),
		hops: newJoin(s.since, never), released: newJoin(s.since, never), wide: newWideCalls(),
	}
	p := newPartition(0, b, open("weir.requests"), open("weir.readmit"))
	p.cut = len(s.status) > 0 && s.status[0].offset > 0
	p.done = map[string]int64{"weir.requests": s.committed}
	if err := errors.Join(p.walk(open("weir.status"), nil), p.judgeCut(b.found)); err != nil {
		t.Fatal(err)
	}
	b.found.report.Checked.add(&p.counts)
	b.found.report.Checked.add(&p.end)
	b.found.report.densest(p.calls.densest)
	if err := dispatches(b, "sim", open("weir.dispatch.sim.normal"), &b.found.report.Checked, nil); err != nil {
		t.Fatal(err)
	}
	l := &lane{bounds: b, provider: "sim", flights: make(map[flight]int), sending: newSending(h.paces("sim"), false), numbers: s.numbers}
	if err := l.run(open("weir.journal.sim"), nil); err != nil {
		t.Fatal(err)
	}
	l.ends("weir.journal.sim", 0, s.lastSeq, b.found)
	b.holes["sim"] = l.skipped
	b.found.report.Checked.add(&l.counts)
	l.sending.judge("sim", b.found)
	for _, f := range b.compare(nil, nil, b.found) {
		b.found.violation(Violation{Kind: f.kind, MessageID: f.message(), Text: f.text})
	}
	b.found.judgeLate(true)
	return b.found.finish()
}
