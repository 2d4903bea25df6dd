package lane

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestRevokedShowsNoLag: what waits in a lane is its new owner's to show.
func TestRevokedShowsNoLag(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := &stage{cfg: &Config{Provider: "a"}, now: time.Now, metrics: newMetrics(reg), held: true, lanes: map[int32]*lanePart{0: nil}}
	s.metrics.lag.set("a", 118)
	s.Revoke()
	got, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		for _, m := range f.GetMetric() {
			if v := m.GetGauge().GetValue(); v != 0 {
				t.Errorf("%s is %v", f.GetName(), v)
			}
		}
	}
}
