package admission

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

const spellingPolicy = `
limits:
  - {name: day, per: [recipient], allow: [3/24h]}
  - {name: code, match: {class: code}, per: [recipient, class, provider], allow: [2/calendar-day]}
classes:
  - {name: code, expires_after: 2h}
  - {name: news}
providers:
  - {name: one, type: simulated, channels: [email]}
`

// fleet is several partitions without Kafka: what one writes to readmit, its owner
// decides next.
type fleet struct {
	t     *testing.T
	parts []*bench
	seen  []outcome // of the last request: every decision
	live  []send    // that are not on readmit
}

func newFleet(t *testing.T, n int32) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for i := range n {
		b := &bench{t: t, now: schemas.MillisOf(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))}
		var err error
		if b.p, err = newPartition(i, environment{partitions: n, delays: 1, dlq: 1}); err != nil {
			t.Fatal(err)
		}
		b.apply(1, spellingPolicy)
		f.parts = append(f.parts, b)
	}
	return f
}

// old makes all ledgers those of a version before keys ignored letter case.
func (f *fleet) old() {
	for _, b := range f.parts {
		b.p.base.meta.Spellings = spellings{}
		b.p.cur = b.p.base
	}
}

func (f *fleet) owner(key string) *bench {
	return f.parts[schemas.PartitionOf(key, int32(len(f.parts)))]
}

func (f *fleet) wait(d time.Duration) {
	for _, b := range f.parts {
		b.now = b.now.Add(d)
	}
}

// upgrade runs what the new version does before its first decision, most opt-outs at a time.
func (f *fleet) upgrade(most int) {
	f.t.Helper()
	for _, b := range f.parts {
		for b.p.moves() {
			b.p.begin()
			sent := b.p.moveOptOuts(most)
			b.commit()
			f.follow(sent, nil)
		}
	}
}

// ask puts a request into a partition that does not own it, and returns the last
// decision on it.
func (f *fleet) ask(format string, args ...any) outcome {
	f.t.Helper()
	value := fmt.Appendf(nil, format, args...)
	req, err := schemas.DecodeRequest(value, func(string) (string, bool) { return "", false })
	if err != nil {
		f.t.Fatal(err)
	}
	n := schemas.PartitionOf(recipient.Fold(req.To), int32(len(f.parts)))
	return f.at((n+1)%int32(len(f.parts)), &input{value: value})
}

func (f *fleet) at(n int32, in *input) outcome {
	f.t.Helper()
	f.seen, f.live = nil, nil
	o := f.parts[n].decide(in)
	f.seen = append(f.seen, o)
	f.follow(o.send, in.value)
	for _, o := range f.seen {
		if v := o.event.Decision.Verdict; v != schemas.VerdictForward && o.event.Source.Topic != "weir.ledger" {
			return o
		}
	}
	f.t.Fatalf("no decision among %d", len(f.seen))
	return outcome{}
}

func (f *fleet) follow(sent []send, value []byte) {
	f.t.Helper()
	for _, s := range sent {
		if s.topic != "weir.readmit" {
			f.live = append(f.live, s)
			continue
		}
		// As it is on the wire.
		in := &input{readmit: true, value: value}
		if s.bare {
			in.value = s.value
		}
		s.env.Each(func(k string, v []byte) {
			if err := in.env.Set(k, string(v)); err != nil {
				f.t.Fatal(err)
			}
		})
		o := f.parts[s.partition].decide(in)
		f.seen = append(f.seen, o)
		f.follow(o.send, in.value)
	}
}

// admitted takes places for a message under an old key, as an older version did.
func (f *fleet) admitted(key, id, class string) send {
	f.t.Helper()
	b := f.owner(key)
	o := b.decide(&input{readmit: true, value: fmt.Appendf(nil, `{"id":%q,"channel":"email","to":%q,"class":%q,"subject":"s","body":"x"}`, id, key, class), env: schemas.Envelope{
		ID: id, Key: key, Tenant: "default", Reason: schemas.ReadmitDue, Origin: schemas.Source{Topic: "weir.requests"}, ExpiresAt: b.now.Add(48 * time.Hour),
	}})
	if o.event.Decision.Verdict != schemas.VerdictAdmit || o.event.To != key {
		f.t.Fatalf("an old message: %s to %s", brief(o), o.event.To)
	}
	return o.send[0]
}

func (f *fleet) optedOut(to string, sc scope, n terms) {
	f.t.Helper()
	b := f.owner(to)
	b.p.begin()
	if _, err := b.p.suppressed.add(to, sc, n, b.now); err != nil {
		f.t.Fatal(err)
	}
	b.commit()
}

const mailTo = `{"channel":"email","to":%q,"class":"news","subject":"s","body":"x"}`

func (f *fleet) want(o outcome, want string) outcome {
	f.t.Helper()
	return f.parts[0].want(o, want)
}

const passes = "queued admit +1 > dispatch.one.normal"

// TestSpellingsShareALimit: however a request spells an address, it is one recipient,
// which one partition has.
func TestSpellingsShareALimit(t *testing.T) {
	for _, n := range []int32{1, 4} {
		f := newFleet(t, n)
		for _, to := range []string{"ann@example.com", "Ann@Example.com", "ANN@example.com"} {
			o := f.want(f.ask(mailTo, to), passes)
			if o.event.To != "ann@example.com" || o.send[0].env.Key != "ann@example.com" || o.event.Decision.Charges[0].Scope != "ann@example.com" {
				t.Errorf("%s: to %s, key %s, place %+v", to, o.event.To, o.send[0].env.Key, o.event.Decision.Charges)
			}
			if len(f.seen) > 2 {
				t.Errorf("%s: %d decisions on a new ledger, and one forward is enough", to, len(f.seen))
			}
		}
		f.want(f.ask(mailTo, "aNN@example.com"), "limited refuse limited")
		f.want(f.ask(`{"action":"suppress","to":"ANN@example.com"}`), "decision suppress suppress")
		f.want(f.ask(mailTo, "Ann@example.com"), "suppressed suppress suppressed")
		f.want(f.ask(`{"action":"unsuppress","to":"anN@example.com"}`), "decision suppress unsuppress")
	}
}

// TestOldPlacesCount: the places of a spelling from before go to the owner of its key
// with the first request in that spelling, and count there until they leave.
func TestOldPlacesCount(t *testing.T) {
	for _, n := range []int32{1, 4, 16} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := newFleet(t, n)
			f.admitted("Ann@example.com", someID, "code")
			f.wait(time.Hour)
			f.admitted("Ann@example.com", otherID, "code")
			f.old()
			f.wait(time.Hour)
			f.upgrade(10)
			const code = `{"channel":"email","to":%q,"class":"code","subject":"s","body":"x"}`
			f.want(f.ask(code, "Ann@example.com"), "limited refuse limited") // two of its class today, by this provider
			o := f.want(f.ask(mailTo, "Ann@example.com"), passes)
			if want := "ann@example.com"; o.event.To != want || o.send[0].env.Key != want || len(o.send[0].env.Restore) > 0 {
				t.Errorf("admitted to %s as %+v", o.event.To, o.send[0].env)
			}
			f.want(f.ask(mailTo, "ann@example.com"), "limited refuse limited")
			f.want(f.ask(mailTo, "ANN@example.com"), "limited refuse limited")
			f.want(f.ask(mailTo, "Ann@example.com"), "limited refuse limited")
			f.wait(22*time.Hour - time.Millisecond)
			f.want(f.ask(mailTo, "ann@example.com"), "limited refuse limited")
			f.wait(time.Millisecond) // the first is 24 hours old
			f.want(f.ask(mailTo, "ann@example.com"), passes)
			f.want(f.ask(mailTo, "ann@example.com"), "limited refuse limited")
			if left := f.owner("Ann@example.com").p.table.Standing(f.parts[0].p.cur.rules, &limit.Subject{Recipient: "Ann@example.com", Channel: "email", Class: "code", Provider: "one"}, 10, f.parts[0].now); len(left) > 0 {
				t.Errorf("%+v are left under the old key", left)
			}
		})
	}
}

// TestNobodyLooksBackForEver: once no window sees a place of another spelling, requests
// go to the owner of the key at once.
func TestNobodyLooksBackForEver(t *testing.T) {
	f := newFleet(t, 16)
	f.old()
	f.upgrade(10)
	f.want(f.ask(mailTo, "Ann@example.com"), passes)
	before := len(f.seen)
	f.wait(lookBack)
	f.want(f.ask(mailTo, "Ann@example.com"), passes)
	if before != 3 || len(f.seen) != 2 {
		t.Errorf("%d decisions within the time and %d after it, want 3 and 2", before, len(f.seen))
	}
}

// TestOldOptOutsHold: an opt-out of any spelling holds for every spelling, from
// before this version too, and lasts as long as the longest that was asked for.
func TestOldOptOutsHold(t *testing.T) {
	for _, most := range []int{1, 2, 100} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			f := newFleet(t, 4)
			now := f.parts[0].now
			f.optedOut("Ann@example.com", scope{}, terms{Reason: "stop", Provider: "one"})
			f.optedOut("ann@example.com", scope{}, terms{Until: now.Add(time.Hour)})
			f.optedOut("BOB@example.com", scope{Channel: "email"}, terms{Until: now.Add(time.Hour)})
			f.optedOut("bob@example.com", scope{Channel: "email"}, terms{})
			f.optedOut("Token:A@b.example.com", scope{Channel: "push"}, terms{})
			for i := range 20 {
				f.optedOut(fmt.Sprintf("User%d@example.com", i), scope{Tenant: "default", Class: "news"}, terms{Until: now.Add(3 * time.Hour)})
			}
			f.old()
			f.upgrade(most)
			f.upgrade(most) // once is enough
			f.wait(2 * time.Hour)
			for _, to := range []string{"Ann@example.com", "ann@example.com", "aNN@example.com", "BOB@example.com", "Bob@example.com", "bob@example.com", "USER7@example.com", "User19@example.com"} {
				f.want(f.ask(mailTo, to), "suppressed suppress suppressed")
			}
			if got := f.owner("ann@example.com").p.suppressed.of("ann@example.com"); len(got) != 1 || got[0].Until != 0 || got[0].Reason != "stop" || got[0].Provider != "one" {
				t.Errorf("the owner has %+v", got)
			}
			f.wait(time.Hour)
			f.want(f.ask(mailTo, "user7@example.com"), passes)
			f.want(f.ask(`{"action":"unsuppress","to":"aNN@example.com"}`), "decision suppress unsuppress")
			f.want(f.ask(mailTo, "Ann@example.com"), passes) // its spelling has nothing of its own left
		})
	}
}

// TestOptOutGoesAhead: a request in the spelling of an opt-out that is not moved yet
// brings it along.
func TestOptOutGoesAhead(t *testing.T) {
	f := newFleet(t, 4)
	f.optedOut("Ann@example.com", scope{}, terms{})
	f.old()
	old := f.owner("Ann@example.com")
	if old == f.owner("ann@example.com") {
		t.Fatal("the spellings have one owner: choose others")
	}
	o := old.decide(&input{value: fmt.Appendf(nil, mailTo, "Ann@example.com"), readmit: true, env: schemas.Envelope{
		ID: someID, Key: "Ann@example.com", Tenant: "default", Reason: schemas.ReadmitForward, Origin: schemas.Source{Topic: "weir.requests"}, ExpiresAt: old.now.Add(time.Hour),
	}})
	f.seen = nil
	f.follow(o.send, fmt.Appendf(nil, mailTo, "Ann@example.com"))
	f.want(f.seen[len(f.seen)-1], "suppressed suppress suppressed")
}

// TestMovingGoesOn: how far the opt-outs are moved is part of the ledger, so a restart
// goes on there, and an aborted transaction moved none.
func TestMovingGoesOn(t *testing.T) {
	f := newFleet(t, 1)
	for i := range 10 {
		f.optedOut(fmt.Sprintf("User%d@example.com", i), scope{}, terms{})
	}
	f.old()
	b := f.parts[0]
	var moved []string
	for i := 0; b.p.moves(); i++ {
		b.p.begin()
		sent := b.p.moveOptOuts(3)
		if i == 1 {
			b.p.rollback()
			continue
		}
		b.commit()
		for _, s := range sent {
			moved = append(moved, s.env.Key)
		}
		if i == 2 {
			b.restart()
		}
	}
	slices.Sort(moved)
	if len(moved) != 10 || len(slices.Compact(moved)) != 10 {
		t.Errorf("moved %v", moved)
	}
}

// TestOldMessagesKeepTheirKey: what was accepted under an old key is decided under it
// until its end, by the partition that has it, and requests about it find it.
func TestOldMessagesKeepTheirKey(t *testing.T) {
	start := func(t *testing.T) *fleet {
		f := newFleet(t, 16)
		at := f.parts[0].now.Add(2 * time.Hour)
		b := f.owner("Ann@example.com")
		o := b.decide(&input{readmit: true, value: fmt.Appendf(nil, `{"id":%q,"channel":"email","to":"Ann@example.com","class":"news","send_at":%q,"subject":"s","body":"x"}`, someID, at), env: schemas.Envelope{
			ID: someID, Key: "Ann@example.com", Tenant: "default", Reason: schemas.ReadmitDue, Origin: schemas.Source{Topic: "weir.requests"}, ExpiresAt: at.Add(time.Hour),
		}})
		f.want(o, "scheduled defer send_at > delay.1h")
		b.p.begin()
		b.p.seen.remember(seenRecord{key: newSeenKey('k', "default", "Ann@example.com", "once"), entry: seenEntry{id: [16]byte{1}, content: schemas.ContentHash(&schemas.Request{Channel: "email", Subject: "s", Body: "x", IdempotencyKey: "once"})}, t: b.now})
		b.commit()
		f.old()
		f.upgrade(10)
		f.parts[0].log.ledger = nil
		return f
	}
	due := func(f *fleet) outcome {
		f.wait(2 * time.Hour)
		b := f.owner("Ann@example.com")
		return b.decide(&input{readmit: true, value: fmt.Appendf(nil, `{"id":%q,"channel":"email","to":"Ann@example.com","class":"news","subject":"s","body":"x"}`, someID), env: schemas.Envelope{
			ID: someID, Key: "Ann@example.com", Tenant: "default", Reason: schemas.ReadmitDue, Origin: schemas.Source{Topic: "weir.requests"}, ExpiresAt: b.now.Add(time.Hour),
		}})
	}
	t.Run("it is sent", func(t *testing.T) {
		f := start(t)
		o := f.want(due(f), passes)
		if o.event.To != "Ann@example.com" || o.send[0].env.Key != "Ann@example.com" {
			t.Errorf("to %s as %s", o.event.To, o.send[0].env.Key)
		}
		f.want(f.ask(`{"id":%q,"channel":"email","to":"Ann@example.com","class":"news","subject":"s","body":"x"}`, otherID), passes)
		f.want(f.ask(mailTo, "ann@example.com"), passes)
		f.want(f.ask(mailTo, "ann@example.com"), "limited refuse limited") // its place went with the next request of its spelling
	})
	t.Run("it is cancelled", func(t *testing.T) {
		f := start(t)
		o := f.want(f.ask(`{"action":"cancel","id":%q,"to":"Ann@example.com","channel":"email"}`, someID), "cancelled cancel cancelled")
		if o.event.To != "Ann@example.com" {
			t.Errorf("to %s", o.event.To)
		}
		f.want(due(f), "decision nothing cancelled")
	})
	t.Run("one that a lane has is cancelled", func(t *testing.T) {
		f := start(t)
		s := f.admitted("Ann@example.com", otherID, "news")
		f.want(f.ask(`{"action":"cancel","id":%q,"to":"Ann@example.com","channel":"email"}`, otherID), "decision cancel remembered")
		o := f.owner("Ann@example.com").back(schemas.ReadmitRetry, s, fmt.Sprintf(mailTo, "Ann@example.com"), func(e *schemas.Envelope) { e.Attempt = 1 })
		f.want(o, "cancelled cancel cancelled -1")
	})
	t.Run("its recipient opts out", func(t *testing.T) {
		f := start(t)
		f.want(f.ask(`{"action":"suppress","to":"Ann@example.com"}`), "decision suppress suppress")
		f.want(f.ask(mailTo, "ann@example.com"), "suppressed suppress suppressed")
		f.want(due(f), "suppressed suppress suppressed")
	})
	t.Run("and in again", func(t *testing.T) {
		f := start(t)
		f.want(f.ask(`{"action":"suppress","to":"Ann@example.com"}`), "decision suppress suppress")
		f.want(f.ask(`{"action":"unsuppress","to":"Ann@example.com"}`), "decision suppress unsuppress")
		f.want(due(f), passes)
	})
	t.Run("it comes twice", func(t *testing.T) {
		f := start(t)
		f.want(f.ask(`{"id":%q,"channel":"email","to":"Ann@example.com","class":"news","subject":"s","body":"x"}`, someID), "decision duplicate repeated")
	})
	t.Run("its key comes twice", func(t *testing.T) {
		f := start(t)
		o := f.ask(`{"channel":"email","to":"Ann@example.com","subject":"s","body":"x","idempotency_key":"once"}`)
		if o.event.Decision.Verdict != schemas.VerdictDuplicate || o.event.To != "Ann@example.com" {
			t.Errorf("%s to %s", brief(o), o.event.To)
		}
	})
}

// TestScopesAreRespelled: a place moves to the scope that its limit has for the key.
func TestScopesAreRespelled(t *testing.T) {
	for was, want := range map[string]string{
		"A=b@x.example":                         "a=b@x.example",
		"A%3Db@x.example":                       "a%3Db@x.example",
		"recipient=A%3Db@x.example":             "recipient=a%3Db@x.example",
		"recipient=A%3Db@x.example,class=A%3Db": "recipient=a%3Db@x.example,class=A%3Db",
		"recipient=A%3Db@x.example.org":         "recipient=A%3Db@x.example.org",
		"tenant=acme":                           "tenant=acme",
	} {
		if got := limit.Rescope(was, "A=b@x.example", "a=b@x.example"); got != want {
			t.Errorf("%s became %s, want %s", was, got, want)
		}
	}
}

// TestOldMetaRecord: a meta record from before says that the ledger has old keys; a
// new one that it has none; and an older version may read both.
func TestOldMetaRecord(t *testing.T) {
	f := newFleet(t, 1)
	m := f.parts[0].p.base.meta
	b, err := m.encode()
	if err != nil || !bytes.Contains(b, []byte(`"spellings":{"folds":true}`)) {
		t.Errorf("%s, %v", b, err)
	}
	old, err := decodeMeta([]byte(strings.Replace(string(b), `,"spellings":{"folds":true}`, "", 1)))
	if err != nil || old.Spellings != (spellings{}) {
		t.Errorf("%+v, %v", old, err)
	}
}
