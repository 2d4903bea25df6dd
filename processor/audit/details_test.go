package audit

import (
	"fmt"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// One wrong detail, with all else right, is found.
func TestDetails(t *testing.T) {
	refused := func(s *sheet) *schemas.Event { return s.at("c", "refuse") }
	calendar := func(s *sheet) *schemas.Event {
		for i := range 3 {
			at := start + 11_000*schemas.Millis(i+2)
			s.admit(string(rune('g'+i)), alice, "verify", at)
		}
		hour := start - start%3_600_000
		return s.refuse("k", alice, "verify", start+66_000, hour+3_600_000, schemas.Evidence{Limit: "two", Scope: alice, Window: "5/calendar-hour", N: 5, Count: 5, Cost: 1, Start: hour, Since: start})
	}
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"a marker that says another seq of itself", KindMarker, func(s *sheet) { s.at("", "marker").Decision.Marker.Seq = 9 }},
		{"evidence of a window that is not full, and no other", KindEvidence, func(s *sheet) {
			e := refused(s)
			e.Window, e.Decision.Evidence[0].Window = "5/calendar-hour", "5/calendar-hour"
		}},
		{"evidence of another since", KindEvidence, func(s *sheet) { refused(s).Decision.Evidence[0].Since++ }},
		{"evidence of another scope", KindEvidence, func(s *sheet) { refused(s).Decision.Evidence[0].Scope = bob }},
		{"evidence of a calendar window", "", func(s *sheet) { calendar(s) }},
		{"evidence of another start", KindEvidence, func(s *sheet) { calendar(s).Decision.Evidence[0].Start++ }},
		{"refused by another window than its evidence", KindEvidence, func(s *sheet) { refused(s).Window = "5/calendar-hour" }},
		{"a refusal that returns a place", KindReturned, func(s *sheet) { refused(s).Decision.Returned = s.at("a", "admit").Decision.Charges }},
		{"sent elsewhere", "", func(s *sheet) { s.elsewhere(start + 5000) }},
		{"sent elsewhere, with a place at another time", KindCharges, func(s *sheet) { s.elsewhere(start + 5000).Decision.Charges[0].T++ }},
		{"sent elsewhere, in another scope", KindCharges, func(s *sheet) { s.elsewhere(start + 5000).Decision.Charges[0].Scope = bob }},
		{"sent elsewhere, without a place", KindCharges, func(s *sheet) { s.elsewhere(start + 5000).Decision.Charges = nil }},
		{"what was sent elsewhere counts", KindOver, func(s *sheet) {
			s.elsewhere(start + 5000)
			s.admit("h", carol, "verify", start+8100)
			s.admit("i", carol, "verify", start+8200)
		}},
		{"an end that gives its place back", "", func(s *sheet) { s.tainted(schemas.TaintNone) }},
		{"an end that gives back what may have been received", KindCause, func(s *sheet) { s.tainted(schemas.TaintReceived) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}

// elsewhere is a message that was sent elsewhere at a time.
func (s *sheet) elsewhere(at schemas.Millis) *schemas.Event {
	e, in := s.request("g", carol, "verify", start+8000)
	s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"action":"record","channel":"sms","to":%q,"class":"verify","at":%q}`, carol, at)
	e.Kind = schemas.KindDecision
	s.decide(e, schemas.VerdictRecord, start+8000, in).Charges = s.charge("g", carol, "verify", at)
	return e
}

// tainted expires a message before its second attempt, and returns its place.
func (s *sheet) tainted(taint schemas.Taint) {
	s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
	s.admit("g", carol, "verify", start+51_000)
	s.call("g", carol, "verify", schemas.StatusRetrying, 1, start+51_100).Reason = "transient"
	e, in := s.back("g", carol, "verify", schemas.ReadmitRetry, start+120_000)
	s.readmit[len(s.readmit)-1].env.Taint = taint
	s.readmit[len(s.readmit)-1].env.ExpiresAt = start + 51_000 - 10 + 60_000
	e.Status, e.Reason, e.Attempt = schemas.StatusExpired, "expired", 1
	s.decide(e, schemas.VerdictExpire, start+120_000, in).Returned = s.place["g"]
}
