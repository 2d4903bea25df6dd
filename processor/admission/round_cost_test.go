package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A message's template grows while it is on its way: home's next revision asks the
// owner of a limit that counts parts for two, where it asked for one.
const partsScope = "prefix:3=861"

func dearer(body string) string {
	return fmt.Sprintf(`
limits:
  - {name: parts, per: ["prefix:3"], count: segments, allow: [2/1h]}
  - {name: late, per: [tenant], allow: [9/1h]}
templates:
  - {name: login, channel: sms, body: %q}
`, body) + roundRest
}

const cheap = "x"

var dear = strings.Repeat("x", 161)

func (r *ring) login(to string) {
	r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","template":"login"}`, to)
}

// TestRoundDearer: the place of the former cost is taken out in the step in which the
// new one is taken, so the message is not refused by its own place, and goes on with
// one.
func TestRoundDearer(t *testing.T) {
	owner := ownerOf(partsScope)
	for _, c := range []struct {
		name string
		to   string
		on   []int32 // whose steps are taken until home's revision changes
	}{
		{"another owner", anewTo, []int32{ownerOf(anewTo), owner}},
		{"home", "+8613800000002", []int32{owner}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := ownerOf(c.to)
			if (home == owner) != (len(c.on) == 1) {
				t.Fatal("the test needs another recipient")
			}
			r := newRing(t, 4, dearer(cheap))
			r.from(home)
			r.login(c.to)
			for _, num := range c.on {
				r.deliver(num)
			}
			if len(r.stand) != 1 {
				t.Fatalf("there stands %v", r.stand)
			}
			r.apply(home, 2, dearer(dear))
			r.settle()
			if len(r.sent) != 1 {
				t.Fatalf("%d went on\n%s", len(r.sent), r.said())
			}
			for id, s := range r.sent {
				i := slices.IndexFunc(s.env.Place, func(c schemas.Charge) bool { return c.Limit == "parts" })
				if held := heldBy(r, id); held["parts"] != 1 || held["late"] != 1 || len(r.stand) != 2 || s.env.Place[i].Cost != 2 {
					t.Errorf("it holds %+v, and there stands %v\n%s", s.env.Place, r.stand, r.said())
				}
			}
		})
	}
}

// TestRoundDearerRefused: where there is no room for the new cost, a retry gets back
// what it held before the round, and nothing of the round stands.
func TestRoundDearerRefused(t *testing.T) {
	r := newRing(t, 4, dearer(cheap))
	home, owner, shop := ownerOf(anewTo), ownerOf(partsScope), ownerOf("tenant=shop")
	for _, to := range []string{anewTo, "+8613800000001"} {
		r.login(to)
	}
	r.settle()
	var retry send
	for _, s := range r.sent {
		if s.env.Key == anewTo {
			retry = s
		}
	}
	before := len(r.stand)
	r.now += 1000
	r.back(schemas.ReadmitRetry, retry, func(e *schemas.Envelope) { e.Attempt = 1 })
	r.deliver(home)
	r.deliver(owner)
	r.apply(home, 2, dearer(dear))
	r.events = nil
	r.settle()
	r.want(`
		%d decision charge +1 -1 to %d
		%d decision charge to %d
		%d decision refuse limited to %d
		%d deferred defer limited released 2 reinstated 2
		%d decision give_back -1 restored 1
		%d decision give_back -1 restored 1`, shop, home, home, owner, owner, home, home, owner, shop)
	if len(r.stand) != before {
		t.Errorf("there stand %v, and %d stood before", r.stand, before)
	}
	if got := r.expect(map[string][]schemas.Charge{retry.env.ID: retry.env.Place}); len(got) != 2 {
		t.Errorf("it holds %v", got)
	}
}

// TestRoundDearerPassed: an owner that lacks the limit passes the message twice, and
// home says the one that was asked for at last.
func TestRoundDearerPassed(t *testing.T) {
	r := newRing(t, 4, dearer(cheap))
	home, owner := ownerOf(anewTo), ownerOf(partsScope)
	r.apply(owner, 2, roundRest)
	r.from(home)
	r.login(anewTo)
	r.deliver(home)
	r.deliver(owner)
	r.apply(home, 2, dearer(dear))
	r.settle()
	d := r.events[len(r.events)-1].Decision
	if want := []schemas.Ask{{Limit: "parts", Scope: partsScope, Cost: 2}}; d.Verdict != schemas.VerdictAdmit || !slices.Equal(d.Passed, want) {
		t.Errorf("passed %+v, want %+v\n%s", d.Passed, want, r.said())
	}
}
