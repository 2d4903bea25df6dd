package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// number gives the journal numbers from one record on, as this version writes them, and
// names each record beside its status.
func (s *sheet) number(from int) {
	for i := range s.journal[from:] {
		j := &s.journal[from+i].journal
		j.Seq = int64(i + 1)
		if k := s.statusOf(*j); k >= 0 {
			s.status[k].named = fmt.Sprint("0/", j.Seq)
		}
	}
}

// statusOf finds the status that follows from a record of the journal; -1 is none.
func (s *sheet) statusOf(j journalled) int {
	return slices.IndexFunc(s.status, func(w written) bool {
		return w.event.MessageID == j.ID && w.event.At == j.T && w.event.Decision == nil && w.event.Provider != ""
	})
}

// remove takes records of the journal out of the log, with the statuses that follow from them.
func (s *sheet) remove(name string, pick func(journalled) bool) {
	for i := len(s.journal) - 1; i >= 0; i-- {
		j := s.journal[i].journal
		if j.ID != id(name) || !pick(j) {
			continue
		}
		s.journal = slices.Delete(s.journal, i, i+1)
		if k := s.statusOf(j); k >= 0 {
			s.drop(k)
		}
	}
}

// wrote is a record of the journal of a message that has no outcome with a status.
func (s *sheet) wrote(name string, attempt int, t schemas.Millis, j journalled) {
	j.ID, j.Attempt, j.T = id(name), attempt, t
	s.journal = append(s.journal, written{offset: int64(len(s.journal)), appended: t + 5, journal: j})
}

// busySheet is a log whose lane wrote all that lanes write: beside newSheet's a permit that
// was not used, a call under way, and a message that was given back.
func busySheet(t *testing.T) *sheet {
	s := newSheet(t)
	s.step("e", bob, "pair", schemas.StatusSending, 1, start+8000)
	s.wrote("e", 1, start+8000, journalled{Kind: "permit", CallBy: start + 8000})
	s.wrote("e", 1, start+8100, journalled{Kind: "outcome", Permit: start + 8000, Outcome: "expired_permit"})
	s.step("e", bob, "pair", schemas.StatusSending, 1, start+8200)
	s.wrote("e", 1, start+8200, journalled{Kind: "permit", CallBy: start + 8200})
	s.admit("g", bob, "verify", start+9000)
	s.wrote("g", 0, start+9100, journalled{Kind: "outcome", Outcome: "stale"})
	s.admit("h", bob, "verify", start+9200)
	s.call("h", bob, "verify", schemas.StatusSent, 1, start+9300)
	return s
}

// What a record of the journal and the status that follows from it say together is missed
// when both are removed. Without numbers nothing shows it.
func TestPairsThatAreRemoved(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *sheet)
	}{
		{"an outcome", func(s *sheet) { s.remove("a", func(j journalled) bool { return j.Kind == "outcome" }) }},
		{"a call", func(s *sheet) { s.remove("a", func(journalled) bool { return true }) }},
		{"the permit of a call under way", func(s *sheet) { s.remove("e", func(j journalled) bool { return j.T == start+8200 }) }},
		{"a permit that was not used", func(s *sheet) { s.remove("e", func(j journalled) bool { return j.T < start+8200 }) }},
		{"what has no status", func(s *sheet) { s.remove("g", func(journalled) bool { return true }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := busySheet(t)
			if c.name == "a call" { // whose message did not go on
				s.drop(s.indexOf("a", "delivered"))
			}
			s.number(0)
			if r := s.audit(t); r.Outcome != Proven || r.Checked.Unnumbered != 0 {
				t.Fatalf("before it is removed:\n%s", show(r))
			}
			c.do(s)
			if r := s.audit(t); r.Outcome != Violated || r.Faults[KindSequence] != 1 || len(r.Faults) != 1 {
				t.Fatalf("want one %s:\n%s", KindSequence, show(r))
			}
			s = busySheet(t)
			if c.name == "a call" {
				s.drop(s.indexOf("a", "delivered"))
			}
			c.do(s)
			if r := s.audit(t); r.Outcome != Proven || r.Checked.Unnumbered != int64(len(s.journal)) || !strings.Contains(show(r), "without a number") {
				t.Fatalf("without numbers:\n%s", show(r))
			}
		})
	}
}

// skipped covers a record of the journal by a skip.
func (s *sheet) skipped(i int) {
	w := &s.journal[i]
	w.journal, w.value = journalled{}, `{"kind":"torn"}`
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, 0), w.value...))
	record := fmt.Sprintf("weir.journal.sim/0/%d", w.offset)
	if s.skips == nil {
		s.skips = make(skips)
	}
	s.skips[record] = Skip{Record: record, SHA256: hex.EncodeToString(sum[:])}
}

func TestNumbersOfAJournal(t *testing.T) {
	plain := func(s *sheet, from, n int) { // as an earlier version
		for i := from; i < from+n; i++ {
			if k := s.statusOf(s.journal[i].journal); k >= 0 {
				s.status[k].named = ""
			}
			s.journal[i].journal.Seq = 0
		}
	}
	again := func(s *sheet, from int, seq int64) { // from there on with other numbers
		for i := range s.journal[from:] {
			j := &s.journal[from+i].journal
			j.Seq = seq + int64(i)
			if k := s.statusOf(*j); k >= 0 {
				s.status[k].named = fmt.Sprint("0/", j.Seq)
			}
		}
	}
	for _, c := range []struct {
		name       string
		want       Outcome
		kind       Kind // of all faults
		unnumbered int64
		do         func(s *sheet)
	}{
		{"dense", Proven, "", 0, func(*sheet) {}},
		{"the lane's group agrees", Proven, "", 0, func(s *sheet) { s.lastSeq = int64(len(s.journal)) }},
		{"the group is behind, as it was read before", Proven, "", 0, func(s *sheet) { s.lastSeq = 3 }},
		{"the end of the journal is missing", Violated, KindSequence, 0, func(s *sheet) { s.lastSeq = int64(len(s.journal)) + 1 }},
		{"retention took the first", Proven, "", 0, func(s *sheet) { again(s, 0, 100); s.numbers.cut = true }},
		{"the first are missing", Violated, KindSequence, 0, func(s *sheet) { again(s, 0, 2) }},
		{"one is missing", Violated, KindSequence, 0, func(s *sheet) { again(s, 4, 6) }},
		{"one comes twice", Violated, KindSequence, 0, func(s *sheet) { again(s, 4, 4) }},
		{"they begin again", Violated, KindSequence, 0, func(s *sheet) { again(s, len(s.journal)-1, 1) }},
		{"a number below one", Violated, KindSequence, 0, func(s *sheet) {
			s.journal[len(s.journal)-1].journal.Seq = -1
			s.status[len(s.status)-1].named = "x" // an outcome without a place
		}},
		{"an earlier version, then this one", Proven, "", 4, func(s *sheet) { plain(s, 0, 4); again(s, 4, 1) }},
		{"an earlier version, then this one without its first", Violated, KindSequence, 4, func(s *sheet) { plain(s, 0, 4); again(s, 4, 2) }},
		{"rolled back to an earlier version, and this one goes on", CouldNotTell, "", 2, func(s *sheet) { plain(s, 4, 2); again(s, 6, 5) }},
		{"rolled back to an earlier version, and this one begins again", CouldNotTell, "", 2, func(s *sheet) { plain(s, 4, 2); again(s, 6, 1) }},
		{"rolled back to an earlier version, and one is missing", Violated, KindSequence, 2, func(s *sheet) { plain(s, 4, 2); again(s, 6, 6) }},
		{"rolled back before what is judged", Proven, "", 2, func(s *sheet) {
			plain(s, 0, 2)
			s.journal[0].journal.Seq = 0
			s.numbers.last, s.numbers.cut = 9, true
			again(s, 2, 10)
			s.since = start + 1500
		}},
		{"a skipped record has a number", CouldNotTell, "", 0, func(s *sheet) { s.skipped(2) }},
		{"the skipped record is the last", CouldNotTell, "", 0, func(s *sheet) { s.lastSeq = int64(len(s.journal)); s.skipped(len(s.journal) - 1) }},
		{"one is skipped, and another is missing later", Violated, KindSequence, 0, func(s *sheet) { again(s, 6, 8); s.skipped(2) }},
		{"two are missing, and one is skipped", Violated, KindSequence, 0, func(s *sheet) { again(s, 4, 6); s.skipped(2); again(s, 3, 5) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := busySheet(t)
			s.number(0)
			c.do(s)
			r := s.audit(t)
			if r.Outcome != c.want || r.Checked.Unnumbered != c.unnumbered || c.kind != "" && r.Faults[c.kind] == 0 {
				t.Errorf("want %s %s, %d without a number:\n%s", c.want, c.kind, c.unnumbered, show(r))
			}
		})
	}
}

// A status names the very record of the journal from which it follows.
func TestStatusesThatNameAnotherRecord(t *testing.T) {
	name := func(of string, st schemas.Status, what string) func(*sheet) {
		return func(s *sheet) { s.status[s.lastOf(of, st)].named = what }
	}
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"a call names another", KindPermit, name("a", schemas.StatusSending, "0/3")},
		{"an end names another", KindOutcome, name("a", schemas.StatusSent, "0/1")},
		{"a call names none", KindPermit, name("a", schemas.StatusSending, "")},
		{"an end names none", KindOutcome, name("a", schemas.StatusSent, "")},
		{"a retry names one of another lane", KindOutcome, name("b", schemas.StatusRetrying, "1/4")},
		{"an end names nothing that can be read", KindOutcome, name("d", schemas.StatusFailed, "8")},
		{"an end of an earlier version names nothing that can be read", KindOutcome, func(s *sheet) {
			j := &s.journal[len(s.journal)-1].journal
			s.status[s.statusOf(*j)].named, j.Seq = "8", 0
		}},
		{"a permit has no number", KindPermit, func(s *sheet) { s.journal[0].journal.Seq = 0 }},
		{"an outcome has no number", KindOutcome, func(s *sheet) { s.journal[1].journal.Seq = 0 }},
		{"two ends name each other's", KindOutcome, func(s *sheet) {
			a, b := &s.status[s.lastOf("a", schemas.StatusSent)], &s.status[s.lastOf("b", schemas.StatusSent)]
			a.named, b.named = b.named, a.named
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := busySheet(t)
			s.number(0)
			c.do(s)
			if r := s.audit(t); r.Outcome != Violated || r.Faults[c.want] == 0 {
				t.Errorf("want %s:\n%s", c.want, show(r))
			}
		})
	}
}
