package callback

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/lag"
	"github.com/weirhq/weir/processor/stream"
)

// Outcomes of weir_callbacks_total beside those of a call (taken, failed, refused).
const (
	outcomeGivenUp   = "given_up"
	outcomeDisabled  = "disabled"
	outcomeWithdrawn = "withdrawn"
)

// States of weir_callback_endpoints: the breaker's, and disabled.
const stateDisabled = "disabled"

var endpointStates = []string{"closed", "half-open", "open"}

type metrics struct {
	callbacks *prometheus.CounterVec
	seconds   prometheus.Histogram
	waiting   prometheus.Gauge
	endpoints *prometheus.GaugeVec
	lag       prometheus.Gauge
	dead      *prometheus.CounterVec
	foreign   *stream.Foreign
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		callbacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_callbacks_total", Help: "Callbacks, by what came of them: taken (2xx); failed and refused (an address that is not public) are tries that are made again; given_up (after three days), disabled (the endpoint had answered 410) and withdrawn (the policy asks for none any more) are not told."}, []string{"outcome"}),
		seconds:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_callback_seconds", Help: "How long calls of callbacks took.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12)}),
		waiting:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_callbacks_waiting", Help: "Callbacks in the delay topics, of the partitions of this process."}),
		endpoints: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_callback_endpoints", Help: "Endpoints of callbacks by state: the circuit breaker's as this process sees it (closed, half-open, open), of those called lately, and disabled (answered 410), which every process shows alike."}, []string{"state"}),
		lag:       lag.Gauge(reg, "callbacks"),
		dead:      stream.DeadLetters(reg),
		foreign:   stream.ForeignRecords(reg, "callbacks"),
	}
	for _, o := range []string{string(taken), string(failed), string(refused), outcomeGivenUp, outcomeDisabled, outcomeWithdrawn} {
		m.callbacks.WithLabelValues(o)
	}
	for _, s := range append([]string{stateDisabled}, endpointStates...) {
		m.endpoints.WithLabelValues(s)
	}
	if reg != nil {
		reg.MustRegister(m.callbacks, m.seconds, m.waiting, m.endpoints)
	}
	return m
}
