package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// asBefore makes a log as earlier versions wrote it: neither a status nor an outcome of
// a journal says whether the attempt may have been received.
func asBefore(s *sheet) {
	for i := range s.status {
		s.status[i].outcome = ""
	}
	for i := range s.journal {
		s.journal[i].journal.Received = nil
	}
}

// lose takes a status of a message out of the log, as if its lane had not written it.
func (s *sheet) lose(name string, st schemas.Status) { s.drop(s.indexOf(name, string(st))) }

// fails adds a message that fails at its last attempt, which may have been received, and
// is given back all the same.
func (s *sheet) fails(name string, t schemas.Millis) {
	s.admit(name, bob, "verify", t)
	s.call(name, bob, "verify", schemas.StatusFailed, 1, t+100).Reason = "attempts_exhausted"
	s.status[len(s.status)-1].outcome = "transient received"
	j := &s.journal[len(s.journal)-1].journal
	yes := true
	j.Outcome, j.Received = "transient", &yes
}

func TestOutcomesThatDoNotAgree(t *testing.T) {
	says := func(s *sheet, name string, st schemas.Status, what string) {
		s.status[s.lastOf(name, st)].outcome = what
	}
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"refused for good, and reported as sent", KindOutcome, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+8000)
			s.journal[len(s.journal)-1].journal.Outcome = "permanent"
		}},
		{"refused for good, and reported as sent where the status says it", KindOutcome, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+8000)
			s.journal[len(s.journal)-1].journal.Outcome = "permanent"
			says(s, "e", schemas.StatusSent, "permanent received")
		}},
		{"refused for good, and reported as sent by an earlier version", KindOutcome, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+8000)
			s.journal[len(s.journal)-1].journal.Outcome = "permanent"
			asBefore(s)
		}},
		{"sent is lost", KindOutcome, func(s *sheet) { s.lose("a", schemas.StatusSent) }},
		{"sent is lost by an earlier version", KindOutcome, func(s *sheet) { s.lose("a", schemas.StatusSent); asBefore(s) }},
		{"an outcome is lost", KindOutcome, func(s *sheet) { s.journal = s.journal[:len(s.journal)-1] }},
		{"a retry is lost", KindOutcome, func(s *sheet) { s.lose("b", schemas.StatusRetrying) }},
		{"sent twice in the journal", KindOutcome, func(s *sheet) { s.journal = append(s.journal, s.journal[1]) }},
		{"retried after another outcome", KindOutcome, func(s *sheet) { s.at("b", "retrying").Reason = "throttled" }},
		{"retried after it was refused for good", KindOutcome, func(s *sheet) {
			s.at("b", "retrying").Reason, s.journal[3].journal.Outcome = "permanent", "permanent"
			says(s, "b", schemas.StatusRetrying, "permanent")
		}},
		{"accepted, and reported as failed", KindOutcome, func(s *sheet) {
			yes := true
			s.journal[7].journal.Outcome, s.journal[7].journal.Received = "accepted", &yes
			says(s, "d", schemas.StatusFailed, "accepted received")
		}},
		{"held, though it cannot have been received", KindOutcome, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusUnknown, 1, start+8000)
			no := false
			s.journal[len(s.journal)-1].journal.Outcome, s.journal[len(s.journal)-1].journal.Received = "transient", &no
			says(s, "e", schemas.StatusUnknown, "transient")
		}},
		{"expired in a call", KindOutcome, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusExpired, 1, start+8000)
			s.journal[len(s.journal)-1].journal.Outcome = "transient"
			says(s, "e", schemas.StatusExpired, "transient")
		}},
		{"failed after an unknown outcome", KindOrder, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusFailed, 1, start+8000)
			yes := true
			s.journal[len(s.journal)-1].journal.Outcome, s.journal[len(s.journal)-1].journal.Received = "unknown", &yes
			says(s, "e", schemas.StatusFailed, "unknown received")
		}},
		{"an unknown outcome that cannot have been received", KindOutcome, func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusUnknown, 1, start+8000)
			no := false
			s.journal[len(s.journal)-1].journal.Received = &no
			says(s, "e", schemas.StatusUnknown, "unknown")
		}},
		{"the status and the journal differ in whether it may have been received", KindOutcome, func(s *sheet) { says(s, "d", schemas.StatusFailed, "permanent received") }},
		{"what may have been received is forgotten on the way", KindOutcome, func(s *sheet) { received(s.status, s.journal, "b") }},
		{"what cannot have been received is called so on the way", KindOutcome, func(s *sheet) { s.readmit[0].env.Taint = schemas.TaintReceived }},
		{"never given back", KindCause, func(s *sheet) {
			s.drop(s.indexOf("d", "give_back"))
			s.readmit = s.readmit[:1]
		}},
		{"never given back, and a day has passed", KindCause, func(s *sheet) {
			s.drop(s.indexOf("d", "give_back"))
			s.readmit = s.readmit[:1]
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
			s.admit("g", alice, "verify", start+26*3_600_000)
			s.call("g", alice, "verify", schemas.StatusSent, 1, start+26*3_600_000)
		}},
		{"never given back, and its id is used again", KindCause, func(s *sheet) {
			s.drop(s.indexOf("d", "give_back"))
			s.readmit = s.readmit[:1]
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
			s.admit("d", bob, "verify", start+24*3_600_000+10_000)
			s.call("d", bob, "verify", schemas.StatusSent, 1, start+24*3_600_000+10_000)
		}},
		{"given back, though it may have been received", KindCause, func(s *sheet) {
			s.fails("g", start+8000)
			s.giveBack("g", bob, start+9000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			if r := s.audit(t); r.Outcome != Violated || r.Faults[c.want] == 0 {
				t.Fatalf("want %s:\n%s", c.want, show(r))
			}
		})
	}
}

func TestOutcomesThatAgree(t *testing.T) {
	for _, c := range []struct {
		name   string
		unsaid int64
		do     func(s *sheet)
	}{
		{"by an earlier version", 4, asBefore},
		{"an earlier version's last attempt", 1, func(s *sheet) {
			s.status[s.lastOf("b", schemas.StatusSent)].outcome = ""
			s.journal[5].journal.Received = nil
		}},
		{"an earlier version's attempt, and no one gives back", 1, func(s *sheet) {
			s.admit("h", bob, "verify", start+8000)
			s.call("h", bob, "verify", schemas.StatusFailed, 1, start+8100)
			s.status[s.lastOf("h", schemas.StatusFailed)].outcome = ""
			s.journal[9].journal.Received = nil
		}},
		{"a give-back that waits", 0, func(s *sheet) {
			s.admit("h", bob, "verify", start+8000)
			s.call("h", bob, "verify", schemas.StatusFailed, 1, start+8100)
			s.back("h", bob, "verify", schemas.ReadmitGiveBack, start+8200)
		}},
		{"what may have been received is kept", 0, func(s *sheet) { s.fails("g", start+8000) }},
		{"held, since it may have been received", 0, func(s *sheet) {
			s.fails("g", start+8000)
			s.status[len(s.status)-1].event.Status, s.status[len(s.status)-1].event.Reason = schemas.StatusUnknown, "held"
		}},
		{"an end without a call", 0, func(s *sheet) {
			s.step("e", bob, "pair", schemas.StatusExpired, 0, start+8000)
			j, said := answers("e", "expired", false, 0, 0, start+8000)
			s.status[len(s.status)-1].outcome = said
			s.journal = append(s.journal, written{offset: 90, appended: start + 8000, journal: j})
			s.giveBack("e", bob, start+8100)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			r := s.audit(t)
			if r.Outcome != Proven || r.Checked.Unsaid != c.unsaid || strings.Contains(show(r), "not said") != (c.unsaid > 0) {
				t.Fatalf("%d unsaid:\n%s", r.Checked.Unsaid, show(r))
			}
		})
	}
}

// A message of an idle partition is overdue by the brokers' time; by this machine's
// clock alone it cannot be told.
func TestOverdueWhereNothingHappens(t *testing.T) {
	s := newSheet(t)
	s.call("e", bob, "pair", schemas.StatusSent, 1, start+8000)
	s.admit("g", bob, "verify", start+9000)
	for _, c := range []struct {
		name   string
		clocks clocks
		want   Outcome
		late   int64
	}{
		{"in time", clocks{brokers: start + 60_000, own: start + 60_000}, Proven, 0},
		{"at its last moment", clocks{brokers: start + 78_990, own: start + 78_990}, Proven, 0},
		{"by the brokers", clocks{brokers: start + 78_991}, Violated, 1},
		{"by this machine alone", clocks{brokers: start + 9000, own: start + 90_000}, CouldNotTell, 1},
	} {
		s.clocks = c.clocks
		if r := s.audit(t); r.Outcome != c.want || r.Checked.Overdue != c.late || (r.Faults[KindLate] > 0) != (c.want == Violated) {
			t.Errorf("%s: %d overdue\n%s", c.name, r.Checked.Overdue, show(r))
		}
	}
}

// A record of a journal that was skipped may be the outcome that a status says.
func TestSkippedOutcomes(t *testing.T) {
	holes := map[string]int64{"sim": 1}
	f := newFindings()
	f.numbers["sim"] = 7
	if above := outcomeItem(id("a"), "sim", 1, start, answer{wasAccepted, true, true}, recordAt(0, 8)); f.skippedOutcome(holes, above) {
		t.Error("a record that no lane wrote")
	}
	a := outcomeItem(id("a"), "sim", lastOutcome, start, answer{wasUnknown, true, true}, recordAt(3, 7))
	b := outcomeItem(id("b"), "sim", 1, start, answer{what: wasAccepted}, 0)
	if other := outcomeItem(id("a"), "other", 1, start, answer{wasAccepted, true, true}, recordAt(3, 7)); f.skippedOutcome(holes, other) {
		t.Error("of another provider")
	}
	if !f.skippedOutcome(holes, a) || f.skippedOutcome(holes, b) {
		t.Error("one record is one outcome")
	}
	if slices.Max([]uint64{onlyAccepted, notAccepted}) >= answerCodes || uint64(2*len(outcomes)+1) >= onlyAccepted || outcomesOfHole > recordCodes || schemas.MaxLanes > recordLanes {
		t.Error("codes overlap")
	}
}
