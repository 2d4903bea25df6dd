package stream

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DeadLetters is the metric weir_dlq_records_total, which all stages of a process
// that write to weir.dlq share.
func DeadLetters(reg prometheus.Registerer) *prometheus.CounterVec {
	return shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_dlq_records_total", Help: "Records written to weir.dlq, by reason."}, []string{"reason"}))
}

// Foreign counts what a stage meets that Weir did not write, and logs it: the first
// record, and then at most one in ten seconds with how many had no line. Who may write to
// a topic must not be able to fill the disk with lines. Its methods may be called from any
// goroutine.
type Foreign struct {
	counter prometheus.Counter

	mu      sync.Mutex
	quiet   time.Time // no line before
	leftOut int
}

// foreignGap is the least time between two lines.
const foreignGap = 10 * time.Second

// ForeignRecords has the metric weir_foreign_records_total of a stage. The stages of a
// process share it. What goes to weir.dlq is counted there, too.
func ForeignRecords(reg prometheus.Registerer, stage string) *Foreign {
	return &Foreign{counter: shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_foreign_records_total",
		Help: "Records of Weir's own topics that Weir did not write, or that are in a partition that does not own them, by the stage that met them. They go to weir.dlq; of a topic that holds state they are left out.",
	}, []string{"stage"})).WithLabelValues(stage)}
}

// Met counts a record and logs it.
func (f *Foreign) Met(l *slog.Logger, message string, args ...any) {
	f.Add(1)
	f.Log(l, message, args...)
}

// Add counts n, which Log was called for or will be.
func (f *Foreign) Add(n int) { f.counter.Add(float64(n)) }

// Log logs one without counting it: where it is met in a transaction, which may be aborted.
func (f *Foreign) Log(l *slog.Logger, message string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.quiet) {
		f.leftOut++
		return
	}
	if f.leftOut > 0 {
		args = append(args, "left_out", f.leftOut)
	}
	f.quiet, f.leftOut = now.Add(foreignGap), 0
	l.Error(message, args...)
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
