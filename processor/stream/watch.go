package stream

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StuckAfter is how long a stage may have work and commit nothing before it is reported.
const StuckAfter = time.Minute

// Watch is what one process knows of its stages' progress: /readyz asks it, and it is a
// collector of metrics. A nil Watch watches nothing. Its methods may be called from any
// goroutine.
type Watch struct {
	poison  *prometheus.CounterVec
	skipped *prometheus.CounterVec
	stuck   *prometheus.Desc
	now     func() time.Time

	mu     sync.Mutex
	stages map[string]failing
}

// failing is since when a stage has work and commits nothing.
type failing struct {
	since time.Time // zero: it is well
	why   string
}

// Stuck is a stage that has had work for StuckAfter and has committed nothing.
type Stuck struct {
	Stage string
	Since time.Time
	Why   string // the latest reason; names no recipient
}

func (s Stuck) String() string {
	return fmt.Sprintf("%s has had work since %s and has committed nothing", s.Stage, s.Since.UTC().Format(time.RFC3339))
}

// NewWatch returns a watch that is registered; reg may be nil.
func NewWatch(reg prometheus.Registerer) *Watch {
	w := &Watch{
		poison: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_poison_records_total", Help: "Records that a stage could not process and ended, by stage and reason.",
		}, []string{"stage", "reason"}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_skipped_batches_total", Help: "Batches that were not read because they decompress to more than 16 MiB, by topic.",
		}, []string{"topic"}),
		stuck:  prometheus.NewDesc("weir_stage_stuck_seconds", "For how long a stage has had work and committed nothing; 0 when it is well.", []string{"stage"}, nil),
		now:    time.Now,
		stages: make(map[string]failing),
	}
	if reg != nil {
		reg.MustRegister(w)
	}
	return w
}

// Stuck returns the stages that have had work for StuckAfter and committed nothing, in
// the order of their names.
func (w *Watch) Stuck() []Stuck {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Stuck
	for name, f := range w.stages {
		if !f.since.IsZero() && w.now().Sub(f.since) >= StuckAfter {
			out = append(out, Stuck{name, f.since, f.why})
		}
	}
	slices.SortFunc(out, func(a, b Stuck) int { return cmp.Compare(a.Stage, b.Stage) })
	return out
}

// Failing notes that a stage has work and has committed nothing since then. The zero
// time is a stage that is well.
func (w *Watch) Failing(stage string, since time.Time, why string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stages[stage] = failing{since, why}
}

// Gone forgets a stage that ended.
func (w *Watch) Gone(stage string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stages, stage)
}

// Poisoned counts a record that a stage could not process and ended.
func (w *Watch) Poisoned(stage, reason string) {
	if w != nil {
		w.poison.WithLabelValues(stage, reason).Inc()
	}
}

// Skipped counts a batch that was not read.
func (w *Watch) Skipped(topic string) {
	if w != nil {
		w.skipped.WithLabelValues(topic).Inc()
	}
}

// Describe sends what Collect may send.
func (w *Watch) Describe(ch chan<- *prometheus.Desc) {
	w.poison.Describe(ch)
	w.skipped.Describe(ch)
	ch <- w.stuck
}

// Collect sends the metrics as of now.
func (w *Watch) Collect(ch chan<- prometheus.Metric) {
	w.poison.Collect(ch)
	w.skipped.Collect(ch)
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, f := range w.stages {
		seconds := 0.0
		if !f.since.IsZero() {
			seconds = max(w.now().Sub(f.since).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(w.stuck, prometheus.GaugeValue, seconds, name)
	}
}
