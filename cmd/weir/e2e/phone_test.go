package e2e

import (
	"maps"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// TestReceived: a log whose own times are faultless is judged by what the provider received
// and by when brokers appended it.
func TestReceived(t *testing.T) {
	doc, err := schemas.ParsePolicy("oracle.yaml", []byte(oraclePolicy))
	if err != nil {
		t.Fatal(err)
	}
	const to = "+8613800000000"
	call := func(id, to string, s float64) Call { return Call{Provider: "p", Message: id, To: to, At: at(s)} }
	const a, b = "a", "b"
	for name, tt := range map[string]struct {
		appended [2]float64 // of two admissions in 1/10s that are 10 s apart by their own times
		calls    []Call
		clocks   time.Duration
		want     map[Fault]int
	}{
		"apart":                          {[2]float64{1, 11}, []Call{call(a, to, 1), call(b, to, 11)}, 0, nil},
		"as close as the slack lets":     {[2]float64{1, 11}, []Call{call(a, to, 2), call(b, to, 11)}, 0, nil},
		"called too close":               {[2]float64{1, 11}, []Call{call(a, to, 2.5), call(b, to, 11)}, 0, map[Fault]int{FaultClose: 1}},
		"as close as clocks differ":      {[2]float64{1, 11}, []Call{call(a, to, 2.5), call(b, to, 11)}, time.Second, nil},
		"in doubt, and again":            {[2]float64{1, 11}, []Call{call(a, to, 1), call(b, to, 11), call(a, to, 1.5)}, 0, nil},
		"called before it was admitted":  {[2]float64{1, 11}, []Call{call(a, to, 0.5), call(b, to, 11)}, 0, map[Fault]int{FaultCalls: 1}},
		"called for another":             {[2]float64{1, 11}, []Call{call(a, "+8613800000001", 1), call(b, to, 11)}, 0, map[Fault]int{FaultCalls: 1}},
		"appended as close as they may":  {[2]float64{6, 9}, nil, 0, nil},
		"appended too close":             {[2]float64{8, 9}, nil, 0, map[Fault]int{FaultClose: 1}},
		"appended and called too close":  {[2]float64{8, 9}, []Call{call(a, to, 8), call(b, to, 9)}, 0, map[Fault]int{FaultClose: 2}},
		"appended close, clocks far off": {[2]float64{8, 9}, nil, 3 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{}
			w.marker()
			for i, id := range []string{a, b} {
				w.admit(id, []float64{1, 11}[i])
				w.log[len(w.log)-1].Appended = at(tt.appended[i])
				w.sent(id)
			}
			o := NewOracle(map[int64]*schemas.Policy{1: &doc.Policy}, "requests", "readmit", 1)
			for _, r := range w.log {
				o.Take(r)
			}
			report := o.Finish(w.asked, w.extra, w.calls)
			if !report.OK() {
				t.Fatalf("without the provider's word: %s", report)
			}
			if o.Received(tt.calls, tt.clocks); !maps.Equal(report.Faults, tt.want) {
				t.Errorf("found %v, want %v\n%s", report.Faults, tt.want, report)
			}
			if report.Appended != 2 || report.Judged != len(tt.calls) {
				t.Errorf("%d calls and %d appends were judged", report.Judged, report.Appended)
			}
		})
	}
}
