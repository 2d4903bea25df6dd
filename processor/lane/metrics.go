package lane

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/lag"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// metrics are the lanes' figures, shared by all providers of a process.
type metrics struct {
	calls    *prometheus.CounterVec
	late     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	paceWait *prometheus.HistogramVec
	sent     *prometheus.HistogramVec
	breaker  *prometheus.GaugeVec
	dead     *prometheus.CounterVec
	foreign  *stream.Foreign
	lag      *lags
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		calls:    register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_lane_calls_total", Help: "Calls to providers, by what came of them."}, []string{"provider", "outcome"})),
		late:     register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_lane_late_calls_total", Help: "Calls that were made later than their decision allows, since an earlier decision and this one came too late to be called on."}, []string{"provider"})),
		seconds:  register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_lane_call_seconds", Help: "How long calls took.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}, []string{"provider"})),
		paceWait: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_pace_wait_seconds", Help: "How long the message at the head waited for the pace.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 12)}, []string{"provider"})),
		sent:     register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_accepted_to_sent_seconds", Help: "From a request's append to the provider's acceptance.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 20)}, []string{"class"})),
		breaker:  register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_breaker_state", Help: "A provider's circuit breaker: 0 closed, 1 half-open, 2 open; the worst of its lanes in this process."}, []string{"provider"})),
		lag:      register(reg, newLags(reg)),
		foreign:  stream.ForeignRecords(reg, "lanes"),
		dead:     stream.DeadLetters(reg),
	}
}

// lags is for how long the oldest message has waited in the lanes of each
// provider that this process has, and of all of them.
type lags struct {
	*prometheus.GaugeVec
	worst *lag.Worst
}

func newLags(reg prometheus.Registerer) *lags {
	return &lags{
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_lane_lag_seconds", Help: "For how long the oldest message that waits for its call has waited in the lanes of this process, since it was decided; 0 when none waits."}, []string{"provider"}),
		lag.NewWorst(lag.Gauge(reg, "lanes")),
	}
}

func (l *lags) set(provider string, seconds float64) {
	l.WithLabelValues(provider).Set(seconds)
	l.worst.Set(provider, seconds)
}

func (l *lags) forget(provider string) {
	l.DeleteLabelValues(provider)
	l.worst.Forget(provider)
}

// forget ends the series of what a provider is like now.
func (m *metrics) forget(provider string) {
	m.breaker.DeleteLabelValues(provider)
	m.lag.forget(provider)
}

// gauge shows the worst breaker of the lanes here, and how long their oldest
// message has waited.
func (s *stage) gauge() {
	if !s.held || len(s.lanes) == 0 {
		s.metrics.forget(s.cfg.Provider)
		return
	}
	s.metrics.lag.set(s.cfg.Provider, s.waited(schemas.MillisOf(s.now())).Seconds())
	if !s.known {
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

// waited is for how long the message that was decided first, of those that wait,
// has waited; 0 when none does.
func (s *stage) waited(now schemas.Millis) time.Duration {
	var longest time.Duration
	for _, l := range s.lanes {
		for _, q := range l.queues {
			if it := q.first(); it != nil && it.env.DecidedAt != 0 {
				longest = max(longest, now.Sub(it.env.DecidedAt))
			}
		}
	}
	return longest
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
