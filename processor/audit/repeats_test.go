package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// named gives the last request an idempotency key.
func (s *sheet) named(key string) {
	w := &s.requests[len(s.requests)-1]
	w.value = strings.TrimSuffix(w.value, "}") + fmt.Sprintf(`,"idempotency_key":%q}`, key)
}

// came is a message that is admitted in a class without limits, under a key.
func (s *sheet) came(name, to, key string, t schemas.Millis) *schemas.Event {
	e := s.free(name, to, "plain", t)
	s.named(key)
	return e
}

// repeats is a message that ends as another's duplicate.
func (s *sheet) repeats(name, to, key, of string, t schemas.Millis) *schemas.Event {
	e := s.ends(name, to, "plain", schemas.StatusDuplicate, schemas.VerdictDuplicate, t)
	e.DuplicateOf = id(of)
	s.named(key)
	return e
}

// comesAgain is a repeat of a message's own id.
func (s *sheet) comesAgain(name, to string, t schemas.Millis) *schemas.Event {
	e, in := s.request(name, to, "plain", t)
	e.Kind, e.Reason, e.DuplicateOf = schemas.KindDecision, "repeated", id(name)
	s.decide(e, schemas.VerdictDuplicate, t, in)
	return e
}

// sentElsewhere is a message in a class without limits that was sent elsewhere,
// under a key.
func (s *sheet) sentElsewhere(name, key string, t schemas.Millis) {
	e, in := s.request(name, carol, "plain", t)
	s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"action":"record","channel":"sms","to":%q,"class":"plain","at":%q}`, carol, t)
	s.named(key)
	e.Kind = schemas.KindDecision
	s.decide(e, schemas.VerdictRecord, t, in)
}

func TestDuplicates(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"under one key", "", func(s *sheet) { s.came("g", carol, "k", hour(1)); s.repeats("h", carol, "k", "g", hour(2)) }},
		{"several under one key", "", func(s *sheet) {
			s.came("g", carol, "k", hour(1))
			s.repeats("h", carol, "k", "g", hour(2))
			s.repeats("i", carol, "k", "g", hour(3))
			s.comesAgain("h", carol, hour(4))
		}},
		{"of one that was rejected", "", func(s *sheet) {
			s.stopped("g", carol, "plain", "no_such_template", hour(1))
			s.named("k")
			s.repeats("h", carol, "k", "g", hour(2))
		}},
		{"other content under one key", "", func(s *sheet) {
			s.came("g", carol, "k", hour(1))
			s.stopped("h", carol, "plain", "key_reused", hour(2)).DuplicateOf = id("g")
			s.named("k")
		}},
		{"of one sent elsewhere", "", func(s *sheet) { s.sentElsewhere("g", "k", hour(1)); s.repeats("h", carol, "k", "g", hour(2)) }},
		{"one key to two recipients", "", func(s *sheet) { s.came("g", carol, "k", hour(1)); s.came("h", alice, "k", hour(2)) }},
		{"one key of two tenants", "", func(s *sheet) {
			s.came("g", carol, "k", hour(1))
			s.came("h", carol, "k", hour(2)).Tenant = "acme"
		}},
		{"two keys", "", func(s *sheet) { s.came("g", carol, "k", hour(1)); s.came("h", carol, "l", hour(2)) }},
		{"one key of a recipient that cannot be read", "", func(s *sheet) {
			s.stopped("g", "12", "plain", "bad_recipient", hour(1))
			s.named("k")
			s.stopped("h", "12", "plain", "bad_recipient", hour(2))
			s.named("k")
		}},
		{"a key between 24 and 25 h later", "", func(s *sheet) { s.came("g", carol, "k", hour(1)); s.came("h", carol, "k", hour(25)) }},
		{"a repeat between 24 and 25 h later", "", func(s *sheet) { s.came("g", carol, "k", hour(1)); s.repeats("h", carol, "k", "g", hour(26)-1) }},
		{"an id that waits for long", "", func(s *sheet) {
			s.waits("g", carol, "plain", reasonSendAt, hour(1), hour(60))
			s.comesAgain("g", carol, hour(30))
		}},
		{"an id used again after a day, the first still on its way", "", func(s *sheet) { s.free("g", carol, "plain", hour(1)); s.free("g", carol, "plain", hour(25)) }},
		{"of no message", KindDuplicate, func(s *sheet) { s.repeats("h", carol, "k", "g", hour(2)) }},
		{"of a message that came later", KindDuplicate, func(s *sheet) { s.repeats("h", carol, "k", "g", hour(1)); s.came("g", carol, "l", hour(2)) }},
		{"of another recipient's message", KindDuplicate, func(s *sheet) { s.came("g", alice, "k", hour(1)); s.repeats("h", carol, "k", "g", hour(2)) }},
		{"of another tenant's message", KindDuplicate, func(s *sheet) {
			s.came("g", carol, "k", hour(1)).Tenant = "acme"
			s.repeats("h", carol, "k", "g", hour(2))
		}},
		{"of itself", KindDuplicate, func(s *sheet) { s.repeats("h", carol, "k", "h", hour(2)) }},
		{"of nothing that it names", KindDuplicate, func(s *sheet) {
			s.came("g", carol, "k", hour(1))
			s.repeats("h", carol, "k", "g", hour(2)).DuplicateOf = ""
		}},
		{"of an id that did not come", KindDuplicate, func(s *sheet) { s.comesAgain("g", carol, hour(2)) }},
		{"after 25 h", KindDuplicate, func(s *sheet) { s.came("g", carol, "k", hour(1)); s.repeats("h", carol, "k", "g", hour(26)) }},
		{"of an id that is sent, after 25 h", KindDuplicate, func(s *sheet) { s.free("g", carol, "plain", hour(1)); s.comesAgain("g", carol, hour(26)) }},
		{"under another key", KindDuplicate, func(s *sheet) { s.came("g", carol, "k", hour(1)); s.repeats("h", carol, "l", "g", hour(2)) }},
		{"under no key", KindDuplicate, func(s *sheet) {
			s.came("g", carol, "k", hour(1))
			s.ends("h", carol, "plain", schemas.StatusDuplicate, schemas.VerdictDuplicate, hour(2)).DuplicateOf = id("g")
		}},
		{"another message's content, of no message", KindDuplicate, func(s *sheet) {
			s.stopped("h", carol, "plain", "key_reused", hour(2)).DuplicateOf = id("g")
			s.named("k")
		}},
		{"two under one key", KindDuplicate, func(s *sheet) { s.came("g", carol, "k", hour(1)); s.came("h", carol, "k", hour(25)-1) }},
		{"two under one key, one of them sent elsewhere", KindDuplicate, func(s *sheet) { s.sentElsewhere("g", "k", hour(1)); s.came("h", carol, "k", hour(2)) }},
		{"two under one key, one of them rejected", KindDuplicate, func(s *sheet) {
			s.came("g", carol, "k", hour(1))
			s.stopped("h", carol, "plain", "no_such_template", hour(2))
			s.named("k")
		}},
		{"one id admitted twice, the first on its way", KindDuplicate, func(s *sheet) { s.free("g", carol, "plain", hour(1)); s.free("g", carol, "plain", hour(2)) }},
		{"one id admitted twice, the first to be tried again", KindDuplicate, func(s *sheet) {
			s.free("g", carol, "plain", hour(1))
			s.call("g", carol, "plain", schemas.StatusRetrying, 1, hour(1)+100).Reason = "transient"
			s.free("g", carol, "plain", hour(2))
		}},
		{"one id admitted twice, the first sent", KindTwoEnds, func(s *sheet) {
			s.free("g", carol, "plain", hour(1))
			s.call("g", carol, "plain", schemas.StatusSent, 1, hour(1)+100)
			s.free("g", carol, "plain", hour(2))
		}},
		{"one id admitted, the first waiting", KindDuplicate, func(s *sheet) {
			s.waits("g", carol, "plain", reasonSendAt, hour(1), hour(60))
			s.free("g", carol, "plain", hour(2))
		}},
		{"one that comes back and is admitted as if new", KindDuplicate, func(s *sheet) {
			s.free("g", carol, "plain", hour(1))
			e, in := s.back("g", carol, "plain", schemas.ReadmitDue, hour(2))
			e.Status, e.Provider = schemas.StatusQueued, "sim"
			s.decide(e, schemas.VerdictAdmit, hour(2), in)
			s.dispatched(e)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}

// Where the log was cut, or requests are gone, an earlier message is not ruled
// out for a day, and then it is.
func TestDuplicatesOfWhatIsGone(t *testing.T) {
	cut := func(do func(s *sheet)) *Report {
		s := newSheet(t)
		s.status, s.dispatch, s.journal = s.status[s.indexOf("e", "admit"):], s.dispatch[4:], nil
		s.since = hour(1)
		s.dispatch = nil
		do(s)
		return s.audit(t)
	}
	for _, c := range []struct {
		name string
		do   func(s *sheet)
		want Outcome
	}{
		{"a repeat within a day of the cut", func(s *sheet) { s.repeats("h", carol, "k", "g", hour(20)) }, CouldNotTell},
		{"a key within a day of the cut", func(s *sheet) { s.came("h", carol, "k", hour(20)) }, CouldNotTell},
		{"a repeat that does not say of what", func(s *sheet) { s.repeats("h", carol, "k", "g", hour(20)).DuplicateOf = "" }, Violated},
		{"a repeat later", func(s *sheet) { s.repeats("h", carol, "k", "g", hour(26)) }, Violated},
		{"a key later", func(s *sheet) { s.came("h", carol, "k", hour(26)) }, Proven},
		{"an id that may have waited since before", func(s *sheet) { s.comesAgain("g", carol, hour(60)) }, CouldNotTell},
	} {
		if r := cut(c.do); r.Outcome != c.want {
			t.Errorf("%s:\n%s", c.name, show(r))
		}
	}
	s := newSheet(t)
	s.came("g", carol, "k", hour(1))
	s.repeats("h", carol, "k", "g", hour(2))
	s.requests = s.requests[len(s.requests)-1:]
	if r := s.audit(t); r.Faults[KindDuplicate] > 0 {
		t.Error(show(r))
	}
}
