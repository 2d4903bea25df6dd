package lag_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir/processor/lag"
)

func value(t *testing.T, g prometheus.Gauge) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

func TestStagesShareTheMetric(t *testing.T) {
	reg := prometheus.NewRegistry()
	lag.Gauge(reg, "delay").Set(1)
	lag.Gauge(reg, "admission").Set(2)
	lag.Gauge(reg, "delay").Set(3) // of a stage that begins anew
	lag.Gauge(nil, "delay").Set(9)
	all, err := reg.Gather()
	if err != nil || len(all) != 1 || len(all[0].Metric) != 2 {
		t.Fatal(all, err)
	}
	for i, want := range []float64{2, 3} { // by stage
		if got := all[0].Metric[i].GetGauge().GetValue(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestWorst(t *testing.T) {
	g := lag.Gauge(nil, "lanes")
	w := lag.NewWorst(g)
	for _, step := range []struct {
		do   func()
		want float64
	}{
		{func() {}, 0},
		{func() { w.Set("a", 5) }, 5},
		{func() { w.Set("b", 7) }, 7},
		{func() { w.Set("a", 6) }, 7},
		{func() { w.Set("b", 0) }, 6},
		{func() { w.Set("b", 9) }, 9},
		{func() { w.Forget("b") }, 6},
		{func() { w.Forget("a") }, 0},
	} {
		step.do()
		if got := value(t, g); got != step.want {
			t.Errorf("%v, want %v", got, step.want)
		}
	}
}
