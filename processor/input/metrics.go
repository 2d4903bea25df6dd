package input

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/lag"
	"github.com/weirhq/weir/processor/stream"
)

// metrics are the stage's figures. Topics are labels: the policy names them. What a
// transaction passed counts once it is committed.
type metrics struct {
	records *prometheus.CounterVec
	dead    *prometheus.CounterVec
	stopped *prometheus.GaugeVec
	lags    *prometheus.GaugeVec
	lag     own // of the input at hand
	worst   *lag.Worst
	unknown *stream.UnknownFields
	met     *stream.UnknownOpen // of the input at hand
}

func newMetrics(reg prometheus.Registerer, log *slog.Logger, now func() time.Time) *metrics {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_input_records_total", Help: "Records of the topics that are bound to tenants, by topic and outcome: passed on to weir.requests, or rejected."}, []string{"topic", "outcome"}),
		dead:    stream.DeadLetters(reg),
		stopped: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_input_stopped", Help: "1 for a bound topic that cannot be read now; the log says why."}, []string{"topic"}),
		lags:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_input_lag_seconds", Help: "How old the last record of a bound topic was when it was passed on; 0 when nothing waits."}, []string{"topic"}),
	}
	m.unknown = stream.NewUnknownFields(reg, "inputs", log, now)
	m.worst = lag.NewWorst(lag.Gauge(reg, "inputs"))
	if reg != nil {
		reg.MustRegister(m.records, m.stopped, m.lags)
	}
	return m
}

// own is the lag of one input: its own series, and its part in the stage's.
type own struct {
	topic string
	gauge prometheus.Gauge
	worst *lag.Worst
}

// Set takes seconds.
func (o own) Set(seconds float64) {
	o.gauge.Set(seconds)
	o.worst.Set(o.topic, seconds)
}

// of returns the figures of one input.
func (m *metrics) of(topic string) *metrics {
	one := *m
	one.met = m.unknown.Open()
	one.lag = own{topic, m.lags.WithLabelValues(topic), m.worst}
	m.stopped.WithLabelValues(topic).Set(0)
	return &one
}

// forget ends the series of a topic that is not bound any more.
func (m *metrics) forget(topic string) {
	m.stopped.DeleteLabelValues(topic)
	m.lags.DeleteLabelValues(topic)
	m.worst.Forget(topic)
}

func (m *metrics) passed(topic string, by map[string]int) {
	for refused, n := range by {
		if refused == "" {
			m.records.WithLabelValues(topic, "passed").Add(float64(n))
			continue
		}
		m.records.WithLabelValues(topic, "rejected").Add(float64(n))
		m.dead.WithLabelValues(refused).Add(float64(n))
	}
}
