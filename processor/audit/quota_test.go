package audit

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// inquire adds a question for what is left, and the decision on it.
func (s *sheet) inquire(t schemas.Millis) (*schemas.Event, *written) {
	_, in := s.back("", "", "", schemas.ReadmitQuota, t)
	w := &s.readmit[len(s.readmit)-1]
	w.env = schemas.Envelope{Reason: schemas.ReadmitQuota, Reply: "0/c"}
	w.value = string(schemas.EncodeQuotaAsk(&schemas.QuotaAsk{To: bob, Scopes: []schemas.QuotaScope{{Limit: "two", Scope: bob}}}))
	e := &schemas.Event{Kind: schemas.KindDecision, Reason: reasonQuota}
	s.decide(e, schemas.VerdictNothing, t, in)
	return e, w
}

// TestQuota: a question for what is left is a decision that changes nothing, and
// the log is proven with it.
func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"answered", "", func(s *sheet) { s.inquire(start + 8000); s.inquire(start + 8000) }},
		{"no question, put aside", "", func(s *sheet) {
			e, w := s.inquire(start + 8000)
			e.Reason, w.value = "foreign_record", "x"
		}},
		{"that says it is a message, put aside", "", func(s *sheet) {
			e, w := s.inquire(start + 8000)
			e.Reason, w.env.ID, e.MessageID = "foreign_record", id("x"), id("x")
		}},
		{"put aside", KindPhantom, func(s *sheet) {
			e, _ := s.inquire(start + 8000)
			e.Reason = "foreign_record"
		}},
		{"no question, answered", KindPhantom, func(s *sheet) {
			_, w := s.inquire(start + 8000)
			w.value = "x"
		}},
		{"a message's retry taken for one", KindPhantom, func(s *sheet) {
			_, w := s.inquire(start + 8000)
			w.env = schemas.Envelope{Reason: schemas.ReadmitRetry}
		}},
		{"a message's request taken for one", KindPhantom, func(s *sheet) {
			e, in := s.request("x", bob, "verify", start+8000)
			e.Kind, e.Reason = schemas.KindDecision, reasonQuota
			s.decide(e, schemas.VerdictNothing, start+8000, in)
		}},
		{"without a decision", KindUnanswered, func(s *sheet) {
			s.inquire(start + 8000)
			s.drop(len(s.status) - 1)
			s.giveBack("e", bob, start+21_000)
		}},
		{"decided twice", KindTwice, func(s *sheet) {
			e, _ := s.inquire(start + 8000)
			again := *e
			s.decide(&again, schemas.VerdictNothing, start+8000, e.Decision.Input)
		}},
		{"that takes a place", KindCharges, func(s *sheet) {
			e, _ := s.inquire(start + 8000)
			e.Decision.Charges = []schemas.Charge{{Limit: "two", Scope: bob, T: start + 8000, Cost: 1}}
		}},
		{"that returns a place", KindReturned, func(s *sheet) {
			e, _ := s.inquire(start + 8000)
			e.Decision.Returned = []schemas.Charge{{Limit: "two", Scope: bob, T: start + 7000, Cost: 1}}
		}},
		{"that admits", KindPhantom, func(s *sheet) {
			e, _ := s.inquire(start + 8000)
			e.Decision.Verdict = schemas.VerdictSuppress
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}
