package audit

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// handed is a clean log of messages for a provider that Weir does not call: one
// admitted, one that comes back to it after an attempt elsewhere.
func handed(t *testing.T, kind string) *sheet {
	t.Helper()
	s := &sheet{place: make(map[string][]schemas.Charge), partitions: 1}
	s.policies = []schemas.Policy{policyOf(t, sheetPolicy)}
	s.marker(start, sinceAll(start))
	s.admit("b", bob, "pair", start+1000)
	s.call("b", bob, "pair", schemas.StatusRetrying, 1, start+1100).Reason = "transient"
	s.policies = append(s.policies, policyOf(t, strings.Replace(sheetPolicy, "type: simulated, channels: [sms], pace: [3/1s]", "type: "+kind+", channels: [sms]", 1)))
	s.marker(start+1500, sinceAll(start))
	end := func(e *schemas.Event) {
		e.Status = schemas.StatusSent
		if kind == schemas.ProviderNone {
			s.dispatch = s.dispatch[:len(s.dispatch)-1]
		}
	}
	end(s.move("b", bob, "pair", start+2000))
	end(s.admit("a", alice, "verify", start+3000))
	s.say(&schemas.Event{Kind: schemas.KindStatus, MessageID: id("a"), To: alice, Status: schemas.StatusDelivered, Provider: "sim", Reason: "receipt"}, start+3500)
	return s
}

func TestHandedOverLawful(t *testing.T) {
	for _, kind := range []string{schemas.ProviderExternal, schemas.ProviderNone} {
		t.Run(kind, func(t *testing.T) {
			r := handed(t, kind).audit(t)
			if r.Outcome != Proven || r.Checked.Ended != 2 || r.Ends[schemas.StatusSent] != 0 && r.Ends[schemas.StatusSent] != 2 {
				t.Fatal(show(r))
			}
		})
	}
}

func TestHandedOverEveryViolation(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		want       Kind
		do         func(s *sheet)
	}{
		{"queued for a provider that is not called", schemas.ProviderExternal, KindOrder, func(s *sheet) { s.at("a", "admit").Status = schemas.StatusQueued }},
		{"sent by admission, for one that is called", schemas.ProviderExternal, KindOrder, func(s *sheet) { s.policies[1] = s.policies[0] }},
		{"not handed to the consumer", schemas.ProviderExternal, KindDispatch, func(s *sheet) { s.dispatch = s.dispatch[:2] }},
		{"handed over twice", schemas.ProviderExternal, KindDispatch, func(s *sheet) { s.dispatch = append(s.dispatch, s.dispatch[2]) }},
		{"dispatched, though it is only decided", schemas.ProviderNone, KindDispatch, func(s *sheet) {
			s.dispatched(s.at("a", "admit"))
		}},
		{"sent by a refusal", schemas.ProviderNone, KindOrder, func(s *sheet) {
			s.refuse("g", bob, "pair", start+4000, start+7000, schemas.Evidence{Limit: "pair", Window: "1/5s", N: 1, Count: 1, Cost: 1, Oldest: start + 2000, Since: start,
				Scope: "recipient=" + bob + ",class=pair"}).Status = schemas.StatusSent
		}},
		{"sent by a lane that was not sending", schemas.ProviderNone, KindOrder, func(s *sheet) {
			s.step("g", bob, "pair", schemas.StatusSent, 1, start+4000)
		}},
		{"a second end", schemas.ProviderExternal, KindTwoEnds, func(s *sheet) { s.call("a", alice, "verify", schemas.StatusSent, 1, start+4000) }},
		{"over, without sending", schemas.ProviderNone, KindOver, func(s *sheet) {
			for i := range 2 {
				s.admit(string(rune('g'+i)), alice, "verify", start+4000+schemas.Millis(i)).Status = schemas.StatusSent
				s.dispatch = s.dispatch[:len(s.dispatch)-1]
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := handed(t, c.kind)
			c.do(s)
			if r := s.audit(t); r.Outcome != Violated || r.Faults[c.want] == 0 {
				t.Fatalf("want %s:\n%s", c.want, show(r))
			}
		})
	}
}
