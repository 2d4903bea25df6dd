package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// costing is a request that says what it costs.
func costing(to string, cost int) string {
	return fmt.Sprintf(`{"channel":"sms","to":%q,"class":"code","body":"x","cost":%d}`, to, cost)
}

func TestCostIsCounted(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: weight, per: [recipient], allow: [5/60s], count: cost}\n  - {name: number, per: [recipient], allow: [5/60s]}"))
	three := costing(codeTo, 3)
	first := b.want(b.request("%s", three), "queued admit +2 > dispatch.one.normal")
	if c := first.event.Decision.Charges; c[0].Cost != 3 || c[1].Cost != 1 || first.event.Cost != 3 {
		t.Errorf("%+v of %d", c, first.event.Cost)
	}
	second := b.want(b.request("%s", three), "limited refuse limited")
	if e := second.event; e.Limit != "weight" || e.RetryAt != b.now+60_000 || e.Cost != 3 || e.Decision.Evidence[0].Count != 3 || e.Decision.Evidence[0].Cost != 3 {
		t.Errorf("%+v", e)
	}
	if o := b.want(b.request("%s", costing(codeTo, 2)), "queued admit +2 > dispatch.one.normal"); o.event.Cost != 2 {
		t.Errorf("%+v", o.event)
	}
	if o := b.want(b.request(code), "limited refuse limited"); o.event.Cost != 0 {
		t.Errorf("%+v", o.event)
	}
	// The whole moves with a retry, and the whole is given back.
	b.now += 10
	moved := b.want(b.back(schemas.ReadmitRetry, first.send[0], three, func(e *schemas.Envelope) { e.Attempt = 1 }), "queued move +2 -2 > dispatch.one.again")
	if c := moved.event.Decision.Charges[0]; c.Cost != 3 || c.T != b.now || moved.event.Cost != 3 {
		t.Errorf("%+v", moved.event)
	}
	back := b.want(b.back(schemas.ReadmitGiveBack, moved.send[0], three, nil), "decision give_back -2")
	if c := back.event.Decision.Returned[0]; c.Cost != 3 {
		t.Errorf("%+v", c)
	}
	b.want(b.request("%s", three), "queued admit +2 > dispatch.one.normal")
	b.want(b.request(code), "limited refuse limited")
}

func TestCostOfWhatWasSentElsewhere(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: weight, per: [recipient], allow: [5/60s], count: cost}"))
	b.now += 10
	record := strings.Replace(costing(codeTo, 4), "{", `{"action":"record","at":"2026-11-21T09:00:00.005Z",`, 1)
	if e := b.request("%s", record).event; len(e.Decision.Charges) != 1 || e.Decision.Charges[0].Cost != 4 || e.Cost != 4 {
		t.Errorf("%+v", e)
	}
	b.want(b.request("%s", costing(codeTo, 2)), "limited refuse limited")
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
}

func TestReleaseGivesTheWholeCostBack(t *testing.T) {
	b := newGate(t)
	b.apply(3, strings.Replace(gatePolicy, "allow: [1/60s]", "allow: [5/60s], count: cost", 1))
	costly := strings.Replace(gated, `"body"`, `"cost":5,"body"`, 1)
	b.want(b.request("%s", costly), "sent admit +1")
	b.want(b.request(other), "limited refuse limited")
	if e := b.want(b.request(releaseSome), "decision give_back released -1").event; e.Decision.Returned[0].Cost != 5 {
		t.Errorf("%+v", e)
	}
	b.want(b.request("%s", strings.Replace(costly, someID, otherID[:35]+"9", 1)), "sent admit +1")
}

// A cost beyond the window ends the message at once, also where the limit defers.
func TestCostBeyondTheWindow(t *testing.T) {
	for _, more := range []string{"", ", on_refusal: defer"} {
		b := newBench(t)
		b.apply(2, limitsPolicy("  - {name: weight, per: [recipient], allow: [5/60s], count: cost"+more+"}"))
		o := b.want(b.request("%s", costing(codeTo, 6)), "limited refuse limited")
		if v := o.event.Decision.Evidence[0]; o.event.RetryAt != 0 || v.Cost != 6 || v.N != 5 || v.Count != 0 {
			t.Errorf("%+v", o.event)
		}
	}
}

func TestCostThatIsNone(t *testing.T) {
	for _, c := range []struct{ cost, reason string }{
		{"0", schemas.ReasonCostOutOfRange}, {"-1", schemas.ReasonCostOutOfRange}, {"1000001", schemas.ReasonCostOutOfRange},
		{"1.5", schemas.ReasonWrongType}, {`"3"`, schemas.ReasonWrongType},
	} {
		b := newBench(t)
		if o := b.want(b.request("%s", strings.Replace(code, "{", `{"cost":`+c.cost+",", 1)), "rejected reject "+c.reason+" > dlq"); o.event.Cost < 0 {
			t.Errorf("an event of a cost of %d", o.event.Cost)
		}
	}
	b := newBench(t)
	b.want(b.request("%s", strings.Replace(code, "{", `{"cost":1000000,`, 1)), "queued admit +1 > dispatch.one.normal") // no limit counts it
}

// The key names a message of one cost.
func TestCostIsContent(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: weight, per: [recipient], allow: [50/60s], count: cost}"))
	keyed := func(cost int) string {
		return strings.Replace(costing(codeTo, cost), "{", `{"idempotency_key":"k",`, 1)
	}
	b.want(b.request("%s", keyed(3)), "queued admit +1 > dispatch.one.normal")
	b.want(b.request("%s", keyed(3)), "duplicate duplicate duplicate")
	b.want(b.request("%s", keyed(4)), "rejected reject "+reasonKeyReused+" > dlq")
}

// TestRoundOfACost: owners are asked for the cost, and home says it when the message is
// back, though it does not read the request again.
func TestRoundOfACost(t *testing.T) {
	const to = "+8613800000000"
	r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [9/60s], count: cost}
  - {name: shop, per: [tenant], allow: [5/1h], count: cost}
  - {name: all, per: [], allow: [9/1h]}
`+roundRest)
	put := func(cost int) *schemas.Event {
		r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x","cost":%d}`, to, cost)
		r.settle()
		return &r.events[len(r.events)-1]
	}
	e := put(3)
	all := slices.Concat(e.Decision.Carried, e.Decision.Charges)
	costs := map[string]int64{}
	for _, c := range all {
		costs[c.Limit] = c.Cost
	}
	if e.Decision.Verdict != schemas.VerdictAdmit || e.Cost != 3 || len(all) != 3 || costs["verify"] != 3 || costs["shop"] != 3 || costs["all"] != 1 {
		t.Fatalf("%s\n%s", schemas.AppendEvent(nil, e), r.said())
	}
	limited := func() *schemas.Event {
		for i := len(r.events) - 1; ; i-- {
			if r.events[i].Status == schemas.StatusLimited {
				return &r.events[i]
			}
		}
	}
	put(3)
	if e = limited(); e.Limit != "shop" || e.Cost != 3 || e.Decision.Evidence[0].Cost != 3 || e.Decision.Evidence[0].Count != 3 {
		t.Fatalf("%s\n%s", schemas.AppendEvent(nil, e), r.said())
	}
	if e = put(2); e.Decision.Verdict != schemas.VerdictAdmit || e.Cost != 2 { // what the refused one had taken at home is back
		t.Fatalf("%s\n%s", schemas.AppendEvent(nil, e), r.said())
	}
	// A lane gives the first back.
	for _, s := range r.sent {
		if slices.ContainsFunc(s.env.Place, func(c schemas.Charge) bool { return c.Cost == 3 }) {
			r.back(schemas.ReadmitGiveBack, s, nil)
			break
		}
	}
	r.settle()
	if e = put(3); e.Decision.Verdict != schemas.VerdictAdmit || e.Cost != 3 {
		t.Fatalf("%s\n%s", schemas.AppendEvent(nil, e), r.said())
	}
}
