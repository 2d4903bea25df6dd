package alert

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

type metrics struct {
	alerts  *prometheus.CounterVec
	held    *prometheus.GaugeVec
	active  prometheus.Gauge
	read    prometheus.Counter
	lag     prometheus.Gauge
	behind  *prometheus.GaugeVec
	foreign *stream.Foreign
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		foreign: stream.ForeignRecords(reg, "alerts"),
		alerts:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_alerts_total", Help: "Notices of the policy's alerts, once for each event that they tell of. outcome: sent, given_up (no answer for 15 minutes), refused (the receiver's answer, or an address that must not be called); what was not told is in the next."}, []string{"alert", "event", "outcome"}),
		held:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_alerts_held", Help: "Happenings that an alert has not told yet, since at_most holds them back or nobody answers."}, []string{"alert"}),
		active:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_alerts_active", Help: "1 in the process that sends alerts, 0 in those that stand by."}),
		read:    prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_alerts_read_total", Help: "Records that were read for alerts."}),
		lag:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_alerts_lag_seconds", Help: "How old the last record was when it was read for alerts; 0 when nothing waits."}),
		behind:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_stage_behind_seconds", Help: "For how long a stage has left a record, as Kafka says, whether or not the stage runs; 0 below two minutes, and in processes that do not send alerts."}, []string{"stage"}),
	}
	if reg != nil {
		reg.MustRegister(m.alerts, m.held, m.active, m.read, m.lag, m.behind)
	}
	return m
}

// outcomes of weir_alerts_total.
func outcomeOf(v Verdict) string {
	switch v {
	case Taken:
		return "sent"
	case Again, Unsure:
		return "given_up"
	case Refused:
		return "refused"
	}
	return string(v)
}

// now shows what is held.
func (m *metrics) now(s *State) {
	m.held.Reset()
	for name, a := range s.Alerts {
		n := int64(0)
		for _, sum := range a.Held {
			n += sum.Count
		}
		if a.Out != nil {
			n += a.Out.Count()
		}
		m.held.WithLabelValues(name).Set(float64(n))
	}
}

// stages shows which stages are behind, of those that are watched.
func (m *metrics) stages(found []Condition, now schemas.Millis) {
	for _, stage := range watched {
		m.behind.WithLabelValues(string(stage)).Set(0)
	}
	for i := range found {
		m.behind.WithLabelValues(found[i].Stage).Set(now.Sub(found[i].Since).Seconds())
	}
}

// standby says that this process is not, or no longer, the alerter.
func (m *metrics) standby() {
	m.active.Set(0)
	m.stages(nil, 0)
}
