package route

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// simulated is one provider, its lane's breaker and its tally, as
// processor/lane has them (sony/gobreaker: five in a row, or half of twenty in
// a minute; ten seconds; three probes), in simulated time.
type simulated struct {
	name    string
	fails   func(t schemas.Millis, r *rand.Rand) bool
	state   schemas.Breaker
	probeAt schemas.Millis
	row     int // failures in a row; half-open: successes in a row
	probing int
	counts  window // the breaker's: begun anew when it moves
	tally   window // the lane's report: begun anew when the breaker closes
	hang    int64  // calls under way that fail with those that open the breaker
	keeps   bool   // its report goes back behind that, too
	told    schemas.Health
}

// window counts calls of the last minute in seconds.
type window struct {
	calls, failures [60]int64
	at              schemas.Millis
}

func (w *window) add(t schemas.Millis, calls, failures int64) {
	for ; w.at < t/1000; w.at++ {
		w.calls[(w.at+1)%60], w.failures[(w.at+1)%60] = 0, 0
	}
	w.calls[w.at%60] += calls
	w.failures[w.at%60] += failures
}

func (w *window) sums(t schemas.Millis) (calls, failures int64) {
	w.add(t, 0, 0)
	for i := range w.calls {
		calls += w.calls[i]
		failures += w.failures[i]
	}
	return calls, failures
}

func (s *simulated) become(t schemas.Millis, b schemas.Breaker) {
	if s.state == schemas.BreakerClosed {
		s.tally.add(t, s.hang, s.hang)
	}
	s.state, s.row, s.probing, s.counts, s.probeAt = b, 0, 0, window{at: t / 1000}, 0
	if b == schemas.BreakerOpen {
		s.probeAt = t + 10_000
	}
	if b == schemas.BreakerClosed && !s.keeps {
		s.tally = window{at: t / 1000}
	}
}

// call makes one call, if the breaker lets it; the message is then done.
func (s *simulated) call(t schemas.Millis, r *rand.Rand) bool {
	if s.state == schemas.BreakerOpen {
		return false
	}
	var failed int64
	if s.fails(t, r) {
		failed = 1
	}
	s.tally.add(t, 1, failed)
	if s.state == schemas.BreakerHalfOpen {
		if failed == 1 {
			s.become(t, schemas.BreakerOpen)
		} else if s.row++; s.row == 3 {
			s.become(t, schemas.BreakerClosed)
		}
		return true
	}
	s.counts.add(t, 1, failed)
	if failed == 0 {
		s.row = 0
	} else {
		s.row++
	}
	if calls, failures := s.counts.sums(t); s.row >= 5 || calls >= 20 && failures*2 >= calls {
		s.become(t, schemas.BreakerOpen)
	}
	return true
}

// say returns what the lane writes now: at once when the breaker moved, else
// once a second.
func (s *simulated) say(t schemas.Millis) (schemas.Health, bool) {
	if s.state == schemas.BreakerOpen && t >= s.probeAt {
		s.become(t, schemas.BreakerHalfOpen)
	}
	calls, failures := s.tally.sums(t)
	h := schemas.Health{Provider: s.name, Breaker: s.state, ProbeAt: s.probeAt, Calls: calls, Failures: failures, At: t}
	if h.Breaker == s.told.Breaker && h.ProbeAt == s.told.ProbeAt && t-s.told.At < 1000 {
		return h, false
	}
	s.told = h
	return h, true
}

// knownAfter is how long a lane's word takes to admission.
const knownAfter = 200

// scenario is an hour of messages by weights 50/50 over a and b, of which a does
// not do well.
type scenario struct {
	name  string
	every schemas.Millis // between messages
	fails func(t schemas.Millis, r *rand.Rand) bool
	// What must hold of the rules in force:
	returns  int     // a gets its whole weight back at most so often
	opens    int     // the breaker opens at most so often
	a0, a1   float64 // a's part of all messages, in percent
	flapping int     // without hysteresis, or without the sample, at least so often
	rule     string  // what is taken out then
	without  thresholds
	hang     int64
	keeps    bool // what failed before the breaker closed goes on counting
}

// result is what came of a scenario.
type result struct {
	returns, opens int
	part           float64          // a's of all messages
	least, most    float64          // in a minute, after the first two
	toA            []int            // messages to a, by second
	half, full     []schemas.Millis // when a's breaker was half-open, and when a had its whole weight again
}

const hour = schemas.Millis(3_600_000)

func (sc *scenario) run(th thresholds) result {
	r := rand.New(rand.NewPCG(5, 5))
	policy := &schemas.Policy{Providers: []schemas.Provider{provider("a", "sms"), provider("b", "sms")}}
	lanes := map[string]*simulated{
		"a": {name: "a", fails: sc.fails, state: schemas.BreakerClosed, hang: sc.hang, keeps: sc.keeps},
		"b": {name: "b", fails: func(schemas.Millis, *rand.Rand) bool { return false }, state: schemas.BreakerClosed},
	}
	type word struct {
		at schemas.Millis
		h  schemas.Health
	}
	var (
		res     = result{toA: make([]int, hour/1000)}
		health  = Health{}
		on      []word
		probes  = Probes{}
		all     int
		minutes [60][2]int
		wasOpen bool
		share   = ShareFull
	)
	for t := schemas.Millis(0); t < hour; t += 20 {
		for _, name := range []string{"a", "b"} {
			if h, said := lanes[name].say(t); said {
				on = append(on, word{t + knownAfter, h})
				if name == "a" && h.Breaker == schemas.BreakerHalfOpen {
					res.half = append(res.half, t)
				}
			}
		}
		if open := lanes["a"].state == schemas.BreakerOpen; open != wasOpen {
			if wasOpen = open; open {
				res.opens++
			}
		}
		step := func(name string, records []schemas.Health) {
			health[name] = th.step(health[name], records, t)
			if name != "a" {
				return
			}
			standing := health[name]
			if is := standing.Best(t); is != share {
				if share = is; is == ShareFull {
					res.returns++
					res.full = append(res.full, t)
				}
			}
		}
		for len(on) > 0 && on[0].at <= t {
			step(on[0].h.Provider, Take(health[on[0].h.Provider].Lanes, on[0].h, t))
			on = on[1:]
		}
		if t%1000 == 0 {
			step("a", health["a"].Lanes)
		}
		if t%sc.every != 0 {
			continue
		}
		probing := ""
		got, err := Choose(policy, Message{Channel: "sms"}, r.Uint64(), func(name string) Share {
			standing := health[name]
			s := standing.Share(0, t)
			if s == ShareProbing && probes.May(name, t) {
				probing, s = name, ShareFull
			}
			return s
		})
		if err != nil {
			panic(err) // b is always well
		}
		if got == probing {
			probes.Went(got, t)
		}
		all++
		minutes[t/60_000][1]++
		if got == "a" {
			res.part++
			minutes[t/60_000][0]++
			res.toA[t/1000]++
		}
		lanes[got].call(t, r)
	}
	res.part *= 100 / float64(all)
	res.least, res.most = 100, 0
	for _, m := range minutes[2:] {
		p := 100 * float64(m[0]) / float64(m[1])
		res.least, res.most = min(res.least, p), max(res.most, p)
	}
	return res
}

// evenly fails so many of a hundred without runs of failures, so that no
// breaker opens: the rate alone decides. It swings by swing percent around it
// every two minutes, as a provider at a threshold does.
func evenly(percent, swing float64) func(schemas.Millis, *rand.Rand) bool {
	due := 0.0
	return func(t schemas.Millis, _ *rand.Rand) bool {
		at := percent - swing
		if t/60_000%2 == 0 {
			at = percent + swing
		}
		if due += at; due >= 100 {
			due -= 100
			return true
		}
		return false
	}
}

func chance(percent float64) func(schemas.Millis, *rand.Rand) bool {
	return func(_ schemas.Millis, r *rand.Rand) bool { return r.Float64()*100 < percent }
}

func scenarios() []scenario {
	loose := inForce // one threshold, at once
	loose.above, loose.dwell, loose.relapse = loose.below, 0, 0
	one := inForce // call is enough
	one.sample = 1
	never := inForce // degraded: what a breaker does alone
	never.sample, never.relapse = 1<<40, 0
	return []scenario{
		{name: "both are well", every: 20, fails: chance(0), returns: 0, opens: 0, a0: 49, a1: 51},
		{name: "a fails half, at random", every: 20, fails: chance(50), returns: 1, opens: 400, a0: 0, a1: 13, flapping: 20, rule: "breakers alone", without: never},
		{name: "a fails a third, at random", every: 20, fails: chance(33), returns: 1, opens: 150, a0: 6, a1: 13, flapping: 20, rule: "breakers alone", without: never},
		{name: "a fails a quarter, evenly: at the threshold", every: 20, fails: evenly(25, 2), returns: 1, opens: 0, a0: 12, a1: 15, flapping: 30, rule: "no hysteresis", without: loose},
		{name: "a fails 10 s of each minute", every: 20, fails: func(t schemas.Millis, _ *rand.Rand) bool { return t%60_000 < 10_000 }, returns: 1, opens: 120, a0: 5, a1: 13, flapping: 10, rule: "no hysteresis", without: loose},
		{name: "a fails 5 minutes, then is well", every: 20, fails: func(t schemas.Millis, _ *rand.Rand) bool { return t >= 600_000 && t < 900_000 }, returns: 2, opens: 31, a0: 43, a1: 47},
		{name: "3 messages a minute, a fails a third", every: 20_000, fails: evenly(33, 0), returns: 0, opens: 0, a0: 35, a1: 65, flapping: 10, rule: "no minimum sample", without: one},
	}
}

// outages are how long a provider fails, and what traffic there is.
func outages() (out []scenario) {
	for _, every := range []schemas.Millis{20, 100, 340, 1000} {
		for _, long := range []schemas.Millis{5_000, 60_000, 300_000} {
			if long/every/2 < 10 {
				continue // half of that opens no breaker
			}
			// Calls hang for five seconds before they fail.
			out = append(out, scenario{every: every, hang: int64(5_000 / every / 2), fails: func(t schemas.Millis, _ *rand.Rand) bool { return t >= 600_000 && t < 600_000+long }})
		}
	}
	return out
}

// TestBackWithTheBreaker: whoever fails for a while and is well again has its
// whole weight as soon as its breaker's probes succeed, whatever the traffic and
// however long it failed. When the figures of before go on counting it does not.
func TestBackWithTheBreaker(t *testing.T) {
	back := func(sc scenario, th thresholds) schemas.Millis {
		got := sc.run(th)
		return got.full[len(got.full)-1] - got.half[len(got.half)-1]
	}
	var worst, kept schemas.Millis
	for _, sc := range outages() {
		got := back(sc, inForce)
		if traffic := max(sc.every*2*3, 1000) + knownAfter; got > traffic+1000 { // three probes, of half the messages, three a second at most
			t.Errorf("a message each %d ms: back %d ms after the half-open time", sc.every, got)
		}
		worst = max(worst, got)
		old := inForce
		old.lead = -hour
		sc.keeps = true
		kept = max(kept, back(sc, old))
	}
	t.Logf("back %d ms after the half-open time at most; %d ms if what was before went on counting", worst, kept)
	page, err := os.ReadFile(routingPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{fmt.Sprintf("%.1f s after its half-open time", float64(worst)/1000), fmt.Sprintf("It would be %.0f s if", float64(kept)/1000)} {
		if !strings.Contains(string(page), figure) {
			t.Errorf("%s does not say %q", routingPage, figure)
		}
	}
	if kept < 60_000 {
		t.Error("it proves nothing")
	}
}

const routingPage = "../../docs/routing.md"

// TestSimulation plays an hour of each scenario, with the rules in force and
// without those that keep weights still, and holds docs/routing.md to what came
// of it.
func TestSimulation(t *testing.T) {
	var table strings.Builder
	fmt.Fprintln(&table, "| an hour of messages by weights 50/50 to a and b | a is back at its whole weight | with a rule taken out | breaker opened | a's part | in a minute |")
	fmt.Fprintln(&table, "|---|---|---|---|---|---|")
	for _, sc := range scenarios() {
		got := sc.run(inForce)
		without := "–"
		if sc.flapping > 0 {
			flapped := sc.run(sc.without).returns
			without = fmt.Sprintf("%d (%s)", flapped, sc.rule)
			if flapped < sc.flapping {
				t.Errorf("%s: a gets its weight back only %d times with %s: it proves nothing", sc.name, flapped, sc.rule)
			}
		}
		fmt.Fprintf(&table, "| %s | %d | %s | %d | %.1f %% | %.0f to %.0f %% |\n", sc.name, got.returns, without, got.opens, got.part, got.least, got.most)
		if got.returns > sc.returns || got.opens > sc.opens || got.part < sc.a0 || got.part > sc.a1 {
			t.Errorf("%s: back %d times, opened %d times, part %.1f", sc.name, got.returns, got.opens, got.part)
		}
		if strings.Contains(sc.name, "5 minutes") {
			left, back, full := 600, 900, 900
			for i := 600; i < 900; i++ {
				if got.toA[i] > 5 {
					left = i + 1 // the last second with more than probes
				}
			}
			for ; got.toA[back] <= 5; back++ {
			}
			for ; got.toA[full] < 15; full++ {
			}
			t.Logf("%s: it has only probes %d s after it began to fail; traffic again %d s after it was well, half of all after %d s", sc.name, left-600, back-900, full-900)
			if left > 602 || back > 911 || full > 975 {
				t.Error("too slow")
			}
		}
	}
	t.Logf("\n%s", table.String())
	page, err := os.ReadFile(routingPage)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("%s does not have this table", routingPage)
	}
}
