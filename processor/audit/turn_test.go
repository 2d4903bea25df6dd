package audit

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A deferred message may come back before the time that its status says, its turn.
// That it waits on is a decision, which is no status and refuses nothing.
func TestCancelFreesATurn(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(first, on *schemas.Event, came *schemas.Envelope)
		want Kind
	}{
		{"waits on for its turn", func(_, _ *schemas.Event, _ *schemas.Envelope) {}, ""},
		{"no status said that it waits", func(first, _ *schemas.Event, _ *schemas.Envelope) {
			first.Kind, first.Status, first.Reason = schemas.KindDecision, "", "no_usable_provider"
		}, KindOrder},
		{"is its first status", func(first, _ *schemas.Event, _ *schemas.Envelope) { first.Status = schemas.StatusScheduled }, KindOrder},
		{"for a limit, without a status", func(_, on *schemas.Event, _ *schemas.Envelope) {
			on.Reason, on.Limit, on.Window = "limited", "two", "2/10s"
			on.Decision.Evidence = []schemas.Evidence{evidence(start+10_000, start+1000)}
		}, KindOrder},
		{"as a status", func(_, on *schemas.Event, _ *schemas.Envelope) {
			on.Kind, on.Status = schemas.KindStatus, schemas.StatusDeferred
		}, KindOrder},
		{"that has come", func(_, _ *schemas.Event, came *schemas.Envelope) { came.Turn = start + 10_000 }, KindOrder},
		{"that it has not", func(_, _ *schemas.Event, came *schemas.Envelope) { came.Turn = 0 }, KindOrder},
		{"until before it", func(_, on *schemas.Event, _ *schemas.Envelope) { on.RetryAt-- }, KindRetryAt},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			s.policies[0] = policyOf(t, strings.Replace(sheetPolicy, "5/calendar-hour]", "5/calendar-hour], on_refusal: defer", 1))
			held := s.at("c", "limited") // its limit defers now
			held.Status, held.Decision.Verdict = schemas.StatusDeferred, schemas.VerdictDefer
			first, in := s.request("g", alice, "verify", start+8000)
			first.Status, first.Reason, first.Limit, first.Window, first.RetryAt = schemas.StatusDeferred, "limited", "two", "2/10s", start+16_000
			s.decide(first, schemas.VerdictDefer, start+8000, in).Evidence = []schemas.Evidence{evidence(start+8000, start+1000)}
			on, in := s.back("g", alice, "verify", schemas.ReadmitDue, start+10_000)
			came := &s.readmit[len(s.readmit)-1].env
			came.Turn = start + 16_000
			on.Kind, on.Reason, on.RetryAt = schemas.KindDecision, "turn", start+16_000
			s.decide(on, schemas.VerdictDefer, start+10_000, in)
			c.do(first, on, came)
			moved, in := s.back("g", alice, "verify", schemas.ReadmitDue, start+11_500) // there is room
			moved.Status, moved.Provider = schemas.StatusQueued, "sim"
			s.decide(moved, schemas.VerdictAdmit, start+11_500, in).Charges = s.charge("g", alice, "verify", start+11_500)
			s.dispatched(moved)
			r := s.audit(t)
			if c.want == "" && len(r.Faults) > 0 || c.want != "" && r.Faults[c.want] == 0 {
				t.Fatal(show(r))
			}
		})
	}
}
