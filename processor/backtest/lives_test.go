package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

const (
	someone = "+8613800000001"
	sec     = schemas.Millis(1000)
)

// TestLives replays lives that go on after their first decision, and asks at the
// end whether a probe, a message that was let through then, is refused now.
func TestLives(t *testing.T) {
	one := "  - {name: a, per: [recipient], allow: [1/60s]}"
	two := "  - {name: a, per: [recipient], allow: [2/60s]}"
	for name, c := range map[string]struct {
		tried   string
		inForce string // as tried, if empty
		from    schemas.Millis
		log     func(m *schemas.Event) []*schemas.Event
		probe   schemas.Millis
		full    bool // the probe is refused
		want    func(r *Result) bool
	}{
		"a place counts until it is a window old": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event { return []*schemas.Event{admitted(m, t0, "a")} }, probe: 60*sec - 1, full: true,
		},
		"and no longer": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event { return []*schemas.Event{admitted(m, t0, "a")} }, probe: 60 * sec,
		},
		"a further attempt moves the place": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{admitted(m, t0, "a"), moved(m, t0+30*sec, "a")}
			}, probe: 61 * sec, full: true,
		},
		"and leaves the old one empty": {
			tried: two, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{admitted(m, t0, "a"), moved(m, t0+30*sec, "a")}
			}, probe: 31 * sec,
		},
		"where attempts count each keeps its place": {
			tried: two[:len(two)-1] + ", count: attempt}", log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{admitted(m, t0, "a"), moved(m, t0+30*sec, "a")}
			}, probe: 31 * sec, full: true,
		},
		"a place is given back when it was": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{admitted(m, t0, "a"), returned(m, t0+10*sec, t0, "a")}
			}, probe: 11 * sec,
		},
		"and not before": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{admitted(m, t0, "a"), returned(m, t0+10*sec, t0, "a")}
			}, probe: 9 * sec, full: true,
		},
		"a place of a limit that was not there is given back too": {
			tried: one, inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{admitted(m, t0, "b"), returned(m, t0+10*sec, t0, "b")}
			}, probe: 11 * sec,
		},
		"what expires between attempts gives its place back if it did": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				end := with(m, t0+10*sec, schemas.StatusExpired, schemas.VerdictExpire)
				end.Attempt, end.Decision.Returned = 1, places(m, t0, []string{"a"})
				return []*schemas.Event{admitted(m, t0, "a"), end}
			}, probe: 11 * sec,
		},
		"and keeps it if it may have been received": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				end := with(m, t0+10*sec, schemas.StatusExpired, schemas.VerdictExpire)
				end.Attempt = 1
				return []*schemas.Event{admitted(m, t0, "a"), end}
			}, probe: 11 * sec, full: true,
		},
		"what ends unknown keeps its place": {
			tried: one, inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", log: func(m *schemas.Event) []*schemas.Event {
				end := with(m, t0+10*sec, schemas.StatusUnknown, schemas.VerdictExpire)
				end.Attempt = 1
				return []*schemas.Event{admitted(m, t0, "b"), end}
			}, probe: 11 * sec, full: true,
		},
		"quiet hours ask no limit": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				wait := with(m, t0, schemas.StatusDeferred, schemas.VerdictDefer)
				wait.Reason = "quiet_hours"
				return []*schemas.Event{wait}
			}, probe: 1,
		},
		"a message sent elsewhere takes its place as of then": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{with(m, t0+50*sec, "", schemas.VerdictRecord, places(m, t0, []string{"a"})...)}
			}, probe: 59 * sec, full: true,
		},
		"which is not now": {
			tried: one, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{with(m, t0+50*sec, "", schemas.VerdictRecord, places(m, t0, []string{"a"})...)}
			}, probe: 60 * sec,
		},
		"who was refused and would pass is taken to be sent at once": {
			tried: one, inForce: "  - {name: b, per: [recipient], allow: [1/60s], on_refusal: defer}", log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{deferredBy(m, t0, "b", "1/60s"), admitted(m, t0+50*sec, "b"), moved(m, t0+55*sec, "b"), returned(m, t0+56*sec, t0+55*sec, "b")}
			}, probe: 59 * sec, full: true, want: func(r *Result) bool { return r.NewlyAdmitted == 1 && len(r.Notes) > 0 },
		},
		"at the time of its first decision": {
			tried: one, inForce: "  - {name: b, per: [recipient], allow: [1/60s], on_refusal: defer}", log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{deferredBy(m, t0, "b", "1/60s"), admitted(m, t0+50*sec, "b"), moved(m, t0+55*sec, "b")}
			}, probe: 60 * sec,
		},
		"who is refused now takes no place later": {
			tried: two, inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", log: func(m *schemas.Event) []*schemas.Event {
				third := *m
				third.MessageID = msg(3, m.To, m.Class).MessageID
				second := *m
				second.MessageID = msg(4, m.To, m.Class).MessageID
				return []*schemas.Event{admitted(&second, t0, "b"), admitted(&third, t0, "b"), admitted(m, t0+10*sec, "b"), moved(m, t0+61*sec, "b")}
			}, probe: 62 * sec, want: func(r *Result) bool { return r.NewlyRefused == 1 && r.Now.Admitted == 3 },
		},
		"a further attempt that is refused now keeps the old place": {
			tried: two[:len(two)-1] + ", count: segments}", inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", log: func(m *schemas.Event) []*schemas.Event {
				longer := moved(m, t0+10*sec, "b")
				longer.Segments = 3
				return []*schemas.Event{admitted(m, t0, "b"), longer, moved(m, t0+40*sec, "b")}
			}, probe: 61 * sec, want: func(r *Result) bool { return r.Now.Held == 1 && r.Then.Held == 0 && r.Messages == 2 },
		},
		"also if the limit that refuses it is another's": {
			tried: one + "\n  - {name: w, per: [tenant], allow: [1/5s]}", inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", log: func(m *schemas.Event) []*schemas.Event {
				other := *m
				other.MessageID, other.To = msg(3, "", "").MessageID, "+8613800000009"
				return []*schemas.Event{admitted(m, t0, "b"), admitted(&other, t0+28*sec, "b"), moved(m, t0+30*sec, "b")}
			}, probe: 59 * sec, full: true, want: func(r *Result) bool { return r.Now.Held == 1 },
		},
		"who waited then and would wait now is asked again when it was": {
			tried: one[:len(one)-1] + ", on_refusal: defer}", log: func(m *schemas.Event) []*schemas.Event {
				first := *m
				first.MessageID = msg(3, m.To, m.Class).MessageID
				return []*schemas.Event{admitted(&first, t0, "a"), deferredBy(m, t0+1, "a", "1/60s"), admitted(m, t0+60*sec, "a")}
			}, probe: 61 * sec, full: true, want: func(r *Result) bool {
				return r.Messages == 3 && r.Now.Refused == 2 && r.Then.Refused == 1 && r.NewlyRefused == 1
			},
		},
		"what a limit that only observed passed by has no place": {
			tried: "  - {name: a, per: [recipient], allow: [1/60s]}", inForce: "  - {name: a, per: [recipient], allow: [1/60s], mode: observe}", from: t0 + 61*sec,
			log: func(m *schemas.Event) []*schemas.Event {
				first := *m
				first.MessageID = msg(3, m.To, m.Class).MessageID
				passed := admitted(m, t0+30*sec)
				passed.Observed, passed.Limit, passed.Window = true, "a", "1/60s"
				passed.Decision.Evidence = []schemas.Evidence{{Limit: "a", Scope: m.To, Window: "1/60s"}}
				return []*schemas.Event{admitted(&first, t0, "a"), passed}
			}, probe: 62 * sec,
		},
		"what happened before it begins happened, whatever it says": {
			tried: two, inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", from: t0 + 20*sec, log: func(m *schemas.Event) (out []*schemas.Event) {
				for i := range 3 {
					each := *m
					each.MessageID = msg(10+i, m.To, m.Class).MessageID
					out = append(out, admitted(&each, t0+schemas.Millis(i)*sec, "b"))
				}
				return out
			}, probe: 60*sec + 1, full: true, want: func(r *Result) bool { return r.Messages == 1 && r.Then.Refused == 0 },
		},
		"and what was refused before took no place": {
			tried: one, inForce: "  - {name: b, per: [recipient], allow: [9/60s]}", from: t0 + 20*sec, log: func(m *schemas.Event) []*schemas.Event {
				return []*schemas.Event{refusedBy(m, t0, "b", "9/60s")}
			}, probe: 21 * sec, want: func(r *Result) bool { return r.Messages == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.inForce == "" {
				c.inForce = c.tried
			}
			g := newLog(1)
			probed := false
			probe := admitted(msg(2, someone, "notice"), t0+c.probe)
			for _, e := range c.log(msg(1, someone, "notice")) {
				if !probed && e.At > probe.At {
					probed = true
					g.add(probe)
				}
				g.add(e)
			}
			if !probed {
				g.add(probe)
			}
			r, answers := (&trial{tried: policyOf(t, c.tried), inForce: policyOf(t, c.inForce), from: c.from}).run(t, g)
			a, ok := answers[answerAt{0, probe.Decision.Seq}]
			if !ok {
				t.Fatal("nobody answered the probe")
			}
			if a.Now.Refused != c.full {
				t.Errorf("the probe was refused: %v, want %v", a.Now.Refused, c.full)
			}
			if c.want != nil && !c.want(r) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestOneIDToSeveral: a producer may give one id to messages to several people, or a
// tenant another's. Each is a message, and has places of its own.
func TestOneIDToSeveral(t *testing.T) {
	p := policyOf(t, "  - {name: a, per: [recipient, tenant], allow: [1/60s]}")
	one, other, theirs := msg(1, someone, "notice"), msg(1, "+8613800000002", "notice"), msg(1, someone, "notice")
	theirs.Tenant = "umbrella"
	g := newLog(1)
	for i, m := range []*schemas.Event{one, other, theirs} {
		g.add(admitted(m, t0+schemas.Millis(i)*sec, "a"))
	}
	g.add(returned(other, t0+5*sec, t0+sec, "a")) // the one's place stands
	for i, m := range []*schemas.Event{one, other, theirs} {
		next := *m
		next.MessageID = msg(2, "", "").MessageID
		g.add(admitted(&next, t0+schemas.Millis(10+i)*sec, "a"))
	}
	r, answers := (&trial{tried: p, inForce: p}).run(t, g)
	var refused []bool
	for seq := range int64(7) {
		if a, ok := answers[answerAt{0, seq + 1}]; ok {
			refused = append(refused, a.Now.Refused)
		}
	}
	if got := fmt.Sprint(refused); r.Messages != 6 || got != "[false false false true false true]" {
		t.Errorf("%d messages, refused %s", r.Messages, got)
	}
}

// TestLongest: windows are read back to where they begin, whoever has them.
func TestLongest(t *testing.T) {
	for allow, want := range map[string]schemas.Millis{
		"[1/60s]": minute, "[1/60s, 9/7d]": 7 * day, "[5/calendar-minute]": minute, "[5/calendar-hour]": 2 * hour, "[5/calendar-day]": 26 * hour, "[5/calendar-month]": 31*day + 2*hour,
		"[bucket 100000 refill 1/s]": 100_000 * sec, `[1/60s], overrides: [{to: "+8613800000001", allow: [3/12h]}]`: 12 * hour,
	} {
		got := longest(policyOf(t, "  - {name: off, per: [recipient], allow: [1/30d], mode: off}\n  - {name: a, per: [recipient], allow: "+allow+"}"))
		if got != want {
			t.Errorf("%s looks back %d ms, want %d", allow, got, want)
		}
	}
}

// TestBuckets: what is in a bucket before the policy begins is what it was, down to
// one that is refilled as fast as it is emptied, since the reading goes back to when
// it was full.
func TestBuckets(t *testing.T) {
	p := policyOf(t, "  - {name: a, per: [recipient], allow: [bucket 3 refill 1/s]}")
	if got := longest(p); got != day {
		t.Errorf("a bucket of three seconds looks back %d ms", got)
	}
	g := newLog(1)
	for i := range 40 { // three at once, then one a second
		g.add(admitted(msg(i, someone, "notice"), t0+schemas.Millis(max(i-2, 0))*sec, "a"))
	}
	g.add(refusedBy(msg(41, someone, "notice"), t0+37*sec+1, "a", "bucket 3 refill 1/s"))
	r, _ := (&trial{tried: p, inForce: p, from: t0 + 30*sec}).run(t, g)
	if r.NewlyAdmitted != 0 || r.NewlyRefused != 0 || r.Now.Refused != 1 {
		t.Errorf("%+v", r)
	}
}

// TestUntil leaves out what comes later.
func TestUntil(t *testing.T) {
	g := newLog(2)
	for i := range 20 {
		g.add(admitted(msg(i, someone, "notice"), t0+schemas.Millis(i), "a"))
	}
	p := policyOf(t, "  - {name: a, per: [recipient], allow: [5/60s]}")
	r, _ := (&trial{tried: p, inForce: p, from: t0 + 10, until: t0 + 15}).run(t, g)
	if r.Messages != 5 || r.Now.Refused != 5 {
		t.Errorf("%+v", r)
	}
}

// TestBounds ends a backtest that would keep too much, or that nobody waits for.
func TestBounds(t *testing.T) {
	for _, wide := range []bool{false, true} {
		t.Run(fmt.Sprintf("wide=%v", wide), func(t *testing.T) {
			text := "  - {name: a, per: [recipient], allow: [5/60s]}"
			if wide {
				text += "\n  - {name: b, per: [tenant], allow: [9/60s]}"
			}
			p := policyOf(t, text)
			g := newLog(2)
			for i := range 4000 {
				g.add(admitted(msg(i, fmt.Sprintf("+8613800%06d", i), "notice"), t0, "a"))
			}
			if _, _, err := (&trial{tried: p, inForce: p, most: 1000}).try(t.Context(), g); !errors.Is(err, ErrTooMuch) {
				t.Errorf("too much: %v", err)
			}
			if r, _ := (&trial{tried: p, inForce: p, most: 100_000}).run(t, g); r.Messages != 4000 {
				t.Errorf("%d messages", r.Messages)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("nobody waits")
			cancel(gone)
			if _, _, err := (&trial{tried: p, inForce: p}).try(ctx, g); !errors.Is(err, gone) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

// TestBoundsOfGuests: counts of a limit that the log does not know are kept in
// memory too, and no longer than its windows see them.
func TestBoundsOfGuests(t *testing.T) {
	inForce := policyOf(t, "  - {name: a, per: [recipient], allow: [5/60s]}")
	tried := policyOf(t, "  - {name: b, per: [template], allow: [9/60s]}")
	for _, c := range []struct {
		name  string
		every schemas.Millis
		want  error
	}{{"at once", 0, ErrTooMuch}, {"one a second", sec, nil}} {
		g := newLog(2)
		for i := range 4000 {
			m := msg(i, someone, "notice")
			m.Template = fmt.Sprint("template-", i)
			at := t0 + schemas.Millis(i)*c.every
			g.add(admitted(m, at, "a"))
			g.add(with(m, at, schemas.StatusSent, ""))
		}
		if _, _, err := (&trial{tried: tried, inForce: inForce, most: 3000}).try(t.Context(), g); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestStoredHasNoCost: a policy that counts cost is not tried on what ClickHouse has.
func TestStoredHasNoCost(t *testing.T) {
	for text, want := range map[string]bool{
		"  - {name: a, per: [recipient], allow: [1/60s]}":                             true,
		"  - {name: a, per: [recipient], allow: [1/60s], count: segments}":            true,
		"  - {name: a, per: [recipient], allow: [1/60s], count: cost}":                false,
		"  - {name: a, per: [recipient], allow: [1/60s], count: cost, mode: \"off\"}": true,
		"  - {name: a, per: [metadata.ip], allow: [1/60s]}":                           false,
		"  - {name: a, per: [recipient, content], allow: [1/60s]}":                    false,
	} {
		if n := needsOf(policyOf(t, text)); n.stored() != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

// TestBoundsOfRequests: what is remembered of requests is bounded, also where each
// has the marker of a transaction behind it.
func TestBoundsOfRequests(t *testing.T) {
	for _, gap := range []int64{1, 2, 3} {
		q := &requests{needs: needs{metadata: []string{"ip"}}, parts: make([]found, 1), most: 2000}
		var err error
		n := int64(0)
		for ; err == nil && n < 200_000; n++ {
			err = q.keep(&kgo.Record{Offset: 7 + n*gap, Value: []byte(`{"channel":"sms","to":"+8613800000001","body":"x","metadata":{"ip":"192.0.2.1"}}`)})
		}
		if !errors.Is(err, ErrTooMuch) || n*gap > 40_000 {
			t.Errorf("every %d: %v after %d requests", gap, err, n)
		}
	}
}

// TestClocksDiffer has an owner's answer at an earlier time than its question, and
// another partition that goes on meanwhile.
func TestClocksDiffer(t *testing.T) {
	p := policyOf(t, "  - {name: b, per: [], allow: [2/60s]}")
	const n = 4
	owner := ownerOf(n)
	g := newLog(n)
	refused := 0
	for i := range 12 {
		m := msg(i, fmt.Sprintf("+8613800%06d", i), "notice")
		home := g.home(m.To)
		at := t0 + schemas.Millis(i)*30*sec
		place := schemas.Charge{Limit: "b", T: at - 1500, Cost: 1}
		if home == owner {
			place.T = at
			g.add(with(m, at, schemas.StatusQueued, schemas.VerdictAdmit, place))
			continue
		}
		onward := with(m, at, "", schemas.VerdictCharge)
		onward.Decision.Onward = &owner
		g.add(onward)
		step := &schemas.Event{Kind: schemas.KindDecision, MessageID: m.MessageID, Tenant: m.Tenant, To: m.To, At: at - 1500, Decision: &schemas.Decision{Verdict: schemas.VerdictCharge, Onward: &home, Charges: []schemas.Charge{place}}}
		end := with(m, at+10, schemas.StatusQueued, schemas.VerdictAdmit)
		end.Decision.Carried = []schemas.Charge{place}
		if i%5 == 4 {
			refused++
			step.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Onward: &home, Evidence: []schemas.Evidence{{Limit: "b", Window: "2/60s"}}}
			end = refusedBy(m, at+10, "b", "2/60s")
			end.Decision.Evidence[0].Scope = ""
		}
		g.addTo(owner, step)
		g.add(end)
	}
	if refused == 0 {
		t.Fatal("nobody was refused")
	}
	got, answers := (&trial{tried: p, inForce: p}).run(t, g)
	for k, a := range answers {
		if !a.Now.Refused && len(a.Now.Places) > 0 && len(a.Then.Places) > 0 && a.Now.Places[0] != a.Then.Places[0] {
			t.Errorf("%v: it took %v, and had taken %v", k, a.Now.Places, a.Then.Places)
		}
	}
	if got.Messages != 12 {
		t.Errorf("%+v", got)
	}
}

// TestPutBackByAnOwner: a retry moves its place at the owner of a wide limit, home
// refuses it, and the owner puts the place back: it counts once.
func TestPutBackByAnOwner(t *testing.T) {
	p := policyOf(t, "  - {name: wide, per: [], allow: [4/60s]}\n  - {name: own, per: [recipient], allow: [2/20s]}")
	const n = 4
	owner := ownerOf(n)
	g := newLog(n)
	to := someone
	for i := 0; g.home(to) == owner; i++ {
		to = fmt.Sprintf("+8613800%06d", i)
	}
	home := g.home(to)
	place := func(limit, scope string, at schemas.Millis) schemas.Charge {
		return schemas.Charge{Limit: limit, Scope: scope, T: at, Cost: 1}
	}
	// ask sends a message to the owner, which says this, and back.
	ask := func(m *schemas.Event, at schemas.Millis, d schemas.Decision) {
		onward := with(m, at, "", schemas.VerdictCharge)
		onward.Decision.Onward = &owner
		g.add(onward)
		d.Verdict, d.Onward = schemas.VerdictCharge, &home
		g.addTo(owner, &schemas.Event{Kind: schemas.KindDecision, MessageID: m.MessageID, Tenant: m.Tenant, To: m.To, At: at, Decision: &d})
	}
	admit := func(id int, at schemas.Millis) *schemas.Event {
		m := msg(id, to, "notice")
		ask(m, at, schemas.Decision{Charges: []schemas.Charge{place("wide", "", at)}})
		e := with(m, at, schemas.StatusQueued, schemas.VerdictAdmit, place("own", "recipient="+to, at))
		e.Decision.Carried = []schemas.Charge{place("wide", "", at)}
		g.add(e)
		return m
	}
	m := admit(1, t0)
	admit(2, t0+15*sec)
	admit(3, t0+21*sec)

	again := t0 + 22*sec
	ask(m, again, schemas.Decision{Charges: []schemas.Charge{place("wide", "", again)}, Returned: []schemas.Charge{place("wide", "", t0)}})
	waits := deferredBy(m, again, "own", "2/20s")
	waits.Attempt = 1
	waits.Decision.Evidence[0].Scope = "recipient=" + to
	waits.Decision.Released, waits.Decision.Reinstated = []schemas.Charge{place("wide", "", again)}, []schemas.Charge{place("wide", "", t0)}
	g.add(waits)
	back := with(m, again, "", schemas.VerdictGiveBack)
	back.Decision.Returned, back.Decision.Restored = waits.Decision.Released, waits.Decision.Reinstated
	g.addTo(owner, back)

	admit(4, t0+42*sec)
	got, answers := (&trial{tried: p, inForce: p}).run(t, g)
	if len(answers) != 5 || got.Then != got.Now || got.NewlyRefused > 0 {
		t.Errorf("%d answers, then %+v, now %+v", len(answers), got.Then, got.Now)
	}
}

// TestBackLate: a message whose round takes longer than its recipient's window is put to
// that window again when it is back: another took its place, or it has one of then.
func TestBackLate(t *testing.T) {
	p := policyOf(t, "  - {name: own, per: [recipient], allow: [1/10s]}\n  - {name: drawn, per: [recipient], allow: [bucket 1 refill 1/10s]}\n  - {name: wide, per: [], allow: [9/60s]}")
	const n = 4
	owner := ownerOf(n)
	to := someone
	for i := 0; schemas.PartitionOf(to, n) == owner; i++ {
		to = fmt.Sprintf("+8613800%06d", i)
	}
	own := func(limit string, at schemas.Millis) schemas.Charge {
		return schemas.Charge{Limit: limit, Scope: to, T: at, Cost: 1}
	}
	wide := func(at schemas.Millis) schemas.Charge { return schemas.Charge{Limit: "wide", T: at, Cost: 1} }
	record := func() *log {
		g := newLog(n)
		home := g.home(to)
		leave := func(id int, at schemas.Millis) *schemas.Event {
			m := msg(id, to, "notice")
			onward := with(m, at, "", schemas.VerdictCharge, own("own", at), own("drawn", at))
			onward.Decision.Onward = &owner
			g.add(onward)
			g.addTo(owner, &schemas.Event{Kind: schemas.KindDecision, MessageID: m.MessageID, Tenant: m.Tenant, To: m.To, At: at,
				Decision: &schemas.Decision{Verdict: schemas.VerdictCharge, Charges: []schemas.Charge{wide(at)}, Onward: &home}})
			return m
		}
		back := func(m *schemas.Event, from, at schemas.Millis) {
			e := with(m, at, schemas.StatusQueued, schemas.VerdictAdmit, own("own", at))
			e.Decision.Returned, e.Decision.Carried = []schemas.Charge{own("own", from)}, []schemas.Charge{own("drawn", from), wide(from)}
			g.add(e)
		}
		a := leave(1, t0)
		b := leave(2, t0+10*sec)
		refused := refusedBy(a, t0+12*sec, "own", "1/10s")
		refused.Decision.Evidence[0].Scope = to
		refused.Decision.Returned, refused.Decision.Released = []schemas.Charge{own("own", t0)}, []schemas.Charge{wide(t0)}
		g.add(refused)
		back(b, t0+10*sec, t0+13*sec)
		c := msg(3, to, "notice")
		refused = refusedBy(c, t0+22*sec, "own", "1/10s")
		refused.Decision.Evidence[0].Scope = to
		g.add(refused)
		d := leave(4, t0+23*sec)
		back(d, t0+23*sec, t0+24*sec)
		return g
	}
	for name, from := range map[string]schemas.Millis{"": 0, "as it happened, until then": t0 + 15*sec} {
		t.Run(name, func(t *testing.T) {
			got, answers := (&trial{tried: p, inForce: p, from: from}).run(t, record())
			if got.Then != got.Now || got.NewlyRefused+got.NewlyAdmitted > 0 {
				t.Errorf("then %+v, now %+v", got.Then, got.Now)
			}
			if len(answers) != 4 {
				t.Fatalf("%d answers", len(answers))
			}
			for k, a := range answers {
				if a.Now.Refused != a.Then.Refused || !slices.EqualFunc(sorted(a.Now.Places), sorted(a.Then.Places), func(a, b schemas.Charge) bool { return a == b }) {
					t.Errorf("%v: %+v, and then it was %+v", k, a.Now, a.Then)
				}
			}
		})
	}
}

func sorted(all []schemas.Charge) []schemas.Charge {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b schemas.Charge) int { return strings.Compare(a.Limit, b.Limit) })
	return all
}

// TestGivenUpAtHome: a message gives up a place that no window of its owner sees any more, so
// the owner has no step for it. Home's clock, which is ahead, is not the owner's for that.
func TestGivenUpAtHome(t *testing.T) {
	p := policyOf(t, "  - {name: wide, per: [], allow: [4/20s]}")
	const n = 4
	owner := ownerOf(n)
	g := newLog(n)
	to := someone
	for i := 0; g.home(to) == owner; i++ {
		to = fmt.Sprintf("+8613800%06d", i)
	}
	home := g.home(to)
	admit := func(id int, at schemas.Millis) *schemas.Event {
		m := msg(id, to, "notice")
		onward := with(m, at, "", schemas.VerdictCharge)
		onward.Decision.Onward = &owner
		g.add(onward)
		took := []schemas.Charge{{Limit: "wide", T: at - 1500, Cost: 1}}
		g.addTo(owner, &schemas.Event{Kind: schemas.KindDecision, MessageID: m.MessageID, Tenant: m.Tenant, To: m.To, At: at - 1500, Decision: &schemas.Decision{Verdict: schemas.VerdictCharge, Onward: &home, Charges: took}})
		e := with(m, at, schemas.StatusQueued, schemas.VerdictAdmit)
		e.Decision.Carried = took
		g.add(e)
		return m
	}
	m := admit(1, t0)
	g.add(with(m, t0+30*sec, "", schemas.VerdictGiveBack))
	admit(2, t0+30*sec+50)
	_, answers := (&trial{tried: p, inForce: p}).run(t, g)
	if len(answers) != 2 {
		t.Fatalf("%d answers", len(answers))
	}
	for k, a := range answers {
		if len(a.Now.Places) != 1 || a.Now.Places[0] != a.Then.Places[0] {
			t.Errorf("%v: it took %v, and had taken %v", k, a.Now.Places, a.Then.Places)
		}
	}
}

// TestRefusedBeforeAnotherOwner: what home refuses at once names the window of what it asked
// then, and not one that it asks only after another owner, though that opens later.
func TestRefusedBeforeAnotherOwner(t *testing.T) {
	for _, order := range []struct {
		limits string
		own    bool // the recipient's limit is asked first, and refuses
		limit  string
	}{
		{"  - {name: own, per: [recipient], allow: [1/5s]}\n  - {name: tenant, per: [tenant], allow: [9/60s]}\n  - {name: wide, per: [], allow: [1/60s]}", true, "own 1/5s"},
		{"  - {name: wide, per: [], allow: [1/5s]}\n  - {name: tenant, per: [tenant], allow: [9/60s]}\n  - {name: own, per: [recipient], allow: [1/60s]}", false, "wide 1/5s"},
	} {
		p := policyOf(t, order.limits)
		n := int32(2)
		for ; limit.Owner("tenant=acme", n) == ownerOf(n); n++ {
		}
		tenants := limit.Owner("tenant=acme", n)
		g := newLog(int(n))
		to := someone
		for i := 0; g.home(to) != ownerOf(n); i++ {
			to = fmt.Sprintf("+8613800%06d", i)
		}
		home := g.home(to)
		own, tenant, wide := schemas.Charge{Limit: "own", Scope: "recipient=" + to, T: t0, Cost: 1}, schemas.Charge{Limit: "tenant", Scope: "tenant=acme", T: t0, Cost: 1}, schemas.Charge{Limit: "wide", T: t0, Cost: 1}
		first, last := own, wide
		if !order.own {
			first, last = wide, own
		}
		m := msg(1, to, "notice")
		onward := with(m, t0, "", schemas.VerdictCharge, first)
		onward.Decision.Onward = &tenants
		g.add(onward)
		g.addTo(tenants, &schemas.Event{Kind: schemas.KindDecision, MessageID: m.MessageID, Tenant: m.Tenant, To: m.To, At: t0, Decision: &schemas.Decision{Verdict: schemas.VerdictCharge, Onward: &home, Charges: []schemas.Charge{tenant}}})
		end := with(m, t0, schemas.StatusQueued, schemas.VerdictAdmit, last)
		end.Decision.Carried = []schemas.Charge{first, tenant}
		g.add(end)

		name, window, _ := strings.Cut(order.limit, " ")
		g.add(refusedBy(msg(2, to, "notice"), t0+sec, name, window))
		_, answers := (&trial{tried: p, inForce: p}).run(t, g)
		if len(answers) != 2 {
			t.Fatalf("%d answers", len(answers))
		}
		for k, a := range answers {
			if a.Now.Refused != a.Then.Refused || a.Now.Limit != a.Then.Limit || a.Now.Window != a.Then.Window {
				t.Errorf("%s: %v: %+v, then %+v", order.limit, k, a.Now, a.Then)
			}
		}
	}
}

func ownerOf(n int32) int32 { return schemas.PartitionOf("", n) }

// TestText holds what people read.
func TestText(t *testing.T) {
	r := &Result{
		From: t0, Until: t0 + day, Warmed: t0 - hour, Source: "both", Revision: 7, Messages: 88_120,
		Then: Tally{Admitted: 87_810, Refused: 310}, Now: Tally{Admitted: 86_916, Refused: 1204, Held: 3}, NewlyRefused: 900, NewlyAdmitted: 6,
		ByLimit: []LimitCount{{"verify", "1/60s", "enforce", 300, 1200}}, ByClass: []ClassCount{{"verify", 80_000, 310, 1204}},
		Busiest: []Recipient{{"+86*********01", 50, 3, 40}}, Notes: []string{"Something was assumed."},
	}
	for i := range 30 {
		r.ByHour = append(r.ByHour, HourCount{Hour: t0 - t0%hour + schemas.Millis(i)*hour, Messages: 100, Now: int64(i)})
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Would have refused 1,204 of 88,120 messages (1.4 %); as it was, 310 (0.4 %).\n",
		"900 let through then would be refused, 6 refused then would be let through.\n",
		"further attempts of 3 would wait for a limit; as it was, of 0.\n",
		"(windows filled from ", "from ClickHouse and Kafka", "Revision 7 is in force.",
		"verify  1/60s   enforce  300   1,200  +900\n", "(6 more hours; --json has all)\n", "+86*********01  50        3     40   +37\n", "\nNote: Something was assumed.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n20"); n != hoursShown {
		t.Errorf("%d hours", n)
	}
	b.Reset()
	if err := (&Result{Until: t0, Source: "kafka"}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "1970") || !strings.Contains(got, "No message was put to a limit between the beginning of the log and 2026-") {
		t.Errorf("of a log that has nothing: %s", got)
	}
}
