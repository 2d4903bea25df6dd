package stream

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// DeadLetters is the metric weir_dlq_records_total, which all stages of a process
// that write to weir.dlq share.
func DeadLetters(reg prometheus.Registerer) *prometheus.CounterVec {
	return shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_dlq_records_total", Help: "Records written to weir.dlq, by reason."}, []string{"reason"}))
}

// ForeignRecords is the metric weir_foreign_records_total of a stage. The stages of a
// process share it. What goes to weir.dlq is counted there, too.
func ForeignRecords(reg prometheus.Registerer, stage string) prometheus.Counter {
	return shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_foreign_records_total",
		Help: "Records of Weir's own topics that Weir did not write, or that are in a partition that does not own them, by the stage that met them. They go to weir.dlq; of a topic that holds state they are left out.",
	}, []string{"stage"})).WithLabelValues(stage)
}

// shared returns v, or the one of its name that is registered already. A nil
// registry shows it nowhere. It panics when the name is taken by something else.
func shared(reg prometheus.Registerer, v *prometheus.CounterVec) *prometheus.CounterVec {
	if reg == nil {
		return v
	}
	err := reg.Register(v)
	if had, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if old, ok := had.ExistingCollector.(*prometheus.CounterVec); ok {
			return old
		}
	}
	if err != nil {
		panic(err) // two metrics of one name
	}
	return v
}
