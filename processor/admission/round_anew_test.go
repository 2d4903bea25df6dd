package admission

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A message whose home's revision changes while it is on its way.
const anewTo = "+8613800000000"

// setOut sends a message round until its own limits have been asked, and stops
// before it comes home again.
func setOut(t *testing.T, first string) *ring {
	r := newRing(t, 4, first+roundRest)
	home := ownerOf(anewTo)
	if home == ownerOf("tenant=shop") || home == ownerOf("") {
		t.Fatal("the test needs other owners")
	}
	r.from(home)
	r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
	r.deliver(home)
	r.deliver(ownerOf("tenant=shop"))
	return r
}

// heldBy are what the one message that was dispatched holds, by limit.
func heldBy(r *ring, id string) map[string]int {
	held := map[string]int{}
	for _, c := range r.sent[id].env.Place {
		held[c.Limit]++
	}
	return held
}

// TestRoundAnewOwnLast: the new revision has another limit to ask before home's
// own, and one more of home's own: both are asked.
func TestRoundAnewOwnLast(t *testing.T) {
	r := setOut(t, `
limits:
  - {name: verify, per: [recipient], allow: [3/60s]}
  - {name: tenant, per: [tenant], allow: [5/60s]}
`)
	home := ownerOf(anewTo)
	r.apply(home, 2, `
limits:
  - {name: all, per: [], allow: [5/60s]}
  - {name: verify, per: [recipient], allow: [3/60s]}
  - {name: slowly, per: [recipient], allow: [2/60s]}
  - {name: tenant, per: [tenant], allow: [5/60s]}
`+roundRest)
	r.apply(ownerOf(""), 2, `
limits:
  - {name: all, per: [], allow: [5/60s]}
`+roundRest)
	r.settle()
	for id := range r.sent {
		held := heldBy(r, id)
		for _, l := range []string{"all", "verify", "slowly", "tenant"} {
			if held[l] != 1 {
				t.Errorf("%d places in %s: %v\n%s", held[l], l, held, r.said())
			}
		}
	}
	if len(r.sent) != 1 {
		t.Errorf("%d were dispatched", len(r.sent))
	}
}

// TestRoundAnewForgotten: the place that home took under the old revision is gone
// when it asks its own limits anew. The message carries the new one alone.
func TestRoundAnewForgotten(t *testing.T) {
	r := setOut(t, `
limits:
  - {name: verify, per: [recipient], allow: [3/5s]}
  - {name: tenant, per: [tenant], allow: [5/60s]}
`)
	home := ownerOf(anewTo)
	queued := r.queues[home]
	r.queues[home] = nil
	r.now += schemas.Millis(10_000)
	r.apply(home, 2, `
limits:
  - {name: verify, per: [recipient], allow: [3/4s]}
  - {name: tenant, per: [tenant], allow: [5/60s]}
`+roundRest)
	// Another place in the same ring, for which what no window sees makes room.
	r.from(home)
	r.put(`{"channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
	r.settle()
	r.queues[home] = queued
	r.settle()
	if len(r.sent) != 2 {
		t.Fatalf("%d were dispatched:\n%s", len(r.sent), r.said())
	}
	for id := range r.sent {
		if held := heldBy(r, id); held["verify"] != 1 || held["tenant"] != 1 {
			t.Errorf("it holds %v\n%s", held, r.said())
		}
	}
}

// TestRoundAnewFormer: the new revision does not have a limit in which the message
// has a place, and has another to ask: the place is given up, though home has
// nothing more to ask when the message is back.
func TestRoundAnewFormer(t *testing.T) {
	r := setOut(t, `
limits:
  - {name: verify, per: [recipient], allow: [3/60s]}
  - {name: tenant, per: [tenant], allow: [5/60s]}
`)
	const without = `
limits:
  - {name: all, per: [], allow: [5/60s]}
`
	r.apply(ownerOf(anewTo), 2, without+roundRest)
	r.apply(ownerOf(""), 2, without+roundRest)
	r.settle()
	if len(r.sent) != 1 {
		t.Fatalf("%d were dispatched:\n%s", len(r.sent), r.said())
	}
	for id := range r.sent {
		if held := heldBy(r, id); held["all"] != 1 || len(held) != 1 {
			t.Errorf("it holds %v\n%s", held, r.said())
		}
	}
	if len(r.stand) != 1 {
		t.Errorf("there stands %v", r.stand)
	}
}
