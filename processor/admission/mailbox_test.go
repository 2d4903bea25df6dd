package admission

import (
	"testing"
)

// TestMailboxes: with a rule for their domains, spellings that reach one mailbox share
// its limit; without one, or on a channel whose recipients are no addresses, they do not.
func TestMailboxes(t *testing.T) {
	const limits = `
limits:
  - {name: boxes, per: [mailbox], allow: [2/60s]}
  - {name: each, per: [recipient], allow: [1/60s]}
providers:
  - {name: one, type: simulated, channels: [email, push]}
`
	const rules = `
mailboxes:
  - {domains: [gmail.com, googlemail.com], ignore: [dots, tag]}
`
	spellings := []string{"a.nn+x@gmail.com", "Ann@googlemail.com", "ann@gmail.com", "a.n.n+y.z@googlemail.com"}
	for _, tt := range []struct {
		name, policy, channel string
		passed                int
	}{
		{"with the rule", limits + rules, "email", 2},
		{"without", limits, "email", 4},
		{"tokens", limits + rules, "push", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRing(t, 4, tt.policy)
			for _, to := range spellings {
				r.put(`{"channel":%q,"to":%q,%q:"x","body":"x"}`, tt.channel, to, map[string]string{"email": "subject", "push": "title"}[tt.channel])
				r.settle()
			}
			if len(r.sent) != tt.passed {
				t.Errorf("%d of %d were dispatched, want %d\n%s", len(r.sent), len(spellings), tt.passed, r.said())
			}
			for id, s := range r.sent { // the recipient is still the address
				if key := s.env.Key; tt.channel == "email" && key != "a.nn+x@gmail.com" && key != "ann@googlemail.com" && tt.passed == 2 {
					t.Errorf("%s goes to %s", id, key)
				}
			}
		})
	}
	// A revision that changes the rules begins anew: places of before stand in scopes
	// that no message has any more.
	r := newRing(t, 4, limits)
	for n, want := range []int{1, 2, 2, 3, 4, 4} {
		if n == 3 {
			for num := range int32(4) {
				r.apply(num, 2, limits+rules)
			}
		}
		r.put(`{"channel":"email","to":%q,"subject":"s","body":"x"}`, []string{"ann@gmail.com", "b.o.b@gmail.com", "ann@gmail.com", "a.nn@gmail.com", "an.n@gmail.com", "a.n.n@gmail.com"}[n])
		r.settle()
		if len(r.sent) != want {
			t.Fatalf("%d of %d were dispatched, want %d\n%s", len(r.sent), n+1, want, r.said())
		}
	}
}
