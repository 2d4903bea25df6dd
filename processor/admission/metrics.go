package admission

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/lag"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// metrics are admission's figures. No label ever holds a recipient or an id,
// and classes that nobody declared share one label: producers choose them. What
// a transaction decided counts once it is committed: an aborted one is decided
// again.
type metrics struct {
	decisions *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	dead      *prometheus.CounterVec
	lag       prometheus.Gauge
	commit    prometheus.Histogram
	restore   prometheus.Histogram
	ahead     prometheus.Gauge
	apart     prometheus.Gauge
	foreign   prometheus.Counter // of ledger and seen
	aside     *stream.Foreign    // of all topics
	unknown   *stream.UnknownOpen

	open map[counted]int // by the open transaction
}

// counted is one series of one of the counters.
type counted struct {
	of *prometheus.CounterVec
	by [3]string // its labels, as far as it has them
}

func newMetrics(reg prometheus.Registerer, log *slog.Logger, now func() time.Time) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_admission_decisions_total", Help: "Decisions taken, by verdict and class."}, []string{"verdict", "class"}),
		refusals:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_limit_refusals_total", Help: "Windows that were full for a message that was refused or deferred, or with mode observe passed, by limit, window and mode."}, []string{"limit", "window", "mode"}),
		dead:      stream.DeadLetters(reg),
		commit:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_admission_commit_seconds", Help: "From the first record of a transaction to its commit.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
		restore:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_admission_restore_seconds", Help: "Restoring assigned partitions.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
		open:      make(map[counted]int),
	}
	m.ahead = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_admission_clock_ahead_seconds", Help: "How far decisions were stamped ahead of the broker's clock when last compared; above 2 nothing is decided."})
	m.apart = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_admission_brokers_apart_seconds", Help: "By how much, at least, the clocks of the brokers differ that lead this worker's partitions of the ledger."})
	m.foreign = prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_admission_foreign_records_total", Help: "Records of ledger and seen, met at a restore, that are not Weir's and replaced nothing."})
	if reg != nil {
		reg.MustRegister(m.decisions, m.refusals, m.commit, m.restore, m.ahead, m.apart, m.foreign)
	}
	m.aside = stream.ForeignRecords(reg, "admission")
	m.unknown = stream.NewUnknownFields(reg, "admission", log, now).Open()
	m.lag = lag.Gauge(reg, "admission")
	return m
}

// decided counts a decision in the open transaction. Each window that refused
// counts, whether the message ended or waits for it.
func (m *metrics) decided(o *outcome, pol *schemas.Policy) {
	e := &o.event
	class := "other"
	for i := range pol.Classes {
		if pol.Classes[i].Name == e.Class {
			class = e.Class
		}
	}
	if e.Class == schemas.DefaultClass {
		class = schemas.DefaultClass
	}
	m.open[counted{m.decisions, [3]string{string(e.Decision.Verdict), class}}]++
	mode := schemas.ModeEnforce
	if e.Observed {
		mode = schemas.ModeObserve
	}
	for i := range e.Decision.Evidence {
		if e.Kind == schemas.KindDecision {
			break // on its round: home tells what became of it
		}
		ev := &e.Decision.Evidence[i]
		m.open[counted{m.refusals, [3]string{ev.Limit, ev.Window, string(mode)}}]++
	}
	for i := range o.send {
		if o.send[i].dead {
			m.open[counted{m.dead, [3]string{o.send[i].env.Reason}}]++
		}
	}
}

// ended closes the open transaction's counts.
func (m *metrics) ended(committed bool) {
	m.unknown.Ended(committed)
	if committed {
		for c, n := range m.open {
			labels := 3
			switch c.of {
			case m.decisions:
				labels = 2
			case m.dead:
				if labels = 1; isAside(c.by[0]) {
					m.aside.Add(n)
				}
			}
			c.of.WithLabelValues(c.by[:labels]...).Add(float64(n))
		}
	}
	clear(m.open)
}

// waited says how old a record was when it was taken.
func (m *metrics) waited(now, appended schemas.Millis) {
	m.lag.Set(max(now.Sub(appended), 0).Seconds())
}

// idle says that nothing waits.
func (m *metrics) idle() { m.lag.Set(0) }
