package admission

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// ledgerLog is what a bench's partition wrote, compacted.
type ledgerLog struct {
	ledger map[string][]byte
	seen   [][]byte
}

// commit writes the open transaction as the stage does, and ends it.
func (b *bench) commit() {
	b.t.Helper()
	if b.log.ledger == nil {
		b.log.ledger = make(map[string][]byte)
	}
	if err := b.p.changes(
		func(key, value []byte) {
			if b.log.ledger[string(key)] = bytes.Clone(value); value == nil {
				delete(b.log.ledger, string(key))
			}
		},
		func(r *seenRecord) { b.log.seen = append(b.log.seen, r.encode()) },
	); err != nil {
		b.t.Fatal(err)
	}
	b.p.commit()
}

// restart makes the partition anew from what it wrote.
func (b *bench) restart() {
	b.t.Helper()
	pol := b.p.base.pol
	p, err := newPartition(b.p.num, b.p.env)
	if err != nil {
		b.t.Fatal(err)
	}
	for k, v := range b.log.ledger {
		if err := p.load([]byte(k), v); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, v := range b.log.seen {
		r, err := decodeSeen(v)
		if err != nil {
			b.t.Fatal(err)
		}
		p.loadSeen(r)
	}
	if err := p.adopt(&schemas.Revision{Revision: p.base.meta.Marker.Revision, Policy: *pol}); err != nil {
		b.t.Fatal(err)
	}
	b.p = p
}

// of counts the ledger's records of a kind.
func (l *ledgerLog) of(kind byte) (n int) {
	for k := range l.ledger {
		if len(k) == 17 && k[0] == kind {
			n++
		}
	}
	return n
}

// both runs a test as it is, and with a restart before every input.
func both(t *testing.T, fn func(t *testing.T, again func(*bench))) {
	t.Run("in one go", func(t *testing.T) { fn(t, func(*bench) {}) })
	t.Run("over restarts", func(t *testing.T) { fn(t, (*bench).restart) })
}

const (
	someID  = "0b6f0e7e-0000-4000-8000-000000000001"
	otherID = "0b6f0e7e-0000-4000-8000-000000000002"
	codeTo  = "+8613800000000"
)

func TestSuppressionCoversWhatItNames(t *testing.T) {
	const queued, ended = "queued admit +1 > dispatch.one.normal", "suppressed suppress suppressed"
	for _, c := range []struct{ name, action, want string }{
		{"everything", `"to":"+8613800000000"`, ended},
		{"another spelling", `"to":"+86 138-0000-0000"`, ended},
		{"its channel", `"to":"+8613800000000","channel":"sms"`, ended},
		{"its class", `"to":"+8613800000000","class":"code"`, ended},
		{"its tenant", `"to":"+8613800000000","tenant":"default"`, ended},
		{"all three", `"to":"+8613800000000","channel":"sms","class":"code","tenant":"default"`, ended},
		{"another recipient", `"to":"+8613800000001"`, queued},
		{"another channel", `"to":"+8613800000000","channel":"voice"`, queued},
		{"another class", `"to":"+8613800000000","class":"marketing"`, queued},
		{"another tenant", `"to":"+8613800000000","tenant":"acme"`, queued},
		{"its class elsewhere", `"to":"+8613800000000","class":"code","tenant":"acme"`, queued},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, again func(*bench)) {
				b := newBench(t)
				b.want(b.request(`{"action":"suppress",%s}`, c.action), "decision suppress suppress")
				again(b)
				b.want(b.request(`{"action":"suppress",%s}`, c.action), "decision nothing repeated")
				again(b)
				b.want(b.request(code), c.want)
				again(b)
				b.want(b.request(`{"action":"unsuppress",%s}`, c.action), "decision suppress unsuppress")
				if n := b.log.of(suppressionKind); n != 0 {
					t.Errorf("%d records in the ledger for nobody", n)
				}
				again(b)
				b.want(b.request(`{"action":"unsuppress",%s}`, c.action), "decision nothing not_suppressed")
				again(b)
				b.now += 60_000
				b.want(b.request(code), queued)
			})
		})
	}
}

func TestUnsuppressTakesBackOneScope(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		b.want(b.request(`{"action":"suppress","to":"+8613800000000"}`), "decision suppress suppress")
		again(b)
		e := b.want(b.request(`{"action":"suppress","to":"+8613800000000","class":"code"}`), "decision suppress suppress").event
		if e.To != codeTo || e.Class != "code" || e.Tenant != "" || e.Status != "" {
			t.Errorf("the decision does not say whom it suppresses for what: %+v", e)
		}
		again(b)
		b.want(b.request(`{"action":"unsuppress","to":"+8613800000000"}`), "decision suppress unsuppress")
		again(b)
		b.want(b.request(code), "suppressed suppress suppressed")
		b.want(b.request(`{"channel":"sms","to":"+8613800000000","class":"other","body":"x"}`), "queued admit > dispatch.one.normal")
	})
}

func TestSuppressionsOfOneRecipientAreBounded(t *testing.T) {
	b := newBench(t)
	for i := range maxScopes {
		b.want(b.request(`{"action":"suppress","to":"+8613800000000","class":"c%d"}`, i), "decision suppress suppress")
	}
	b.want(b.request(`{"action":"suppress","to":"+8613800000000","class":"more"}`), "decision reject too_many_suppressions > dlq")
	for k, v := range b.log.ledger {
		if k[0] == suppressionKind && len(v) > 256<<10 {
			t.Errorf("a record of %d bytes", len(v))
		}
	}
}

// What comes back to a recipient that opted out, or that was cancelled while it
// was out of reach, ends there; its place returns if it surely was not received.
func TestComesBackUnwanted(t *testing.T) {
	for _, action := range []struct{ request, decision, end string }{
		{`{"action":"suppress","to":"+8613800000000"}`, "decision suppress suppress", "suppressed suppress suppressed"},
		{`{"action":"cancel","id":"` + someID + `","to":"+8613800000000"}`, "decision cancel remembered", "cancelled cancel cancelled"},
	} {
		status, verdict, _ := strings.Cut(action.end, " ")
		for _, c := range []struct {
			name   string
			reason string
			change func(*schemas.Envelope)
			want   string
		}{
			{"stale", schemas.ReadmitStale, func(*schemas.Envelope) {}, action.end + " -1"},
			{"retry", schemas.ReadmitRetry, func(e *schemas.Envelope) { e.Attempt = 1 }, action.end + " -1"},
			{"retry, may be received", schemas.ReadmitRetry, func(e *schemas.Envelope) { e.Attempt, e.Taint = 1, schemas.TaintReceived }, action.end},
			{"retry, unknown", schemas.ReadmitRetry, func(e *schemas.Envelope) { e.Attempt, e.Taint = 1, schemas.TaintUnknown }, "unknown " + verdict},
		} {
			t.Run(status+" "+c.name, func(t *testing.T) {
				both(t, func(t *testing.T, again func(*bench)) {
					b := newBench(t)
					value := strings.Replace(code, "{", `{"id":"`+someID+`",`, 1)
					first := b.want(b.request("%s", value), "queued admit +1 > dispatch.one.normal")
					again(b)
					b.want(b.request("%s", action.request), action.decision)
					again(b)
					b.now += 5000
					b.want(b.back(c.reason, first.send[0], value, c.change), c.want)
				})
			})
		}
	}
}

func TestScheduledToOneWhoOptedOut(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		value, s := b.schedule("")
		again(b)
		b.want(b.request(`{"action":"suppress","to":"+8613800000000"}`), "decision suppress suppress")
		again(b)
		b.now += 3_600_000
		b.want(b.back(schemas.ReadmitDue, s.send[0], value, nil), "suppressed suppress suppressed")
		if n := b.log.of(waitingKind); n != 0 {
			t.Errorf("%d records in the ledger for nobody who waits", n)
		}
	})
}

// schedule sends a message for an hour from now.
func (b *bench) schedule(more string) (value string, o outcome) {
	b.t.Helper()
	value = fmt.Sprintf(`{%s"id":%q,"channel":"sms","to":"+8613800000000","class":"code","body":"x","send_at":%q}`, more, someID, b.now+3_600_000)
	return value, b.want(b.request("%s", value), "scheduled defer send_at > delay.1h")
}

const cancelSome = `{"action":"cancel","id":"` + someID + `","to":"+86 138 0000 0000"}`

func TestCancelOfScheduledActsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		value, s := b.schedule("")
		again(b)
		e := b.want(b.request(cancelSome), "cancelled cancel cancelled").event
		if e.MessageID != someID || e.To != codeTo || e.Class != "code" || e.Channel != "sms" || e.Tenant != "default" || *e.Source != *s.event.Source || e.AcceptedAt != s.event.AcceptedAt {
			t.Errorf("the end is not the message's: %+v\n%+v", e, s.event)
		}
		again(b)
		b.want(b.request(cancelSome), "decision nothing cancelled")
		again(b)
		b.want(b.request("%s", value), "decision duplicate repeated") // a repeat of its id, as ever
		again(b)
		b.now += 3_600_000
		b.want(b.back(schemas.ReadmitDue, s.send[0], value, nil), "decision nothing cancelled")
		if n := b.log.of(waitingKind); n != 0 {
			t.Errorf("%d records in the ledger for nobody who waits", n)
		}
	})
}

func TestCancelOfDeferredActsAtOnce(t *testing.T) {
	for _, c := range []struct {
		taint schemas.Taint
		want  string
		next  string // of a message 50 s later, when only this place is in its way
	}{
		{schemas.TaintNone, "cancelled cancel cancelled -1", "queued admit +1 > dispatch.one.normal"},
		{schemas.TaintReceived, "cancelled cancel cancelled", "limited refuse limited"},
		{schemas.TaintUnknown, "unknown cancel cancelled", "limited refuse limited"},
	} {
		t.Run("taint "+string(c.taint), func(t *testing.T) {
			both(t, func(t *testing.T, again func(*bench)) {
				b := newBench(t)
				b.apply(2, strings.Replace(lifePolicy, "1/60s", "2/60s", 1))
				value := strings.Replace(code, "{", `{"id":"`+someID+`",`, 1)
				b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
				b.now += 20_000
				first := b.want(b.request("%s", value), "queued admit +1 > dispatch.one.normal")
				again(b)
				b.apply(3, lifePolicy) // one place now, and two stand: its retry is refused
				parked := b.want(b.back(schemas.ReadmitRetry, first.send[0], value, func(e *schemas.Envelope) { e.Attempt, e.Taint = 1, c.taint }), "deferred defer limited > delay.30s")
				again(b)
				e := b.want(b.request(cancelSome), c.want).event
				if e.Attempt != 1 || e.Provider != "one" {
					t.Errorf("%+v", e)
				}
				again(b)
				b.now += 42_000 // the first place has left
				b.want(b.request(code), c.next)
				again(b)
				b.want(b.back(schemas.ReadmitRetry, parked.send[0], value, nil), "decision nothing cancelled")
			})
		})
	}
}

// A retry that a lane let wait is not in the waiting set, and one that was let
// wait again is: both end once.
func TestWaitsMoreThanOnce(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		value, s := b.schedule("")
		b.now += 1_800_000
		again(b)
		early := b.want(b.back(schemas.ReadmitDue, s.send[0], value, nil), "scheduled defer send_at > delay.5m")
		again(b)
		b.want(b.request(cancelSome), "cancelled cancel cancelled")
		again(b)
		b.now += 1_800_000
		b.want(b.back(schemas.ReadmitDue, early.send[0], value, nil), "decision nothing cancelled")
	})
}

func TestCancelBeforeItsMessage(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		value := strings.Replace(code, "{", `{"id":"`+strings.ToUpper(someID)+`",`, 1)
		b.want(b.request(cancelSome), "decision cancel remembered")
		again(b)
		b.want(b.request(cancelSome), "decision nothing repeated")
		again(b)
		if e := b.want(b.request("%s", value), "cancelled cancel cancelled").event; e.MessageID != someID {
			t.Errorf("id %s", e.MessageID)
		}
		again(b)
		b.want(b.request("%s", value), "decision duplicate repeated")
		again(b)
		b.want(b.request("%s", strings.Replace(value, someID[30:], otherID[30:], 1)), "queued admit +1 > dispatch.one.normal")
	})
}

// However an id was spelled, and in whatever encoding, a cancel finds it.
func TestCancelOfAnIdInAnotherSpelling(t *testing.T) {
	b := newBench(t)
	value, err := schemas.RequestProto(&schemas.Request{ID: strings.ToUpper(someID), Channel: schemas.ChannelSMS, To: codeTo, Class: "code", Body: "x", SendAt: b.now + 3_600_000})
	if err != nil {
		t.Fatal(err)
	}
	b.p.begin()
	b.p.advance(b.now)
	o, err := b.p.decide(&input{value: value, appended: b.now, header: func(key string) (string, bool) {
		if key != "content-type" {
			return "", false
		}
		return "application/x-protobuf", true
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.commit()
	b.want(o, "scheduled defer send_at > delay.1h")
	if e := b.want(b.request(cancelSome), "cancelled cancel cancelled").event; e.MessageID != o.event.MessageID {
		t.Errorf("ended %s, scheduled as %s", e.MessageID, o.event.MessageID)
	}
}

func TestCancelIsForgottenAfterADay(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		b.want(b.request(cancelSome), "decision cancel remembered")
		again(b)
		b.now += 24*3_600_000 - 1
		b.want(b.request("%s", strings.Replace(code, "{", `{"id":"`+someID+`",`, 1)), "cancelled cancel cancelled")
		again(b)
		b.now += 2 * 3_600_000
		b.want(b.request(cancelSome), "decision cancel remembered")
	})
}

func TestCancelWorksWithinATenant(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		value, s := b.schedule("")
		again(b)
		b.want(b.request(`{"action":"cancel","tenant":"acme","id":%q,"to":"+8613800000000"}`, someID), "decision cancel remembered")
		again(b)
		b.want(b.request(`{"action":"cancel","id":%q,"to":"+8613800000009"}`, someID), "decision cancel remembered") // nor to another recipient
		again(b)
		b.now += 3_600_000
		b.want(b.back(schemas.ReadmitDue, s.send[0], value, nil), "queued admit +1 > dispatch.one.normal")
	})
}

// A message that waits longer than ids are remembered is still one message.
func TestRepeatOfOneThatStillWaits(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		value := fmt.Sprintf(`{"id":%q,"channel":"sms","to":"+8613800000000","class":"code","body":"x","send_at":%q}`, someID, b.now+30*24*3_600_000)
		b.want(b.request("%s", value), "scheduled defer send_at > delay.1d")
		again(b)
		b.now += 26 * 3_600_000
		b.want(b.request("%s", value), "decision duplicate repeated")
	})
}

// An id is one message's for a day, whoever made it: its form proves no origin. The
// ids of earlier versions, which ended in the recipient's hash, were taken for Weir's
// own, so anyone who wrote such a one sent as often as he liked.
func TestAnIDIsOneMessageWhateverItsForm(t *testing.T) {
	fresh, err := schemas.NewID()
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]string{
		"a new id":            fresh,
		"of an earlier form":  schemas.LegacyID(fresh, "+8613800000000"),
		"a derived one":       schemas.DerivedID(schemas.Source{Topic: "acme.sends", Offset: 7}, 1),
		"a producer's own v4": someID,
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, again func(*bench)) {
				b := newBench(t)
				value := fmt.Sprintf(`{"id":%q,"channel":"sms","to":"+8613800000000","class":"code","body":"x"}`, id)
				b.want(b.request("%s", value), "queued admit +1 > dispatch.one.normal")
				again(b)
				b.now += 60_000
				b.want(b.request("%s", value), "decision duplicate repeated")
			})
		})
	}
}

// A repeat of a duplicate is a repeat: its id has had its end.
func TestDuplicateEndsOnce(t *testing.T) {
	b := newBench(t)
	with := func(id, body string) string {
		return fmt.Sprintf(`{"id":%q,"idempotency_key":"k","channel":"sms","to":"+8613800000000","class":"code","body":%q}`, id, body)
	}
	b.want(b.request("%s", with(someID, "x")), "queued admit +1 > dispatch.one.normal")
	b.want(b.request("%s", with(otherID, "x")), "duplicate duplicate duplicate")
	b.want(b.request("%s", with(otherID, "x")), "decision duplicate repeated")
	third := strings.Replace(otherID, "2", "3", 1)
	b.want(b.request("%s", with(third, "y")), "rejected reject key_reused > dlq")
	b.want(b.request("%s", with(third, "y")), "decision duplicate repeated")
}

func TestRecordTakesItsPlaceAtItsTime(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		b.now += 60_000 // the window is complete
		record := func(more string) string {
			return fmt.Sprintf(`{%s"action":"record","channel":"sms","to":"+86 138 0000 0000","class":"code","at":%q}`, more, b.now-20_000)
		}
		first := record(`"idempotency_key":"r",`)
		o := b.want(b.request("%s", first), "decision record +1")
		if c := o.event.Decision.Charges[0]; c.T != b.now-20_000 || c.Scope != codeTo {
			t.Errorf("charged %+v", c)
		}
		if o.event.Status != "" || len(o.send) > 0 {
			t.Errorf("it is no message: %+v", o)
		}
		again(b)
		b.want(b.request("%s", first), "decision duplicate duplicate")
		again(b)
		b.want(b.request(code), "limited refuse limited")
		again(b)
		b.want(b.request("%s", record("")), "decision record +1") // over the limit: it was sent, and counts
		again(b)
		b.now += 39_999
		b.want(b.request(code), "limited refuse limited")
		b.now++
		b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	})
}

// An action that is wrong is a decision: under the id of a cancel no status may
// stand but that of the message it names.
func TestBadActions(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"cancel without id", `{"action":"cancel","to":"+8613800000000"}`, "decision reject required > dlq"},
		{"cancel of no UUID", `{"action":"cancel","id":"17","to":"+8613800000000"}`, "decision reject bad_id > dlq"},
		{"cancel to nobody", `{"action":"cancel","id":"` + someID + `"}`, "decision reject required > dlq"},
		{"cancel to an impossible number", `{"action":"cancel","id":"` + someID + `","to":"+86138"}`, "decision reject bad_recipient_phone > dlq"},
		{"an action nobody knows", `{"action":"cancle","id":"` + someID + `","to":"+8613800000000"}`, "decision reject unknown_value > dlq"},
		{"suppress nobody", `{"action":"suppress"}`, "decision reject required > dlq"},
		{"record without a time", `{"action":"record","channel":"sms","to":"+8613800000000"}`, "decision reject required > dlq"},
		{"record of the future", `{"action":"record","channel":"sms","to":"+8613800000000","at":"2036-01-01T00:00:00Z"}`, "decision reject at_out_of_range > dlq"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			o := b.want(b.request("%s", c.value), c.want)
			if o.event.MessageID == someID {
				t.Errorf("it stands under the message's id: %+v", o.event)
			}
		})
	}
	t.Run("back from where no action goes", func(t *testing.T) {
		b := newBench(t)
		for _, reason := range []string{schemas.ReadmitDue, schemas.ReadmitRetry, schemas.ReadmitStale} {
			b.want(b.decide(&input{readmit: true, value: []byte(cancelSome), env: schemas.Envelope{Reason: reason, Key: codeTo, ID: someID}}), "decision nothing foreign_record > dlq")
		}
	})
}

// Whoever reads an action sends it to the owner of its recipient, where it is
// carried out under the key that was found here.
func TestMisroutedActions(t *testing.T) {
	start := newBench(t).now
	for _, value := range []string{
		`{"action":"suppress","to":"138 0000 0000","tenant":"cn"}`,
		`{"action":"unsuppress","to":"138 0000 0000","tenant":"cn"}`,
		`{"action":"cancel","id":"` + someID + `","to":"138 0000 0000","tenant":"cn"}`,
		`{"action":"record","channel":"sms","to":"138 0000 0000","tenant":"cn","class":"code","at":"2026-11-21T09:00:59Z"}`,
	} {
		t.Run(value, func(t *testing.T) {
			owner := schemas.PartitionOf(codeTo, 2)
			var site [2]*bench
			for n := range site {
				p, err := newPartition(int32(n), environment{partitions: 2, delays: 1, dlq: 1})
				if err != nil {
					t.Fatal(err)
				}
				site[n] = &bench{t: t, p: p, now: start}
				site[n].apply(1, lifePolicy+"tenants:\n  - {name: cn, default_region: CN}\n")
				site[n].now += 60_000
			}
			away, home := site[1-owner], site[owner]
			o := away.want(away.request("%s", value), "decision forward > readmit")
			if o.send[0].partition != owner || o.send[0].env.Key != codeTo {
				t.Fatalf("sent to %d as %+v", o.send[0].partition, o.send[0].env)
			}
			if o.event.MessageID == someID {
				t.Errorf("the forward stands under the message's id")
			}
			got := home.back(schemas.ReadmitForward, o.send[0], value, nil)
			if got.event.Kind != schemas.KindDecision || got.event.To != codeTo {
				t.Errorf("got %s: %+v", brief(got), got.event)
			}
			for _, b := range []*bench{away, home} {
				changed := len(b.p.suppressed.base) > 0 || !b.p.cancels.none() || b.p.table.Len() > 0
				if want := b == home && !strings.Contains(value, "unsuppress"); changed != want {
					t.Errorf("partition %d changed: %v", b.p.num, changed)
				}
			}
		})
	}
}

// TestAbortedActions: what an aborted transaction did never was.
func TestAbortedActions(t *testing.T) {
	b := newBench(t)
	value, s := b.schedule("")
	before := snapshot(b.p)
	b.p.begin()
	b.p.advance(b.now)
	for _, in := range []*input{
		{value: []byte(`{"action":"suppress","to":"+8613800000000"}`)},
		{value: []byte(cancelSome)},
		{value: []byte(`{"action":"cancel","id":"` + otherID + `","to":"+8613800000000"}`)},
		{value: []byte(fmt.Sprintf(`{"action":"record","channel":"sms","to":"+8613800000000","class":"code","at":%q}`, b.now))},
		{value: []byte(value), readmit: true, env: s.send[0].env},
	} {
		in.header = func(string) (string, bool) { return "", false }
		if _, err := b.p.decide(in); err != nil {
			t.Fatal(err)
		}
	}
	if snapshot(b.p) == before {
		t.Fatal("nothing changed in the transaction: the test tests nothing")
	}
	b.p.rollback()
	if after := snapshot(b.p); after != before {
		t.Errorf("after the abort\n%s\nbefore\n%s", after, before)
	}
	b.now += 3_600_000
	b.want(b.back(schemas.ReadmitDue, s.send[0], value, nil), "queued admit +1 > dispatch.one.normal")
}

// snapshot tells in a line what actions have changed in a partition.
func snapshot(p *partition) string {
	w, ok := p.waiting.find(waitKey("default", codeTo, someID))
	_, early := p.cancels.find(cancelKey("default", codeTo, otherID), p.cur.meta.T)
	var places []string
	for _, r := range p.table.Peek(p.cur.rules, &limit.Subject{Recipient: codeTo, Tenant: "default", Channel: "sms", Class: "code"}, p.cur.meta.T) {
		places = append(places, fmt.Sprint(r.Left))
	}
	_, suppressed := p.suppressed.covers(codeTo, scope{}, p.cur.meta.T)
	return fmt.Sprintf("suppressed %v, waits %v cancelled %v, early %v, left %v", suppressed, ok, w.Cancelled, early, slices.Clip(places))
}
