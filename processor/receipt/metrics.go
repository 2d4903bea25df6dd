package receipt

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/lag"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// What became of a receipt, as the metric says.
const (
	outcomeAmended    = "amended"    // its message's status was amended
	outcomeSuppressed = "suppressed" // it amends nothing, and its recipient was suppressed
	outcomeRepeated   = "repeated"   // it came before
	outcomeWaiting    = "waiting"    // put to wait, since the store did not have its message; each time
	outcomeAway       = "store_away" // put to wait, since the store did not answer; each time
	outcomeEmpty      = "empty"      // says nothing that a receipt can say
	outcomeUnreadable = "unreadable" // no receipt: to weir.dlq

	// Given up on: to weir.dlq.
	outcomeUnmatched      = "unmatched"       // no message has the id
	outcomeOtherProvider  = "other_provider"  // a message has it, and this provider was not given it
	outcomeOtherRecipient = "other_recipient" // this provider was given it, for someone else
	outcomeAmbiguous      = "ambiguous"       // the id names several messages
)

type counted struct{ provider, outcome string }

// metrics are the stage's figures. What a transaction did counts once it is
// committed.
type metrics struct {
	receipts *prometheus.CounterVec
	dead     *prometheus.CounterVec
	lag      prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, f *finder) *metrics {
	m := &metrics{
		receipts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_receipts_total", Help: "Receipts by provider and what became of them; one that waits is counted each time it is put to wait."}, []string{"provider", "outcome"}),
		dead:     stream.DeadLetters(reg),
		lag:      lag.Gauge(reg, "receipts"),
	}
	if reg != nil {
		reg.MustRegister(m.receipts, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_receipts_store_away", Help: "1 while ClickHouse does not say whose receipts those are that name no message.",
		}, func() float64 {
			if f.away.Load() {
				return 1
			}
			return 0
		}))
	}
	return m
}

func (m *metrics) committed(open map[counted]int) {
	for c, n := range open {
		m.receipts.WithLabelValues(c.provider, c.outcome).Add(float64(n))
		switch c.outcome {
		case outcomeUnmatched, outcomeOtherProvider, outcomeOtherRecipient, outcomeAmbiguous:
			m.dead.WithLabelValues(schemas.ReasonUnmatchedReceipt).Add(float64(n))
		case outcomeUnreadable:
			m.dead.WithLabelValues(schemas.ReasonUnreadableReceipt).Add(float64(n))
		}
	}
}
