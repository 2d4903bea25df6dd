package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// check audits a log that was changed by hand: want is the kind of violation
// that it holds, or none.
func (s *sheet) check(t *testing.T, want Kind) {
	t.Helper()
	r := s.audit(t)
	switch {
	case want == "" && r.Outcome != Proven, want != "" && r.Faults[want] == 0:
		t.Fatalf("want %q:\n%s", want, show(r))
	}
	for _, v := range r.Violations {
		if v.Kind == want && (v.Topic == "" || v.Offset < 0) && want != KindDispatch && want != KindPermit && want != KindForward {
			t.Errorf("it does not say where: %s", v)
		}
	}
}

// asked is a decision on an action.
func (s *sheet) asked(v schemas.Verdict, reason, action, name, to, class string, at schemas.Millis) *schemas.Event {
	e, in := s.request(name, to, class, at)
	value := fmt.Sprintf(`{"action":%q,"to":%q,"class":%q}`, action, to, class)
	if action == "cancel" {
		value = fmt.Sprintf(`{"action":"cancel","id":%q,"to":%q}`, id(name), to)
	}
	s.requests[len(s.requests)-1].value = value
	e.Kind, e.Reason = schemas.KindDecision, reason
	if action != "cancel" {
		e.Tenant, e.Channel = "", ""
	}
	s.decide(e, v, at, in)
	return e
}

// ends is a message that admission ends when it comes.
func (s *sheet) ends(name, to, class string, st schemas.Status, v schemas.Verdict, at schemas.Millis) *schemas.Event {
	e, in := s.request(name, to, class, at)
	e.Status, e.Reason = st, string(st)
	s.decide(e, v, at, in)
	return e
}

func (s *sheet) waits(name, to, class, reason string, at, until schemas.Millis) *schemas.Event {
	e, in := s.request(name, to, class, at)
	e.Status, e.Reason, e.RetryAt = schemas.StatusDeferred, reason, until
	s.decide(e, schemas.VerdictDefer, at, in)
	return e
}

const carol = "+8613800000003"

func TestSuppressionsAndCancels(t *testing.T) {
	suppress := func(s *sheet, class string) {
		s.asked(schemas.VerdictSuppress, "suppress", "suppress", "u", carol, class, start+8000)
	}
	unsuppress := func(s *sheet, class string) {
		s.asked(schemas.VerdictSuppress, "unsuppress", "unsuppress", "v", carol, class, start+8100)
	}
	ended := func(s *sheet) {
		s.ends("g", carol, "verify", schemas.StatusSuppressed, schemas.VerdictSuppress, start+8200)
	}
	// until is a suppression that says when it ends, as its request asks.
	until := func(s *sheet, class string, at, end schemas.Millis, why string) *schemas.Event {
		e := s.asked(schemas.VerdictSuppress, "suppress", "suppress", "u", carol, class, at)
		s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"action":"suppress","to":%q,"class":%q,"expires_at":%q,"metadata":{"reason":%q,"provider":"ses"}}`, carol, class, end, why)
		e.RetryAt, e.ErrorCode, e.Provider = end, why, "ses"
		return e
	}
	endedUntil := func(s *sheet, end schemas.Millis) {
		s.ends("g", carol, "verify", schemas.StatusSuppressed, schemas.VerdictSuppress, start+8200).RetryAt = end
	}
	early := func(s *sheet) {
		s.asked(schemas.VerdictCancel, "remembered", "cancel", "g", carol, "", start+8000)
	}
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"suppressed as it stands", "", func(s *sheet) { suppress(s, "verify"); ended(s) }},
		{"suppressed in a wider scope", "", func(s *sheet) { suppress(s, ""); ended(s) }},
		{"suppressed by nobody", KindSuppressed, ended},
		{"suppressed for another class", KindSuppressed, func(s *sheet) { suppress(s, "pair"); ended(s) }},
		{"suppressed after it was lifted", KindSuppressed, func(s *sheet) { suppress(s, "verify"); unsuppress(s, "verify"); ended(s) }},
		{"lifted in another scope", KindSuppressed, func(s *sheet) { suppress(s, "verify"); unsuppress(s, "") }},
		{"admitted after it was lifted", "", func(s *sheet) {
			suppress(s, "verify")
			unsuppress(s, "verify")
			s.admit("g", carol, "verify", start+8200)
		}},
		{"admitted while suppressed", KindSuppressed, func(s *sheet) { suppress(s, "verify"); s.admit("g", carol, "verify", start+8200) }},
		{"a further attempt while suppressed", KindSuppressed, func(s *sheet) {
			s.admit("g", carol, "verify", start+7900)
			s.call("g", carol, "verify", schemas.StatusRetrying, 1, start+7950).Reason = "transient"
			suppress(s, "verify")
			s.move("g", carol, "verify", start+8200)
		}},
		{"parked while suppressed", KindSuppressed, func(s *sheet) {
			suppress(s, "verify")
			s.waits("g", carol, "verify", "quiet_hours", start+8200, start+20_000)
		}},
		{"admitted, suppressed for another class", "", func(s *sheet) { suppress(s, "pair"); s.admit("g", carol, "verify", start+8200) }},
		{"suppressed again, which changes nothing", "", func(s *sheet) {
			suppress(s, "verify")
			s.asked(schemas.VerdictNothing, "repeated", "suppress", "w", carol, "verify", start+8100)
		}},
		{"a suppression dropped as a repeat", KindSuppressed, func(s *sheet) {
			s.asked(schemas.VerdictNothing, "repeated", "suppress", "w", carol, "verify", start+8100)
		}},
		{"a suppression kept as not there", KindSuppressed, func(s *sheet) {
			suppress(s, "verify")
			s.asked(schemas.VerdictNothing, "not_suppressed", "unsuppress", "w", carol, "verify", start+8100)
		}},
		{"suppressed until a time", "", func(s *sheet) { until(s, "verify", start+8000, start+8201, "stop"); endedUntil(s, start+8201) }},
		{"suppressed by what ends now", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+8200, "stop"); endedUntil(s, start+8200) }},
		{"admitted as it ends", "", func(s *sheet) {
			until(s, "verify", start+8000, start+8200, "stop")
			s.admit("g", carol, "verify", start+8200)
		}},
		{"admitted before it ends", KindSuppressed, func(s *sheet) {
			until(s, "verify", start+8000, start+8201, "stop")
			s.admit("g", carol, "verify", start+8200)
		}},
		{"suppressed, and it does not say until when", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+9000, "stop"); ended(s) }},
		{"suppressed until the longer of two", "", func(s *sheet) {
			until(s, "verify", start+8000, start+9000, "stop")
			until(s, "", start+8010, start+9500, "stop")
			endedUntil(s, start+9500)
		}},
		{"suppressed by one that ends and one that does not", "", func(s *sheet) {
			suppress(s, "")
			until(s, "verify", start+8010, start+9500, "stop")
			ended(s)
		}},
		{"suppressed by one that does not end, after one that does", "", func(s *sheet) {
			until(s, "verify", start+7990, start+9500, "stop")
			suppress(s, "")
			ended(s)
		}},
		{"prolonged", "", func(s *sheet) {
			until(s, "verify", start+8000, start+8100, "stop")
			until(s, "verify", start+8050, start+9000, "stop")
			endedUntil(s, start+9000)
		}},
		{"made shorter", "", func(s *sheet) {
			suppress(s, "verify")
			until(s, "verify", start+8050, start+8100, "stop")
			s.admit("g", carol, "verify", start+8200)
		}},
		{"for another reason", "", func(s *sheet) {
			until(s, "verify", start+8000, start+9000, "stop")
			until(s, "verify", start+8050, start+9000, "hard_bounce")
		}},
		{"again as it stands", KindSuppressed, func(s *sheet) {
			until(s, "verify", start+8000, start+9000, "stop")
			until(s, "verify", start+8050, start+9000, "stop")
		}},
		{"again when it is over", "", func(s *sheet) {
			until(s, "verify", start+8000, start+8040, "stop")
			until(s, "verify", start+8050, start+9000, "stop")
		}},
		{"over as it begins", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+8000, "stop") }},
		{"until another time than was asked for", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+9000, "stop").RetryAt++ }},
		{"for another reason than was asked for", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+9000, "stop").ErrorCode = "x" }},
		{"by another provider than was asked for", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+9000, "stop").Provider = "x" }},
		{"lifted when it is over", KindSuppressed, func(s *sheet) { until(s, "verify", start+8000, start+8100, "stop"); unsuppress(s, "verify") }},
		{"another end dropped as a repeat", KindSuppressed, func(s *sheet) {
			until(s, "verify", start+8000, start+9000, "stop")
			s.asked(schemas.VerdictNothing, "repeated", "suppress", "w", carol, "verify", start+8100)
		}},
		{"a send taken for a suppression", KindSuppressed, func(s *sheet) {
			s.asked(schemas.VerdictSuppress, "suppress", "send", "w", carol, "verify", start+8100)
		}},
		{"cancelled before it came", "", func(s *sheet) {
			early(s)
			s.ends("g", carol, "verify", schemas.StatusCancelled, schemas.VerdictCancel, start+8200)
		}},
		{"cancelled by nobody", KindCancelled, func(s *sheet) {
			s.ends("g", carol, "verify", schemas.StatusCancelled, schemas.VerdictCancel, start+8200)
		}},
		{"cancelled under another tenant", KindCancelled, func(s *sheet) {
			early(s)
			s.ends("g", carol, "verify", schemas.StatusCancelled, schemas.VerdictCancel, start+8200).Tenant = "acme"
		}},
		{"admitted after a cancel", KindCancelled, func(s *sheet) { early(s); s.admit("g", carol, "verify", start+8200) }},
		{"a cancel of a waiting message put off", KindCancelled, func(s *sheet) {
			s.waits("g", carol, "verify", "send_at", start+7500, start+20_000)
			early(s)
		}},
		{"a cancel that asks for nothing of the kind", KindCancelled, func(s *sheet) {
			early(s)
			s.requests[len(s.requests)-1].value = `{"action":"cancel","id":"another","to":"+8613800000003"}`
		}},
		{"a waiting message cancelled", "", func(s *sheet) {
			s.waits("g", carol, "verify", "send_at", start+7500, start+20_000)
			e := s.asked(schemas.VerdictCancel, "cancelled", "cancel", "g", carol, "", start+8000)
			e.Kind, e.Status = schemas.KindStatus, schemas.StatusCancelled
		}},
		{"a message cancelled that a lane holds", KindCancelled, func(s *sheet) {
			s.admit("g", carol, "verify", start+7500)
			e := s.asked(schemas.VerdictCancel, "cancelled", "cancel", "g", carol, "", start+8000)
			e.Kind, e.Status = schemas.KindStatus, schemas.StatusCancelled
		}},
		{"a cancel dropped as a repeat", KindCancelled, func(s *sheet) {
			s.asked(schemas.VerdictNothing, "repeated", "cancel", "g", carol, "", start+8000)
		}},
		{"a message that came back dropped", KindUnanswered, func(s *sheet) {
			s.admit("g", carol, "verify", start+7500)
			s.call("g", carol, "verify", schemas.StatusRetrying, 1, start+7600).Reason = "transient"
			e, in := s.back("g", carol, "verify", schemas.ReadmitRetry, start+8000)
			s.readmit[len(s.readmit)-1].value = s.requests[0].value
			e.Kind, e.Reason = schemas.KindDecision, "cancelled"
			s.decide(e, schemas.VerdictNothing, start+8000, in)
		}},
		{"a message that came back called foreign", KindUnanswered, func(s *sheet) {
			e, in := s.back("e", bob, "pair", schemas.ReadmitStale, start+8000)
			s.readmit[len(s.readmit)-1].value = s.requests[0].value
			e.Kind, e.Reason = schemas.KindDecision, "foreign_record"
			s.decide(e, schemas.VerdictNothing, start+8000, in)
		}},
		{"a foreign record put aside", "", func(s *sheet) {
			e, in := s.back("", "", "", "", start+8000)
			s.readmit[len(s.readmit)-1] = written{offset: in.Offset, appended: start + 7995, value: `{"to":"x"}`}
			*e = schemas.Event{Kind: schemas.KindDecision, Reason: "foreign_record"}
			s.decide(e, schemas.VerdictNothing, start+8000, in)
		}},
		{"a foreign record admitted", KindPhantom, func(s *sheet) {
			e, in := s.back("g", carol, "verify", "", start+8000)
			s.readmit[len(s.readmit)-1].env = schemas.Envelope{}
			e.Status, e.Provider = schemas.StatusQueued, "sim"
			s.decide(e, schemas.VerdictAdmit, start+8000, in).Charges = s.charge("g", carol, "verify", start+8000)
			s.dispatched(e)
		}},
		{"another message decided by a record of readmit", KindPhantom, func(s *sheet) { s.readmit[0].env.ID = id("x") }},
		{"another recipient decided by a record of readmit", KindPhantom, func(s *sheet) { s.readmit[0].env.Key = bob }},
		{"one id and recipient under two tenants", "", func(s *sheet) {
			s.ends("g", carol, "verify", schemas.StatusRejected, schemas.VerdictReject, start+8000)
			s.ends("g", carol, "verify", schemas.StatusRejected, schemas.VerdictReject, start+8100).Tenant = "acme"
		}},
		{"one id and recipient twice under one tenant", KindTwoEnds, func(s *sheet) {
			s.ends("g", carol, "verify", schemas.StatusRejected, schemas.VerdictReject, start+8000)
			s.ends("g", carol, "verify", schemas.StatusRejected, schemas.VerdictReject, start+8100)
		}},
		{"expired in time", "", func(s *sheet) {
			s.ends("g", carol, "verify", schemas.StatusExpired, schemas.VerdictExpire, start+68_000).AcceptedAt = start + 8000
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
		}},
		{"expired too early", KindLate, func(s *sheet) {
			s.ends("g", carol, "verify", schemas.StatusExpired, schemas.VerdictExpire, start+67_999).AcceptedAt = start + 8000
		}},
		{"never ended", KindLate, func(s *sheet) {
			s.admit("g", carol, "verify", start+8000)
			s.ends("h", bob, "verify", schemas.StatusRejected, schemas.VerdictReject, start+8000-10+60_000+10_001)
		}},
		{"the first decisions lost", KindSequence, func(s *sheet) {
			s.status = s.status[s.indexOf("c", "refuse"):]
			for i := range s.status {
				s.status[i].offset = int64(i)
			}
		}},
		{"an event of no kind", KindTorn, func(s *sheet) {
			i := s.indexOf("a", "delivered")
			s.status[i].event, s.status[i].value = nil, `{"foo":1}`
		}},
		{"a status that does not exist", KindTorn, func(s *sheet) { s.at("a", "delivered").Status = "shrugged" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}

// TestTimesOutsideTheBoundAreNamed: such a log is not proven, and not violated either.
func TestTimesOutsideTheBoundAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		late schemas.Millis
		want Outcome
	}{
		{"as far ahead as may be", -aheadMost, Proven},
		{"further ahead", -aheadMost - 1, CouldNotTell},
		{"as late as may be", lateMost, Proven},
		{"later", lateMost + 1, CouldNotTell},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			s.status[s.indexOf("f", "reject")].appended = start + 7000 + c.late
			r := s.audit(t)
			if r.Outcome != c.want || (c.want == CouldNotTell) != strings.Contains(show(r), ": t ") {
				t.Fatalf("want %q:\n%s", c.want, show(r))
			}
		})
	}
}

// A cancel is remembered for a day: after it a message may go on, and where the
// log does not reach back so far, nothing is guessed.
func TestCancelsAreRememberedForADay(t *testing.T) {
	for _, c := range []struct {
		name  string
		after schemas.Millis
		ends  bool
		want  Kind
	}{
		{"cancelled at 23 h", 23 * 3_600_000, true, ""},
		{"admitted at 23 h", 23 * 3_600_000, false, KindCancelled},
		{"cancelled between 24 and 25 h", 24*3_600_000 + 1, true, ""},
		{"admitted between 24 and 25 h", 24*3_600_000 + 1, false, ""},
		{"admitted after 25 h", 25*3_600_000 + 1, false, ""},
		{"cancelled after 25 h", 25*3_600_000 + 1, true, KindCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			s.call("e", bob, "pair", schemas.StatusSent, 1, start+50_000)
			s.asked(schemas.VerdictCancel, "remembered", "cancel", "g", carol, "", start+60_000)
			if at := start + 60_000 + c.after; c.ends {
				s.ends("g", carol, "verify", schemas.StatusCancelled, schemas.VerdictCancel, at)
			} else {
				s.admit("g", carol, "verify", at)
			}
			s.check(t, c.want)
		})
	}
	s := newSheet(t)
	s.ends("g", carol, "verify", schemas.StatusCancelled, schemas.VerdictCancel, start+8000)
	s.ends("h", carol, "verify", schemas.StatusSuppressed, schemas.VerdictSuppress, start+8001)
	s.status, s.dispatch, s.journal = s.status[s.indexOf("e", "admit"):], s.dispatch[4:], nil
	if r := s.audit(t); r.Outcome != CouldNotTell {
		t.Fatal(show(r))
	}
}
