package route

import (
	"math"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func closed(at schemas.Millis, calls, failures int64) schemas.Health {
	return schemas.Health{Provider: "a", Breaker: schemas.BreakerClosed, Calls: calls, Failures: failures, At: at}
}

func open(at schemas.Millis) schemas.Health {
	return schemas.Health{Provider: "a", Breaker: schemas.BreakerOpen, ProbeAt: at + 10_000, Calls: 5, Failures: 5, At: at}
}

func half(at schemas.Millis) schemas.Health {
	return schemas.Health{Provider: "a", Breaker: schemas.BreakerHalfOpen, Calls: 5, Failures: 5, At: at}
}

func TestStep(t *testing.T) {
	type at struct {
		t    schemas.Millis
		say  schemas.Health // zero: nothing is said
		want Share
	}
	lane := func(n int32, h schemas.Health) schemas.Health { h.Lane = n; return h }
	for _, tt := range []struct {
		name  string
		steps []at
	}{
		{"too few calls say nothing", []at{{1000, closed(1000, 19, 19), ShareFull}}},
		{"half of enough", []at{{1000, closed(1000, 20, 10), ShareDegraded}}},
		{"a quarter is not too many", []at{{1000, closed(1000, 20, 5), ShareFull}}},
		{"more than a quarter is", []at{{1000, closed(1000, 20, 6), ShareDegraded}}},
		{"between the thresholds it stays what it was", []at{
			{1000, closed(1000, 100, 20), ShareFull},
			{2000, closed(2000, 100, 26), ShareDegraded},
			{190_000, closed(190_000, 100, 24), ShareDegraded},
			{191_000, closed(191_000, 100, 10), ShareDegraded},
			{192_000, closed(192_000, 100, 9), ShareFull},
			{193_000, closed(193_000, 100, 20), ShareFull},
		}},
		{"a good rate is believed when all of it came after", []at{
			{1000, closed(1000, 100, 50), ShareDegraded},
			{120_000, closed(120_000, 100, 0), ShareDegraded},
			{121_000, closed(121_000, 100, 0), ShareFull},
		}},
		{"a small traffic is added up", []at{
			{1000, closed(1000, 20, 20), ShareDegraded},
			{61_000, closed(61_000, 9, 0), ShareDegraded},
			{90_000, closed(90_000, 9, 0), ShareDegraded},
			{121_000, closed(121_000, 9, 0), ShareDegraded},
			{181_000, closed(181_000, 9, 1), ShareFull},
		}},
		{"and when it fails it is added up anew", []at{
			{1000, closed(1000, 20, 20), ShareDegraded},
			{61_000, closed(61_000, 10, 2), ShareDegraded},
			{121_000, closed(121_000, 10, 0), ShareDegraded},
			{181_000, closed(181_000, 10, 0), ShareDegraded},
			{241_000, closed(241_000, 10, 0), ShareFull},
		}},
		{"open, probed, well", []at{
			{1000, open(1000), ShareNone},
			{10_999, schemas.Health{}, ShareNone},
			{11_000, schemas.Health{}, ShareProbing}, // though nobody says so
			{11_500, half(11_500), ShareProbing},
			{11_600, closed(11_600, 8, 5), ShareFull},
		}},
		{"a relapse within the window", []at{
			{1000, open(1000), ShareNone},
			{12_000, closed(12_000, 8, 5), ShareFull},
			{71_000, open(71_000), ShareNone},
			{82_000, closed(82_000, 8, 5), ShareDegraded},
			{190_000, closed(190_000, 200, 5), ShareDegraded},
			{191_000, closed(191_000, 200, 5), ShareFull},
		}},
		{"while it is degraded any is", []at{
			{1000, closed(1000, 100, 50), ShareDegraded},
			{2000, open(2000), ShareNone},
			{12_000, closed(12_000, 100, 50), ShareDegraded},
			{100_000, open(100_000), ShareNone},
			{112_000, closed(112_000, 100, 0), ShareDegraded},
			{219_000, closed(219_000, 100, 0), ShareDegraded},
			{220_000, closed(220_000, 100, 0), ShareFull},
		}},
		{"a rate that fell with the breaker returns with it", []at{
			{1000, closed(1000, 20, 6), ShareDegraded},
			{61_000, open(61_000), ShareNone},
			{72_000, closed(72_000, 0, 0), ShareFull},
			{73_000, closed(73_000, 19, 0), ShareFull},
		}},
		{"and what fails after that counts", []at{
			{1000, closed(1000, 20, 6), ShareDegraded},
			{2000, open(2000), ShareNone},
			{13_000, closed(13_000, 0, 0), ShareFull},
			{14_000, closed(14_000, 20, 6), ShareDegraded},
			{75_000, open(75_000), ShareNone}, // a relapse: it was so for longer than that
			{86_000, closed(86_000, 0, 0), ShareDegraded},
		}},
		{"a rate that was low long before does not", []at{
			{1000, closed(1000, 20, 6), ShareDegraded},
			{61_001, open(61_001), ShareNone},
			{72_000, closed(72_000, 0, 0), ShareDegraded},
		}},
		{"nor after a relapse", []at{
			{1000, open(1000), ShareNone},
			{12_000, closed(12_000, 0, 0), ShareFull},
			{13_000, closed(13_000, 20, 20), ShareDegraded},
			{14_000, open(14_000), ShareNone},
			{25_000, closed(25_000, 0, 0), ShareDegraded},
		}},
		{"while it was open figures of another lane count", []at{
			{1000, open(1000), ShareNone},
			{2000, lane(1, closed(2000, 20, 6)), ShareNone},
			{12_000, closed(12_000, 0, 0), ShareDegraded},
		}},
		{"none after it", []at{
			{1000, open(1000), ShareNone},
			{12_000, closed(12_000, 8, 5), ShareFull},
			{72_000, open(72_000), ShareNone},
			{82_000, closed(82_000, 8, 5), ShareFull},
		}},
		{"a probe that fails is no relapse", []at{
			{1000, open(1000), ShareNone},
			{11_000, half(11_000), ShareProbing},
			{11_100, open(11_100), ShareNone},
			{21_100, half(21_100), ShareProbing},
			{21_200, closed(21_200, 9, 6), ShareFull},
		}},
		{"figures of a lane that is gone", []at{
			{1000, closed(1000, 19, 19), ShareFull},
			{121_001, lane(1, closed(121_001, 19, 19)), ShareFull},
		}},
		{"lanes are added up", []at{
			{1000, closed(1000, 19, 19), ShareFull},
			{2000, lane(1, closed(2000, 1, 1)), ShareDegraded},
		}},
		{"a lane that is taken back", []at{
			{1000, open(1000), ShareNone},
			{2000, schemas.Health{Provider: "taken back"}, ShareFull},
		}},
		{"a lane whose clock is wrong", []at{
			{1000, schemas.Health{Breaker: schemas.BreakerOpen, ProbeAt: 1e12, At: 1e12}, ShareNone},
			{61_000, schemas.Health{}, ShareProbing},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Standing
			for _, step := range tt.steps {
				lanes := s.Lanes
				if step.say != (schemas.Health{}) {
					lanes = Take(lanes, step.say, step.t)
				}
				s = Step(s, lanes, step.t)
				if got := s.Share(0, step.t); got != step.want {
					t.Fatalf("at %d: %s, want %s: %+v", step.t, got, step.want, s)
				}
			}
		})
	}
}

// TestALaneSpeaksForItself: messages of a lane that is open go elsewhere, and
// those of the provider's other lanes need not.
func TestALaneSpeaksForItself(t *testing.T) {
	shut, well := open(1000), closed(1000, 5, 0)
	well.Lane = 1
	s := Step(Standing{}, Take(Take(nil, shut, 1000), well, 1000), 1000)
	for lane, want := range map[int32]Share{0: ShareNone, 1: ShareFull, 2: ShareFull} {
		if got := s.Share(lane, 2000); got != want {
			t.Errorf("lane %d: %s, want %s", lane, got, want)
		}
	}
	if at := s.ProbeAt(2000); at != 11_000 {
		t.Errorf("probed at %d", at)
	}
	s = Step(Standing{}, Take(nil, shut, 1000), 1000)
	if got := s.Share(5, 2000); got != ShareNone {
		t.Errorf("a lane that has not spoken, of a provider that is down: %s", got)
	}
}

func TestProbes(t *testing.T) {
	p := Probes{}
	for i := range 3 {
		if !p.May("a", 1500) {
			t.Fatalf("not the %dth", i)
		}
		p.Went("a", 1500)
	}
	if p.May("a", 1999) || !p.May("b", 1999) || !p.May("a", 2000) {
		t.Error("three a second for each")
	}
}

// TestSharesMoveOnlyWhatMustMove: as a provider's share falls, only its own
// messages move, and who moved at a larger share has moved at a smaller one.
func TestSharesMoveOnlyWhatMustMove(t *testing.T) {
	p := &schemas.Policy{Providers: []schemas.Provider{provider("a", "sms"), provider("b", "sms"), provider("c", "sms")}}
	const n = 60_000
	levels := []Share{ShareFull, ShareDegraded, ShareProbing, ShareNone}
	var count [4]map[string]int
	for i := range count {
		count[i] = map[string]int{}
	}
	for i := range uint64(n) {
		was := ""
		for l, s := range levels {
			got, err := Choose(p, Message{Channel: "sms"}, mix(i), having(map[string]Share{"a": s, "b": ShareFull, "c": ShareFull}))
			if err != nil {
				t.Fatal(err)
			}
			if was != "" && was != "a" && got != was {
				t.Fatalf("moved from %s to %s when a fell to %s", was, got, s)
			}
			was = got
			count[l][got]++
		}
	}
	for l, s := range levels {
		if got, want := float64(count[l]["a"])/n, float64(s)/300; math.Abs(got-want) > 0.006 {
			t.Errorf("a at %s has %.3f of all, want %.3f", s, got, want)
		}
		if b, c := count[l]["b"], count[l]["c"]; math.Abs(float64(b-c)) > 900 {
			t.Errorf("a at %s: %v", s, count[l])
		}
	}
	// All degraded alike share as all that are well.
	for i := range uint64(1000) {
		all, _ := Choose(p, Message{Channel: "sms"}, mix(i), nil)
		low, _ := Choose(p, Message{Channel: "sms"}, mix(i), func(string) Share { return ShareDegraded })
		if all != low {
			t.Fatalf("%s, then %s", all, low)
		}
	}
	// On probation alone, a fiftieth is tried and the failover has the rest.
	p.Routes = []schemas.Route{{To: []schemas.Target{{Provider: "a", Weight: 7}}, Failover: []string{"b"}}}
	tried := 0
	for i := range uint64(n) {
		if got, _ := Choose(p, Message{Channel: "sms"}, mix(i), having(map[string]Share{"a": ShareProbing, "b": ShareFull})); got == "a" {
			tried++
		}
	}
	if got := float64(tried) / n; math.Abs(got-0.02) > 0.004 {
		t.Errorf("%.3f were tried", got)
	}
}

// TestWord: a provider that throttles everyone is silent, and not open.
func TestWord(t *testing.T) {
	for want, lanes := range map[string][]schemas.Health{
		"silent": {{Breaker: schemas.BreakerClosed, SilentUntil: 2000}},
		"open":   {{Breaker: schemas.BreakerOpen, ProbeAt: 2000}},
		"well":   {{Breaker: schemas.BreakerClosed, SilentUntil: 1000}},
	} {
		s := Standing{Lanes: lanes}
		if got := s.Word(1000); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
