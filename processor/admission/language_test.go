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
	first := b.want(b.request("%s", two), "queued admit +1 > dispatch.one.normal")
	if c := first.event.Decision.Charges[0]; c.Cost != 2 {
		t.Errorf("charged %+v", c)
	}
	if o := b.want(b.request("%s", two), "limited refuse limited"); o.event.RetryAt != b.now+60_000 {
		t.Errorf("%+v", o.event)
	}
	b.now += 10
	moved := b.want(b.back(schemas.ReadmitRetry, first.send[0], two, func(e *schemas.Envelope) { e.Attempt = 1 }), "queued move +1 -1 > dispatch.one.normal")
	b.want(b.back(schemas.ReadmitGiveBack, moved.send[0], two, nil), "decision give_back -1")
	b.want(b.request("%s", two), "queued admit +1 > dispatch.one.normal")
}

func TestAttemptsKeepTheirPlaces(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: tries, per: [recipient], allow: [2/60s], count: attempt}"))
	attempt := func(e *schemas.Envelope) { e.Attempt++ }
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.now++
	again := b.want(b.back(schemas.ReadmitRetry, first.send[0], code, attempt), "queued move +1 > dispatch.one.normal")
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
