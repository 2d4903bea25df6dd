package admission

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// TestCallBy: a lane may call a message until a tenth of its smallest window after the
// decision that charged it, or as long as its class says.
func TestCallBy(t *testing.T) {
	b := newBench(t)
	by := func(o outcome, want time.Duration) {
		t.Helper()
		if got := o.send[0].env.CallBy.Sub(b.now); got != want {
			t.Errorf("to be called within %v, want %v", got, want)
		}
	}
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	by(first, 6*time.Second)
	other := strings.Replace(code, `"code"`, `"other"`, 1)
	by(b.want(b.request("%s", other), "queued admit > dispatch.one.normal"), time.Minute) // charged nothing

	b.now += 7_000
	moved := b.want(b.back(schemas.ReadmitStale, first.send[0], code, nil), "queued move +1 -1 > dispatch.one.again")
	by(moved, 6*time.Second)

	b.apply(2, strings.Replace(lifePolicy, "expires_after: 5m,", "expires_after: 5m, stale_after: 10s,", 1))
	by(b.want(b.back(schemas.ReadmitStale, moved.send[0], code, nil), "queued move +1 -1 > dispatch.one.again"), 10*time.Second)
}

// TestRefusedStaleWaitsWithItsOldPlace: a message that went stale and is refused now
// is not lost: it keeps its place and waits. Neither the time of its old decision nor
// how often it went stale goes with it.
func TestRefusedStaleWaitsWithItsOldPlace(t *testing.T) {
	b := newBench(t)
	first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	b.now += 60_000
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal") // took the next place
	b.now += 5_000
	stale := func(e *schemas.Envelope) { e.Stale = 2 }
	parked := b.want(b.back(schemas.ReadmitStale, first.send[0], code, stale), "deferred defer limited > delay.30s")
	env := parked.send[0].env
	if len(env.Place) != 1 || env.Place[0] != first.send[0].env.Place[0] || env.DueAt != b.now+55_000 || env.Reason != schemas.ReadmitStale || env.CallBy != 0 || env.Stale != 0 {
		t.Errorf("parked as %+v", env)
	}
	b.now += 55_000
	moved := b.want(b.back(schemas.ReadmitStale, parked.send[0], code, nil), "queued move +1 ?1 > dispatch.one.again")
	if env := moved.send[0].env; env.CallBy != b.now+6_000 || env.Stale != 0 {
		t.Errorf("dispatched as %+v", env)
	}
}

// TestStaleInARow: how often a message went stale in a row goes with the decision that
// follows, round the owners of wide limits too, and with nothing else.
func TestStaleInARow(t *testing.T) {
	stale := func(e *schemas.Envelope) { e.Stale, e.CallBy = 2, 1 }
	for _, tt := range []struct {
		reason string
		want   int
	}{{schemas.ReadmitStale, 2}, {schemas.ReadmitReroute, 0}, {schemas.ReadmitRetry, 0}} {
		b := newBench(t)
		first := b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
		again := func(e *schemas.Envelope) { stale(e); e.Attempt = 1 }
		if env := b.back(tt.reason, first.send[0], code, again).send[0].env; env.Stale != tt.want || env.CallBy != b.now+6_000 {
			t.Errorf("%s: dispatched as %+v", tt.reason, env)
		}
	}
	r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [2/60s]}
  - {name: shop, match: {tenant: shop}, per: [tenant], allow: [2/1h]}
  - {name: all, per: [], allow: [9/20s]}
`+roundRest)
	r.put(`{"tenant":"shop","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`)
	r.settle()
	for range 2 {
		if len(r.sent) != 1 {
			t.Fatalf("%d are dispatched", len(r.sent))
		}
		for _, s := range r.sent {
			own := s.env.DecidedAt
			for _, c := range s.env.Place {
				if !isWide(c) {
					own = c.T
				}
			}
			if s.env.CallBy != own.Add(6*time.Second) {
				t.Errorf("dispatched as %+v", s.env)
			}
			if s.env.Reason = schemas.ReadmitStale; s.env.Attempt == 0 && len(r.away) > 0 && s.env.Stale != 2 {
				t.Errorf("it went stale %d times in a row", s.env.Stale)
			}
			r.now += 7_000
			r.back(schemas.ReadmitStale, s, stale)
		}
		r.settle()
	}
	for _, s := range r.sent {
		if s.env.Stale != 2 {
			t.Errorf("it went stale %d times in a row", s.env.Stale)
		}
	}
}

// TestRefusedStaleOfAWideLimit: the same where a limit of all refuses: what the owners
// took for the message is returned, and what it held stays.
func TestRefusedStaleOfAWideLimit(t *testing.T) {
	r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [2/200s]}
  - {name: all, per: [], allow: [1/60s]}
`+roundRest)
	send := func(to string) { r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, to) }
	send("+8613800000000")
	r.settle()
	var first, second schemas.Envelope
	for _, s := range r.sent {
		first = s.env
	}
	r.now += 60_000
	send("+8613800000001")
	r.settle()
	for id, s := range r.sent {
		if id != first.ID {
			second = s.env
		}
	}
	r.now += 5_000
	r.back(schemas.ReadmitStale, r.sent[first.ID], nil)
	r.settle()
	parked := r.sent[first.ID]
	if !strings.Contains(parked.topic, "delay") || !slices.Equal(parked.env.Place, first.Place) || parked.env.DueAt < second.DecidedAt.Add(time.Minute) {
		t.Errorf("it waits as %+v\n%s", parked, r.said())
	}
	r.forget()
	if want := r.expect(map[string][]schemas.Charge{first.ID: first.Place, second.ID: second.Place}); !maps.Equal(want, r.stand) {
		t.Errorf("they hold %v, and there stands %v", want, r.stand)
	}
	r.now = parked.env.DueAt
	r.back(parked.env.Reason, parked, nil)
	r.settle()
	if moved := r.sent[first.ID]; !strings.Contains(moved.topic, "dispatch") {
		t.Errorf("then %+v\n%s", moved, r.said())
	}
}
