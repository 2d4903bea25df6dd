package admission

import (
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestRoundOwnerCountsByAnother: an owner whose revision has given the limit another
// per passes the message on, and takes no place in a scope that no window sees.
func TestRoundOwnerCountsByAnother(t *testing.T) {
	r := newRing(t, 4, `
limits:
  - {name: tenant, per: [tenant], allow: [5/60s]}
`+roundRest)
	r.apply(ownerOf("tenant=shop"), 2, `
limits:
  - {name: tenant, per: [tenant, class], allow: [5/60s]}
`+roundRest)
	r.from(ownerOf(anewTo))
	r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
	r.settle()
	if len(r.stand) != 0 || len(r.sent) != 1 {
		t.Fatalf("%d were dispatched, and there stands %v\n%s", len(r.sent), r.stand, r.said())
	}
	if !slices.ContainsFunc(r.events, func(e schemas.Event) bool {
		return e.Decision.Verdict == schemas.VerdictCharge && e.Decision.Partition == ownerOf("tenant=shop") && len(e.Decision.Passed) == 1
	}) {
		t.Errorf("its owner did not pass it:\n%s", r.said())
	}
}

// TestRoundAttemptRefused: a limit that counts attempts gives the place back of a
// message that a later limit refused: there was no attempt.
func TestRoundAttemptRefused(t *testing.T) {
	r := newRing(t, 4, `
limits:
  - {name: tries, per: [tenant], allow: [5/60s], count: attempt}
  - {name: all, per: [], allow: [1/60s]}
`+roundRest)
	for range 2 {
		r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
		r.settle()
	}
	if len(r.sent) != 1 || len(r.stand) != 2 {
		t.Errorf("%d were dispatched, and there stands %v\n%s", len(r.sent), r.stand, r.said())
	}
}

// TestRoundOwnerAllOrNothing: an owner that is asked for two limits, of which the
// second is full, takes no place in the first.
func TestRoundOwnerAllOrNothing(t *testing.T) {
	r := newRing(t, 4, `
limits:
  - {name: wide, per: [tenant], allow: [5/60s]}
  - {name: narrow, per: [tenant], allow: [1/60s]}
`+roundRest)
	for range 2 {
		r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
		r.settle()
	}
	if len(r.sent) != 1 || len(r.stand) != 2 {
		t.Errorf("%d were dispatched, and there stands %v\n%s", len(r.sent), r.stand, r.said())
	}
}
