package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

const (
	gatePolicy = `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s]}
classes:
  - {name: code, retries: [5s]}
providers:
  - {name: nobody, type: none, channels: [sms]}
`
	gated       = `{"id":"` + someID + `","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`
	other       = `{"id":"` + otherID + `","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`
	releaseSome = `{"action":"release","id":"` + someID + `","to":"+86 138 0000 0000"}`
)

func newGate(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.apply(2, gatePolicy)
	return b
}

func TestReleaseGivesBackOnce(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newGate(t)
		first := b.want(b.request(gated), "sent admit +1")
		again(b)
		b.want(b.request(other), "limited refuse limited")
		again(b)
		e := b.want(b.request(releaseSome), "decision give_back released -1").event
		if e.MessageID != someID || e.To != codeTo || e.Tenant != "default" || e.Status != "" || e.Decision.Returned[0] != first.event.Decision.Charges[0] {
			t.Errorf("%+v", e)
		}
		again(b)
		b.want(b.request(releaseSome), "decision nothing repeated")
		again(b)
		b.want(b.request(gated), "decision duplicate repeated") // its id is still its own
		again(b)
		b.want(b.request("%s", strings.Replace(other, otherID[30:], "000009", 1)), "sent admit +1")
		again(b)
		b.want(b.request(releaseSome), "decision nothing repeated") // and gives back nobody else's
		b.want(b.request(other), "decision duplicate repeated")
	})
}

func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	release := func(id, more string) string {
		return fmt.Sprintf(`{"action":"release","id":%q,"to":"+8613800000000"%s}`, id, more)
	}
	const not = "decision nothing not_held"
	both(t, func(t *testing.T, again func(*bench)) {
		t.Run("nobody knows it", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request("%s", release(someID, "")), not)
		})
		t.Run("another tenant's", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request(gated), "sent admit +1")
			again(b)
			b.want(b.request("%s", release(someID, `,"tenant":"acme"`)), not)
			b.want(b.request("%s", release(someID, `,"tenant":"default"`)), "decision give_back released -1")
		})
		t.Run("another recipient's", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request(gated), "sent admit +1")
			again(b)
			b.want(b.request(`{"action":"release","id":%q,"to":"+8613800000001"}`, someID), not)
		})
		t.Run("refused", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request(gated), "sent admit +1")
			b.want(b.request(other), "limited refuse limited")
			again(b)
			b.want(b.request("%s", release(otherID, "")), not)
		})
		t.Run("handed to a consumer", func(t *testing.T) {
			b := newBench(t)
			b.apply(2, strings.Replace(gatePolicy, "type: none", "type: external", 1))
			b.want(b.request(gated), "sent admit +1 > dispatch.nobody.normal")
			again(b)
			b.want(b.request(releaseSome), not)
		})
		t.Run("with a lane", func(t *testing.T) {
			b := newBench(t)
			b.want(b.request(gated), "queued admit +1 > dispatch.one.normal")
			again(b)
			b.want(b.request(releaseSome), not)
		})
		t.Run("without a place", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request("%s", strings.Replace(gated, "code", "free", 1)), "sent admit")
			again(b)
			b.want(b.request(releaseSome), not)
		})
		t.Run("in no window any more", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request(gated), "sent admit +1")
			again(b)
			b.now += 60_000
			b.want(b.request(releaseSome), not)
		})
		t.Run("in a window at its last moment", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request(gated), "sent admit +1")
			again(b)
			b.now += 59_999
			b.want(b.request(releaseSome), "decision give_back released -1")
		})
		t.Run("invalid", func(t *testing.T) {
			b := newGate(t)
			b.want(b.request(`{"action":"release","to":"+8613800000000"}`), "decision reject required > dlq")
		})
	})
}

// A retry that ends in a decision without sending can be released only if the
// attempts before surely brought nothing to the recipient.
func TestReleaseAfterAnAttempt(t *testing.T) {
	for taint, want := range map[schemas.Taint]string{
		schemas.TaintNone:     "decision give_back released -1",
		schemas.TaintReceived: "decision nothing not_held",
		schemas.TaintUnknown:  "decision nothing not_held",
	} {
		t.Run("taint "+string(taint), func(t *testing.T) {
			both(t, func(t *testing.T, again func(*bench)) {
				b := newBench(t)
				o := b.want(b.request(gated), "queued admit +1 > dispatch.one.normal")
				b.apply(2, gatePolicy)
				b.now += 5000
				again(b)
				b.want(b.back(schemas.ReadmitRetry, o.send[0], gated, func(e *schemas.Envelope) { e.Attempt, e.Taint = 1, taint }), "sent move +1 -1")
				again(b)
				b.want(b.request(releaseSome), want)
			})
		})
	}
}

// What an aborted transaction decided, released or swept is as if it had not
// been.
func TestAbortedRelease(t *testing.T) {
	b := newGate(t)
	b.want(b.request(gated), "sent admit +1")
	abort := func(now schemas.Millis, value string, want string) {
		t.Helper()
		b.p.begin()
		b.p.advance(now)
		o, err := b.p.decide(&input{value: []byte(value), appended: now, header: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		b.want(o, want)
		if err := b.p.changes(func([]byte, []byte) {}, func(*seenRecord) {}); err != nil {
			t.Fatal(err)
		}
		b.p.rollback()
	}
	abort(b.now, releaseSome, "decision give_back released -1")
	abort(b.now+7_200_000, other, "sent admit +1") // sweeps the first
	b.want(b.request(releaseSome), "decision give_back released -1")
	b.want(b.request(other), "sent admit +1")
	b.now += 7_200_000
	b.want(b.request(`{"channel":"sms","to":"+8613800000001","class":"free","body":"x"}`), "sent admit")
	if n := b.log.of(heldKind); n != 0 {
		t.Errorf("%d records are left in the ledger", n)
	}
}

// The ledger and memory hold what some window may still see, and soon after not
// more.
func TestHoldsAreSwept(t *testing.T) {
	b := newGate(t)
	r := rand.New(rand.NewPCG(1, 2))
	const n = 3000
	for i := range n {
		b.now += schemas.Millis(r.IntN(20_000))
		b.request(`{"channel":"sms","to":"+86138%08d","class":"code","body":"x"}`, i)
		if i%700 == 699 {
			b.restart()
		}
		// An hour's decisions at the most, and those of the hour before it.
		if held := b.log.of(heldKind); held > 2*3_600_000/10_000+100 || held != len(b.p.held.base) {
			t.Fatalf("%d in the ledger and %d in memory after %d", held, len(b.p.held.base), i)
		}
	}
	b.now += 10_000_000
	for range 20 {
		b.request(`{"channel":"sms","to":"+8613800000000","class":"free","body":"x"}`)
	}
	if len(b.p.held.base) != 0 || b.log.of(heldKind) != 0 || len(b.p.held.ends) != 0 {
		t.Errorf("%d are left in memory, %d in the ledger, %d hours", len(b.p.held.base), b.log.of(heldKind), len(b.p.held.ends))
	}
}

// However decisions, releases, restarts and aborts follow each other, as many
// stand as were admitted and not released, and never more than the limit.
func TestReleasesAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		b := newBench(t)
		b.apply(2, strings.Replace(gatePolicy, "1/60s", "2/60s, 3/calendar-hour", 1))
		type decision struct {
			id   string
			at   schemas.Millis
			back bool
		}
		var all []*decision
		hour := func(at schemas.Millis) schemas.Millis { return at / 3_600_000 }
		standing := func() (minute, clock int) {
			for _, d := range all {
				if d.back {
					continue
				}
				if d.at > b.now-60_000 {
					minute++
				}
				if hour(d.at) == hour(b.now) {
					clock++
				}
			}
			return minute, clock
		}
		for i := range 150 {
			b.now += schemas.Millis(r.IntN(60_000))
			if r.IntN(10) == 0 {
				b.restart()
			}
			if r.IntN(3) > 0 || len(all) == 0 {
				id := fmt.Sprintf("0b6f0e7e-0000-4000-8000-%012d", i)
				o := b.request(`{"id":%q,"channel":"sms","to":"+8613800000000","class":"code","body":"x"}`, id)
				minute, clock := standing()
				if ok := minute < 2 && clock < 3; ok != (o.event.Status == schemas.StatusSent) {
					t.Fatalf("seed %d: %d and %d stand: %s", seed, minute, clock, brief(o))
				} else if ok {
					all = append(all, &decision{id: id, at: b.now})
				}
				continue
			}
			d := all[r.IntN(len(all))]
			want := "decision give_back released -1"
			switch seen := d.at > b.now-60_000 || hour(d.at) == hour(b.now); {
			case !seen:
				want = "decision nothing not_held"
			case d.back:
				want = "decision nothing repeated"
			}
			b.want(b.request(`{"action":"release","id":%q,"to":"+8613800000000"}`, d.id), want)
			d.back = d.back || want == "decision give_back released -1"
		}
	}
}

// A state that has swept, followed another owner's ledger, and sweeps again,
// misses nothing; and an id that is decided again keeps its later end.
func TestHoldsFollowAnother(t *testing.T) {
	h := newHolds()
	end := func(hour int64) []byte {
		return fmt.Appendf(nil, `{"v":1,"until":%q}`, schemas.Millis(hour*heldBucket))
	}
	one, two := heldKey("t", "a", "1"), heldKey("t", "a", "2")
	h.put(one, holding{Until: 5 * heldBucket})
	h.commit()
	h.sweep(heldBucket, 10)
	h.commit()
	if err := h.load(two, end(6)); err != nil {
		t.Fatal(err)
	}
	h.put(one, holding{Until: 9 * heldBucket})
	h.commit()
	h.sweep(7*heldBucket, 10)
	h.commit()
	if _, is := h.find(two); is {
		t.Error("what another wrote was not swept")
	}
	if e, is := h.find(one); !is || e.Until != 9*heldBucket {
		t.Errorf("what was decided again: %v %+v", is, e)
	}
	h.put(one, holding{Until: 8 * heldBucket})
	h.commit()
	h.put(one, holding{Until: 12 * heldBucket})
	h.commit()
	h.sweep(10*heldBucket, 10)
	h.commit()
	if _, is := h.find(one); !is {
		t.Error("what was decided again was swept by its earlier end")
	}
}

// What a decision holds at owners of wide limits comes back with the rest, once.
func TestReleaseOfWideLimits(t *testing.T) {
	const to, ip = "+8613800000000", "metadata.ip=192.0.2.1"
	home, shop, all := ownerOf(to), ownerOf("tenant=shop"), ownerOf("")
	r := newRing(t, 4, `
limits:
  - {name: asker, per: [metadata.ip], allow: [2/1h]}
  - {name: verify, per: [recipient], allow: [2/60s]}
  - {name: shop, match: {tenant: shop}, per: [tenant], allow: [1/1h]}
  - {name: all, per: [], allow: [2/1h]}
`+roundRest)
	ask := func(n int) {
		r.from(home)
		r.put(`{"id":"00000000-0000-4000-8000-%012d","provider":"nobody","tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x","metadata":{"ip":"192.0.2.1"}}`, n, to)
		r.settle()
	}
	release := func() {
		r.events = nil
		r.from(home)
		r.put(`{"action":"release","id":"00000000-0000-4000-8000-000000000001","tenant":"shop","to":%q}`, to)
		r.settle()
	}
	ask(1)
	r.want(`
		%d decision charge to %d
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d sent admit carried 4`, home, ownerOf(ip), ownerOf(ip), home, home, shop, shop, all, all, home, home)
	if len(r.stand) != 4 || len(r.sent) != 0 {
		t.Fatalf("%v stand, %v went on", r.stand, r.sent)
	}
	ask(2) // the tenant has had its one
	i := slices.IndexFunc(r.events, func(e schemas.Event) bool { return e.Status == schemas.StatusLimited })
	if i < 0 || r.events[i].Limit != "shop" || len(r.stand) != 4 {
		t.Fatalf("%s\nand %v stand", r.said(), r.stand)
	}
	release()
	if got, want := r.said(), fmt.Sprintf("%d decision give_back released -1 released 3\n", home); !strings.HasPrefix(got, want) {
		t.Fatalf("got\n%s\nwant\n%s and its owners", got, want)
	}
	if len(r.stand) != 0 {
		t.Fatalf("after the release: %v", r.stand)
	}
	release()
	r.want(`%d decision nothing repeated`, home)
	ask(3)
	if len(r.stand) != 4 {
		t.Fatalf("the next has %v", r.stand)
	}
}
