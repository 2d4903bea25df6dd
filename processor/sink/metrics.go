package sink

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/lag"
)

// metrics are what the sink shows of itself.
type metrics struct {
	rows       prometheus.Counter
	lag        prometheus.Gauge
	stage      prometheus.Gauge     // the same, among the stages
	difference *prometheus.GaugeVec // without labels: no figure before the first comparison
	failures   prometheus.Counter
	skipped    prometheus.Counter
	poison     prometheus.Counter
	held       prometheus.Gauge
	ready      prometheus.Gauge
	behind     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		rows: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_status_rows_total",
			Help: "Records of weir.status that are confirmed to be in ClickHouse."}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_status_lag_seconds",
			Help: "Age of the oldest record that was read and is not yet confirmed."}),
		difference: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_sink_difference",
			Help: "Rows that are missing in ClickHouse or stand there twice, among those of the last nine days, in any of its tables, as of the last comparison; absent before the first. Must be 0."}, nil),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_sink_insert_failures_total",
			Help: "Inserts that failed or whose outcome is unknown; each is tried again."}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_sink_skipped_offsets_total",
			Help: "Offsets of weir.status that Kafka deleted before they were loaded."}),
		poison: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_sink_poison_rows_total",
			Help: "Records of weir.status that were loaded as rows of kind poison: no event, or a price that its column cannot hold."}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_sink_held_bytes",
			Help: "Memory of the records that were read and are not yet confirmed."}),
	}
	m.ready = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_sink_ready",
		Help: "1 while the sink loads; 0 while it waits at its start for ClickHouse, its Keeper or Kafka, while a table that it fills is missing or not as it must be, and when it has ended."})
	m.behind = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_sink_clock_behind_seconds",
		Help: "By how much, at least, the sink's clock is behind the broker's, as the append times of what it read last show; 0 when they show nothing."})
	m.stage = lag.Gauge(reg, "sink")
	if reg != nil {
		reg.MustRegister(m.rows, m.lag, m.difference, m.failures, m.skipped, m.poison, m.held, m.ready, m.behind)
	}
	return m
}
