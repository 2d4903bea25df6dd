package admission

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func limitsPolicy(limits string) string {
	return strings.Replace(lifePolicy, "\n  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s]}", "\n"+limits, 1)
}

func TestObservedPassMarked(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: watch, per: [recipient], allow: [1/60s], mode: observe}\n  - {name: hold, per: [recipient], allow: [2/60s]}"))
	if first := b.want(b.request(code), "queued admit +2 > dispatch.one.normal"); first.event.Observed {
		t.Errorf("%+v", first.event)
	}
	second := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	e := second.event
	if !e.Observed || e.Limit != "watch" || e.Window != "1/60s" || e.RetryAt != 0 || len(e.Decision.Evidence) != 1 || e.Decision.Evidence[0].Count != 1 {
		t.Errorf("%+v", e)
	}
	third := b.want(b.request(code), "limited refuse limited")
	if third.event.Observed || third.event.Limit != "hold" {
		t.Errorf("%+v", third.event)
	}
}

func TestSegmentsAreCounted(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: parts, per: [recipient], allow: [3/60s], count: segments}"))
	two := `{"channel":"sms","to":"+8613800000000","class":"code","body":"` + strings.Repeat("字", 71) + `"}`
	four := `{"channel":"sms","to":"+8613800000000","class":"code","body":"` + strings.Repeat("a", 460) + `"}`
	if o := b.want(b.request("%s", four), "limited refuse limited"); o.event.RetryAt != 0 || o.event.Decision.Evidence[0].Cost != 4 {
		t.Errorf("%+v", o.event)
	}
	record := strings.Replace(two, `{`, `{"action":"record","at":"2026-11-21T09:00:00Z",`, 1)
	for body, cost := range map[string]int64{record: 2, strings.Replace(record, `"body":"`, `"template":"gone","vars":{},"title":"`, 1): 1} {
		elsewhere := strings.Replace(body, "+8613800000000", "+8613800000001", 1)
		if o := b.request("%s", elsewhere); len(o.event.Decision.Charges) != 1 || o.event.Decision.Charges[0].Cost != cost {
			t.Errorf("recorded as %+v, want a cost of %d", o.event.Decision.Charges, cost)
		}
	}
	// Of a template what is rendered counts: here 160 septets, then 161.
	for n, cost := range map[int]int64{157: 1, 158: 2} {
		o := b.request(`{"channel":"sms","to":"+861380000000%d","class":"code","template":"hi","vars":{"name":%q}}`, n-155, strings.Repeat("a", n))
		if b.want(o, "queued admit +1 > dispatch.one.normal"); o.event.Decision.Charges[0].Cost != cost || int64(o.event.Segments) != cost {
			t.Errorf("%d letters cost %+v and are %d parts", n, o.event.Decision.Charges, o.event.Segments)
		}
	}
	first := b.want(b.request("%s", two), "queued admit +1 > dispatch.one.normal")
	if c := first.event.Decision.Charges[0]; c.Cost != 2 {
		t.Errorf("charged %+v", c)
	}
	if o := b.want(b.request("%s", two), "limited refuse limited"); o.event.RetryAt != b.now+60_000 {
		t.Errorf("%+v", o.event)
	}
	b.now += 10
	moved := b.want(b.back(schemas.ReadmitRetry, first.send[0], two, func(e *schemas.Envelope) { e.Attempt = 1 }), "queued move +1 -1 > dispatch.one.again")
	b.want(b.back(schemas.ReadmitGiveBack, moved.send[0], two, nil), "decision give_back -1")
	b.want(b.request("%s", two), "queued admit +1 > dispatch.one.normal")
}

func TestAttemptsKeepTheirPlaces(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: tries, per: [recipient], allow: [2/60s], count: attempt}"))
	attempt := func(e *schemas.Envelope) { e.Attempt++ }
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.now++
	again := b.want(b.back(schemas.ReadmitRetry, first.send[0], code, attempt), "queued move +1 > dispatch.one.again")
	b.want(b.back(schemas.ReadmitGiveBack, again.send[0], code, nil), "decision give_back")
	b.want(b.back(schemas.ReadmitRetry, again.send[0], code, attempt), "deferred defer limited > delay.30s")
}

func TestBucketAndContent(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: text, per: [recipient, content], allow: [bucket 1 refill 1/m]}"))
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.want(b.request("%s", strings.Replace(code, `"x"`, `"y"`, 1)), "queued admit +1 > dispatch.one.normal")
	if o := b.want(b.request(code), "limited refuse limited"); o.event.RetryAt != b.now+60_000 {
		t.Errorf("%+v", o.event)
	}
	// What a template makes is the same content.
	b.want(b.request(`{"channel":"sms","to":"+8613800000000","class":"code","template":"hi","vars":{"name":"a"}}`), "queued admit +1 > dispatch.one.normal")
	b.want(b.request(`{"channel":"sms","to":"+8613800000000","class":"code","body":"hi a"}`), "limited refuse limited")
	b.now += 60_000
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
}

// A message that will never pass ends at once, also where its limit defers; one
// that was attempted already waits for its expiry with its place.
func TestCostThatNeverFits(t *testing.T) {
	b := newBench(t)
	const limit = "  - {name: parts, match: {class: code}, per: [recipient], allow: [%s/60s], count: segments, on_refusal: defer}"
	b.apply(2, limitsPolicy(strings.Replace(limit, "%s", "2", 1)))
	body := func(n int) string {
		return `{"channel":"sms","to":"+8613800000000","class":"code","body":"` + strings.Repeat("a", 153*n) + `"}`
	}
	if o := b.want(b.request("%s", body(3)), "limited refuse limited"); o.event.RetryAt != 0 || o.event.Decision.Evidence[0].Cost != 3 {
		t.Errorf("%+v", o.event)
	}
	first := b.want(b.request("%s", body(2)), "queued admit +1 > dispatch.one.normal")
	b.apply(3, limitsPolicy(strings.Replace(limit, "%s", "1", 1)))
	parked := b.want(b.back(schemas.ReadmitRetry, first.send[0], body(2), func(e *schemas.Envelope) { e.Attempt = 1 }), "deferred defer limited > delay.5m")
	if env := parked.send[0].env; env.DueAt != env.ExpiresAt || len(env.Place) != 1 {
		t.Errorf("parked as %+v", env)
	}
	b.now = parked.send[0].env.ExpiresAt
	b.want(b.back(schemas.ReadmitRetry, parked.send[0], body(2), nil), "expired expire expired -1")
}

// Lowering acts on the next decision, raising keeps the places, and a longer
// window counts what a shorter one has kept: in admission as in the table.
func TestPolicyChangesAtOnce(t *testing.T) {
	b := newBench(t)
	change := func(revision int64, allow string) {
		b.apply(revision, limitsPolicy("  - {name: l, match: {class: code}, per: [recipient], allow: ["+allow+"]}"))
	}
	const passes, ends = "queued admit +1 > dispatch.one.normal", "limited refuse limited"
	change(2, "3/60s")
	first := b.want(b.request(code), passes).event.Decision.T
	b.now += 10_000
	b.want(b.request(code), passes)
	change(3, "1/60s") // lowered: two stand
	second := b.now - 1
	if o := b.want(b.request(code), ends); o.event.RetryAt != second+60_000 || o.event.Decision.Evidence[0].Count != 2 {
		t.Errorf("until %v: %+v", o.event.RetryAt, o.event.Decision.Evidence)
	}
	change(4, "3/60s") // raised: they still stand
	b.want(b.request(code), passes)
	b.want(b.request(code), ends)
	change(5, "3/60s, 4/1h") // a longer window counts what the shorter one has kept
	since := first - 1       // of the limit, less than a minute ago
	b.now += 60_000
	b.want(b.request(code), passes)
	b.now += 60_000
	if o := b.want(b.request(code), ends); o.event.Window != "4/1h" || o.event.Decision.Evidence[0].Since != since || o.event.Decision.Evidence[0].Count != 4 || o.event.RetryAt != first+3_600_000 {
		t.Errorf("%s since %v until %v: %+v", o.event.Window, o.event.Decision.Evidence[0].Since, o.event.RetryAt, o.event.Decision.Evidence)
	}
	change(6, "5/30m") // a shorter one takes over what the longer knew
	b.want(b.request(code), passes)
	if o := b.want(b.request(code), ends); o.event.Decision.Evidence[0].Since != since || o.event.Decision.Evidence[0].Count != 5 {
		t.Errorf("%+v", o.event.Decision.Evidence)
	}
}
