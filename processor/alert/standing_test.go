package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// told are conditions as lines, in order.
func told(all []Condition) (lines []string) {
	for _, c := range all {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s%s %s%s %d %s", c.Provider, c.Process, c.Reason, c.Stage, c.Since, c.Detail)))
	}
	slices.Sort(lines)
	return lines
}

func TestBreakers(t *testing.T) {
	lane := func(n int32, b schemas.Breaker, at schemas.Millis) schemas.Health {
		return schemas.Health{Lane: n, Breaker: b, At: at, Calls: 9, Failures: int64(n)}
	}
	for _, tt := range []struct {
		name  string
		lanes []schemas.Health
		want  []string
	}{
		{"closed", []schemas.Health{lane(0, schemas.BreakerClosed, 1)}, nil},
		{"open", []schemas.Health{lane(0, schemas.BreakerOpen, 5)}, []string{"p  5 lane 0 saw 0 of 9 calls fail"}},
		{"probed, and not closed yet", []schemas.Health{lane(0, schemas.BreakerHalfOpen, 5)}, []string{"p  5 lane 0 saw 0 of 9 calls fail"}},
		{"since the first of its lanes", []schemas.Health{lane(2, schemas.BreakerOpen, 7), lane(1, schemas.BreakerOpen, 5), lane(0, schemas.BreakerClosed, 1), lane(3, schemas.BreakerHalfOpen, 9)},
			[]string{"p  5 lane 1 saw 1 of 9 calls fail, lane 2 saw 2 of 9 calls fail, lane 3 saw 3 of 9 calls fail"}},
	} {
		got := breakers(route.Health{"p": {Lanes: tt.lanes}})
		if got == nil || !slices.Equal(told(got), tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, told(got), tt.want)
		}
	}
}

// A report counts while whoever wrote it would have written another.
func TestReports(t *testing.T) {
	const now = 60 * minute
	sink := func(at schemas.Millis, r schemas.SinkReport) map[string]schemas.Report {
		r.CheckedAt = 7
		return map[string]schemas.Report{"sink/s1": {At: at, Sink: &r}}
	}
	late := func(written, behind schemas.Millis, r schemas.SinkReport) map[string]schemas.Report { // by the broker's clock, and by the sink's
		all := sink(written-behind, r)
		for key, r := range all {
			r.Written = written
			all[key] = r
		}
		return all
	}
	clock := func(at schemas.Millis, ahead int64) map[string]schemas.Report {
		return map[string]schemas.Report{"clock/w1": {At: at, Clock: &schemas.ClockReport{AheadMillis: ahead}}}
	}
	stages := func(at schemas.Millis, names ...string) map[string]schemas.Report {
		r := &schemas.StuckReport{}
		for _, name := range names {
			r.Stages = append(r.Stages, schemas.StuckStage{Stage: name, Since: 9, Why: "no leader"})
		}
		return map[string]schemas.Report{"stuck/w1": {At: at, Stuck: r}}
	}
	audit := func(at schemas.Millis, r schemas.AuditReport) map[string]schemas.Report {
		key := schemas.ReportKeyAudit
		if r.Following {
			key = schemas.ReportKeyFollowed
		}
		return map[string]schemas.Report{key: {At: at, Audit: &r}}
	}
	for _, tt := range []struct {
		name    string
		reports map[string]schemas.Report
		want    []string
	}{
		{"a sink that is well", sink(now, schemas.SinkReport{Rows: 9}), nil},
		{"a sink that differs", sink(now, schemas.SinkReport{Difference: -2}), []string{"s1  7 records without a row, and rows too many: -2"}},
		{"one that fails", sink(now-5, schemas.SinkReport{Failing: "no room"}), []string{fmt.Sprintf("s1 failing %d no room", now-5)}},
		{"one that differs and fails", sink(now-5, schemas.SinkReport{Difference: 1, Failing: "no room"}),
			[]string{"s1  7 records without a row, and rows too many: 1", fmt.Sprintf("s1 failing %d no room", now-5)}},
		{"one that spoke ten minutes ago", sink(now-10*minute, schemas.SinkReport{Difference: 1}), []string{"s1  7 records without a row, and rows too many: 1"}},
		{"one that is gone", sink(now-10*minute-1, schemas.SinkReport{Difference: 1, Failing: "no room"}), nil},
		{"one whose clock is 20 minutes behind is heard", late(now-5, 20*minute, schemas.SinkReport{Difference: 1}),
			[]string{"s1  7 records without a row, and rows too many: 1", fmt.Sprintf("s1 behind %d 1200.0 s behind", now-5)}},
		{"one that was long on its way", late(now, minute/2, schemas.SinkReport{}), nil},
		{"one whose clock is just too far behind", late(now, minute/2+1, schemas.SinkReport{}), []string{fmt.Sprintf("s1 behind %d 30.0 s behind", now)}},
		{"one whose clock is ahead", late(now, -20*minute, schemas.SinkReport{}), nil},
		{"one that was behind, and is gone", late(now-10*minute-1, 20*minute, schemas.SinkReport{}), nil},
		{"one that was ahead, and is gone", late(now-10*minute-1, -20*minute, schemas.SinkReport{Difference: 1}), nil},
		{"a clock that is right again", clock(now, 0), nil},
		{"a clock", clock(now-45_000, 2500), []string{fmt.Sprintf("w1  %d 2.5 s ahead", now-45_000)}},
		{"a worker that is gone", clock(now-45_001, 2500), nil},
		{"a stage that is stuck", stages(now-45_000, "delay"), []string{"w1 delay 9 no leader"}},
		{"two of them", stages(now, "admission", "lane sim"), []string{"w1 admission 9 no leader", "w1 lane sim 9 no leader"}},
		{"all are well again", stages(now), nil},
		{"a process that is gone", stages(now-45_001, "delay"), nil},
		{"an audit that proved all", audit(now-60*minute, schemas.AuditReport{Outcome: schemas.AuditProven, Cut: now - 60*minute}), nil},
		{"an audit with a violation", audit(now-60*minute, schemas.AuditReport{Violations: 2, First: "over: weir.status/1/7"}), []string{fmt.Sprintf("%d over: weir.status/1/7", now-60*minute)}},
		{"an audit that follows", audit(now, schemas.AuditReport{Following: true, Cut: now - 5*minute}), nil},
		{"an audit that follows no longer", audit(now, schemas.AuditReport{Following: true, Cut: now - 5*minute - 1}), []string{fmt.Sprintf("behind %d", now-5*minute-1)}},
		{"a violation, and one that follows and found none", map[string]schemas.Report{
			schemas.ReportKeyAudit:    {At: now - 60*minute, Audit: &schemas.AuditReport{Violations: 1, First: "over"}},
			schemas.ReportKeyFollowed: {At: now, Audit: &schemas.AuditReport{Following: true, Cut: now}},
		}, []string{fmt.Sprintf("%d over", now-60*minute)}},
		{"one that follows no longer, and one that was run since", map[string]schemas.Report{
			schemas.ReportKeyAudit:    {At: now, Audit: &schemas.AuditReport{Cut: now}},
			schemas.ReportKeyFollowed: {At: now, Audit: &schemas.AuditReport{Following: true, Cut: now - 6*minute}},
		}, []string{fmt.Sprintf("behind %d", now-6*minute)}},
		{"somebody else's report", map[string]schemas.Report{"sink/s1": {At: now}, "clock/w1": {At: now}, "stuck/w1": {At: now}, "audit": {At: now}}, nil},
	} {
		a, b, c, d := sinks(tt.reports, now), clocks(tt.reports, now), stuck(tt.reports, now), audits(tt.reports, now)
		if got := told(slices.Concat(a, b, c, d)); a == nil || b == nil || c == nil || d == nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A clock that is behind is not told as one that is ahead.
func TestTextOfAClockThatIsBehind(t *testing.T) {
	i := standingItem(&Standing{Subject: Subject{Event: schemas.AlertClockStall, Process: "s1", Reason: behindReason}, Since: minute, On: true, Begun: 1}, minute)
	if !strings.Contains(i.Text, "The clock of the sink in slot s1 is behind the broker's since") || strings.Contains(i.Next, "requests wait") || i.name() != "a sink's clock is behind" {
		t.Errorf("%q, %q, %q", i.name(), i.Text, i.Next)
	}
}

func TestTextOfAnAudit(t *testing.T) {
	st := &Standing{Subject: Subject{Event: schemas.AlertAudit}, Since: minute, On: true, Begun: 1, Detail: "over: weir.status/1/7"}
	i := standingItem(st, 3*minute)
	if want := "The last audit has found a violation since 1970-01-01 00:01:00 UTC (2 min): over: weir.status/1/7."; i.Text != want || !strings.Contains(i.Next, "WeirAuditViolated") {
		t.Errorf("%q, %q", i.Text, i.Next)
	}
	st.On, st.Until = false, 4*minute
	if i := standingItem(st, 5*minute); !strings.HasPrefix(i.Text, "Resolved: The last audit found no violation since") {
		t.Errorf("%q", i.Text)
	}
	st = &Standing{Subject: Subject{Event: schemas.AlertAudit, Reason: behindReason}, Since: minute, On: true, Begun: 1}
	if i := standingItem(st, 7*minute); i.Text != "The audit that follows the logs has judged nothing since 1970-01-01 00:01:00 UTC (6 min)." || i.name() != "the audit has stopped" {
		t.Errorf("%q, %q", i.name(), i.Text)
	}
}

func TestTextOfAStageThatIsStuck(t *testing.T) {
	st := &Standing{Subject: Subject{Event: schemas.AlertStageStuck, Process: "3", Stage: "lane sim"}, Since: minute, On: true, Begun: 1, Detail: "no leader"}
	i := standingItem(st, 3*minute)
	if want := "Stage lane sim of the process in slot 3 has had work and has committed nothing since 1970-01-01 00:01:00 UTC (2 min): no leader."; i.Text != want || i.name() != "lane sim is stuck" || !strings.Contains(i.Next, "WeirStageStuck") {
		t.Errorf("%q, %q, %q", i.name(), i.Text, i.Next)
	}
	st.On, st.Until = false, 4*minute
	if i := standingItem(st, 5*minute); i.State != Resolved || !strings.HasPrefix(i.Text, "Resolved: Stage lane sim of the process in slot 3 is well again since") {
		t.Errorf("%q", i.Text)
	}
}
