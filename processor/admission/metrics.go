package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/schemas"
)

// metrics are admission's figures. No label ever holds a recipient or an id,
// and classes that nobody declared share one label: producers choose them.
type metrics struct {
	decisions *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	commit    prometheus.Histogram
	restore   prometheus.Histogram
	ahead     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_admission_decisions_total", Help: "Decisions taken, by verdict and class."}, []string{"verdict", "class"}),
		refusals:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_limit_refusals_total", Help: "Refusals by limit, window and mode."}, []string{"limit", "window", "mode"}),
		commit:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_admission_commit_seconds", Help: "From the first record of a transaction to its commit.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
		restore:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_admission_restore_seconds", Help: "Restoring assigned partitions.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
	}
	m.ahead = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_admission_clock_ahead_seconds", Help: "How far decisions were stamped ahead of the broker's clock when last compared; above 2 nothing is decided."})
	if reg != nil {
		reg.MustRegister(m.decisions, m.refusals, m.commit, m.restore, m.ahead)
	}
	return m
}

func (m *metrics) decided(e *schemas.Event, pol *schemas.Policy) {
	class := "other"
	for i := range pol.Classes {
		if pol.Classes[i].Name == e.Class {
			class = e.Class
		}
	}
	if e.Class == schemas.DefaultClass {
		class = schemas.DefaultClass
	}
	m.decisions.WithLabelValues(string(e.Decision.Verdict), class).Inc()
	mode := schemas.ModeEnforce
	if e.Observed {
		mode = schemas.ModeObserve
	}
	if e.Observed || e.Decision.Verdict == schemas.VerdictRefuse {
		for _, ev := range e.Decision.Evidence {
			m.refusals.WithLabelValues(ev.Limit, ev.Window, string(mode)).Inc()
		}
	}
}
