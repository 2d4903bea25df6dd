package audit

import (
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// redrive is a message sent again from the DLQ, and decided by decide. Its bytes
// still have the times and the key of the message that first came of them.
func (s *sheet) redrive(old, name, to, class string, t schemas.Millis) (*schemas.Event, *schemas.Source) {
	dead := schemas.Source{Topic: "weir.dlq", Partition: 3, Offset: 77}
	at := int64(len(s.readmit) * 2)
	s.readmit = append(s.readmit, written{offset: at, appended: t - 5,
		value: `{"channel":"sms","to":"` + to + `","class":"` + class + `","body":"b","idempotency_key":"k","send_at":"2027-01-15T09:00:00Z","expires_at":"2027-01-15T08:00:01Z"}`,
		env:   schemas.Envelope{ID: schemas.RedriveID(id(old), dead), Key: to, Origin: dead, Reason: schemas.ReadmitRedrive, RedriveOf: id(old)}})
	in := &schemas.Source{Topic: "weir.readmit", Offset: at}
	return &schemas.Event{Kind: schemas.KindStatus, MessageID: schemas.RedriveID(id(old), dead), Tenant: "default", Channel: "sms", Class: class,
		To: to, AcceptedAt: t - 5, Source: in, RedriveOf: id(old)}, in
}

func (s *sheet) redriven(t schemas.Millis) *schemas.Event {
	e, in := s.redrive("d", "d2", bob, "pair", t)
	e.Status, e.Provider = schemas.StatusQueued, "sim"
	s.decide(e, schemas.VerdictAdmit, t, in).Charges = s.charge("d2", bob, "pair", t)
	s.dispatched(e)
	return e
}

// repeated is the same redrive asked for once more.
func (s *sheet) repeated(t schemas.Millis) *schemas.Event {
	e, in := s.redrive("d", "d2", bob, "pair", t)
	e.Kind, e.Reason = schemas.KindDecision, "repeated"
	s.decide(e, schemas.VerdictDuplicate, t, in)
	return e
}

func TestRedrivesOfADeadLetter(t *testing.T) {
	s := newSheet(t)
	s.redriven(start + 20_000)
	s.repeated(start + 21_000)
	// Refused as acme's, because it names another tenant.
	e, in := s.redrive("c", "c2", bob, "pair", start+22_000)
	s.readmit[len(s.readmit)-1].env.Tenant = "acme"
	e.Kind, e.Reason = schemas.KindDecision, "foreign_record"
	s.decide(e, schemas.VerdictNothing, start+22_000, in)
	if r := s.audit(t); r.Outcome != Proven || r.Checked.Redriven != 1 {
		t.Fatalf("%+v", r)
	}
	for _, c := range []struct {
		name string
		kind Kind
		do   func(s *sheet)
	}{
		{"admitted twice", KindTwice, func(s *sheet) { s.redriven(start + 20_000); s.redriven(start + 30_000) }},
		{"refused, then admitted", KindTwice, func(s *sheet) {
			e, in := s.redrive("d", "d2", bob, "pair", start+20_000)
			e.Status = schemas.StatusExpired
			s.decide(e, schemas.VerdictExpire, start+20_000, in)
			s.redriven(start + 30_000)
		}},
		{"called repeated at first", KindUnanswered, func(s *sheet) { s.repeated(start + 20_000) }},
		{"repeated with a status", KindOrder, func(s *sheet) {
			s.redriven(start + 20_000)
			e := s.repeated(start + 21_000)
			e.Kind, e.Status = schemas.KindStatus, schemas.StatusDuplicate
		}},
		{"put aside as foreign", KindUnanswered, func(s *sheet) {
			e, in := s.redrive("d", "d2", bob, "pair", start+20_000)
			e.Kind, e.Reason = schemas.KindDecision, "foreign_record"
			s.decide(e, schemas.VerdictNothing, start+20_000, in)
		}},
		{"sent as another tenant than it was refused as", KindPhantom, func(s *sheet) {
			s.redriven(start + 20_000)
			s.readmit[len(s.readmit)-1].env.Tenant = "acme"
		}},
		{"an id that is not derived", KindPhantom, func(s *sheet) {
			s.redriven(start + 20_000)
			e := s.status[len(s.status)-1].event
			e.MessageID = id("x")
			s.readmit[len(s.readmit)-1].env.ID = id("x")
			s.dispatch[len(s.dispatch)-1].env.ID = id("x")
		}},
		{"the request of the first message as its own", KindPhantom, func(s *sheet) {
			s.redriven(start + 20_000).Source = &schemas.Source{Topic: "weir.requests", Offset: 3}
		}},
		{"accepted at another time", KindPhantom, func(s *sheet) { s.redriven(start + 20_000).AcceptedAt = start }},
		{"of another message", KindPhantom, func(s *sheet) { s.redriven(start + 20_000).RedriveOf = id("a") }},
		{"a redrive without decision", KindUnanswered, func(s *sheet) {
			s.redriven(start + 20_000)
			s.drop(len(s.status) - 1)
			s.dispatch = s.dispatch[:len(s.dispatch)-1]
			s.giveBack("e", bob, start+21_000)
		}},
		{"begun with an attempt", KindOrder, func(s *sheet) { s.redriven(start + 20_000).Attempt = 1 }},
		{"expired by the time in its bytes", KindLate, func(s *sheet) {
			e, in := s.redrive("d", "d2", alice, "verify", start+20_000)
			e.Status, e.Reason = schemas.StatusExpired, "expired"
			s.decide(e, schemas.VerdictExpire, start+20_000, in)
		}},
		{"expired by the first message's time in its envelope", KindLate, func(s *sheet) {
			e, in := s.redrive("d", "d2", alice, "verify", start+20_000)
			s.readmit[len(s.readmit)-1].env.ExpiresAt = start + 19_000
			e.Status, e.Reason = schemas.StatusExpired, "expired"
			s.decide(e, schemas.VerdictExpire, start+20_000, in)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			r := s.audit(t)
			if r.Outcome != Violated || !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == c.kind }) {
				t.Fatalf("want %s: %+v", c.kind, r)
			}
		})
	}
}
