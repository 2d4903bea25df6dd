package audit

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// stale decides a message again whose decision was too old.
func (s *sheet) stale(name, to, class string, t schemas.Millis) {
	e, in := s.back(name, to, class, schemas.ReadmitStale, t)
	e.Status, e.Provider = schemas.StatusQueued, "sim"
	d := s.decide(e, schemas.VerdictMove, t, in)
	d.Returned = s.place[name]
	d.Charges = s.charge(name, to, class, t)
	s.dispatched(e)
}

// TestCallsAreJudged: a message is called no later than a tenth of its smallest window
// after its decision, one second at least; or it came back twice in a row too late, and
// its status says that it is late.
func TestCallsAreJudged(t *testing.T) {
	const slack = 1000 // of a window of ten seconds
	late := func(s *sheet) { s.at("m", "sending").Reason = "late" }
	for _, c := range []struct {
		name string
		do   func(s *sheet)
		want Outcome
		late int64
	}{
		{"at the last moment", func(s *sheet) { s.call("m", bob, "verify", schemas.StatusSent, 1, start+20_000+slack) }, Proven, 0},
		{"one millisecond later", func(s *sheet) { s.call("m", bob, "verify", schemas.StatusSent, 1, start+20_000+slack+1) }, Violated, 0},
		{"of a class that says how long", func(s *sheet) {
			s.policies = []schemas.Policy{policyOf(t, strings.Replace(sheetPolicy, "31d", "3s", 1))}
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+20_000+3000)
		}, Proven, 0},
		{"and later", func(s *sheet) {
			s.policies = []schemas.Policy{policyOf(t, strings.Replace(sheetPolicy, "31d", "3s", 1))}
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+20_000+3001)
		}, Violated, 0},
		{"decided again", func(s *sheet) {
			s.stale("m", bob, "verify", start+22_000)
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+22_000+slack)
		}, Proven, 0},
		{"of an earlier version", func(s *sheet) {
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+22_000)
			s.journal[len(s.journal)-2].journal.CallBy = 0
		}, CouldNotTell, 0},
		{"before the last of an earlier version", func(s *sheet) {
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+22_000)
			s.admit("g", alice, "pair", start+24_000)
			s.call("g", alice, "pair", schemas.StatusSent, 1, start+24_100)
			s.journal[len(s.journal)-2].journal.CallBy = 0
		}, CouldNotTell, 0},
		{"after the last of an earlier version", func(s *sheet) {
			s.journal[0].journal.CallBy = 0
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+22_000)
		}, Violated, 0},
		{"late without need", func(s *sheet) {
			s.stale("m", bob, "verify", start+22_000)
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+24_000)
			late(s)
		}, Violated, 0},
		{"late, after it came back twice", func(s *sheet) {
			s.stale("m", bob, "verify", start+22_000)
			s.stale("m", bob, "verify", start+24_000)
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+26_000)
			late(s)
		}, Proven, 1},
		{"and not named", func(s *sheet) {
			s.stale("m", bob, "verify", start+22_000)
			s.stale("m", bob, "verify", start+24_000)
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+26_000)
		}, Violated, 0},
		{"twice, but not in a row", func(s *sheet) {
			s.stale("m", bob, "verify", start+22_000)
			s.call("m", bob, "verify", schemas.StatusRetrying, 1, start+22_100)
			s.move("m", bob, "verify", start+23_000)
			s.stale("m", bob, "verify", start+24_500)
			s.call("m", bob, "verify", schemas.StatusSent, 2, start+26_000)
			s.status[len(s.status)-2].event.Reason = "late"
		}, Violated, 0},
		{"said to be late, and in time", func(s *sheet) {
			s.call("m", bob, "verify", schemas.StatusSent, 1, start+20_000+slack)
			late(s)
		}, Violated, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			s.policies = []schemas.Policy{policyOf(t, strings.ReplaceAll(sheetPolicy, ", stale_after: 31d", ""))}
			s.admit("m", bob, "verify", start+20_000)
			c.do(s)
			r := s.audit(t)
			faults := r.Faults[KindCalled]
			delete(r.Faults, KindCalled)
			if r.Outcome != c.want || (faults > 0) != (c.want == Violated) || len(r.Faults) > 0 || r.Checked.LateCalls != c.late {
				t.Errorf("want %s, %d late:\n%s", c.want, c.late, show(r))
			}
		})
	}
}
