package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func show(r *Report) string {
	var b strings.Builder
	_ = r.WriteText(&b)
	return b.String()
}

func TestCleanLogIsProven(t *testing.T) {
	r := newSheet(t).audit(t)
	if r.Outcome != Proven {
		t.Fatal(show(r))
	}
	c := r.Checked
	if c.Admitted != 4 || c.Moved != 1 || c.Refused != 1 || c.GivenBack != 1 || c.Returned != 2 || c.Open != 1 || c.Ended != 5 ||
		c.Messages != 6 || c.Receipts != 1 || c.Permits != 4 || c.Dispatched != 5 || c.Requests != 7 || c.Readmitted != 2 || c.Windows != 10 {
		t.Errorf("%+v", c)
	}
	want := []Density{
		{Limit: "pair", To: "+86*********02", Window: "1/5s", N: 1, Most: 1, At: start + 5100},
		{Limit: "two", To: "+86*********01", Window: "2/10s", N: 2, Most: 3, At: start + 3100}, // the first attempt of b was a call too
		{Provider: "sim", Window: "3/1s", N: 3, Most: 1, At: start + 1100},
	}
	if !slices.Equal(r.Densest, want) {
		t.Errorf("densest %+v", r.Densest)
	}
}

// receipt writes what a provider tells of a message.
func (s *sheet) receipt(name, to string, t schemas.Millis) {
	s.step(name, to, "verify", schemas.StatusDelivered, 1, t).Reason = "receipt"
}

// What a provider says is the provider's: a receipt of a message that failed there is
// told, and changes nothing of what is proven.
func TestProvidersAreNotJudged(t *testing.T) {
	s := newSheet(t)
	s.receipt("d", bob, start+8000) // it failed
	s.receipt("a", alice, start+8000)
	r := s.audit(t)
	want := []Untold{{"receipts for messages that ended as failed", 1}}
	if r.Outcome != Proven || !slices.Equal(r.Told, want) || r.Checked.Receipts != 3 {
		t.Errorf("%+v of %d\n%s", r.Told, r.Checked.Receipts, show(r))
	}
	if text := show(r); !strings.Contains(text, "Providers told") || !strings.Contains(text, "1: receipts for messages that ended as failed") {
		t.Error(text)
	}
}

// Where the log does not have its beginning, no one can say that a message never was.
func TestReceiptsOfACutLog(t *testing.T) {
	s := newSheet(t)
	for i := range s.status {
		s.status[i].offset += 100
	}
	s.status[0].event.Decision.Seq = 5
	for i := 1; i < len(s.status); i++ {
		if d := s.status[i].event.Decision; d != nil {
			d.Seq += 4
		}
	}
	s.seq += 4
	s.receipt("x", bob, start+8000)
	want := Untold{"receipts for messages that the log does not have, or no longer: sent before it begins, or ended more than a day before", 1}
	if r := s.audit(t); !slices.Contains(r.Told, want) || slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == KindReceipt }) {
		t.Error(show(r))
	}
}

// A message that ended more than a day ago is known still.
func TestReceiptsAfterADay(t *testing.T) {
	s := newSheet(t)
	day := start + 30*3_600_000
	s.admit("later", bob, "verify", day)
	s.admit("last", bob, "verify", day+3_600_000)
	s.receipt("a", alice, day+3_700_000)
	r := s.audit(t)
	if slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == KindReceipt }) || r.Checked.Receipts != 2 {
		t.Error(show(r))
	}
	s.receipt("x", alice, day+3_800_000)
	if r := s.audit(t); !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == KindReceipt && v.MessageID == id("x") }) {
		t.Error(show(r))
	}
}

func TestForgotten(t *testing.T) {
	var f forgotten
	for i := range 2 * pageMost {
		f.add(sumOf("was", strconv.Itoa(i)))
	}
	false1 := 0
	for i := range 10_000 {
		if !f.has(sumOf("was", strconv.Itoa(i*150))) {
			t.Fatalf("%d is forgotten", i*150)
		}
		if f.has(sumOf("never", strconv.Itoa(i))) {
			false1++
		}
	}
	if false1 > 400 || f.size() != 2<<20 {
		t.Errorf("%d of 10,000 that never were are said to have been, in %d bytes", false1, f.size())
	}
}

// Each corruption of the clean log is found, and as what it is.
func TestEveryViolationIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"a gap in the sequence", KindSequence, func(s *sheet) { s.at("c", "refuse").Decision.Seq = 99 }},
		{"another partition's decision", KindSequence, func(s *sheet) { s.at("f", "reject").Decision.Partition = 3 }},
		{"time goes back", KindBackInTime, func(s *sheet) { s.at("f", "reject").Decision.T = start + 6000 }},
		{"a torn record", KindTorn, func(s *sheet) {
			i := s.indexOf("a", "delivered")
			s.status[i].event, s.status[i].value = nil, `{"kind":"sta`
		}},
		{"an unknown verdict", KindTorn, func(s *sheet) { s.at("f", "reject").Decision.Verdict = "shrug" }},
		{"a request without decision", KindUnanswered, func(s *sheet) { s.drop(s.indexOf("f", "reject")) }},
		{"a last request without decision, though committed", KindUnanswered, func(s *sheet) {
			s.request("z", bob, "pair", start+9000)
			s.committed = 22
		}},
		{"a record of readmit without decision", KindUnanswered, func(s *sheet) {
			s.readmit = append([]written{{offset: -1, appended: start}}, s.readmit...)
		}},
		{"a request decided twice", KindTwice, func(s *sheet) {
			e := *s.at("f", "reject")
			d := *e.Decision
			s.seq++
			d.Seq, e.Decision, e.Kind = s.seq, &d, schemas.KindDecision
			s.say(&e, start+7300)
		}},
		{"a decision on no record", KindPhantom, func(s *sheet) { s.at("f", "reject").Decision.Input.Offset++ }},
		{"a decision on another's partition", KindPhantom, func(s *sheet) { s.at("f", "reject").Decision.Input.Partition = 1 }},
		{"a decision without input", KindPhantom, func(s *sheet) { s.at("f", "reject").Decision.Input = nil }},
		{"a decision under another revision", KindMarker, func(s *sheet) { s.at("c", "refuse").Decision.Revision = 2 }},
		{"a marker for no revision", KindMarker, func(s *sheet) { s.at("", "marker").Decision.Marker.Revision = 7 }},
		{"a marker that comes twice", KindMarker, func(s *sheet) { s.marker(start+8000, sinceAll(start)) }},
		{"a since that is too late", KindSince, func(s *sheet) { s.at("", "marker").Decision.Marker.Since["pair"]["5s"] = start + 1 }},
		{"a since that is missing", KindSince, func(s *sheet) { delete(s.at("", "marker").Decision.Marker.Since, "pair") }},
		{"a since for no window", KindSince, func(s *sheet) { s.at("", "marker").Decision.Marker.Since["pair"]["6s"] = start }},
		{"a since that forgets", KindSince, func(s *sheet) {
			s.policies = append(s.policies, s.policies[0])
			s.marker(start+8000, sinceAll(start+8000))
		}},
		{"admitted into a full rolling window", KindOver, func(s *sheet) { s.admit("g", alice, "verify", start+8000) }},
		{"admitted a millisecond early", KindOver, func(s *sheet) { s.admit("g", alice, "verify", start+10_999) }},
		{"admitted into a full calendar window", KindOver, func(s *sheet) {
			for i := range 4 {
				s.admit(string(rune('g'+i)), alice, "verify", start+11_000*schemas.Millis(i+2))
			}
		}},
		{"refused, though there is room", KindRefused, func(s *sheet) {
			s.refuse("g", alice, "verify", start+11_000, start+13_000, evidence(start+11_000, start+3000))
		}},
		{"refused, though the place was given back", KindRefused, func(s *sheet) {
			s.refuse("g", bob, "pair", start+10_000_000, 0, schemas.Evidence{Limit: "pair", Window: "1/5s"})
		}},
		{"evidence counts too many", KindEvidence, func(s *sheet) { s.at("c", "refuse").Decision.Evidence[0].Count = 3 }},
		{"evidence names another oldest", KindEvidence, func(s *sheet) { s.at("c", "refuse").Decision.Evidence[0].Oldest++ }},
		{"evidence of a window that is not full", KindEvidence, func(s *sheet) { s.at("c", "refuse").Decision.Evidence[0].Window = "5/calendar-hour" }},
		{"no evidence", KindEvidence, func(s *sheet) { s.at("c", "refuse").Decision.Evidence = nil }},
		{"retry_at a millisecond late", KindRetryAt, func(s *sheet) { s.at("c", "refuse").RetryAt++ }},
		{"a place of another cost", KindCharges, func(s *sheet) { s.at("e", "admit").Decision.Charges[0].Cost = 2; s.redispatch(4) }},
		{"a place in another scope", KindCharges, func(s *sheet) { s.at("e", "admit").Decision.Charges[0].Scope = bob; s.redispatch(4) }},
		{"a place at another time", KindCharges, func(s *sheet) { s.at("e", "admit").Decision.Charges[0].T--; s.redispatch(4) }},
		{"no place in a limit that matches", KindCharges, func(s *sheet) { s.at("e", "admit").Decision.Charges = nil; s.redispatch(4) }},
		{"a place in a limit that does not match", KindCharges, func(s *sheet) {
			d := s.at("e", "admit").Decision
			d.Charges = append(slices.Clone(d.Charges), schemas.Charge{Limit: "two", Scope: bob, T: d.T, Cost: 1})
			s.redispatch(4)
		}},
		{"a refusal that takes a place", KindCharges, func(s *sheet) {
			s.at("c", "refuse").Decision.Charges = []schemas.Charge{{Limit: "two", Scope: alice, T: start + 4000, Cost: 1}}
		}},
		{"a refusal that gives up a place", KindReturned, func(s *sheet) {
			s.at("c", "refuse").Decision.Missing = []schemas.Charge{{Limit: "two", Scope: alice, T: start + 500, Cost: 1}}
		}},
		{"a place returned twice", KindReturned, func(s *sheet) {
			d := s.at("d", "give_back").Decision
			d.Returned = append(slices.Clone(d.Returned), d.Returned...)
		}},
		{"another message's place returned", KindReturned, func(s *sheet) {
			s.at("d", "give_back").Decision.Returned = []schemas.Charge{{Limit: "two", Scope: alice, T: start + 3000, Cost: 1}}
		}},
		{"a place that stands called missing", KindReturned, func(s *sheet) {
			d := s.at("d", "give_back").Decision
			d.Returned, d.Missing = nil, d.Returned
		}},
		{"a place kept that the message held", KindReturned, func(s *sheet) { s.at("d", "give_back").Decision.Returned = nil }},
		{"a move that keeps the old place", KindReturned, func(s *sheet) { s.at("b", "move").Decision.Returned = nil }},
		{"a give-back of a message that was sent", KindCause, func(s *sheet) { s.at("d", "failed").Status = schemas.StatusSent }},
		{"a give-back of a message that is open", KindCause, func(s *sheet) { s.giveBack("e", bob, start+8000) }},
		{"a give-back of what may have been received", KindCause, func(s *sheet) { s.readmit[1].env.Taint = schemas.TaintReceived }},
		{"a give-back after an unknown outcome", KindCause, func(s *sheet) {
			i := s.indexOf("d", "failed")
			e := *s.status[i].event
			e.Status, e.Reason = schemas.StatusRetrying, "unknown"
			s.status = slices.Insert(s.status, i, written{offset: s.status[i].offset, appended: s.status[i].appended, event: &e})
		}},
		{"a give-back of nobody's", KindCause, func(s *sheet) { s.place["y"] = nil; s.giveBack("y", bob, start+8000) }},
		{"a give-back that nothing asked for", KindCause, func(s *sheet) { s.readmit[1].env.Reason = schemas.ReadmitDue }},
		{"a second end", KindTwoEnds, func(s *sheet) { s.step("a", alice, "verify", schemas.StatusFailed, 1, start+8000) }},
		{"sent again after its end", KindTwoEnds, func(s *sheet) { s.call("a", alice, "verify", schemas.StatusSent, 2, start+8000) }},
		{"an end from nowhere", KindOrder, func(s *sheet) { s.step("x", alice, "verify", schemas.StatusSent, 1, start+8000) }},
		{"sent without sending", KindOrder, func(s *sheet) { s.step("e", bob, "pair", schemas.StatusSent, 1, start+8000) }},
		{"failed after unknown", KindOrder, func(s *sheet) {
			s.at("b", "retrying").Reason = "unknown"
			s.status[s.lastOf("b", schemas.StatusSent)].event.Status = schemas.StatusFailed
		}},
		{"an amendment that no receipt brought", KindOrder, func(s *sheet) { s.step("b", alice, "verify", schemas.StatusDelivered, 2, start+8000) }},
		{"a decision that amends", KindOrder, func(s *sheet) {
			e := s.at("f", "reject")
			e.Status, e.Reason = schemas.StatusDelivered, "receipt"
		}},
		{"a receipt of no message", KindReceipt, func(s *sheet) { s.receipt("x", bob, start+8000) }},
		{"a receipt for another recipient", KindReceipt, func(s *sheet) { s.receipt("a", bob, start+8000) }},
		{"a receipt for another tenant", KindReceipt, func(s *sheet) {
			s.receipt("a", alice, start+8000)
			s.status[len(s.status)-1].event.Tenant = "other"
		}},
		{"a receipt of another provider", KindReceipt, func(s *sheet) {
			s.receipt("a", alice, start+8000)
			s.status[len(s.status)-1].event.Provider = "other"
		}},
		{"a receipt of a message that was refused", KindReceipt, func(s *sheet) { s.receipt("c", alice, start+8000) }},
		{"a receipt of a message that waits for the provider", KindReceipt, func(s *sheet) {
			s.admit("w", bob, "verify", start+8000)
			s.receipt("w", bob, start+8010)
		}},
		{"a receipt before its message", KindReceipt, func(s *sheet) {
			s.receipt("w", bob, start+8000)
			s.admit("w", bob, "verify", start+8010)
		}},
		{"a receipt in another partition than its recipient's", KindOrder, func(s *sheet) {
			s.partitions = 2
			for _, to := range []string{alice, bob, "+8613800000009", "+8613800000008", "+8613800000007"} { // one of them is the other's
				s.receipt("b", to, start+8000)
			}
		}},
		{"an id used again too soon", KindTwoEnds, func(s *sheet) { s.admit("a", alice, "verify", start+23*3_600_000) }},
		{"an end after its expiry", KindLate, func(s *sheet) {
			s.admit("g", bob, "verify", start+8000)
			s.call("g", bob, "verify", schemas.StatusSent, 1, start+8000+75_000)
		}},
		{"an admission that was not dispatched", KindDispatch, func(s *sheet) { s.dispatch = s.dispatch[:4] }},
		{"an admission dispatched twice", KindDispatch, func(s *sheet) { s.dispatch = append(s.dispatch, s.dispatch[4]) }},
		{"dispatched under another id", KindDispatch, func(s *sheet) { s.dispatch[4].env.ID = id("other") }},
		{"dispatched with another place", KindDispatch, func(s *sheet) { s.dispatch[4].env.Place = nil }},
		{"a broken dispatch record", KindDispatch, func(s *sheet) { s.dispatch[4].env.DecidedAt = 0 }},
		{"a forward that never arrived", KindForward, func(s *sheet) {
			s.partitions = 2
			s.forward("g", start+8000)
		}},
		{"an arrival that nobody forwarded", KindForward, func(s *sheet) {
			e, in := s.back("g", "12", "verify", schemas.ReadmitForward, start+8000)
			e.Status = schemas.StatusRejected
			s.decide(e, schemas.VerdictReject, start+8000, in)
		}},
		{"a forward by the owner", KindForward, func(s *sheet) { s.forward("g", start+8000); s.arrive("g", start+8100) }},
		{"a sending without permit", KindPermit, func(s *sheet) { s.step("e", bob, "pair", schemas.StatusSending, 1, start+8000) }},
		{"a permit without sending", KindPermit, func(s *sheet) {
			s.journal = append(s.journal, written{offset: 90, appended: start, journal: journalled{Kind: "permit", ID: id("e"), Attempt: 1, T: start + 8000}})
		}},
		{"an outcome before its permit", KindPermit, func(s *sheet) { s.journal[0], s.journal[1] = s.journal[1], s.journal[0] }},
		{"an outcome twice", KindPermit, func(s *sheet) { s.journal = append(s.journal, s.journal[1]) }},
		{"a torn journal record", KindTorn, func(s *sheet) { s.journal[1].journal.Kind = "permi" }},
		{"too many permits", KindPace, func(s *sheet) {
			for i := range 3 {
				n := string(rune('g' + i))
				to := "+861390000000" + n[:0] + string(rune('1'+i))
				s.admit(n, to, "pair", start+8000)
			}
			for i := range 3 {
				s.call(string(rune('g'+i)), "+861390000000"+string(rune('1'+i)), "pair", schemas.StatusSent, 1, start+9000+schemas.Millis(i))
			}
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+9999)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			r := s.audit(t)
			if r.Outcome != Violated || r.Faults[c.want] == 0 {
				t.Fatalf("want %s:\n%s", c.want, show(r))
			}
			for _, v := range r.Violations {
				if strings.Contains(v.String(), alice) || strings.Contains(v.String(), bob) {
					t.Errorf("a recipient is shown: %s", v)
				}
			}
		})
	}
}

func (s *sheet) redispatch(i int) { s.dispatch[i].env.Place = s.at("e", "admit").Decision.Charges }

func (s *sheet) lastOf(name string, st schemas.Status) int {
	last := -1
	for i, w := range s.status {
		if w.event.MessageID == id(name) && w.event.Status == st {
			last = i
		}
	}
	return last
}

func (s *sheet) forward(name string, t schemas.Millis) {
	to := alice
	for i := 0; s.partitions > 1 && schemas.PartitionOf(to, s.partitions) == 0; i++ {
		to = "+861380000001" + string(rune('0'+i))
	}
	e, in := s.request(name, to, "verify", t)
	e.Kind = schemas.KindDecision
	s.decide(e, schemas.VerdictForward, t, in)
}

func (s *sheet) arrive(name string, t schemas.Millis) {
	e, in := s.back(name, alice, "verify", schemas.ReadmitForward, t)
	s.readmit[len(s.readmit)-1].env.AcceptedAt = s.at(name, "forward").AcceptedAt
	e.Status = schemas.StatusRejected
	s.decide(e, schemas.VerdictReject, t, in)
}

// What is right is not taken for wrong.
func TestLawfulLogsAreProven(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *sheet)
	}{
		{"admitted the moment a place leaves", func(s *sheet) { s.admit("g", alice, "verify", start+11_000) }},
		{"expired an hour before it came", func(s *sheet) {
			e, in := s.request("g", bob, "verify", start+20_000)
			s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"verify","body":"b","expires_at":%q}`, id("g"), bob, start-3_600_000)
			e.Status, e.Reason = schemas.StatusExpired, "expired"
			s.decide(e, schemas.VerdictExpire, start+20_000, in)
		}},
		{"admitted by a new hour", func(s *sheet) {
			for i := range 3 {
				at := start + 11_000*schemas.Millis(i+2)
				s.admit(string(rune('g'+i)), alice, "verify", at)
				s.call(string(rune('g'+i)), alice, "verify", schemas.StatusSent, 1, at)
			}
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
			s.admit("j", alice, "verify", start-start%3_600_000+3_600_000)
		}},
		{"refused by the calendar", func(s *sheet) {
			for i := range 3 {
				s.admit(string(rune('g'+i)), alice, "verify", start+11_000*schemas.Millis(i+2))
			}
			hour := start - start%3_600_000
			s.refuse("k", alice, "verify", start+66_000, hour+3_600_000, schemas.Evidence{Limit: "two", Scope: alice, Window: "5/calendar-hour", N: 5, Count: 5, Cost: 1, Start: hour, Since: start})
		}},
		{"the limit's history goes on under a new revision", func(s *sheet) {
			s.policies = append(s.policies, s.policies[0])
			s.marker(start+8000, sinceAll(start))
			s.refuse("g", alice, "verify", start+8001, start+11_000, evidence(start+8001, start+1000))
		}},
		{"another limit begins anew", func(s *sheet) {
			next := s.policies[0]
			next.Limits = slices.Clone(next.Limits)
			next.Limits[0].Exempt = []string{bob}
			s.policies = append(s.policies, next)
			since := sinceAll(start)
			since["two"] = map[string]schemas.Millis{"10s": start + 8000, "calendar-hour": start + 8000}
			s.marker(start+8000, since)
			s.admit("g", alice, "verify", start+8001)
		}},
		{"sendings of one message again", func(s *sheet) {
			s.step("e", bob, "pair", schemas.StatusSending, 1, start+8000)
			s.journal = append(s.journal, written{offset: 90, appended: start, journal: journalled{Kind: "permit", ID: id("e"), Attempt: 1, T: start + 8000}},
				written{offset: 91, appended: start, journal: journalled{Kind: "outcome", ID: id("e"), Attempt: 1, T: start + 8001, Permit: start + 8000, Outcome: "expired_permit"}})
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+9000)
		}},
		{"one id to two recipients, called at once", func(s *sheet) {
			s.admit("g", bob, "verify", start+8000)
			s.admit("g", "+8613800000004", "verify", start+8000)
			s.call("g", bob, "verify", schemas.StatusSent, 1, start+9000)
			n := len(s.journal)
			s.call("g", "+8613800000004", "verify", schemas.StatusSent, 1, start+9000)
			s.journal[n-1], s.journal[n] = s.journal[n], s.journal[n-1]
		}},
		{"requests that wait", func(s *sheet) { s.request("z", bob, "pair", start+9000) }},
		{"a repeated id a day later", func(s *sheet) {
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
			s.admit("a", alice, "verify", start+24*3_600_000+1000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			if r := s.audit(t); r.Outcome != Proven {
				t.Fatal(show(r))
			}
		})
	}
}

// What lies before the log is not guessed.
func TestWhatIsGoneIsNotTold(t *testing.T) {
	later := func(s *sheet, from string) {
		i := s.indexOf("b", from)
		s.status = s.status[i:]
	}
	s := newSheet(t)
	later(s, "move")
	s.dispatch, s.journal = s.dispatch[2:], s.journal[4:]
	r := s.audit(t)
	if r.Outcome != CouldNotTell || len(r.Untold) == 0 {
		t.Fatal(show(r))
	}
	// Judged from when everything that counts is there, the rest is proven.
	s.since = start + 15_000
	s.admit("h", alice, "verify", start+8000)
	s.admit("i", alice, "verify", start+20_000)
	s.dispatch = s.dispatch[len(s.dispatch)-1:]
	s.journal = nil
	s.policies[0].Limits[0].Allow = s.policies[0].Limits[0].Allow[:1]
	if r := s.audit(t); r.Outcome != Proven || r.Checked.Admitted != 1 {
		t.Fatal(show(r))
	}
	// And what is over by what can be seen, is over.
	s.admit("j", alice, "verify", start+20_001)
	s.admit("k", alice, "verify", start+20_002)
	if r := s.audit(t); r.Faults[KindOver] == 0 {
		t.Fatal(show(r))
	}
}

func TestCalendar(t *testing.T) {
	for _, c := range []struct{ zone, at, unit, start, end string }{
		{"UTC", "2026-03-01T12:34:56Z", "minute", "2026-03-01T12:34:00Z", "2026-03-01T12:35:00Z"},
		{"Asia/Kolkata", "2026-03-01T12:34:56Z", "hour", "2026-03-01T12:30:00Z", "2026-03-01T13:30:00Z"},
		{"Asia/Shanghai", "2026-03-01T12:34:56Z", "day", "2026-02-28T16:00:00Z", "2026-03-01T16:00:00Z"},
		{"Asia/Shanghai", "2026-02-28T16:00:00Z", "month", "2026-02-28T16:00:00Z", "2026-03-31T16:00:00Z"},
		{"America/New_York", "2026-03-08T12:00:00Z", "day", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"}, // 23 hours
		{"America/New_York", "2026-11-01T12:00:00Z", "day", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // 25 hours
		{"America/New_York", "2026-11-01T05:30:00Z", "hour", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"},
		{"America/New_York", "2026-11-01T06:30:00Z", "hour", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"},
		{"America/Santiago", "2026-09-06T12:00:00Z", "day", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}, // midnight is missing
		{"America/Havana", "2026-03-08T12:00:00Z", "day", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},   // midnight is missing
		{"America/Havana", "2026-11-01T05:30:00Z", "day", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},   // midnight comes twice
		{"Australia/Lord_Howe", "2026-04-04T14:45:00Z", "hour", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"Pacific/Apia", "2011-12-30T09:00:00Z", "day", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"}, // the 30th is missing
	} {
		t.Run(c.zone+" "+c.unit+" "+c.at, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			m := func(s string) schemas.Millis {
				v, err := schemas.ParseMillis(s)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			if got := spanOf(c.unit, zone, m(c.at)); got != (span{m(c.start), m(c.end)}) {
				t.Errorf("%s to %s, want %s to %s", got.start, got.end, c.start, c.end)
			}
		})
	}
}

// The table says that it counts calls, and when a limit refused nothing.
func TestLimitsThatRefusedNothing(t *testing.T) {
	h := newHistory()
	mode := func(m schemas.Mode) []schemas.Limit { return []schemas.Limit{{Name: "a", Mode: m}} }
	for i, limits := range [][]schemas.Limit{nil, mode(""), mode(schemas.ModeObserve), mode(schemas.ModeObserve), mode(schemas.ModeEnforce), mode(schemas.ModeOff), nil, mode("")} {
		h.policies, h.at = append(h.policies, &schemas.Policy{Limits: limits}), append(h.at, schemas.Millis(10*(i+1)))
	}
	for _, tt := range []struct {
		from, until schemas.Millis
		want        string
	}{
		{1, 1000, "observe in revisions 3 to 4, off in revision 6, removed in revision 7"},
		{45, 55, "observe in revision 4"},
		{80, 1000, ""},
		{1, 29, ""},
	} {
		if got := h.unenforced("a", tt.from, tt.until); got != tt.want {
			t.Errorf("%d to %d: %q, want %q", tt.from, tt.until, got, tt.want)
		}
	}
	r := &Report{From: 45, Until: 55, Densest: []Density{{Limit: "a", Window: "1/60s", N: 1, Most: 3}, {Provider: "p", Window: "3/1s", N: 3, Most: 2}}}
	r.unenforced(h)
	text := show(r)
	for _, want := range []string{
		"calls, retries included     limit a: at most 3 in a window of 1/60s; it refused nothing for a time: observe in revision 4\n",
		"calls, retries included     provider p: at most 2 in a window of 3/1s\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
