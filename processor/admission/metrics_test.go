package admission

import (
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// series lists a metric's series, as label values and the value.
func series(t *testing.T, reg *prometheus.Registry, name string) (got []string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			text := ""
			for _, l := range s.GetLabel() {
				text += l.GetValue() + " "
			}
			got = append(got, text+strconv.FormatFloat(s.GetCounter().GetValue()+s.GetGauge().GetValue(), 'f', -1, 64))
		}
	}
	return got
}

// TestWhatIsCounted: refusals by each full window, whether the message ended,
// waits, or passed a limit that observes; a retry that waits too; what went to
// the DLQ; and nothing of a transaction that was aborted.
func TestWhatIsCounted(t *testing.T) {
	b := newBench(t)
	b.apply(2, limitsPolicy(`  - {name: watch, match: {class: code}, per: [recipient], allow: [1/60s], mode: observe}
  - {name: hold, match: {class: code}, per: [recipient], allow: [2/60s, 2/1h]}
  - {name: slow, match: {class: slow}, per: [recipient], allow: [1/60s], on_refusal: defer}`))
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, slog.New(slog.DiscardHandler), time.Now)
	count := func(o outcome, want string) outcome {
		t.Helper()
		b.want(o, want)
		m.decided(&o, b.p.cur.pol)
		return o
	}
	count(b.request(code), "queued admit +2 > dispatch.one.normal")
	first := count(b.request(code), "queued admit +1 > dispatch.one.normal") // past watch
	count(b.request(code), "limited refuse limited")                         // by both windows of hold
	b.now += 60_000
	b.apply(3, limitsPolicy(`  - {name: watch, match: {class: code}, per: [recipient], allow: [1/60s], mode: observe}
  - {name: hold, match: {class: code}, per: [recipient], allow: [2/60s, 1/1h]}
  - {name: slow, match: {class: slow}, per: [recipient], allow: [1/60s], on_refusal: defer}`))
	count(b.back(schemas.ReadmitRetry, first.send[0], code, func(e *schemas.Envelope) { e.Attempt = 1 }), "deferred defer limited > delay.30s")
	slow := `{"channel":"sms","to":"+8613800000000","class":"slow","body":"x"}`
	count(b.request("%s", slow), "queued admit +1 > dispatch.one.normal")
	count(b.request("%s", slow), "deferred defer limited > delay.30s")
	count(b.request(`{"channel":"sms","to":"+8613800000000","class":"slow"}`), "rejected reject content_required > dlq")
	if got := series(t, reg, "weir_limit_refusals_total"); got != nil {
		t.Errorf("counted before the commit: %q", got)
	}
	m.ended(true)
	m.decided(&outcome{event: schemas.Event{Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit}}}, b.p.cur.pol)
	m.ended(false)
	m.ended(true)
	m.waited(5000, 3500)
	for name, want := range map[string][]string{
		"weir_limit_refusals_total":      {"hold enforce 1/1h 1", "hold enforce 2/1h 1", "hold enforce 2/60s 1", "slow enforce 1/60s 1", "watch observe 1/60s 1"},
		"weir_dlq_records_total":         {"content_required 1"},
		"weir_admission_decisions_total": {"code admit 2", "code defer 1", "code refuse 1", "other admit 1", "other defer 1", "other reject 1"},
		"weir_topic_lag_seconds":         {"admission 1.5"},
	} {
		if got := series(t, reg, name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if m.idle(); series(t, reg, "weir_topic_lag_seconds")[0] != "admission 0" {
		t.Error("idle, it lags")
	}
	// Lanes write to the DLQ too, under the same name.
	if stream.DeadLetters(reg) != m.dead {
		t.Error("two counters of one name")
	}
}
