package report

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Watcher follows weir.reports. Now may be called from any goroutine.
type Watcher struct {
	*stream.Advice
	known   map[string]schemas.Report
	changed bool

	now atomic.Pointer[map[string]schemas.Report]
}

// Watch reads topic up to its end as of now and returns a watcher that Run
// keeps up to date. When that cannot be done soon it says so in the log, and
// Run goes on. opts reach the brokers; they must name no group. The error is one
// of opts.
func Watch(ctx context.Context, topic string, logger *slog.Logger, opts ...kgo.Opt) (*Watcher, error) {
	w := &Watcher{known: make(map[string]schemas.Report), changed: true}
	w.publish()
	w.Advice = &stream.Advice{Topic: topic, What: "the reports of sinks and audits", Logger: logger, Take: w.take, Turned: w.publish}
	return w, w.Open(ctx, opts...)
}

// Now returns the latest report of each key, at most a second or two late. It
// must not be written to.
func (w *Watcher) Now() map[string]schemas.Report { return *w.now.Load() }

func (w *Watcher) take(r *kgo.Record) {
	key := string(r.Key)
	if len(r.Value) == 0 {
		delete(w.known, key)
		w.changed = true
		return
	}
	said, err := schemas.DecodeReport(r.Value)
	if err == nil && key == "" {
		err = errors.New("it has no key")
	}
	if err != nil {
		w.Logger.Warn("a report is left out", "topic", w.Topic, "offset", r.Offset, "error", err)
		return
	}
	said.Written = schemas.MillisOf(r.Timestamp)
	w.known[key] = said
	w.changed = true
}

// Describe and Collect make the watcher a collector of metrics of the last audit.
func (w *Watcher) Describe(ch chan<- *prometheus.Desc) {
	ch <- auditCut
	ch <- auditViolations
	ch <- auditProven
}

func (w *Watcher) Collect(ch chan<- prometheus.Metric) {
	reports := w.Now()
	r, ok := schemas.LastAudit(reports)
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	proven := 0.0
	if r.Audit.Outcome == schemas.AuditProven {
		proven = 1
	}
	gauge(auditProven, proven)
	gauge(auditViolations, float64(r.Audit.Violations))
	cut := func(a *schemas.AuditReport) {
		gauge(auditCut, float64(cmp.Or(a.Cut, a.Until))/1000, strconv.FormatBool(a.Following))
	}
	cut(r.Audit)
	if a := reports[schemas.ReportKeyFollowed].Audit; a != nil && a.Following && !r.Audit.Following {
		cut(a) // one that goes on must be seen to stop, whatever was run beside it
	}
}

var (
	auditCut        = prometheus.NewDesc("weir_audit_judged_timestamp_seconds", "Up to when the last audit judged all decisions, in seconds since 1970; following is whether it goes on (weir audit --follow): of that one too, where another was run later.", []string{"following"}, nil)
	auditViolations = prometheus.NewDesc("weir_audit_violations", "How many violations the last audit found, or the one that follows.", nil, nil)
	auditProven     = prometheus.NewDesc("weir_audit_proven", "1 where the last audit, run once or following, proved everything that it judged, else 0.", nil, nil)
)

func (w *Watcher) publish() {
	if w.changed {
		w.changed = false
		m := maps.Clone(w.known)
		w.now.Store(&m)
	}
}
