package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// Homes of these recipients: carol's owns the scope of acme, dave's that of all.
const (
	dave  = "+8613800000009"
	eve   = "+8613800000008"
	frank = "+8613800000010"
)

func TestWorld(t *testing.T) {
	for what, want := range map[string]int32{ipScope: 2, acmeScope: 0, "": 1, seenScope: 1, alice: 4, bob: 6, carol: 0, dave: 1, eve: 7, frank: 3} {
		if got := ownerOf(what); got != want {
			t.Errorf("%s belongs to %d, and the logs are written for %d", what, got, want)
		}
	}
}

func fullOf(limit, scope, window string, n int64, oldest schemas.Millis) schemas.Evidence {
	return schemas.Evidence{Limit: limit, Scope: scope, Window: window, N: n, Count: n, Cost: 1, Oldest: oldest, Since: start}
}

// around is a message's whole round, from home and back to it.
func (m *letter) around(t schemas.Millis) *letter {
	m.on(t, nil, "ip")
	m.take(t+10, "ip")
	m.on(t+20, []string{"verify", "pair"}, "acme", "all")
	m.take(t+30, "acme")
	m.take(t+40, "all")
	return m
}

// cleanWorld is a clean log of messages that go round: a is sent at once; b at its
// second attempt; c is refused by its own home half way; d fails, and gives its
// places back; the homes of e and f own what they ask for; g is refused by the
// last owner; h and i pass a limit that only observes, full at i; k comes back,
// is refused, and waits with its old places, and is admitted in the end; r was
// sent elsewhere.
type cleanWorld struct {
	*world
	t                               testing.TB
	a, b, c, d, e, f, g, h, i, k, r *letter
}

func newCleanWorld(t testing.TB) *cleanWorld {
	w := &cleanWorld{world: newWorld(t), t: t}
	s := start + 1000
	w.a = w.send("a", alice, "verify", s).around(s)
	w.a.admit(s + 50)
	w.a.call(schemas.StatusSent, s+100)

	s = start + 2000
	w.b = w.send("b", alice, "verify", s).around(s)
	w.b.admit(s + 50)
	w.b.call(schemas.StatusRetrying, s+100).Reason = "transient"
	w.b.back(schemas.ReadmitRetry, s+200)
	w.b.around(s + 300).admit(s + 350)
	w.b.call(schemas.StatusSent, s+400)

	s = start + 4000
	w.c = w.send("c", alice, "verify", s)
	w.c.on(s, nil, "ip")
	w.c.take(s+10, "ip")
	w.c.round.Evidence, w.c.round.RetryAt = []schemas.Evidence{fullOf("verify", alice, "2/10s", 2, start+1050)}, start+11_050
	w.c.refuse(s + 20)

	s = start + 5000
	w.d = w.send("d", bob, "verify", s).around(s)
	w.d.admit(s + 50)
	w.d.fails(s + 100)

	s = start + 12_000
	w.e = w.send("e", carol, "verify", s)
	w.e.on(s, nil, "ip")
	w.e.take(s+10, "ip")
	w.e.on(s+20, []string{"verify", "pair", "acme"}, "all")
	w.e.take(s+30, "all")
	w.e.admit(s + 40)
	w.e.call(schemas.StatusSent, s+100)

	s = start + 13_000
	w.f = w.send("f", dave, "verify", s)
	w.f.on(s, nil, "ip")
	w.f.take(s+10, "ip")
	w.f.on(s+20, []string{"verify", "pair"}, "acme")
	w.f.take(s+30, "acme")
	w.f.admit(s+40, "all")
	w.f.call(schemas.StatusSent, s+100)

	s = start + 14_000
	w.r = w.elsewhere("r", frank, s-3000, s, []string{"verify", "pair"}, "ip", "acme", "all")
	w.r.recorded(s+10, "ip")
	w.r.recorded(s+20, "acme")
	w.r.recorded(s+30, "all")

	s = start + 25_000
	w.g = w.send("g", eve, "verify", s)
	w.g.on(s, nil, "ip")
	w.g.take(s+10, "ip")
	w.g.on(s+20, []string{"verify", "pair"}, "acme", "all")
	w.g.take(s+30, "acme")
	w.g.full(s+40, start+61_040, fullOf("all", "", "5/60s", 5, start+1040))
	w.g.refuse(s + 50)

	s = start + 90_000
	w.h = w.send("h", eve, "seen", s)
	w.h.on(s, nil, "acme", "all", "watch")
	w.h.take(s+10, "acme")
	w.h.take(s+20, "all", "watch")
	w.h.admit(s + 30)
	w.h.call(schemas.StatusSent, s+100)

	s = start + 91_000
	w.i = w.send("i", frank, "seen", s)
	w.i.on(s, nil, "acme", "all", "watch")
	w.i.take(s+10, "acme")
	d := w.i.take(s+20, "all", "watch")
	unplaced(w.i, d, "watch", fullOf("watch", seenScope, "1/60s", 1, start+90_020))
	w.i.admit(s + 30)
	w.i.call(schemas.StatusSent, s+100)

	s = start + 100_000
	w.k = w.send("k", bob, "verify", s).around(s)
	w.k.admit(s + 50)
	w.k.call(schemas.StatusRetrying, s+100).Reason = "transient"
	for i, to := range []string{alice, carol, dave, eve, frank} {
		s := start + 161_000 + 100*schemas.Millis(i)
		m := w.send("k"+to[13:], to, "other", s)
		switch to {
		case carol:
			m.on(s, []string{"acme"}, "all")
			m.take(s+20, "all")
			m.admit(s + 30)
		case dave:
			m.on(s, nil, "acme")
			m.take(s+10, "acme")
			m.admit(s+20, "all")
		default:
			m.on(s, nil, "acme", "all")
			m.take(s+10, "acme")
			m.take(s+20, "all")
			m.admit(s + 30)
		}
		m.call(schemas.StatusSent, s+50)
	}
	s = start + 162_000
	w.k.back(schemas.ReadmitRetry, s)
	w.k.on(s, nil, "ip")
	w.k.take(s+10, "ip")
	w.k.on(s+20, []string{"verify", "pair"}, "acme", "all")
	w.k.take(s+30, "acme")
	w.k.full(s+40, start+221_020, fullOf("all", "", "5/60s", 5, start+161_020))
	w.k.waits(s+50, start+221_020)
	w.k.back(schemas.ReadmitRetry, start+221_500)
	w.k.around(start + 222_000)
	w.k.admit(start + 222_050)
	w.k.call(schemas.StatusSent, start+222_100)
	return w
}

// unplaced takes a place out of an owner's step that was just written: the limit
// only observes, and is full.
func unplaced(m *letter, d *schemas.Decision, limit string, ev schemas.Evidence) {
	of := func(c schemas.Charge) bool { return c.Limit == limit }
	d.Charges = slices.DeleteFunc(slices.Clone(d.Charges), of)
	m.round.Taken = slices.DeleteFunc(slices.Clone(m.round.Taken), of)
	d.Passed, d.Evidence = m.ask(limit), []schemas.Evidence{ev}
	m.round.Passed, m.round.Evidence = d.Passed, d.Evidence
	r := m.round
	m.env.Round = &r
}

func TestWideCleanLogIsProven(t *testing.T) {
	r := newCleanWorld(t).audit(t)
	if r.Outcome != Proven {
		t.Fatal(show(r))
	}
	t.Log(show(r))
}

// What is right is not taken for wrong.
func TestWideLawfulLogs(t *testing.T) {
	for _, c := range []struct {
		name string
		want Outcome
		do   func(w *cleanWorld)
	}{
		{"an old place put back where it is full", Proven, func(w *cleanWorld) { w.crowded(false) }},
		{"home's own step observes, too", Proven, func(w *cleanWorld) { w.observedAtHome() }},
		{"an old place put back, and it counts", Proven, func(w *cleanWorld) {
			w.crowded(false)
			m := w.send("y", alice, "other", free+6000)
			m.on(free+6000, nil, "acme", "all")
			m.full(free+6010, free+60_010, fullOf("acme", acmeScope, "6/60s", 6, free+10))
			m.refuse(free + 6020)
		}},
		{"cancelled on its way, after it waited", Proven, func(w *cleanWorld) {
			x := w.crowded(false)
			t := schemas.Millis(free + 70_000)
			x.back(schemas.ReadmitRetry, t)
			x.on(t+10, nil, "acme", "all")
			w.cancel(x, t+15)
			x.take(t+20, "acme")
			x.take(t+30, "all")
			x.ends(schemas.VerdictCancel, schemas.StatusCancelled, "cancelled", t+40, x.round.Taken, nil)
		}},
		{"what counts attempts gives back what came to none", Proven, func(w *cleanWorld) {
			w.revise(t, nil, "[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: attempt}")
			w.fill()
			m := w.half(over)
			m.full(over+40, free+60_020, fullOf("all", "", "5/60s", 5, free+20))
			m.refuse(over + 50)
		}},
		{"what counts attempts keeps what came to one", Proven, func(w *cleanWorld) {
			w.revise(t, nil, "[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: attempt}")
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 50)
			m.held = without(m.held, "acme")
			m.fails(free + 60)
		}},
		{"a request without what a limit counts by", Proven, func(w *cleanWorld) {
			m := w.send("x", bob, "verify", free)
			s := w.parts[m.home]
			s.requests[len(s.requests)-1].value = strings.Replace(m.value, `"metadata":{"ip":"10.0.0.13"}`, `"metadata":{}`, 1)
			m.value = s.requests[len(s.requests)-1].value
			m.on(free, []string{"verify", "pair"}, "acme", "all")
			m.take(free+10, "acme")
			m.take(free+20, "all")
			m.admit(free + 30)
		}},
		{"recorded where an owner has no such limit", Proven, func(w *cleanWorld) {
			r := w.elsewhere("x", frank, free, free, []string{"verify", "pair"}, "ip", "acme", "all")
			r.recorded(free+10, "ip")
			r.recorded(free+20, "acme")
			w.revise(t, []int32{1}, "  - {name: all, per: [], allow: [5/60s, 50/calendar-day]}\n", "")
			r.unrecorded(free+30, "all")
		}},
		{"cancelled on its way, and ended at home", Proven, func(w *cleanWorld) {
			m := w.half(free)
			w.cancel(m, free+35)
			m.take(free+40, "all")
			m.ends(schemas.VerdictCancel, schemas.StatusCancelled, "cancelled", free+50, m.round.Taken, nil)
		}},
		{"a repeat of what is on its way", Proven, func(w *cleanWorld) {
			m := w.half(free)
			again := *m
			again.request(free + 35)
			e := m.event(schemas.KindDecision)
			e.Reason, e.DuplicateOf = "repeated", id(m.name)
			w.decide(m.home, e, schemas.VerdictDuplicate, free+35, again.in)
			m.take(free+40, "all")
			m.admit(free + 50)
		}},
		{"expired on its way", Proven, func(w *cleanWorld) {
			m := w.half(free)
			m.take(free+601_000, "all")
			m.ends(schemas.VerdictExpire, schemas.StatusExpired, "expired", free+602_000, m.round.Taken, nil)
		}},
		{"an attempt may have been received: a retry that expires keeps its old places", Proven, func(w *cleanWorld) {
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 50)
			m.call(schemas.StatusRetrying, free+100)
			received(w.parts[m.home].status, w.journal, m.name)
			m.taint = schemas.TaintReceived
			m.back(schemas.ReadmitRetry, free+599_000)
			m.around(free + 599_800)
			m.ends(schemas.VerdictExpire, schemas.StatusExpired, "expired", free+600_050, m.round.Taken, m.round.Moved)
		}},
		{"a retry that expires half way gives up all", Proven, func(w *cleanWorld) {
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 50)
			m.call(schemas.StatusRetrying, free+100).Reason = "transient"
			m.back(schemas.ReadmitRetry, free+599_000)
			m.on(free+599_900, nil, "ip")
			m.take(free+599_910, "ip")
			left, _ := minus(m.old, m.round.Moved)
			m.endsBoth(free+600_050, m.round.Taken, left)
		}},
		{"home refuses at the end, since others took the places meanwhile", Proven, func(w *cleanWorld) {
			m := w.slow()
			m.round.Evidence, m.round.RetryAt = []schemas.Evidence{fullOf("verify", bob, "2/10s", 2, free+10_120)}, free+20_120
			m.refuse(free + 11_050)
		}},
		{"home refuses a retry at the end: its old places, put back in this step, did not count", Proven, func(w *cleanWorld) {
			w.revise(w.t, nil, "allow: [2/10s]", "allow: [2/10s, 3/100s]")
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 50)
			m.call(schemas.StatusRetrying, free+100).Reason = "transient"
			m.back(schemas.ReadmitRetry, free+30_000)
			m.on(free+30_100, nil, "ip")
			m.take(free+30_110, "ip")
			m.on(free+30_120, []string{"verify", "pair"}, "acme", "all")
			m.take(free+30_130, "acme")
			y, z := w.halfOf("y", free+40_200), w.halfOf("z", free+40_300)
			m.take(free+41_000, "all")
			y.take(free+41_010, "all")
			z.take(free+41_020, "all")
			m.round.Evidence, m.round.RetryAt = []schemas.Evidence{fullOf("verify", bob, "2/10s", 2, free+40_220)}, free+50_220
			m.waits(free+41_050, free+50_220)
		}},
		{"a bucket beside a window is drawn from when the round begins, and not again", Proven, func(w *cleanWorld) {
			w.revise(w.t, nil, "allow: [9/60s, 90/calendar-day]", `allow: [9/60s, "bucket 1 refill 1/10s"], exempt: ["+8613900000000"]`)
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 5000)
			w.send("y", bob, "verify", free+10_000).around(free + 10_000).admit(free + 10_050)
		}},
		{"a bucket alone is drawn from when the round begins, and not again", Proven, func(w *cleanWorld) {
			w.revise(w.t, nil, "allow: [9/60s, 90/calendar-day]", `allow: ["bucket 1 refill 1/10s"], exempt: ["+8613900000000"]`)
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 5000)
			w.send("y", bob, "verify", free+10_000).around(free + 10_000).admit(free + 10_050)
		}},
		{"under way at the end of the log", Proven, func(w *cleanWorld) { w.half(free) }},
		{"asked back at the end of the log", Proven, func(w *cleanWorld) {
			w.fill()
			m := w.half(over)
			m.full(over+40, free+60_020, fullOf("all", "", "5/60s", 5, free+20))
			m.refuse(over + 50)
			for p, s := range w.parts { // nobody has answered yet
				if i := slices.IndexFunc(s.status, func(o written) bool {
					return o.event.MessageID == id("x") && o.event.Decision.Verdict == schemas.VerdictGiveBack
				}); i >= 0 {
					w.parts[p].drop(i)
				}
			}
		}},
		{"an owner that has no such limit", Proven, func(w *cleanWorld) {
			m := w.half(free)
			w.revise(t, []int32{1}, "  - {name: all, per: [], allow: [5/60s, 50/calendar-day]}\n", "")
			m.through(free+40, "all")
			m.admit(free + 50)
		}},
		{"an owner that counts by another thing", Proven, func(w *cleanWorld) {
			m := w.half(free)
			w.revise(t, []int32{1}, "{name: all, per: []", "{name: all, per: [channel]")
			m.through(free+40, "all")
			m.admit(free + 50)
		}},
		{"an owner that lets fewer through", Proven, func(w *cleanWorld) {
			w.fill()
			m := w.half(over)
			w.revise(t, []int32{1}, "5/60s", "4/60s")
			m.full(over+40, free+60_120, schemas.Evidence{Limit: "all", Window: "4/60s", N: 4, Count: 5, Cost: 1, Oldest: free + 20, Since: start})
			m.refuse(over + 50)
		}},
		{"a limit that is off, and on again, while a retry waits", Proven, func(w *cleanWorld) { w.offAndOn() }},
		{"home's next revision asks an owner for another cost", Proven, func(w *cleanWorld) { w.dearer() }},
		{"home's next revision asks an owner for another cost, and is refused", Proven, func(w *cleanWorld) {
			w.revise(w.t, nil, "5/60s", "9/60s")
			w.fill()
			m := w.half(over)
			m.take(over+40, "all")
			w.revise(w.t, []int32{m.home}, "5/60s", "9/60s", "[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: segments}")
			m.dear("acme", "verify", "pair")
			m.full(over+60, free+60_010, schemas.Evidence{Limit: "acme", Scope: acmeScope, Window: "6/60s", N: 6, Count: 5, Cost: 2, Oldest: free + 10, Since: start})
			m.refuse(over + 70)
		}},
		{"home's next revision asks the owner of a limit that counts attempts for another cost", Proven, func(w *cleanWorld) { w.dearer(attempts...) }},
		{"home's next revision asks its own limits anew, where one counts attempts and one is a bucket", Proven, func(w *cleanWorld) { w.anewOfBucket() }},
		{"home's next revision asks its own limits anew before others", Proven, func(w *cleanWorld) {
			m, d := w.dearOfBucket()
			d.Passed = drawnFrom(d, "pair")
			m.takeDearer(free + 60)
			m.admit(free + 70)
		}},
		{"home has another revision when it is back", Proven, func(w *cleanWorld) {
			m := w.half(free)
			m.take(free+40, "all")
			w.revise(t, []int32{m.home}, "  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}\n", "")
			m.anew(free+50, "acme", "verify", "pair")
		}},
		{"what it held of an earlier attempt does not apply any more", Proven, func(w *cleanWorld) {
			m := w.half(free)
			m.take(free+40, "all")
			m.admit(free + 50)
			m.call(schemas.StatusRetrying, free+100).Reason = "transient"
			w.revise(t, []int32{m.home}, "  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}\n", "")
			m.back(schemas.ReadmitRetry, free+200)
			m.on(free+300, nil, "ip")
			m.take(free+310, "ip")
			m.on(free+320, []string{"verify", "pair"}, "all")
			m.take(free+330, "all")
			former := only(m.old, "acme")
			d := m.admit(free + 340).Decision
			m.gives(d, schemas.ReadmitGiveBack, former, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCleanWorld(t)
			c.do(w)
			if r := w.audit(t); r.Outcome != c.want {
				t.Fatal(show(r))
			}
		})
	}
}

// attempts makes acme a limit that counts attempts.
var attempts = []string{"[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: attempt}"}

// bucket makes pair a bucket that has no other limit's history, and verify a limit
// that counts attempts.
var bucket = []string{"allow: [9/60s, 90/calendar-day]", `allow: ["bucket 9 refill 9/s"], exempt: ["+8613900000000"]`, "allow: [2/10s]", "allow: [2/10s], count: attempt"}

// drawnFrom takes out of what a step returned what was drawn from a bucket, and says
// so.
func drawnFrom(d *schemas.Decision, limit string) (out []schemas.Ask) {
	for _, c := range only(d.Returned, limit) {
		out = append(out, schemas.Ask{Limit: c.Limit, Scope: c.Scope, Cost: c.Cost, T: c.T})
	}
	d.Returned = without(d.Returned, limit)
	return out
}

// anewOfBucket is a message that comes home under another revision: its own limits
// are asked anew, and what it drew from a bucket is gone.
func (w *cleanWorld) anewOfBucket() *schemas.Decision {
	w.revise(w.t, nil, bucket...)
	m := w.half(free)
	m.take(free+40, "all")
	w.revise(w.t, []int32{m.home}, append([]string{"  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}\n", ""}, bucket...)...)
	d := m.anew(free+50, "acme", "verify", "pair")
	d.Passed = drawnFrom(d, "pair")
	return d
}

// dearOfBucket is the same where home then asks others.
func (w *cleanWorld) dearOfBucket() (*letter, *schemas.Decision) {
	w.revise(w.t, nil, bucket...)
	m := w.half(free)
	w.revise(w.t, []int32{m.home}, append([]string{"[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: segments}"}, bucket...)...)
	m.take(free+40, "all")
	return m, m.dear("acme", "verify", "pair")
}

// dearer is a message of two parts: home's next revision counts them in acme, when
// the owner has taken a place that costs one. He takes it out in the step in which he
// takes the new one.
func (w *cleanWorld) dearer(texts ...string) *letter {
	if len(texts) > 0 {
		w.revise(w.t, nil, texts...)
	}
	m := w.half(free)
	m.take(free+40, "all")
	w.revise(w.t, []int32{m.home}, "[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: segments}")
	m.dear("acme", "verify", "pair")
	m.takeDearer(free + 60)
	m.admit(free + 70)
	return m
}

// takeDearer is the owner's step that dear asks for.
func (m *letter) takeDearer(t schemas.Millis) {
	was := only(m.round.Taken, "acme")
	m.round.Taken = without(m.round.Taken, "acme")
	d := m.take(t, "acme")
	d.Returned, d.Charges[0].Cost = was, 2
	m.round.Moved, m.round.Taken[len(m.round.Taken)-1].Cost = nil, 2
	m.relay()
}

// dear is home's step on a message of two parts, which asks for two in a limit: anew
// for its own.
func (m *letter) dear(limit string, own ...string) *schemas.Decision {
	s := m.w.parts[m.home]
	value := strings.Replace(m.value, `"body":"b"`, `"body":"`+strings.Repeat("b", 161)+`"`, 1)
	for _, o := range [][]written{s.requests, m.w.parts[m.at].readmit} {
		for i := range o {
			if o[i].value == m.value {
				o[i].value = value
			}
		}
	}
	m.value, m.parts = value, 2
	was := slices.Clone(m.round.Taken)
	for _, l := range own {
		m.round.Taken = without(m.round.Taken, l)
	}
	d := m.on(m.w.parts[m.home].status[len(m.w.parts[m.home].status)-1].event.At+10, own, limit)
	for _, l := range own {
		d.Returned = append(d.Returned, only(was, l)...)
	}
	m.round.Ask[0].Cost = 2
	m.relay()
	return d
}

// relay writes the round as it is now into the record that waits.
func (m *letter) relay() {
	r := m.round
	r.Ask, r.Taken, r.Moved = slices.Clone(r.Ask), slices.Clone(r.Taken), slices.Clone(r.Moved)
	m.env.Round = &r
}

// offAndOn is a retry that the last owner refuses twice: once while the limit before
// it is off at its owner, who gives the old place up and cannot put it back, and once
// when it is on again. Then the owner finds another's place of that millisecond in
// its stead, and puts it back. No window sees either.
func (w *cleanWorld) offAndOn() {
	const limit = "  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}\n"
	x := w.crowded(false)
	owner := []int32{ownerOf(acmeScope)}
	t := schemas.Millis(free + 6000)
	retry := func() {
		x.back(schemas.ReadmitRetry, t)
		x.on(t+10, nil, "acme", "all")
	}
	refused := func() {
		x.full(t+30, free+61_020, fullOf("all", "", "5/60s", 5, free+1020))
		x.waits(t+40, free+61_020)
	}
	w.revise(w.t, owner, limit, "")
	retry()
	d := w.decide(x.at, x.brief(), schemas.VerdictCharge, t+20, x.in)
	_, d.Returned = x.takes(t+20, []string{"acme"})
	d.Passed = x.ask("acme")
	x.round.Passed, x.round.Moved, x.round.Ask = d.Passed, d.Returned, x.round.Ask[1:]
	x.onward(d)
	refused()
	given := w.said(x, schemas.VerdictGiveBack)
	off := given[len(given)-1].Decision
	off.Passed = []schemas.Ask{{Limit: "acme", Scope: acmeScope, Cost: 1, T: off.Restored[0].T}}
	off.Restored = nil

	t += 1000
	w.revise(w.t, owner, limit, limit)
	retry()
	x.take(t+20, "acme")
	refused()
}

// TestWideGone: wherever retention cuts the logs, it is no violation.
func TestWideGone(t *testing.T) {
	every := schemas.Millis(7100)
	for _, c := range []struct {
		name                  string
		log, inputs, dispatch bool
	}{{"all", true, true, true}, {"the decision log", true, false, false}, {"what it answers", false, true, false}} {
		t.Run(c.name, func(t *testing.T) {
			for at := start; at < start+225_000; at += every {
				w := newCleanWorld(t)
				w.crowded(false)
				late := func(o written) bool { return o.appended < at }
				for _, s := range w.parts {
					if c.log {
						s.status = slices.DeleteFunc(s.status, late)
					}
					if c.inputs {
						s.requests, s.readmit = slices.DeleteFunc(s.requests, late), slices.DeleteFunc(s.readmit, late)
					}
				}
				if c.dispatch {
					w.dispatch, w.journal = slices.DeleteFunc(w.dispatch, late), slices.DeleteFunc(w.journal, late)
				}
				w.cut, w.cutInputs, w.begun = c.log, c.inputs, at+60_000
				if r := w.audit(t); r.Outcome == Violated {
					t.Fatalf("cut at %s:\n%s", at, show(r))
				}
			}
		})
	}
}

// TestWideSince: what lies before the moment from which on all is judged is no
// violation, nor is what crosses it.
func TestWideSince(t *testing.T) {
	for at := start; at < start+225_000; at += 7700 {
		w := newCleanWorld(t)
		w.since = at
		if r := w.audit(t); r.Outcome == Violated {
			t.Fatalf("from %s on:\n%s", at, show(r))
		}
	}
}
