package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// How old a report may be and still count.
const (
	sinkAge  = 10 * time.Minute // a sink speaks once a minute
	clockAge = 45 * time.Second // a stalled worker every ten seconds
	auditAge = 5 * time.Minute  // an audit that follows every ten seconds or about
)

// clockBehind is by how much a sink's clock may be behind the broker's. A report is on its
// way for some seconds at most (cmd/weir gives up on writing it after five), so what is
// more is the clock.
const clockBehind = 30 * time.Second

// heard is when a report was made, by the broker's clock where that is known: one whose
// clock is behind would else never be heard.
func heard(r *schemas.Report) schemas.Millis { return cmp.Or(r.Written, r.At) }

// breakers returns who does not take calls. One that is probed has not closed yet.
func breakers(h route.Health) []Condition {
	out := []Condition{}
	for name, s := range h {
		var open []string
		c := Condition{Subject: Subject{Event: schemas.AlertBreakerOpen, Provider: name}}
		for i := range s.Lanes {
			l := &s.Lanes[i]
			if l.Breaker == schemas.BreakerClosed {
				continue
			}
			if c.Since == 0 || l.At < c.Since {
				c.Since = l.At
			}
			open = append(open, fmt.Sprintf("lane %d saw %d of %d calls fail", l.Lane, l.Failures, l.Calls))
		}
		if len(open) == 0 {
			continue
		}
		slices.Sort(open)
		c.Detail = strings.Join(open, ", ")
		out = append(out, c)
	}
	return out
}

// sinks returns what sinks say is wrong with their tables.
func sinks(reports map[string]schemas.Report, now schemas.Millis) []Condition {
	out := []Condition{}
	for key, r := range reports {
		slot, ok := strings.CutPrefix(key, schemas.ReportKeySink(""))
		if !ok || r.Sink == nil || heard(&r)+schemas.Millis(sinkAge.Milliseconds()) < now {
			continue
		}
		subject := Subject{Event: schemas.AlertSinkDifference, Process: slot}
		if r.Sink.Difference != 0 {
			out = append(out, Condition{Subject: subject, Since: r.Sink.CheckedAt, Detail: fmt.Sprintf("records without a row, and rows too many: %d", r.Sink.Difference)})
		}
		if r.Sink.Failing != "" {
			subject.Reason = failingReason
			out = append(out, Condition{Subject: subject, Since: r.At, Detail: clip(r.Sink.Failing)})
		}
	}
	return out
}

// clocks returns which workers of admission stand still, and which sinks' clocks are
// behind. Of admission's a clock that is behind is no matter: it goes by the broker's.
func clocks(reports map[string]schemas.Report, now schemas.Millis) []Condition {
	out := []Condition{}
	for key, r := range reports {
		slot, ok := strings.CutPrefix(key, schemas.ReportKeySink(""))
		if behind := r.Written.Sub(r.At); ok && r.Sink != nil && behind > clockBehind && r.Written+schemas.Millis(sinkAge.Milliseconds()) >= now {
			out = append(out, Condition{
				Subject: Subject{Event: schemas.AlertClockStall, Process: slot, Reason: behindReason}, Since: r.Written,
				Detail: fmt.Sprintf("%.1f s behind", behind.Seconds()),
			})
		}
	}
	for key, r := range reports {
		slot, ok := strings.CutPrefix(key, schemas.ReportKeyClock(""))
		if !ok || r.Clock == nil || r.Clock.AheadMillis == 0 {
			continue
		}
		if r.At+schemas.Millis(clockAge.Milliseconds()) < now {
			continue
		}
		out = append(out, Condition{
			Subject: Subject{Event: schemas.AlertClockStall, Process: slot}, Since: r.At,
			Detail: fmt.Sprintf("%.1f s ahead", float64(r.Clock.AheadMillis)/1000),
		})
	}
	return out
}

// audits returns whether the last audit, or one that follows, found a violation, and
// whether one that follows has judged nothing lately.
func audits(reports map[string]schemas.Report, now schemas.Millis) []Condition {
	out := []Condition{}
	if r, ok := schemas.LastAudit(reports); ok && r.Audit.Violations > 0 {
		out = append(out, Condition{Subject: Subject{Event: schemas.AlertAudit}, Since: r.At, Detail: clip(r.Audit.First)})
	}
	if a := reports[schemas.ReportKeyFollowed].Audit; a != nil && a.Following && a.Cut.Add(auditAge) < now {
		out = append(out, Condition{Subject: Subject{Event: schemas.AlertAudit, Reason: behindReason}, Since: a.Cut})
	}
	return out
}

// stuck returns which stages of which processes have work and commit nothing.
func stuck(reports map[string]schemas.Report, now schemas.Millis) []Condition {
	out := []Condition{}
	for key, r := range reports {
		slot, ok := strings.CutPrefix(key, schemas.ReportKeyStuck(""))
		if !ok {
			continue
		}
		for _, s := range r.StuckAt(now) {
			out = append(out, Condition{Subject: Subject{Event: schemas.AlertStageStuck, Process: slot, Stage: clip(s.Stage)}, Since: s.Since, Detail: clip(s.Why)})
		}
	}
	return out
}
