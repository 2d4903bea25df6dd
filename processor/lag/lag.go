// Package lag is the metric weir_topic_lag_seconds, which every stage of a process
// has a series of. It does not measure: stages know what waits for them.
package lag

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauge returns a stage's series, in seconds. Stages of one process share the
// metric. A nil registry shows it to nobody. It panics when the name is taken by
// something else.
func Gauge(reg prometheus.Registerer, stage string) prometheus.Gauge {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_topic_lag_seconds",
		Help: "How old the record was that the stage took last, or that waits for it longest; 0 when nothing waits.",
	}, []string{"stage"})
	if reg != nil {
		err := reg.Register(v)
		if had, ok := err.(prometheus.AlreadyRegisteredError); ok { // by another stage of this process
			if old, ok := had.ExistingCollector.(*prometheus.GaugeVec); ok {
				v, err = old, nil
			}
		}
		if err != nil {
			panic(err) // two metrics of one name
		}
	}
	return v.WithLabelValues(stage)
}

// Worst is the lag of a stage that has parts which do not know of each other: that
// of the part that is furthest behind.
type Worst struct {
	gauge prometheus.Gauge
	mu    sync.Mutex
	of    map[string]float64
}

// NewWorst shows the worst of no parts yet, 0, in g.
func NewWorst(g prometheus.Gauge) *Worst { return &Worst{gauge: g, of: make(map[string]float64)} }

// Set says how many seconds a part is behind.
func (w *Worst) Set(part string, seconds float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[part] = seconds
	w.show()
}

// Forget leaves a part out: it is gone, or another process's.
func (w *Worst) Forget(part string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, part)
	w.show()
}

func (w *Worst) show() {
	worst := 0.0
	for _, s := range w.of {
		worst = max(worst, s)
	}
	w.gauge.Set(worst)
}
