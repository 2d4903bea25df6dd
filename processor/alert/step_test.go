package alert

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/schemas"
)

const minute = schemas.Millis(60_000)

func refusal(at schemas.Millis, limit string) Happening {
	return Happening{Subject: Subject{Event: schemas.AlertLimitRefused, Limit: limit, Window: "1/60s"}, At: at, To: fmt.Sprintf("+86138%08d", at), Class: "verify", Tenant: "acme"}
}

func oncall() Rule {
	return Rule{Name: "oncall", When: []string{schemas.AlertLimitRefused, schemas.AlertBreakerOpen}, N: 1, Window: 10 * time.Minute}
}

func open(provider string, since schemas.Millis) map[string][]Condition {
	return map[string][]Condition{schemas.AlertBreakerOpen: {{Subject: Subject{Event: schemas.AlertBreakerOpen, Provider: provider}, Since: since}}}
}

var nobody = map[string][]Condition{schemas.AlertBreakerOpen: {}}

// play steps a state and says what is told: a line for each notice when it becomes
// due, which is taken at once unless a verdict says otherwise.
type play struct {
	t     *testing.T
	state State
	rules []Rule
	seen  map[string]bool
}

func (p *play) at(now schemas.Millis, f Facts, v Verdict) (lines []string) {
	p.t.Helper()
	due, _ := p.state.Step(p.rules, f, now)
	for _, n := range due {
		if p.seen == nil {
			p.seen = make(map[string]bool)
		}
		for _, i := range n.Items() {
			lines = append(lines, fmt.Sprintf("%s %s%s %d", i.State, i.Limit, i.Provider, i.Count))
		}
		p.seen[n.ID] = true
		if v == "" {
			v = Taken
		}
		p.state.Step(p.rules, Facts{Outcomes: []Outcome{{Alert: n.Alert, Notice: n.ID, At: now, Verdict: v}}}, now)
	}
	return lines
}

func TestStep(t *testing.T) {
	happened := func(h ...Happening) Facts { return Facts{Happened: h} }
	stands := func(m map[string][]Condition) Facts { return Facts{Standing: m} }
	type step struct {
		at      schemas.Millis
		f       Facts
		verdict Verdict
		want    string // lines, with commas
	}
	for _, tt := range []struct {
		name  string
		rules []Rule
		steps []step
	}{
		{"the first at once, the rest summed", []Rule{oncall()}, []step{
			{1, happened(refusal(1, "a")), "", "happened a 1"},
			{2, happened(refusal(2, "a"), refusal(2, "b")), "", ""},
			{3, happened(refusal(3, "a")), "", ""},
			{10 * minute, Facts{}, "", ""},
			{10*minute + 1, Facts{}, "", "happened a 2,happened b 1"},
			{30 * minute, Facts{}, "", ""}, // nothing is held
		}},
		{"two alerts are capped each by itself", []Rule{oncall(), {Name: "chat", When: []string{schemas.AlertLimitRefused}, N: 2, Window: time.Minute}}, []step{
			{1, happened(refusal(1, "a")), "", "happened a 1,happened a 1"},
			{2, happened(refusal(2, "a")), "", "happened a 1"},
			{3, happened(refusal(3, "a")), "", ""},
			{minute + 1, Facts{}, "", "happened a 1"},
			{10*minute + 1, Facts{}, "", "happened a 2"},
		}},
		{"what nobody asked for", []Rule{{Name: "x", When: []string{schemas.AlertDLQRecord}, N: 1, Window: time.Minute}}, []step{
			{1, happened(refusal(1, "a")), "", ""},
			{2, stands(open("p", 2)), "", ""},
		}},
		{"a breaker opens and closes", []Rule{oncall()}, []step{
			{1, stands(open("p", 1)), "", "open p 1"},
			{2, stands(open("p", 1)), "", ""},
			{3, stands(nobody), "", ""},
			{4, Facts{}, "", ""}, // not known is not resolved
			{10*minute + 1, Facts{}, "", "resolved p 0"},
			{60 * minute, stands(nobody), "", ""},
		}},
		{"it closes before it may be told", []Rule{oncall()}, []step{
			{1, happened(refusal(1, "a")), "", "happened a 1"},
			{2, stands(open("p", 1)), "", ""},
			{3, stands(nobody), "", ""},
			{4, stands(open("p", 4)), "", ""},
			{5, stands(nobody), "", ""},
			{11 * minute, Facts{}, "", "resolved p 2"},
		}},
		{"it was over and began again", []Rule{oncall()}, []step{
			{1, stands(open("p", 1)), "", "open p 1"},
			{2, stands(nobody), "", ""},
			{3, stands(open("p", 3)), "", ""},
			{11 * minute, Facts{}, "", "open p 1"},
			{12 * minute, stands(nobody), "", ""},
			{22 * minute, Facts{}, "", "resolved p 0"},
		}},
		{"a receiver that is away is tried again", []Rule{oncall()}, []step{
			{0 + minute, happened(refusal(minute, "a")), Again, "happened a 1"},
			{1 + minute, happened(refusal(1+minute, "a")), Again, ""}, // it pauses
			{1000 + minute, Facts{}, Again, "happened a 1"},           // the same, not more
			{2000 + minute, Facts{}, Again, ""},
			{3000 + minute, Facts{}, Taken, "happened a 1"},
			{11*minute + 2999, Facts{}, "", ""}, // a window from when it was taken
			{11*minute + 3000, Facts{}, "", "happened a 1"},
		}},
		{"given up, and held for the next", []Rule{oncall()}, []step{
			{minute, happened(refusal(minute, "a")), Again, "happened a 1"},
			{2 * minute, happened(refusal(2*minute, "b")), Again, "happened a 1"},
			{15*minute + 58_000, Facts{}, Again, "happened a 1"},             // and would come after 15 min
			{16 * minute, stands(open("p", 2)), "", ""},                      // its pause is not over
			{17 * minute, Facts{}, "", "open p 1,happened a 1,happened b 1"}, // it never arrived: the window is free
			{18 * minute, happened(refusal(18*minute, "c")), "", ""},
			{27 * minute, Facts{}, "", "happened c 1"},
		}},
		{"given up, and perhaps taken", []Rule{oncall()}, []step{
			{minute, happened(refusal(minute, "a")), Again, "happened a 1"},
			{2 * minute, Facts{}, Unsure, "happened a 1"},
			{15*minute + 58_000, Facts{}, Again, "happened a 1"},
			{17 * minute, Facts{}, "", ""},
			{26 * minute, Facts{}, "", "happened a 1"},
		}},
		{"refused, and held for the next", []Rule{{Name: "fast", When: []string{schemas.AlertLimitRefused}, N: 5, Window: time.Second}}, []step{
			{minute, happened(refusal(minute, "a")), Refused, "happened a 1"},
			{minute + 59_999, happened(refusal(minute, "a")), "", ""},
			{minute + 60_000, Facts{}, "", "happened a 2"},
		}},
		{"opened again on the way of a notice that is refused", []Rule{{Name: "fast", When: []string{schemas.AlertBreakerOpen}, N: 5, Window: time.Second}}, []step{
			{minute, stands(open("p", 1)), Again, "open p 1"},
			{minute + 1, stands(nobody), "", ""},
			{minute + 2, stands(open("p", 2)), "", ""},
			{minute + 1000, Facts{}, Refused, "open p 1"},
			{2*minute + 1000, Facts{}, "", "open p 2"},
		}},
		{"a clock that is set back makes no room, and no silence", []Rule{oncall()}, []step{
			{60 * minute, happened(refusal(1, "a")), "", "happened a 1"},
			{62 * minute, Facts{}, "", ""},
			{5 * minute, happened(refusal(2, "a")), "", ""}, // two minutes of the ten are over
			{13*minute - 1, Facts{}, "", ""},
			{13 * minute, Facts{}, "", "happened a 1"},
		}},
		{"a clock is set back while a notice is on its way", []Rule{oncall()}, []step{
			{9000 * minute, happened(refusal(1, "a")), Again, "happened a 1"},
			{minute, Facts{}, "", ""},
			{minute + 1000, Facts{}, Refused, "happened a 1"},
			{minute + 2000, happened(refusal(2, "a")), "", ""},
			{2*minute + 999, Facts{}, "", ""},
			{2*minute + 1000, Facts{}, "", "happened a 2"}, // one that was refused leaves the window free
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &play{t: t, rules: tt.rules}
			for i, s := range tt.steps {
				if got := strings.Join(p.at(s.at, s.f, s.verdict), ","); got != s.want {
					t.Errorf("step %d, at %d: %q, want %q", i, s.at, got, s.want)
				}
			}
		})
	}
}

// TestStepFollowsRules: what an alert no longer asks for is not told, and an alert
// that is gone, or came back, knows nothing of before.
func TestStepFollowsRules(t *testing.T) {
	quiet := oncall()
	quiet.When = quiet.When[:1]
	breakers := oncall()
	breakers.When = breakers.When[1:]
	held := Facts{Happened: []Happening{refusal(2, "a")}, Standing: open("p", 2)}
	for _, tt := range []struct {
		name  string
		rules []Rule // between the facts and the next notice
		want  string
	}{
		{"as it was", []Rule{oncall()}, "open p 1,happened a 1"},
		{"no refusals", []Rule{breakers}, "open p 1"},
		{"no breakers", []Rule{quiet}, "happened a 1"},
		{"no alert", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &play{t: t, rules: []Rule{oncall()}}
			p.at(1, Facts{Happened: []Happening{refusal(1, "first")}}, "")
			p.at(2, held, "")
			p.rules = tt.rules
			p.at(3, Facts{}, "")
			p.rules = []Rule{oncall()}
			if len(tt.rules) > 0 {
				p.rules = tt.rules
			}
			p.at(4, Facts{}, "")
			if got := strings.Join(p.at(20*minute, Facts{}, ""), ","); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}

// TestStepClockBetween: what a notice came to is told by the clock of before it was
// set back, and counts as of now.
func TestStepClockBetween(t *testing.T) {
	var s State
	rules := []Rule{oncall()}
	due, _ := s.Step(rules, Facts{Happened: []Happening{refusal(1, "a")}}, 9000*minute)
	s.Step(rules, Facts{Outcomes: []Outcome{{Alert: "oncall", Notice: due[0].ID, At: 9000*minute + 5, Verdict: Taken}}, Happened: []Happening{refusal(2, "a")}}, 20*minute)
	if due, _ := s.Step(rules, Facts{}, 30*minute-1); len(due) != 0 {
		t.Errorf("within the window: %v", due[0])
	}
	if due, _ := s.Step(rules, Facts{}, 30*minute); len(due) != 1 {
		t.Error("silent for longer than a window")
	}
}

// TestStepRetryAfter: what the receiver asks for is waited for, also past the end.
func TestStepRetryAfter(t *testing.T) {
	var s State
	rules := []Rule{oncall()}
	due, _ := s.Step(rules, Facts{Happened: []Happening{refusal(1, "a")}}, minute)
	asked := func(after schemas.Millis) []*Notice {
		due, _ := s.Step(rules, Facts{Outcomes: []Outcome{{Alert: "oncall", Notice: due[0].ID, At: minute, Verdict: Again, After: int64(after)}}}, minute)
		return due
	}
	asked(5 * minute)
	if got, _ := s.Step(rules, Facts{}, 6*minute-1); len(got) != 0 {
		t.Errorf("tried before the receiver wants it: %v", got)
	}
	if got, _ := s.Step(rules, Facts{}, 6*minute); len(got) != 1 {
		t.Error("not tried again")
	}
	asked(60 * minute)
	if got, _ := s.Step(rules, Facts{}, 61*minute-1); len(got) != 0 {
		t.Errorf("tried before the receiver wants it: %v", got)
	}
	if got, _ := s.Step(rules, Facts{}, 61*minute); len(got) != 1 {
		t.Error("lost")
	}
}

// TestStepAfterATakeover: nobody knows whether the alerter that is gone was heard, so what
// it had on its way counts, whatever comes of it.
func TestStepAfterATakeover(t *testing.T) {
	rules := []Rule{oncall()}
	var s State
	due, _ := s.Step(rules, Facts{Happened: []Happening{refusal(minute, "a")}}, minute)
	was, err := decodeSaved((&Saved{Version: savedVersion, State: s}).encode())
	if err != nil {
		t.Fatal(err)
	}
	was.State.takeOver()
	again, _ := was.State.Step(rules, Facts{}, minute)
	if len(again) != 1 || again[0].ID != due[0].ID {
		t.Fatalf("due again: %v", again)
	}
	_, done := was.State.Step(rules, Facts{Outcomes: []Outcome{{Alert: "oncall", Notice: due[0].ID, At: minute, Verdict: Refused}}}, minute)
	if len(done) != 1 || done[0].Verdict != Refused {
		t.Errorf("done: %v", done)
	}
	if got, _ := was.State.Step(rules, Facts{}, 11*minute-1); len(got) != 0 {
		t.Error("a second within the window")
	}
	if got, _ := was.State.Step(rules, Facts{}, 11*minute); len(got) != 1 || got[0].Count() != 1 {
		t.Errorf("what it said is not told: %v", got)
	}
}

// TestStepProperty: whatever happens, whoever crashes, at_most holds at the
// receiver, and each happening is told once.
func TestStepProperty(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 8))
		rule := Rule{Name: "a", When: []string{schemas.AlertLimitRefused}, N: 1 + rng.IntN(3), Window: time.Duration(1+rng.IntN(60)) * time.Second}
		rules := []Rule{rule}
		var (
			log       []Happening // what happened, in its order
			saved     []byte
			savedAt   int // how far of the log is in what was saved
			state     State
			at        int
			now       = minute
			taken     = map[string]int64{} // by id: the receiver drops what it knows
			calls     []schemas.Millis     // of notices that it had not seen
			crashes   int
			repeats   int
			reachable = true
		)
		save := func() {
			saved, savedAt = (&Saved{Version: savedVersion, State: state}).encode(), at
		}
		save()
		for range 400 {
			now += schemas.Millis(rng.IntN(3000))
			if rng.IntN(40) == 0 {
				reachable = !reachable
			}
			for range rng.IntN(4) {
				log = append(log, refusal(now, "l"+string(rune('a'+rng.IntN(40)))))
			}
			due, _ := state.Step(rules, Facts{Happened: log[at:]}, now)
			at = len(log)
			if rng.IntN(30) == 0 || len(due) > 0 {
				save()
			}
			crash := rng.IntN(25) == 0
			if crash && rng.IntN(2) == 0 { // before it is sent
				due = nil
			}
			for _, n := range due {
				o := Outcome{Alert: "a", Notice: n.ID, At: now, Verdict: Again}
				// Who has taken it takes it again: who refuses it then, or is away for
				// 15 minutes, is told its counts a second time.
				_, known := taken[n.ID]
				if reachable || known {
					o.Verdict = Taken
					if known {
						repeats++
					} else {
						taken[n.ID] = n.Count()
						calls = append(calls, now)
					}
				} else if rng.IntN(9) == 0 {
					o.Verdict = Refused
				}
				if crash { // after it was sent, before that was written
					continue
				}
				state.Step(rules, Facts{Outcomes: []Outcome{o}}, now)
				save()
			}
			if crash {
				crashes++
				was, err := decodeSaved(saved)
				if err != nil {
					t.Fatal(err)
				}
				state, at = was.State, savedAt
				state.takeOver()
			}
		}
		for i := range calls {
			if i >= rule.N && calls[i]-calls[i-rule.N] < schemas.Millis(rule.Window.Milliseconds()) {
				t.Fatalf("seed %d: %d notices within %v, at most %d in %v", seed, rule.N+1, time.Duration(calls[i]-calls[i-rule.N])*time.Millisecond, rule.N, rule.Window)
			}
		}
		if repeats > crashes {
			t.Fatalf("seed %d: %d repeats after %d crashes", seed, repeats, crashes)
		}
		told := int64(0)
		for _, n := range taken {
			told += n
		}
		held := int64(0)
		for _, a := range state.Alerts {
			for _, sum := range a.Held {
				held += sum.Count
			}
			if a.Out != nil {
				if _, known := taken[a.Out.ID]; !known {
					held += a.Out.Count()
				}
			}
		}
		if told+held != int64(at) {
			t.Fatalf("seed %d: told %d, held %d, of %d that happened", seed, told, held, at)
		}
	}
}

// TestSavedSheds: however many alerts there are and whatever they hold, it is
// written, and no message is left out of the counts.
func TestSavedSheds(t *testing.T) {
	for _, alerts := range []int{40, 300} {
		s := &Saved{Version: savedVersion, State: State{Alerts: map[string]*Alert{}}}
		total := int64(0)
		sums := func(a *Alert) {
			for j := range maxSubjects {
				sum := a.held(Subject{Event: []string{schemas.AlertLimitRefused, schemas.AlertDLQRecord}[j%2], Limit: fmt.Sprint("limit-", j)})
				for k := range 100 {
					h := refusal(schemas.Millis(1+k), "x")
					h.Class, h.To = strings.Repeat("c", 80)+fmt.Sprint(k), fmt.Sprint("+1415", 1000000+k)
					sum.add(&h)
					total++
				}
			}
		}
		var out *Sum // what a try under way reads
		for i := range alerts {
			a := &Alert{Told: map[string]schemas.Millis{}}
			for j := range 2 * maxSubjects {
				a.Told[fmt.Sprint("limit-", j)] = 1
			}
			s.State.Alerts[fmt.Sprint("alert-", i)] = a
			sums(a)
			a.compose(oncall(), 1)
			out = a.Out.Sums[0]
			sums(a)
		}
		was := *out
		b := s.encode()
		if len(b) > maxSaved {
			t.Fatalf("%d alerts: %d bytes", alerts, len(b))
		}
		if out.Subject != was.Subject || out.Count != was.Count || len(out.Classes) != len(was.Classes) || len(out.Seen) != len(was.Seen) {
			t.Errorf("%d alerts: a notice changed under who sends it: %+v", alerts, out)
		}
		back, err := decodeSaved(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range back.State.Alerts {
			for _, sum := range a.Held {
				total -= sum.Count
			}
			total -= a.Out.Count()
		}
		if total != 0 {
			t.Errorf("%d alerts: %d are not counted any more", alerts, total)
		}
	}
}

func TestSavedByOthers(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":1,"state":{"alerts":{"a":{"number":3}}}}`:                 "",
		`{"version":2,"state":{}}`:                                            "version 2",
		`{"state":{}}`:                                                        "version 0",
		`{"version":1,"state":{"alerts":{"a":{"held":{"x":null}}}}}`:          "torn or foreign",
		`{"version":1,"state":{"alerts":{"a":{"standing":{"x":null}}}}}`:      "torn or foreign",
		`{"version":1,"state":{"alerts":{"a":{"out":{"sums":[null]}}}}}`:      "torn or foreign",
		`{"version":1,"state":{"alerts":{"a":{"out":{"standings":[null]}}}}}`: "torn or foreign",
		`{"version":1,"state":{"alerts":{"a":null}}}`:                         "torn or foreign",
		`{"version":1`: "torn or foreign",
	} {
		if _, err := decodeSaved([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestRuleOf(t *testing.T) {
	for atMost, want := range map[string]string{
		"": "1 10m0s", "3/1h": "3 1h0m0s", "100/1m": "100 1m0s",
		"101/1m": "1 10m0s", "0/1m": "1 10m0s", "2/calendar-day": "1 10m0s", "bucket 3 refill 1/s": "1 10m0s", "soon": "1 10m0s", // of a newer version
	} {
		r := RuleOf(&schemas.Alert{Name: "a", When: []string{"x"}, AtMost: atMost})
		if got := fmt.Sprint(r.N, " ", r.Window); got != want || r.Name != "a" || len(r.When) != 1 {
			t.Errorf("%q: %s, want %s: %+v", atMost, got, want, r)
		}
	}
}

// What an answer says may repeat the address that was called: a log has words only.
func TestSaid(t *testing.T) {
	for body, want := range map[string]string{"invalid_token": "invalid_token", "no such hook: https://hooks.example.com/T1/secret": "", "ok\n": "", "": "", strings.Repeat("a", 41): ""} {
		if got := said(&outbound.Answer{Body: body}); got != want {
			t.Errorf("%q: %q", body, got)
		}
	}
}

func TestSketch(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 500, 20_000} {
		var s Sketch
		for i := range n {
			s.Add(hashOf(fmt.Sprint("+8613", i)))
			s.Add(hashOf(fmt.Sprint("+8613", i)))
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Sketch
		if err := json.Unmarshal(b, &back); err != nil || !slices.Equal(s, back) {
			t.Errorf("%v, %d of %d", err, len(back), len(s))
		}
		got, exact := back.Count()
		if exact != (n < sketchSize) || exact && got != int64(n) || float64(got) < 0.6*float64(n) || float64(got) > 1.6*float64(n) {
			t.Errorf("%d counted as %d, exact %v", n, got, exact)
		}
	}
}
