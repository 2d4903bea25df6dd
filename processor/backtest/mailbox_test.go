package backtest

import (
	"testing"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// TestMailboxes tries rules on traffic of addresses that reach one mailbox: under
// them it counts together, and a limit of other rules in force is another.
func TestMailboxes(t *testing.T) {
	rules := []schemas.Mailbox{{Domains: []string{"gmail.com", "googlemail.com"}, Ignore: []schemas.MailboxPart{schemas.IgnoreDots, schemas.IgnoreTag}}}
	const boxes = "  - {name: boxes, per: [mailbox], allow: [2/60s]}"
	without, ruled := policyOf(t, boxes), policyOf(t, boxes)
	ruled.Mailboxes = rules
	bare := policyOf(t, "  - {name: each, per: [recipient], allow: [9/60s]}")
	if !knownLimits(ruled, ruled)["boxes"] || knownLimits(ruled, without)["boxes"] {
		t.Error("a limit of other rules counts in other scopes")
	}
	for _, tt := range []struct {
		name           string
		tried, inForce *schemas.Policy
		refused        int64
	}{
		{"the rules in force", ruled, ruled, 2},
		{"rules that are new", ruled, without, 2},
		{"a limit that is new", ruled, bare, 2},
		{"without the rules", without, ruled, 0},
	} {
		for _, parts := range []int{1, 4} {
			g := newLog(parts)
			for i, to := range []string{"a.nn@gmail.com", "ann+x@googlemail.com", "ann@gmail.com", "a.n.n@gmail.com", "bob@gmail.com"} {
				m := msg(i, to, "verify")
				m.Channel = "email"
				scope := "mailbox=" + to
				switch {
				case tt.inForce == ruled:
					scope = "mailbox=ann@gmail.com"
				case tt.inForce == bare:
					g.add(admitted(m, t0+schemas.Millis(i)*sec, "each"))
					continue
				}
				if i == 4 {
					scope = "mailbox=bob@gmail.com"
				}
				at, owner := t0+schemas.Millis(i)*sec, limit.Owner(scope, int32(parts))
				c := []schemas.Charge{{Limit: "boxes", Scope: scope, T: at, Cost: 1}}
				last := admitted(m, at)
				answer := with(&schemas.Event{MessageID: m.MessageID, Tenant: m.Tenant, To: to}, at, "", schemas.VerdictCharge, c...)
				if tt.inForce == ruled && (i == 2 || i == 3) {
					last = refusedBy(m, at, "boxes", "2/60s")
					last.Decision.Evidence[0].Scope = scope
					answer.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Revision: 1, Evidence: last.Decision.Evidence}
				} else if owner == g.home(to) {
					last.Decision.Charges = c
				} else {
					last.Decision.Carried = c
				}
				if owner != g.home(to) { // the message goes there and back
					home := g.home(to)
					asks := with(m, at, "", schemas.VerdictCharge)
					asks.Decision.Onward, answer.Decision.Onward = &owner, &home
					g.add(asks)
					g.addTo(owner, answer)
				}
				g.add(last)
			}
			r, _ := (&trial{tried: tt.tried, inForce: tt.inForce}).run(t, g)
			if r.Now.Refused != tt.refused || r.Messages != 5 {
				t.Errorf("%s, %d partitions: %d of %d refused, want %d", tt.name, parts, r.Now.Refused, r.Messages, tt.refused)
			}
		}
	}
}
