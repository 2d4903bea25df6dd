package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// rival is a limiter that knows a policy by its text, keeps every place in a list,
// and counts anew each time.
type rival struct {
	policy *schemas.Policy
	places map[string][]place
}

type place struct {
	t    schemas.Millis
	cost int64
}

// decide answers a message, and takes its places if it passes.
func (v *rival) decide(e *schemas.Event, at schemas.Millis) (said Said, took []schemas.Charge) {
	type taking struct {
		key string
		c   schemas.Charge
	}
	var all []taking
	last, own := schemas.Millis(0), false // when what refuses opens, and whether it is the recipient's own
	for _, l := range v.order(e) {
		scope, key := scopeOf(l, e)
		cost := int64(1)
		if l.Count == schemas.CountSegments {
			cost = int64(e.Segments)
		}
		if l.Count == schemas.CountCost {
			cost = max(int64(e.Cost), 1)
		}
		allow := l.Allow
		for _, o := range l.Overrides {
			if o.To == e.To {
				allow = o.Allow
			}
		}
		full, opens := "", schemas.Millis(0)
		for _, w := range allow {
			if v.count(key, w, at)+cost <= w.N {
				continue
			}
			if o := v.opens(key, w, cost, at); full == "" || o > opens && l.Mode != schemas.ModeObserve {
				full, opens = w.String(), o
			}
		}
		isOwn := slices.Contains(l.Per, "recipient")
		switch {
		case full == "":
			all = append(all, taking{key, schemas.Charge{Limit: l.Name, Scope: scope, T: at, Cost: cost}})
		case l.Mode == schemas.ModeObserve:
			if said.Limit == "" {
				said = Said{Observed: true, Limit: l.Name, Window: full}
			}
		case !said.Refused || own && isOwn && opens > last: // a recipient's own are asked together
			said, last, own = Said{Refused: true, Limit: l.Name, Window: full}, opens, isOwn
		}
	}
	if said.Refused {
		return said, nil
	}
	for _, k := range all {
		v.places[k.key] = append(v.places[k.key], place{at, k.c.Cost})
		took = append(took, k.c)
	}
	return said, took
}

// order has the limits that apply as they are asked: those of the recipient
// together, where the first of them stands.
func (v *rival) order(e *schemas.Event) (out []*schemas.Limit) {
	var own []*schemas.Limit
	at := 0
	for i := range v.policy.Limits {
		switch l := &v.policy.Limits[i]; {
		case !applies(l, e):
		case !slices.Contains(l.Per, "recipient"):
			out = append(out, l)
		default:
			if own == nil {
				at = len(out)
			}
			own = append(own, l)
		}
	}
	return slices.Insert(out, at, own...)
}

// opens is the first moment at which a full window has room; of one that never has the last there is.
func (v *rival) opens(key string, w schemas.Window, cost int64, at schemas.Millis) schemas.Millis {
	if cost > w.N {
		return math.MaxInt64
	}
	for ; v.count(key, w, at)+cost > w.N; at++ {
		next := schemas.Millis(math.MaxInt64)
		for _, p := range v.places[key] {
			if leaves := p.t.Add(w.Length); w.Kind == schemas.WindowRolling && leaves > at {
				next = min(next, leaves)
			}
		}
		if w.Kind == schemas.WindowCalendar {
			unit := map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour}[w.Unit]
			next = schemas.MillisOf(at.Time().UTC().Truncate(unit).Add(unit))
		}
		at = next - 1
	}
	return at
}

func (v *rival) count(key string, w schemas.Window, at schemas.Millis) (n int64) {
	from := at - schemas.Millis(w.Length.Milliseconds()) + 1
	if w.Kind == schemas.WindowCalendar {
		day := at.Time().UTC().Truncate(24 * time.Hour)
		if w.Unit == "hour" {
			day = at.Time().UTC().Truncate(time.Hour)
		}
		from = schemas.MillisOf(day)
	}
	for _, p := range v.places[key] {
		if p.t >= from {
			n += p.cost
		}
	}
	return n
}

func applies(l *schemas.Limit, e *schemas.Event) bool {
	m := &l.Match
	return l.Mode != schemas.ModeOff && !slices.Contains(l.Exempt, e.To) &&
		(len(m.Class) == 0 || slices.Contains(m.Class, e.Class)) && (len(m.Tenant) == 0 || slices.Contains(m.Tenant, e.Tenant)) &&
		(len(m.Prefix) == 0 || strings.HasPrefix(e.To, "+"+m.Prefix[0])) && (len(m.Country) == 0 || m.Country[0] == "CN" && strings.HasPrefix(e.To, "+86"))
}

func scopeOf(l *schemas.Limit, e *schemas.Event) (scope, key string) {
	var parts []string
	for _, p := range []string{"recipient", "tenant", "class", "prefix:4"} {
		if slices.Contains(l.Per, p) {
			parts = append(parts, p+"="+map[string]string{"recipient": e.To, "tenant": e.Tenant, "class": e.Class, "prefix:4": e.To[1:5]}[p])
		}
	}
	scope = strings.Join(parts, ",")
	if len(parts) == 1 && parts[0] == "recipient="+e.To {
		scope = e.To
	}
	return scope, l.Name + "\x00" + scope
}

var triedLimits = []string{
	"{name: verify, match: {class: verify}, per: [recipient], allow: [2/20s, 5/120s]}",
	"{name: verify, match: {class: verify}, per: [recipient], allow: [1/10s, 30/calendar-day]}",
	"{name: each, per: [recipient, class], allow: [3/30s], mode: observe}",
	"{name: each, per: [recipient, class], allow: [4/60s], exempt: [\"+8613800000001\"]}",
	"{name: hourly, per: [recipient], allow: [9/calendar-hour], overrides: [{to: \"+8613800000002\", allow: [2/calendar-hour, 1/5s]}]}",
	"{name: parts, match: {tenant: acme}, per: [recipient], allow: [6/40s], count: segments}",
	"{name: weight, match: {class: notice}, per: [recipient], allow: [8/25s], count: cost}",
	"{name: china, match: {country: CN}, per: [recipient, tenant], allow: [3/15s]}",
	"{name: prefix, match: {prefix: \"1500\"}, per: [recipient], allow: [1/30s]}",
}

var triedWide = []string{
	"{name: tenant, per: [tenant], allow: [9/10s]}",
	"{name: network, per: [\"prefix:4\"], allow: [12/20s, 80/calendar-hour]}",
	"{name: all, per: [], allow: [15/10s], mode: observe}",
	"{name: class, match: {class: notice}, per: [class, tenant], allow: [4/9s]}",
	"{name: load, per: [tenant], allow: [30/10s], count: cost}",
}

// choose makes a policy of some limits, each name once.
func choose(r *rand.Rand, from []string) string {
	var out []string
	names := map[string]bool{}
	for _, i := range r.Perm(len(from)) {
		name, _, _ := strings.Cut(from[i], ",")
		if r.IntN(2) == 0 && !names[name] {
			names[name] = true
			out = append(out, "  - "+from[i])
		}
	}
	if len(out) == 0 {
		out = append(out, "  - "+from[0])
	}
	return strings.Join(out, "\n")
}

// TestAnotherPolicy has recorded traffic decided under other policies, and
// compares each answer with those of a limiter that counts lists.
func TestAnotherPolicy(t *testing.T) {
	tally := map[string]int{}
	for seed := range uint64(120) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			inForce := policyOf(t, choose(r, triedLimits))
			from := triedLimits
			if seed%2 == 1 {
				from = append(slices.Clone(triedLimits), triedWide...)
			}
			tried := policyOf(t, choose(r, from))
			was, now := &rival{inForce, map[string][]place{}}, &rival{tried, map[string][]place{}}
			g := newLog(1 + r.IntN(4))
			want := map[answerAt]Said{}
			at := t0 + schemas.Millis(r.IntN(3_600_000))
			var thenRefused, nowRefused, newlyRefused, newlyAdmitted, observed int64
			for i := range 600 {
				at += schemas.Millis(1 + r.IntN(700)*r.IntN(2))
				m := msg(i, []string{"+861380000000", "+150055500"}[r.IntN(2)]+fmt.Sprint(r.IntN(5)), []string{"verify", "notice"}[r.IntN(2)])
				m.Tenant, m.Segments = []string{"acme", "umbrella"}[r.IntN(2)], 1+r.IntN(3)
				m.Cost = r.IntN(2) * (2 + r.IntN(4))
				then, took := was.decide(m, at)
				e := with(m, at, schemas.StatusQueued, schemas.VerdictAdmit, took...)
				if then.Refused {
					e = refusedBy(m, at, then.Limit, then.Window)
				} else if then.Observed {
					e.Observed, e.Limit, e.Window = true, then.Limit, then.Window
					e.Decision.Evidence = []schemas.Evidence{{Limit: then.Limit, Scope: m.To, Window: then.Window}}
				}
				g.add(e)
				said, places := now.decide(m, at)
				said.Places = places
				want[answerAt{e.Decision.Partition, e.Decision.Seq}] = said
				count := func(n *int64, is bool) {
					if is {
						*n++
					}
				}
				count(&thenRefused, then.Refused)
				count(&nowRefused, said.Refused)
				count(&observed, said.Observed)
				count(&newlyRefused, said.Refused && !then.Refused)
				count(&newlyAdmitted, !said.Refused && then.Refused)
			}
			got, answers := (&trial{tried: tried, inForce: inForce}).run(t, g)
			if len(answers) != len(want) {
				t.Errorf("%d answers, want %d", len(answers), len(want))
			}
			bad := 0
			for k, w := range want {
				a := answers[k].Now
				same := a.Refused == w.Refused && a.Observed == w.Observed && a.Limit == w.Limit && a.Window == w.Window && len(a.Places) == len(w.Places)
				for _, c := range w.Places {
					same = same && slices.Contains(a.Places, c)
				}
				if same && w.Refused {
					tally["refused by "+w.Limit]++
				} else if same && w.Observed {
					tally["observed by "+w.Limit]++
				}
				if bad++; !same && bad < 4 {
					t.Errorf("%v: %+v, want %+v\n%v\n%v", k, a, w, inForce.Limits, tried.Limits)
				} else if same {
					bad--
				}
			}
			if got.Messages != 600 || got.Then.Refused != thenRefused || got.Now.Refused != nowRefused || got.Now.Observed != observed ||
				got.NewlyRefused != newlyRefused || got.NewlyAdmitted != newlyAdmitted {
				t.Errorf("%+v; want %d then, %d now, %d observed, %d newly refused, %d newly admitted", got, thenRefused, nowRefused, observed, newlyRefused, newlyAdmitted)
			}
			check := func(what string, then, now, wantThen, wantNow int64) {
				if then != wantThen || now != wantNow {
					t.Errorf("%s: %d then, %d now; want %d and %d", what, then, now, wantThen, wantNow)
				}
			}
			var then, sum int64
			for _, c := range got.ByClass {
				then, sum = then+c.Then, sum+c.Now
			}
			check("by class", then, sum, thenRefused, nowRefused)
			then, sum = 0, 0
			for _, c := range got.ByHour {
				then, sum = then+c.Then, sum+c.Now
			}
			check("by hour", then, sum, thenRefused, nowRefused)
			sum = 0
			for _, c := range got.Busiest {
				sum += c.Now
			}
			check("busiest", 0, sum, 0, nowRefused) // there are ten recipients
		})
	}
	for _, what := range []string{"refused by verify", "observed by each", "refused by each", "refused by hourly", "refused by parts", "refused by weight", "refused by load", "refused by china", "refused by prefix", "refused by tenant", "refused by network", "observed by all", "refused by class"} {
		if tally[what] < 20 {
			t.Errorf("%s: only %d times in all", what, tally[what])
		}
	}
}
