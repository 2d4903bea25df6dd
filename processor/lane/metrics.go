package lane

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/schemas"
)

// metrics are the lanes' figures, shared by all providers of a process.
type metrics struct {
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	paceWait *prometheus.HistogramVec
	sent     *prometheus.HistogramVec
	breaker  *prometheus.GaugeVec
	dead     *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		calls:    register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_lane_calls_total", Help: "Calls to providers, by what came of them."}, []string{"provider", "outcome"})),
		seconds:  register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_lane_call_seconds", Help: "How long calls took.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}, []string{"provider"})),
		paceWait: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_pace_wait_seconds", Help: "How long the message at the head waited for the pace.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 12)}, []string{"provider"})),
		sent:     register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_accepted_to_sent_seconds", Help: "From a request's append to the provider's acceptance.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 20)}, []string{"class"})),
		breaker:  register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_breaker_state", Help: "A provider's circuit breaker: 0 closed, 1 half-open, 2 open; the worst of its lanes in this process."}, []string{"provider"})),
		// Admission writes there too, and registers it alike.
		dead: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_dlq_records_total", Help: "Records written to weir.dlq, by reason."}, []string{"reason"})),
	}
}

// gauge shows the worst breaker of the lanes here.
func (s *stage) gauge() {
	if !s.known || !s.held || len(s.lanes) == 0 {
		s.metrics.breaker.DeleteLabelValues(s.cfg.Provider)
		return
	}
	worst := 0
	for _, l := range s.lanes {
		switch l.breaker.look() {
		case schemas.BreakerOpen:
			worst = 2
		case schemas.BreakerHalfOpen:
			worst = max(worst, 1)
		case schemas.BreakerClosed:
		}
	}
	s.metrics.breaker.WithLabelValues(s.cfg.Provider).Set(float64(worst))
}

// register returns c, or the one of that name that is registered already: every
// Run in a process shares them.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	if err := reg.Register(c); err != nil {
		if had, ok := err.(prometheus.AlreadyRegisteredError); ok {
			if old, ok := had.ExistingCollector.(C); ok {
				return old
			}
		}
		panic(err) // two metrics of one name
	}
	return c
}

// classLabel is a declared class, or other: producers choose classes.
func classLabel(p *schemas.Policy, class string) string {
	if class == schemas.DefaultClass {
		return class
	}
	for i := range p.Classes {
		if p.Classes[i].Name == class {
			return class
		}
	}
	return "other"
}
