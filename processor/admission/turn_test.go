package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// queue is a bench whose deferred messages come back when they are due, as the
// delay topics bring them: never early, and late by up to a second.
type queue struct {
	*bench
	to       string
	start    schemas.Millis
	waiting  map[string]send
	admitted map[string]schemas.Millis   // by name, after start
	said     map[string][]schemas.Millis // retry_at of its deferred statuses
	decided  map[string]int
	late     schemas.Millis // how late each comes back
}

const turnPolicy = `
limits:
  - {name: slow, match: {class: slow}, per: [recipient], allow: [%s], on_refusal: defer}
classes:
  - {name: slow, expires_after: 1h}
providers:
  - {name: one, type: simulated, channels: [sms]}
`

func newQueue(t *testing.T, window string) *queue {
	b := newBench(t)
	b.apply(2, fmt.Sprintf(turnPolicy, window))
	return &queue{bench: b, to: "+8613800000000", start: b.now, waiting: make(map[string]send), admitted: make(map[string]schemas.Millis),
		said: make(map[string][]schemas.Millis), decided: make(map[string]int)}
}

func turnID(name string) string { return fmt.Sprintf("0b6f0e7e-0000-4000-8000-%012x", name) }

func (q *queue) value(name string) string {
	return fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"slow","body":"x"}`, turnID(name), q.to)
}

func (q *queue) take(name string, o outcome) {
	q.t.Helper()
	q.decided[name]++
	switch {
	case o.event.Decision.Verdict == schemas.VerdictAdmit:
		q.admitted[name] = o.event.Decision.T - q.start
	case o.event.Decision.Verdict == schemas.VerdictDefer:
		q.waiting[name] = o.send[0]
		if o.event.Kind == schemas.KindStatus {
			q.said[name] = append(q.said[name], o.event.RetryAt-q.start)
		}
		if o.event.RetryAt < o.send[0].env.DueAt {
			q.t.Errorf("%s comes back at %v, after %v, which is said", name, o.send[0].env.DueAt, o.event.RetryAt)
		}
	}
}

func (q *queue) sends(names string) {
	q.t.Helper()
	for name := range strings.SplitSeq(names, " ") {
		q.take(name, q.request("%s", q.value(name)))
	}
}

func (q *queue) cancels(name string) {
	q.t.Helper()
	q.want(q.request(`{"action":"cancel","id":%q,"to":%q}`, turnID(name), q.to), "cancelled cancel cancelled")
}

// run brings back what waits until a moment after start.
func (q *queue) run(until schemas.Millis) {
	q.t.Helper()
	for {
		next := ""
		for name, s := range q.waiting {
			if next == "" || s.env.DueAt < q.waiting[next].env.DueAt {
				next = name
			}
		}
		if next == "" || q.waiting[next].env.DueAt > q.start+until {
			q.now = max(q.now, q.start+until)
			return
		}
		s := q.waiting[next]
		delete(q.waiting, next)
		q.late = (q.late + 370) % 1000
		q.now = max(q.now, s.env.DueAt+q.late)
		q.take(next, q.back(s.env.Reason, s, q.value(next), nil))
	}
}

// TestCancelFreesATurn: what waits behind a cancelled message moves up by one turn
// each, and by no more than the limits allow.
func TestCancelFreesATurn(t *testing.T) {
	q := newQueue(t, "1/60s")
	q.sends("a b c d e")
	for i, name := range []string{"b", "c", "d", "e"} {
		if want := []schemas.Millis{schemas.Millis(i+1) * 60_000}; !slices.Equal(q.said[name], want) {
			t.Fatalf("%s is deferred until %v, want %v", name, q.said[name], want)
		}
	}
	q.run(30_000)
	q.cancels("b")
	q.run(600_000)
	for i, name := range []string{"c", "d", "e"} {
		turn := schemas.Millis(i+1) * 60_000 // of the message before it
		if at := q.admitted[name]; at < turn || at > turn+6_000 {
			t.Errorf("%s was admitted after %d ms, want about %d", name, int64(at), int64(turn))
		}
	}
	if len(q.waiting) != 0 {
		t.Errorf("still waiting: %v", q.waiting)
	}
}

// TestEachKeepsItsTurn: where none is cancelled, each goes in its turn, is decided
// once more at most, and has one status that says that it waits.
func TestEachKeepsItsTurn(t *testing.T) {
	for _, window := range []string{"1/60s", "2/60s", "1/calendar-minute", "bucket 1 refill 1/20s"} {
		t.Run(window, func(t *testing.T) {
			q := newQueue(t, window)
			names := "a b c d e f"
			q.sends(names)
			q.run(3_000_000)
			last := schemas.Millis(-1)
			for name := range strings.SplitSeq(names, " ") {
				at, ok := q.admitted[name]
				if !ok || at < last {
					t.Errorf("%s was admitted after %d ms (%v), the one before it after %d ms", name, int64(at), ok, int64(last))
				}
				last = at
				if q.decided[name] > 3 || len(q.said[name]) > 1 {
					t.Errorf("%s was decided %d times, and %d statuses say that it waits", name, q.decided[name], len(q.said[name]))
				}
			}
		})
	}
}

// TestEarlyIsNoHarm: what forbids that a message goes on before its turn does not
// end it, and does not cost it its turn.
func TestEarlyIsNoHarm(t *testing.T) {
	const waits = "decision defer turn > delay.5s"
	for _, c := range []struct {
		name, policy, want string
		at                 schemas.Millis // after start, when it comes back
	}{
		{"a limit that rejects", turnPolicy, waits, 112_000},
		{"a limit that rejects, in its turn", turnPolicy, "limited refuse limited", 120_000},
		{"quiet hours that reject", strings.Replace(turnPolicy, "expires_after", `quiet_hours: {from: "09:01", to: "09:02", timezone: UTC, then: reject}, expires_after`, 1), waits, 112_000},
		{"quiet hours that defer", strings.Replace(turnPolicy, "expires_after", `quiet_hours: {from: "09:01", to: "11:00", timezone: UTC, then: defer}, expires_after`, 1), waits, 112_000},
		{"no provider of the channel", strings.Replace(turnPolicy, "[sms]", "[email]", 1), waits, 112_000},
		{"no provider of the channel, in its turn", strings.Replace(turnPolicy, "[sms]", "[email]", 1), "rejected reject no_route > dlq", 120_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t, "1/60s")
			q.sends("a b c")
			early := q.waiting["c"]
			if early.env.DueAt != q.start+62_000 || early.env.Turn != q.start+120_000 {
				t.Fatalf("c comes back at %s, and its turn is at %s", early.env.DueAt, early.env.Turn)
			}
			q.now = q.start + 100_000
			q.sends("d") // whenever it came, it has the place
			policy := c.policy
			if strings.Contains(c.name, "limit that rejects") {
				policy = strings.Replace(policy, ", on_refusal: defer", "", 1)
			}
			q.apply(3, fmt.Sprintf(policy, "1/60s"))
			q.now = q.start + c.at
			o := q.want(q.back(schemas.ReadmitDue, early, q.value("c"), nil), c.want)
			if c.want != waits {
				return
			}
			on := o.send[0].env
			if on.DueAt != q.start+120_000 || on.Turn != on.DueAt || o.event.RetryAt != on.DueAt || on.Reason != schemas.ReadmitDue {
				t.Errorf("waits on until %s, and says %s: %+v", on.DueAt, o.event.RetryAt, on)
			}
		})
	}
}

// TestATurnBeyondTheExpiry: it comes back early all the same, and at its expiry.
func TestATurnBeyondTheExpiry(t *testing.T) {
	q := newQueue(t, "1/45m")
	q.sends("a b c")
	expires := q.start + 3_600_000
	if early := q.waiting["c"].env; early.DueAt != q.start+2_702_000 || !slices.Equal(q.said["c"], []schemas.Millis{3_600_000}) {
		t.Errorf("c comes back at %s, and says after %v", early.DueAt, q.said["c"])
	}
	q.run(3_000_000) // b is admitted
	if on := q.waiting["c"].env; on.DueAt != expires {
		t.Errorf("c waits on until %s, and expires at %s", on.DueAt, expires)
	}
	q.run(3_500_000)
	if len(q.waiting) != 1 || q.admitted["b"] == 0 {
		t.Fatalf("waiting: %v", q.waiting)
	}
	q.now = expires
	q.want(q.back(schemas.ReadmitDue, q.waiting["c"], q.value("c"), nil), "expired expire expired")
}

// TestNoTurnMovesInWideLimits: nothing comes back early to a limit beyond one
// recipient.
func TestNoTurnMovesInWideLimits(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy("  - {name: all, per: [], allow: [1/60s], on_refusal: defer}"))
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	for i := range schemas.Millis(2) {
		o := b.want(b.request(code), "deferred defer limited > delay."+[]string{"30s", "30s"}[i])
		if want := b.now + (i+1)*60_000; o.event.RetryAt != want || o.send[0].env.DueAt != want || o.send[0].env.Turn != 0 {
			t.Errorf("number %d waits until %v, and says %v", i, o.send[0].env.DueAt, o.event.RetryAt)
		}
	}
}

// TestRoundOfOneThatIsEarly: the owner of a wide limit that rejects is full when a
// message comes back early. What the round took is given back, and the message
// waits for its turn.
func TestRoundOfOneThatIsEarly(t *testing.T) {
	const limits = `
limits:
  - {name: slow, per: [recipient], allow: [1/60s], on_refusal: defer}
  - {name: shop, per: [tenant], allow: [2/90s]}
`
	r := newRing(t, 4, limits+roundRest)
	home, shop := ownerOf(anewTo), ownerOf("tenant=shop")
	send := func(to string) string {
		r.from(ownerOf(to))
		r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, to)
		r.settle()
		return r.events[len(r.events)-1].MessageID
	}
	start := r.now
	send(anewTo)
	send(anewTo) // and is cancelled, say
	id := send(anewTo)
	r.now = start + 50_000
	send("+8613800000001")
	if env := r.sent[id].env; env.DueAt != start+62_000 || env.Turn != start+120_000 {
		t.Fatalf("comes back at %s, and its turn is at %s", env.DueAt, env.Turn)
	}
	stand := len(r.stand)
	r.said()
	r.now = start + 62_000
	r.back(schemas.ReadmitDue, r.sent[id], nil)
	r.settle()
	r.want(`
		%d decision charge +1 to %d
		%d decision refuse limited to %d
		%d decision defer turn -1
	`, home, shop, shop, home, home)
	if env := r.sent[id].env; env.DueAt != start+91_000 || env.Turn != start+120_000 || len(env.Place) > 0 {
		t.Errorf("waits on until %s, and its turn is at %s, with %v", env.DueAt, env.Turn, env.Place)
	}
	if len(r.stand) != stand {
		t.Errorf("there stands %v", r.stand)
	}
	r.now = start + 91_000
	r.back(schemas.ReadmitDue, r.sent[id], nil)
	r.settle()
	r.want(`
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d queued admit carried 2
	`, home, shop, shop, home, home)
}
