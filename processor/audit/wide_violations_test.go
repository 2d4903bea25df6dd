package audit

import (
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func without(cs []schemas.Charge, limit string) []schemas.Charge {
	return slices.DeleteFunc(slices.Clone(cs), func(c schemas.Charge) bool { return c.Limit == limit })
}

func only(cs []schemas.Charge, limit string) []schemas.Charge {
	return slices.DeleteFunc(slices.Clone(cs), func(c schemas.Charge) bool { return c.Limit != limit })
}

// half is a message on its way: it has been at two owners, and home took its own.
func (w *cleanWorld) half(t schemas.Millis) *letter { return w.halfOf("x", t) }

func (w *cleanWorld) halfOf(name string, t schemas.Millis) *letter {
	m := w.send(name, bob, "verify", t)
	m.on(t, nil, "ip")
	m.take(t+10, "ip")
	m.on(t+20, []string{"verify", "pair"}, "acme", "all")
	m.take(t+30, "acme")
	return m
}

const (
	free = start + 300_000 // after the clean log: every window but the calendars' is empty
	over = free + 10_000   // after fill
	late = start + 1_000_000
)

// slow is a message whose round takes longer than the window of verify: two others have
// taken its places by then.
func (w *cleanWorld) slow() *letter {
	m, y, z := w.half(free), w.halfOf("y", free+10_100), w.halfOf("z", free+10_200)
	m.take(free+11_000, "all")
	y.take(free+11_010, "all")
	z.take(free+11_020, "all")
	return m
}

// keepsCheaper lets an owner take the dearer place beside the cheaper one.
func keepsCheaper(w *cleanWorld, m *letter) {
	for _, e := range w.said(m, schemas.VerdictCharge) {
		if d := e.Decision; len(d.Charges) == 1 && d.Charges[0].Cost == 2 {
			d.Returned = nil
		}
	}
}

// refusedDearer is a message that an owner refuses the dearer place, for which there is
// room where its own cheaper one is not counted.
func (w *cleanWorld) refusedDearer(texts ...string) {
	w.revise(w.t, nil, append([]string{"5/60s", "9/60s"}, texts...)...)
	for i, to := range []string{alice, carol, eve, frank} {
		w.other("o"+string(rune('0'+i)), to, free+100*schemas.Millis(i))
	}
	m := w.half(over)
	m.take(over+40, "all")
	w.revise(w.t, []int32{m.home}, "5/60s", "9/60s", "[6/60s, 50/calendar-day]}", "[6/60s, 50/calendar-day], count: segments}")
	m.dear("acme", "verify", "pair")
	m.full(over+60, free+60_010, schemas.Evidence{Limit: "acme", Scope: acmeScope, Window: "6/60s", N: 6, Count: 5, Cost: 2, Oldest: free + 10, Since: start})
	m.refuse(over + 70)
}

// Each corruption of the clean log is found, and as what it is.
func TestWideEveryViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(w *cleanWorld)
	}{
		// What an owner decides.
		{"an owner over by one", KindOver, func(w *cleanWorld) {
			w.fill()
			w.send("x", bob, "verify", over).around(over).admit(start + 26_050)
		}},
		{"a home over by one in what it owns", KindOver, func(w *cleanWorld) {
			w.fill()
			m := w.send("x", dave, "other", over)
			m.on(over, nil, "acme")
			m.take(over+10, "acme")
			m.admit(over+20, "all")
		}},
		{"an owner refuses with room", KindRefused, func(w *cleanWorld) {
			m := w.half(free)
			m.full(free+40, free+60_000, fullOf("all", "", "5/60s", 5, free))
			m.refuse(free + 50)
		}},
		{"a refusal of no owner", KindRefused, func(w *cleanWorld) {
			m := w.half(free)
			m.round.Refused, m.round.RetryAt = true, free+60_000
			m.round.Evidence = []schemas.Evidence{fullOf("all", "", "5/60s", 5, free)}
			m.pass(m.home, schemas.ReadmitCharged, free+40, &m.round, m.old, nil)
			m.refuse(free + 50)
		}},
		{"an owner's evidence counts too many", KindEvidence, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[0].Decision.Evidence[0].Count++
			w.sent(w.g, schemas.ReadmitCharged)[1].env.Round.Evidence[0].Count++
		}},
		{"an owner's retry_at is late", KindRetryAt, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[0].RetryAt++
			w.sent(w.g, schemas.ReadmitCharged)[1].env.Round.RetryAt++
			w.said(w.g, schemas.VerdictRefuse)[1].RetryAt++
		}},
		{"an owner takes two places", KindCharges, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictCharge)[1].Decision
			d.Charges = append(slices.Clone(d.Charges), d.Charges...)
		}},
		{"an owner takes a place that nobody asked for", KindCharges, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictCharge)[3].Decision
			d.Charges = append(slices.Clone(d.Charges), w.a.charge("all", d.T))
		}},
		{"an owner keeps the cheaper place beside the dearer one", KindCharges, func(w *cleanWorld) {
			m := w.dearer()
			keepsCheaper(w, m)
		}},
		{"an owner keeps the cheaper place in a limit that counts attempts", KindCharges, func(w *cleanWorld) {
			m := w.dearer(attempts...)
			keepsCheaper(w, m)
		}},
		{"home goes on with what it drew from a bucket before", KindCarried, func(w *cleanWorld) {
			d := w.anewOfBucket()
			for _, a := range d.Passed {
				d.Carried = append(d.Carried, schemas.Charge{Limit: a.Limit, Scope: a.Scope, T: a.T, Cost: a.Cost})
			}
			d.Passed = nil
		}},
		{"home says of a limit that it gives nothing back, which does", KindPassed, func(w *cleanWorld) {
			m, d := w.dearOfBucket()
			d.Passed = append(drawnFrom(d, "pair"), drawnFrom(d, "verify")...)
			m.takeDearer(free + 60)
			m.admit(free + 70)
		}},
		{"an owner counts the message's own cheaper place", KindRefused, func(w *cleanWorld) { w.refusedDearer() }},
		{"an owner counts the message's own cheaper place among attempts", KindRefused, func(w *cleanWorld) { w.refusedDearer(attempts...) }},
		{"an owner takes no place", KindCharges, func(w *cleanWorld) { w.said(w.a, schemas.VerdictCharge)[3].Decision.Charges = nil }},
		{"an owner takes only the first of two", KindCharges, func(w *cleanWorld) {
			d := w.said(w.h, schemas.VerdictCharge)[2].Decision
			d.Charges = without(d.Charges, "watch")
		}},
		{"an owner's place at another time", KindCharges, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictCharge)[3].Decision
			d.Charges = slices.Clone(d.Charges)
			d.Charges[0].T--
		}},
		{"an owner is asked for what it gave", KindCharges, func(w *cleanWorld) {
			m := w.half(free)
			m.round.Ask = m.ask("acme", "all")
			m.pass(0, schemas.ReadmitCharge, free+30, &m.round, nil, nil)
			m.take(free+40, "acme")
		}},
		{"an owner refuses, and takes a place", KindCharges, func(w *cleanWorld) {
			d := w.said(w.g, schemas.VerdictRefuse)[0].Decision
			d.Charges = []schemas.Charge{w.g.charge("all", d.T)}
		}},
		{"an owner refuses, and returns a place", KindReturned, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[0].Decision.Missing = []schemas.Charge{w.g.charge("all", start+1040)}
		}},
		{"an owner passes a limit that is in force", KindPassed, func(w *cleanWorld) {
			m := w.half(free)
			m.through(free+40, "all")
			m.admit(free + 50)
		}},
		{"an owner passes one that only observes, and is not full", KindPassed, func(w *cleanWorld) {
			d := w.said(w.h, schemas.VerdictCharge)[2].Decision
			unplaced(w.h, d, "watch", fullOf("watch", seenScope, "1/60s", 1, start))
			d.Evidence = nil
		}},
		{"an owner without the limit does not say that it passed", KindPassed, func(w *cleanWorld) {
			m := w.half(free)
			w.revise(w.t, []int32{1}, "  - {name: all, per: [], allow: [5/60s, 50/calendar-day]}\n", "")
			d := m.through(free+40, "all")
			d.Passed = nil
		}},
		{"an owner counts the message's own place against it", KindRefused, func(w *cleanWorld) {
			m := w.other("x", bob, free)
			m.call(schemas.StatusRetrying, free+40).Reason = "transient"
			for i, to := range []string{alice, carol, eve, frank} {
				t := free + 100 + 100*schemas.Millis(i)
				w.other("o"+string(rune('0'+i)), to, t).call(schemas.StatusSent, t+40)
			}
			m.back(schemas.ReadmitRetry, over)
			m.on(over, nil, "acme", "all")
			m.take(over+10, "acme")
			m.full(over+20, free+60_020, fullOf("all", "", "5/60s", 5, free+20))
			m.waits(over+30, free+60_020)
		}},
		{"an owner refuses by what only observes", KindRefused, func(w *cleanWorld) {
			for i, to := range []string{eve, frank} {
				m := w.send("x"+string(rune('0'+i)), to, "seen", free+100*schemas.Millis(i))
				t := free + 100*schemas.Millis(i)
				m.on(t, nil, "acme", "all", "watch")
				m.take(t+10, "acme")
				if i == 0 {
					m.take(t+20, "all", "watch")
					m.admit(t + 30)
					continue
				}
				m.full(t+20, free+60_020, fullOf("watch", seenScope, "1/60s", 1, free+20))
				m.refuse(t + 30)
			}
		}},
		{"an owner passes, and takes a place", KindPassed, func(w *cleanWorld) {
			w.said(w.h, schemas.VerdictCharge)[2].Decision.Passed = w.h.ask("watch")
		}},
		{"an owner passes what nobody asked for", KindPassed, func(w *cleanWorld) {
			w.said(w.h, schemas.VerdictCharge)[2].Decision.Passed = w.h.ask("ip")
		}},
		{"an owner's evidence of what it observes is another", KindEvidence, func(w *cleanWorld) {
			w.said(w.i, schemas.VerdictCharge)[2].Decision.Evidence[0].Oldest--
		}},
		{"an owner says a status", KindOrder, func(w *cleanWorld) {
			e := w.said(w.a, schemas.VerdictCharge)[1]
			e.Kind, e.Status = schemas.KindStatus, schemas.StatusQueued
		}},
		{"an owner decides on what is no ask", KindOwner, func(w *cleanWorld) {
			m := w.half(free)
			m.pass(1, schemas.ReadmitDue, free+30, &m.round, nil, nil)
			m.take(free+40, "all")
		}},
		{"an owner keeps the old place of a message that comes back", KindReturned, func(w *cleanWorld) {
			d := w.said(w.b, schemas.VerdictCharge)[6].Decision
			d.Returned = nil
		}},
		{"an owner gives up an old place that is not the message's", KindReturned, func(w *cleanWorld) {
			w.sent(w.b, schemas.ReadmitCharge)[3].env.Place = nil
		}},
		{"an owner returns less than it is asked", KindReturned, func(w *cleanWorld) {
			for _, e := range w.said(w.d, schemas.VerdictGiveBack) {
				if e.Decision.Partition == 0 {
					e.Decision.Returned = nil
				}
			}
		}},
		{"an owner says of a place that stands that it does not", KindReturned, func(w *cleanWorld) {
			for _, e := range w.said(w.d, schemas.VerdictGiveBack) {
				if e.Decision.Partition == 0 {
					e.Decision.Returned, e.Decision.Missing = nil, e.Decision.Returned
				}
			}
		}},
		{"an owner asks others for places", KindOwner, func(w *cleanWorld) {
			w.said(w.a, schemas.VerdictCharge)[1].Decision.Released = []schemas.Charge{w.a.charge("acme", start)}
		}},
		{"an owner gives back on a record that asks for another thing", KindCause, func(w *cleanWorld) { w.sent(w.c, schemas.ReadmitUnwind)[0].env.Reason = schemas.ReadmitDue }},

		// Where a message goes.
		{"home says another partition", KindOwner, func(w *cleanWorld) { *w.said(w.a, schemas.VerdictCharge)[0].Decision.Onward = 5 }},
		{"home does not say where", KindOwner, func(w *cleanWorld) { w.said(w.a, schemas.VerdictCharge)[0].Decision.Onward = nil }},
		{"an owner says another partition", KindOwner, func(w *cleanWorld) { *w.said(w.a, schemas.VerdictCharge)[3].Decision.Onward = w.a.home }},
		{"an owner that refuses says another partition", KindOwner, func(w *cleanWorld) { *w.said(w.g, schemas.VerdictRefuse)[0].Decision.Onward = 0 }},
		{"a partition is asked that owns nothing of it", KindOwner, func(w *cleanWorld) {
			m := w.half(free)
			m.pass(5, schemas.ReadmitCharge, free+30, &m.round, nil, nil)
			d := m.take(free+40, "all")
			d.Charges, *d.Onward = nil, ownerOf("")
		}},
		{"home asks in another order", KindOwner, func(w *cleanWorld) {
			m := w.send("x", bob, "other", free)
			m.on(free, nil, "all", "acme")
			m.take(free+10, "all")
			m.take(free+20, "acme")
			m.admit(free + 30)
		}},
		{"home asks in another order, and says the right one", KindHop, func(w *cleanWorld) {
			r := w.sent(w.h, schemas.ReadmitCharge)[0].env.Round
			r.Ask[1], r.Ask[2] = r.Ask[2], r.Ask[1]
		}},
		{"home takes its own before its turn", KindCharges, func(w *cleanWorld) {
			m := w.send("x", bob, "verify", free)
			m.on(free, []string{"verify", "pair"}, "ip", "acme", "all")
		}},
		{"home sends on, and nobody is left to ask", KindOwner, func(w *cleanWorld) {
			m := w.send("x", bob, "other", free)
			m.on(free, nil, "acme", "all")
			m.take(free+10, "acme")
			m.take(free+20, "all")
			m.on(free+30, nil, "acme")
		}},
		{"an admission sends on", KindOwner, func(w *cleanWorld) {
			w.said(w.a, schemas.VerdictAdmit)[0].Decision.Onward = new(int32)
		}},
		{"back from the owners, without a round", KindOwner, func(w *cleanWorld) { w.sent(w.a, schemas.ReadmitCharged)[1].env.Round = nil }},

		// On the way.
		{"a hop lost", KindHop, func(w *cleanWorld) {
			w.half(late)
			w.lose(&letter{name: "x"}, schemas.ReadmitCharge, 2)
		}},
		{"a hop twice", KindHop, func(w *cleanWorld) { w.again(w.a, schemas.ReadmitCharge, 1) }},
		{"a hop of nobody's", KindHop, func(w *cleanWorld) {
			m := w.send("x", bob, "other", free)
			m.round = schemas.Round{Revision: 1, Ask: m.ask("acme", "all")}
			m.pass(0, schemas.ReadmitCharge, free, &m.round, nil, nil)
			m.take(free+10, "acme")
		}},
		{"a place lost on the way", KindHop, func(w *cleanWorld) {
			r := w.sent(w.a, schemas.ReadmitCharged)[1].env.Round
			r.Taken = without(r.Taken, "acme")
		}},
		{"a place added on the way", KindHop, func(w *cleanWorld) {
			r := w.sent(w.h, schemas.ReadmitCharged)[0].env.Round
			r.Taken = append(r.Taken, w.h.charge("ip", start+90_000))
		}},
		{"a moved place lost on the way", KindHop, func(w *cleanWorld) {
			w.sent(w.b, schemas.ReadmitCharged)[3].env.Round.Moved = nil
		}},
		{"evidence altered on the way home", KindHop, func(w *cleanWorld) {
			w.sent(w.g, schemas.ReadmitCharged)[1].env.Round.Evidence[0].Count--
			d := w.said(w.g, schemas.VerdictRefuse)[1].Decision
			d.Evidence = slices.Clone(d.Evidence)
			d.Evidence[0].Count--
		}},
		{"retry_at altered on the way home", KindHop, func(w *cleanWorld) {
			w.sent(w.g, schemas.ReadmitCharged)[1].env.Round.RetryAt++
			w.said(w.g, schemas.VerdictRefuse)[1].RetryAt++
		}},
		{"a refusal lost on the way home", KindHop, func(w *cleanWorld) {
			r := w.sent(w.g, schemas.ReadmitCharged)[1].env.Round
			r.Refused, r.Ask = false, nil
		}},
		{"who passed lost on the way", KindHop, func(w *cleanWorld) { w.sent(w.i, schemas.ReadmitCharged)[0].env.Round.Passed = nil }},
		{"the old places lost on the way", KindHop, func(w *cleanWorld) { w.sent(w.b, schemas.ReadmitCharged)[3].env.Place = nil }},
		{"the taint lost on the way", KindHop, func(w *cleanWorld) { w.sent(w.b, schemas.ReadmitCharge)[3].env.Taint = schemas.TaintUnknown }},
		{"an attempt lost on the way", KindHop, func(w *cleanWorld) { w.sent(w.b, schemas.ReadmitCharge)[3].env.Attempt = 0 }},
		{"the reason lost on the way", KindHop, func(w *cleanWorld) { w.sent(w.b, schemas.ReadmitCharge)[3].env.Round.For = "" }},
		{"home's turn forgotten on the way", KindHop, func(w *cleanWorld) { w.sent(w.a, schemas.ReadmitCharged)[1].env.Round.Home = false }},
		{"never back, and no end", KindLate, func(w *cleanWorld) {
			w.half(free)
			m := w.send("y", bob, "other", late)
			m.on(late, nil, "acme", "all")
		}},

		// What home makes of it.
		{"home says that it goes on as a status", KindOrder, func(w *cleanWorld) {
			e := w.said(w.a, schemas.VerdictCharge)[0]
			e.Kind, e.Status = schemas.KindStatus, schemas.StatusDeferred
		}},
		{"a place that was never carried", KindCharges, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictAdmit)[0].Decision
			d.Carried = without(d.Carried, "acme")
		}},
		{"a place given up, and not returned", KindReleased, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictAdmit)[0].Decision
			d.Carried = without(d.Carried, "acme")
		}},
		{"a place carried that no step took", KindCarried, func(w *cleanWorld) {
			d := w.said(w.h, schemas.VerdictAdmit)[0].Decision
			d.Carried = append(slices.Clone(d.Carried), w.h.charge("ip", d.T-10))
		}},
		{"a place carried of another time", KindCarried, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictAdmit)[0].Decision
			d.Carried[0].T--
		}},
		{"a place carried that does not stand here", KindCarried, func(w *cleanWorld) {
			m := w.send("x", carol, "verify", free)
			m.on(free, nil, "ip")
			m.take(free+10, "ip")
			m.on(free+20, []string{"verify", "pair", "acme"}, "all")
			in, at := m.in, m.at
			m.pass(m.home, schemas.ReadmitGiveBack, free+22, nil, only(m.round.Taken, "acme"), nil)
			w.decide(m.home, m.event(schemas.KindDecision), schemas.VerdictGiveBack, free+23, m.in).Returned = only(m.round.Taken, "acme")
			m.in, m.at = in, at
			m.take(free+40, "all")
			m.admit(free + 50)
		}},
		{"places of the recipient's limits carried, of before the admission", KindCarried, func(w *cleanWorld) {
			d := w.said(w.a, schemas.VerdictAdmit)[0].Decision
			d.Carried = append(slices.Clone(d.Carried), d.Returned...)
			d.Charges, d.Returned = nil, nil
			w.dispatch[0].env.Place = d.Carried
		}},
		{"home at the end over by one", KindOver, func(w *cleanWorld) {
			w.slow().admit(free + 11_050)
		}},
		{"home refuses at the end by its own place", KindRefused, func(w *cleanWorld) {
			m := w.half(free)
			w.halfOf("y", free+100)
			m.take(free+1000, "all")
			m.round.Evidence, m.round.RetryAt = []schemas.Evidence{fullOf("verify", bob, "2/10s", 2, free+20)}, free+10_020
			m.refuse(free + 1050)
		}},
		{"home moves at the end what does not stand", KindReturned, func(w *cleanWorld) {
			m := w.half(free)
			in, at := m.in, m.at
			m.pass(m.home, schemas.ReadmitGiveBack, free+32, nil, only(m.round.Taken, "pair"), nil)
			w.decide(m.home, m.event(schemas.KindDecision), schemas.VerdictGiveBack, free+33, m.in).Returned = only(m.round.Taken, "pair")
			m.in, m.at = in, at
			m.take(free+40, "all")
			m.admit(free + 50)
		}},
		{"a refusal that says who passed", KindPassed, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[1].Decision.Passed = w.g.ask("all")
		}},
		{"a refusal that carries places", KindCarried, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[1].Decision.Carried = []schemas.Charge{w.g.charge("ip", start)}
		}},
		{"dispatched without what it carries", KindDispatch, func(w *cleanWorld) { w.dispatch[0].env.Place = nil }},
		{"admitted, though an owner refused it", KindCarried, func(w *cleanWorld) {
			w.fill()
			m := w.half(over)
			m.full(over+40, free+60_020, fullOf("all", "", "5/60s", 5, free+20))
			m.round.Evidence = nil
			m.admit(start + 26_050)
		}},
		{"sent on, though an owner refused it", KindCarried, func(w *cleanWorld) {
			w.fill()
			m := w.half(over)
			m.full(over+40, free+60_020, fullOf("all", "", "5/60s", 5, free+20))
			m.on(over+50, nil, "all")
		}},
		{"home gives up what applies", KindReturned, func(w *cleanWorld) {
			m := w.send("x", bob, "verify", free)
			m.on(free, nil, "ip")
			m.take(free+10, "ip")
			d := m.on(free+20, []string{"verify", "pair"}, "acme", "all")
			d.Released = only(m.round.Taken, "ip")
			m.round.Taken = without(m.round.Taken, "ip")
		}},
		{"home keeps the old place where it takes a new one", KindReturned, func(w *cleanWorld) {
			w.said(w.b, schemas.VerdictCharge)[7].Decision.Returned = nil
		}},
		{"home gives up what it does not hold", KindReturned, func(w *cleanWorld) {
			w.said(w.a, schemas.VerdictCharge)[2].Decision.Missing = []schemas.Charge{w.a.charge("pair", start+500)}
		}},
		{"home's own step says otherwise what only observes", KindEvidence, func(w *cleanWorld) { w.observedAtHome().Evidence = nil }},
		{"a place carried that does not apply any more", KindCarried, func(w *cleanWorld) {
			m := w.half(free)
			m.take(free+40, "all")
			w.revise(w.t, []int32{m.home}, "  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}\n", "")
			m.admit(free + 50)
		}},
		{"an end that names what the message does not hold", KindReturned, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[1].Decision.Missing = []schemas.Charge{w.g.charge("pair", start+500)}
		}},
		{"home says that a limit passed, which was not asked", KindPassed, func(w *cleanWorld) {
			m := w.send("x", bob, "other", free)
			m.on(free, nil, "acme")
			m.take(free+10, "acme")
			m.round.Passed = m.ask("all")
			m.admit(free + 20)
		}},
		{"home says that a limit passed, which does not apply", KindPassed, func(w *cleanWorld) {
			w.said(w.a, schemas.VerdictAdmit)[0].Decision.Passed = w.h.ask("watch")
		}},
		{"home's own step passes what is in force", KindPassed, func(w *cleanWorld) {
			w.said(w.e, schemas.VerdictCharge)[2].Decision.Passed = w.e.ask("acme")
		}},
		{"home's evidence is not the owner's", KindEvidence, func(w *cleanWorld) {
			e := w.said(w.g, schemas.VerdictRefuse)[1]
			e.Decision.Evidence = slices.Clone(e.Decision.Evidence)
			e.Decision.Evidence[0].Oldest++
		}},
		{"home's refusal names another window", KindEvidence, func(w *cleanWorld) { w.said(w.g, schemas.VerdictRefuse)[1].Window = "50/calendar-day" }},
		{"home's retry_at is not the owner's", KindRetryAt, func(w *cleanWorld) { w.said(w.g, schemas.VerdictRefuse)[1].RetryAt++ }},
		{"home lets wait what it must end", KindRefused, func(w *cleanWorld) {
			w.fill()
			m := w.half(over)
			m.full(over+40, free+60_020, fullOf("all", "", "5/60s", 5, free+20))
			m.waits(over+50, free+60_020)
		}},
		{"home lets it wait too short", KindRetryAt, func(w *cleanWorld) { w.said(w.k, schemas.VerdictDefer)[0].RetryAt-- }},
		{"what an owner observed is not said", KindEvidence, func(w *cleanWorld) {
			e := w.said(w.i, schemas.VerdictAdmit)[0]
			e.Observed, e.Decision.Evidence = false, nil
		}},
		{"what an owner observed is not shown", KindEvidence, func(w *cleanWorld) { w.said(w.i, schemas.VerdictAdmit)[0].Decision.Evidence = nil }},
		{"what an owner observed is said otherwise", KindEvidence, func(w *cleanWorld) {
			e := w.said(w.i, schemas.VerdictAdmit)[0]
			e.Decision.Evidence = slices.Clone(e.Decision.Evidence)
			e.Decision.Evidence[0].Count++
		}},
		{"home refuses half way, with room", KindRefused, func(w *cleanWorld) {
			m := w.send("x", bob, "verify", free)
			m.on(free, nil, "ip")
			m.take(free+10, "ip")
			m.round.Evidence, m.round.RetryAt = []schemas.Evidence{fullOf("verify", bob, "2/10s", 2, free)}, free+10_000
			m.refuse(free + 20)
		}},
		{"one id twice on its way", KindDuplicate, func(w *cleanWorld) {
			w.half(free)
			w.half(free + 100)
		}},
		{"cancelled on its way, and it goes on", KindCancelled, func(w *cleanWorld) {
			m := w.half(free)
			w.cancel(m, free+35)
			m.take(free+40, "all")
			m.admit(free + 50)
		}},

		// What is given back.
		{"an end that leaves places here", KindReturned, func(w *cleanWorld) { w.said(w.g, schemas.VerdictRefuse)[1].Decision.Returned = nil }},
		{"an end that leaves a place at an owner", KindReleased, func(w *cleanWorld) {
			d := w.said(w.g, schemas.VerdictRefuse)[1].Decision
			d.Released = without(d.Released, "acme")
			w.lose(w.g, schemas.ReadmitUnwind, 0)
		}},
		{"an unwind lost", KindReleased, func(w *cleanWorld) { w.lose(w.g, schemas.ReadmitUnwind, 0) }},
		{"an unwind twice", KindReleased, func(w *cleanWorld) { w.again(w.g, schemas.ReadmitUnwind, 0) }},
		{"a place asked back twice", KindReleased, func(w *cleanWorld) {
			d := w.said(w.g, schemas.VerdictRefuse)[1].Decision
			d.Released = append(slices.Clone(d.Released), only(d.Released, "acme")...)
			w.again(w.g, schemas.ReadmitUnwind, 0) // that to the owner of acme
		}},
		{"a place returned that nobody asked back", KindReleased, func(w *cleanWorld) {
			c := []schemas.Charge{w.a.charge("acme", start+1030)}
			w.a.pass(0, schemas.ReadmitUnwind, late, nil, c, nil)
			w.decide(0, w.a.brief(), schemas.VerdictGiveBack, late+5, w.a.in).Returned = c
		}},
		{"a place asked back where it does not stand", KindOwner, func(w *cleanWorld) {
			c := []schemas.Charge{w.a.charge("acme", start+1030)}
			w.a.pass(5, schemas.ReadmitUnwind, late, nil, c, nil)
			w.decide(5, w.a.brief(), schemas.VerdictGiveBack, late+5, w.a.in).Missing = c
		}},
		{"a place asked of others that stands here", KindOwner, func(w *cleanWorld) {
			d := w.said(w.g, schemas.VerdictRefuse)[1].Decision
			d.Released = append(slices.Clone(d.Released), d.Returned...)
			d.Returned = nil
		}},
		{"a lane's give-back that leaves a place at an owner", KindReleased, func(w *cleanWorld) {
			for _, e := range w.said(w.d, schemas.VerdictGiveBack) {
				e.Decision.Released = without(e.Decision.Released, "all")
			}
			w.lose(w.d, schemas.ReadmitGiveBack, 3)
		}},

		// What is put back.
		{"an old place at an owner left out", KindRestored, func(w *cleanWorld) {
			d := w.said(w.k, schemas.VerdictDefer)[0].Decision
			d.Reinstated = without(d.Reinstated, "acme")
			for _, r := range w.sent(w.k, schemas.ReadmitUnwind) {
				r.env.Restore = without(r.env.Restore, "acme")
			}
			for _, e := range w.said(w.k, schemas.VerdictGiveBack) {
				e.Decision.Restored = without(e.Decision.Restored, "acme")
			}
		}},
		{"an old place here left out", KindRestored, func(w *cleanWorld) {
			d := w.said(w.k, schemas.VerdictDefer)[0].Decision
			d.Restored = without(d.Restored, "pair")
		}},
		{"an owner puts back less than it is asked", KindRestored, func(w *cleanWorld) {
			for _, e := range w.said(w.k, schemas.VerdictGiveBack) {
				e.Decision.Restored = without(e.Decision.Restored, "acme")
			}
		}},
		{"an owner puts back more than it is asked", KindRestored, func(w *cleanWorld) {
			for _, e := range w.said(w.k, schemas.VerdictGiveBack) {
				if e.Decision.Partition == 0 {
					e.Decision.Restored = append(slices.Clone(e.Decision.Restored), w.k.charge("acme", start+100_029))
				}
			}
		}},
		{"an owner puts back what it is not asked to", KindRestored, func(w *cleanWorld) {
			for _, r := range w.sent(w.k, schemas.ReadmitUnwind) {
				r.env.Restore = without(r.env.Restore, "acme")
			}
		}},
		{"asked to put back, and it arrives as to be returned", KindReleased, func(w *cleanWorld) {
			for _, r := range w.sent(w.k, schemas.ReadmitUnwind) {
				r.env.Place, r.env.Restore = append(slices.Clone(r.env.Place), only(r.env.Restore, "acme")...), without(r.env.Restore, "acme")
			}
		}},
		{"home asks to put back what no step moved", KindRestored, func(w *cleanWorld) {
			w.said(w.g, schemas.VerdictRefuse)[1].Decision.Reinstated = []schemas.Charge{w.g.charge("acme", start+20_000)}
		}},
		{"a place put back that was not moved here", KindRestored, func(w *cleanWorld) {
			for _, e := range w.said(w.k, schemas.VerdictCharge) {
				if d := e.Decision; d.Partition == 0 && len(d.Returned) > 0 && d.T < start+200_000 {
					d.Returned = nil
				}
			}
		}},
		{"a place put back where it does not stand", KindOwner, func(w *cleanWorld) {
			d := w.said(w.k, schemas.VerdictDefer)[0].Decision
			d.Restored = append(slices.Clone(d.Restored), d.Reinstated...)
			d.Reinstated = nil
		}},
		{"an admission that puts back what was moved", KindRestored, func(w *cleanWorld) {
			d := w.said(w.b, schemas.VerdictMove)[0].Decision
			d.Reinstated = []schemas.Charge{w.b.charge("acme", start+2030)}
		}},
		{"a step that puts places back", KindRestored, func(w *cleanWorld) {
			d := w.said(w.b, schemas.VerdictCharge)[7].Decision
			d.Reinstated = []schemas.Charge{w.b.charge("acme", start+2030)}
		}},
		{"an old place put back beside the new one", KindOver, func(w *cleanWorld) { w.crowded(true) }},

		// Messages sent elsewhere.
		{"an owner does not record", KindCharges, func(w *cleanWorld) { w.said(w.r, schemas.VerdictRecord)[2].Decision.Charges = nil }},
		{"an owner records at another time", KindCharges, func(w *cleanWorld) { w.said(w.r, schemas.VerdictRecord)[2].Decision.Charges[0].T++ }},
		{"an owner records what is not asked", KindCharges, func(w *cleanWorld) {
			d := w.said(w.r, schemas.VerdictRecord)[2].Decision
			d.Charges = append(slices.Clone(d.Charges), w.r.charge("all", d.Charges[0].T))
		}},
		{"an owner sends a recorded message home", KindOwner, func(w *cleanWorld) { w.said(w.r, schemas.VerdictRecord)[3].Decision.Onward = &w.r.home }},
		{"home asks no owner to record", KindOwner, func(w *cleanWorld) { w.said(w.r, schemas.VerdictRecord)[0].Decision.Onward = nil }},
		{"a recorded message lost on its way", KindHop, func(w *cleanWorld) { w.lose(w.r, schemas.ReadmitCharge, 2) }},
		{"recorded as of another time than was sent on", KindHop, func(w *cleanWorld) { w.sent(w.r, schemas.ReadmitCharge)[1].env.Round.Ask[0].T-- }},
		{"charged, and it is to be recorded", KindOwner, func(w *cleanWorld) {
			w.said(w.r, schemas.VerdictRecord)[1].Decision.Verdict = schemas.VerdictCharge
		}},
		{"recorded, and it is to be charged", KindOwner, func(w *cleanWorld) {
			w.said(w.a, schemas.VerdictCharge)[3].Decision.Verdict = schemas.VerdictRecord
		}},
		{"refused, and it is to be recorded", KindOwner, func(w *cleanWorld) {
			d := w.said(w.r, schemas.VerdictRecord)[1].Decision
			d.Verdict, d.Charges, d.Onward = schemas.VerdictRefuse, nil, &w.r.home
		}},
		{"recorded by nobody, and it is not said", KindPassed, func(w *cleanWorld) {
			r := w.elsewhere("x", frank, free, free, []string{"verify", "pair"}, "ip", "acme", "all")
			r.recorded(free+10, "ip")
			r.recorded(free+20, "acme")
			w.revise(w.t, []int32{1}, "  - {name: all, per: [], allow: [5/60s, 50/calendar-day]}\n", "")
			r.unrecorded(free+30, "all").Passed = nil
		}},
		{"home sends a recorded message to nobody", KindOwner, func(w *cleanWorld) {
			w.revise(w.t, nil, "  - {name: all, per: [], allow: [5/60s, 50/calendar-day]}\n", "",
				"  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}\n", "", "  - {name: ip, match: {class: verify}, per: [metadata.ip], allow: [3/10s]}\n", "")
			r := w.elsewhere("x", frank, free, free, []string{"verify", "pair"})
			w.said(r, schemas.VerdictRecord)[0].Decision.Onward = new(int32)
		}},
		{"an owner that records returns a place", KindReturned, func(w *cleanWorld) {
			w.said(w.r, schemas.VerdictRecord)[1].Decision.Missing = []schemas.Charge{w.r.charge("ip", start+1010)}
		}},
		{"an owner passes a message sent elsewhere", KindPassed, func(w *cleanWorld) {
			w.said(w.r, schemas.VerdictRecord)[1].Decision.Passed = w.r.ask("ip")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCleanWorld(t)
			c.do(w)
			if r := w.audit(t); r.Outcome != Violated || r.Faults[c.want] == 0 {
				t.Fatalf("want %s:\n%s", c.want, show(r))
			}
		})
	}
}

// cancel writes a cancel of a message that is on its way, and home's decision to
// remember it.
func (w *cleanWorld) cancel(m *letter, t schemas.Millis) {
	c := *m
	c.value = `{"action":"cancel","channel":"sms","tenant":"acme","to":"` + m.to + `","id":"` + id(m.name) + `"}`
	c.request(t)
	e := m.event(schemas.KindDecision)
	e.Reason = "remembered"
	w.decide(m.home, e, schemas.VerdictCancel, t, c.in)
}

// observedAtHome is home's step on a message that a limit of its recipient, which
// only observes, has no room for.
func (w *cleanWorld) observedAtHome() *schemas.Decision {
	w.revise(w.t, nil, "  - {name: ip,", "  - {name: mine, match: {class: seen}, per: [recipient], allow: [1/60s], mode: observe}\n  - {name: ip,")
	w.fill()
	var d *schemas.Decision
	for i := range 2 {
		t := over + 70_000 + 1000*schemas.Millis(i)
		m := w.send("y"+string(rune('0'+i)), bob, "seen", t)
		own := []string{"mine"}
		if i == 1 {
			own = nil
		}
		d = m.on(t, own, "acme", "all", "watch")
		if i == 1 {
			ev := fullOf("mine", bob, "1/60s", 1, t-970)
			ev.Since = w.parts[m.home].status[w.parts[m.home].indexOf("", "marker")].event.At
			for _, o := range w.parts[m.home].status {
				if o.event.Decision != nil && o.event.Decision.Verdict == schemas.VerdictMarker {
					ev.Since = o.event.Decision.T
				}
			}
			d.Evidence = []schemas.Evidence{ev}
			m.round.Evidence, m.round.Home, m.round.HomeRevision = d.Evidence, true, d.Revision
			r := m.round
			m.env.Round = &r
		}
		m.take(t+10, "acme")
		x := m.take(t+20, "all", "watch")
		if i == 1 {
			r := m.round
			unplaced(m, x, "watch", fullOf("watch", seenScope, "1/60s", 1, t-980))
			m.round.Evidence = append(slices.Clone(r.Evidence), x.Evidence...)
			r = m.round
			m.env.Round = &r
		}
		m.admit(t + 30)
	}
	return d
}

// other is a message that only two wide limits apply to.
func (w *cleanWorld) other(name, to string, t schemas.Millis) *letter {
	m := w.send(name, to, "other", t)
	if to == carol {
		m.on(t, []string{"acme"}, "all")
	} else {
		m.on(t, nil, "acme", "all")
		m.take(t+10, "acme")
	}
	m.take(t+20, "all")
	m.admit(t + 30)
	return m
}

// fill has five such messages sent, so that nobody else passes for a minute. The
// first place in all stands at free+20.
func (w *cleanWorld) fill() {
	for i, to := range []string{alice, carol, eve, frank, bob} {
		t := free + 100*schemas.Millis(i)
		w.other("o"+string(rune('0'+i)), to, t).call(schemas.StatusSent, t+40)
	}
}

// crowded is a retry in scopes that filled up behind its back: the owner of acme
// took a new place for it, the last, and gives it up for the old one again, or
// keeps both.
func (w *cleanWorld) crowded(both bool) *letter {
	t := schemas.Millis(free)
	x := w.other("x", bob, t)
	x.call(schemas.StatusRetrying, t+40).Reason = "transient"
	for i, to := range []string{alice, carol, eve, frank} {
		t += 1000
		w.other("o"+string(rune('0'+i)), to, t).call(schemas.StatusSent, t+40)
	}
	t += 1000
	r := w.elsewhere("xr", eve, t, t, []string{"verify", "pair"}, "ip", "acme", "all")
	r.recorded(t+10, "ip")
	r.recorded(t+20, "acme")
	r.recorded(t+30, "all")
	x.back(schemas.ReadmitRetry, t+100)
	x.on(t+110, nil, "acme", "all")
	x.take(t+120, "acme")
	x.full(t+130, free+61_020, fullOf("all", "", "5/60s", 5, free+1020))
	x.waits(t+140, free+61_020)
	if d := w.said(x, schemas.VerdictGiveBack)[0].Decision; both {
		d.Returned = nil
	}
	return x
}
