package admission

import "testing"

// TestRoundNothingApplies: when a message is back, home's revision has no limit any
// more. All that it was charged is given up.
func TestRoundNothingApplies(t *testing.T) {
	r := setOut(t, `
limits:
  - {name: verify, per: [recipient], allow: [2/60s]}
  - {name: shop, per: [tenant], allow: [2/1h]}
`)
	home := ownerOf(anewTo)
	r.said()
	r.apply(home, 2, roundRest)
	r.deliver(home)
	r.want("%d queued admit -1 released 1", home)
	r.settle()
	if len(r.stand) > 0 {
		t.Errorf("there stands %v", r.stand)
	}
}
