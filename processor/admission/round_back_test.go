package admission

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// admissions are the times at which the messages to backTo were dispatched.
func (r *ring) admissions() (at []schemas.Millis) {
	for i := range r.events {
		if e := &r.events[i]; e.Status == schemas.StatusQueued {
			at = append(at, e.Decision.T)
		}
	}
	return at
}

// TestAdmissionsAreSpaced: no window of a recipient's limit holds more admissions than it
// allows, by the time at which each was dispatched, however long their rounds took.
func TestAdmissionsAreSpaced(t *testing.T) {
	const window = 10_000
	over, admitted := 0, 0
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 20))
		r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [2/10s]}
  - {name: tenant, per: [tenant], allow: [50/10s]}
`+roundRest)
		for range 120 {
			r.now += schemas.Millis(rnd.Int64N(2000))
			switch num := rnd.Int32N(4); {
			case rnd.IntN(3) == 0:
				r.from(ownerOf(anewTo))
				r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
			default:
				r.deliver(num)
			}
		}
		r.settle()
		at := r.admissions()
		admitted += len(at)
		for i := 2; i < len(at); i++ {
			if d := at[i] - at[i-2]; d < window {
				over++
				t.Errorf("seed %d: three admissions in %s", seed, time.Duration(d)*time.Millisecond)
			}
		}
		for i := range r.events {
			e := &r.events[i]
			for _, c := range slices.Concat(e.Decision.Charges, e.Decision.Carried) {
				if e.Status == schemas.StatusQueued && !isWide(c) && c.T != e.Decision.T {
					t.Fatalf("seed %d: admitted at %s with a charge of %s", seed, e.Decision.T, c.T)
				}
			}
		}
	}
	if admitted < 200 {
		t.Errorf("%d were admitted", admitted)
	}
	t.Logf("%d admissions, %d windows with one too many", admitted, over)
}

// late sends two messages round: the first is charged at home, and when its round returns,
// the recipient's window has left it behind and counts the second.
func late(t *testing.T, policy string, retries bool) (r *ring, home int32) {
	r = newRing(t, 4, policy+roundRest)
	home, shop := ownerOf(anewTo), ownerOf("tenant=shop")
	if home == shop || home != ownerOf("class=code") {
		t.Fatal("the test needs other owners")
	}
	send := func() {
		r.from(home)
		r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
	}
	send()
	if retries {
		r.settle()
		for _, s := range r.sent {
			r.now += 100_000
			r.back(schemas.ReadmitRetry, s, func(e *schemas.Envelope) { e.Attempt = 1 })
		}
		r.events = nil
	}
	r.deliver(home)
	r.now += 10_000
	send()
	r.deliver(home)
	r.now += 1000
	r.deliver(shop)
	r.deliver(shop)
	return r, home
}

func TestRoundReturnsLate(t *testing.T) {
	const tenant = "\n  - {name: tenant, per: [tenant], allow: [50/10s]}"
	for _, c := range []struct {
		name    string
		limits  string
		retries bool
		first   string // decision of home on the first message
		second  string
		held    int // charges that stand
	}{
		{"refused", "{name: verify, per: [recipient], allow: [1/10s]}" + tenant, false,
			"limited refuse limited ?1 released 1", "queued admit +1 -1 carried 1", 2},
		{"deferred", "{name: verify, per: [recipient], allow: [1/10s], on_refusal: defer}" + tenant, false,
			"deferred defer limited ?1 released 1", "queued admit +1 -1 carried 1", 2},
		{"a retry keeps what it held", "{name: verify, per: [recipient], allow: [1/10s, 9/1h]}\n  - {name: tenant, per: [tenant], allow: [50/1h]}", true,
			"deferred defer limited -1 restored 1 released 1 reinstated 1", "queued admit +1 -1 carried 1", 4},
		{"a limit of attempts", "{name: verify, per: [recipient], count: attempt, allow: [1/10s]}" + tenant, false,
			"limited refuse limited ?1 released 1", "queued admit +1 -1 carried 1", 2},
		{"an observed limit is full by then", "{name: verify, per: [recipient], allow: [1/10s], mode: observe}" + tenant, false,
			"queued admit ?1 carried 1", "queued admit +1 -1 carried 1", 3},
		{"a bucket is drawn from once", "{name: verify, per: [recipient], allow: [bucket 1 refill 1/10s]}" + tenant, false,
			"queued admit carried 2", "queued admit carried 2", 2},
		{"a bucket beside a window", "{name: verify, per: [recipient], allow: [2/10s, bucket 1 refill 1/10s]}" + tenant, false,
			"queued admit +1 ?1 carried 1", "queued admit +1 -1 carried 1", 4},
		{"after the wide limit", "{name: tenant, per: [tenant], allow: [50/10s]}\n  - {name: verify, per: [recipient], allow: [1/10s]}", false,
			"queued admit +1 carried 1", "limited refuse limited released 1", 2},
		{"with a wide limit of home", "{name: verify, per: [recipient], allow: [1/10s]}" + tenant + "\n  - {name: class, per: [class], allow: [9/10s]}", false,
			"limited refuse limited ?1 released 1", "queued admit +2 -1 carried 1", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, home := late(t, "limits:\n  - "+c.limits, c.retries)
			r.events = nil
			r.deliver(home)
			r.want("%d "+c.first, home)
			r.deliver(home)
			r.want("%d "+c.second, home)
			r.settle()
			r.forget()
			if len(r.stand) != c.held {
				t.Errorf("%d charges stand: %v", len(r.stand), r.stand)
			}
		})
	}
}

// TestRoundReturnsUnderAnotherRevision: the recipient's limit does not apply any more. Its
// charge is given up, and not taken again.
func TestRoundReturnsUnderAnotherRevision(t *testing.T) {
	const tenant = "  - {name: tenant, per: [tenant], allow: [5/60s]}\n"
	r := setOut(t, "limits:\n  - {name: verify, per: [recipient], allow: [3/60s]}\n"+tenant)
	r.now += 1000
	r.apply(ownerOf(anewTo), 2, "limits:\n  - {name: verify, match: {metadata.kind: other}, per: [recipient], allow: [3/60s]}\n"+tenant+roundRest)
	r.settle()
	for id := range r.sent {
		if held := heldBy(r, id); held["verify"] != 0 || held["tenant"] != 1 {
			t.Errorf("it holds %v\n%s", held, r.said())
		}
	}
	if r.forget(); len(r.sent) != 1 || len(r.stand) != 1 {
		t.Errorf("%d were dispatched, and %v stands", len(r.sent), r.stand)
	}
}

// TestRoundReturnsAtOnce: charges that have the time of the dispatch already stay as they
// are.
func TestRoundReturnsAtOnce(t *testing.T) {
	r := newRing(t, 4, "limits:\n  - {name: verify, per: [recipient], allow: [1/10s]}\n  - {name: tenant, per: [tenant], allow: [50/10s]}"+roundRest)
	home, shop := ownerOf(anewTo), ownerOf("tenant=shop")
	r.from(home)
	r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, anewTo)
	r.settle()
	r.want(`
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d queued admit carried 2`, home, shop, shop, home, home)
}
