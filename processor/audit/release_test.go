package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// onlyDecided is a clean log of decisions without sending: one that was released, one
// that was not, and one after an attempt elsewhere.
func onlyDecided(t *testing.T) *sheet {
	t.Helper()
	s := handed(t, schemas.ProviderNone)
	s.only("g", carol, "verify", start+4000)
	s.only("h", carol, "verify", start+4100)
	s.released("g", carol, start+4200)
	s.only("i", carol, "verify", start+4300)
	s.kept("g", carol, "repeated", start+4400)
	s.kept("z", carol, "not_held", start+4500)
	return s
}

func (s *sheet) only(name, to, class string, t schemas.Millis) *schemas.Event {
	e := s.admit(name, to, class, t)
	e.Status = schemas.StatusSent
	s.dispatch = s.dispatch[:len(s.dispatch)-1]
	return e
}

func (s *sheet) asks(name, to string, t schemas.Millis) (*schemas.Event, *schemas.Source) {
	e, in := s.request(name, to, "", t)
	e.Kind, e.Channel = schemas.KindDecision, ""
	s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"action":"release","id":%q,"to":%q}`, id(name), to)
	return e, in
}

func (s *sheet) released(name, to string, t schemas.Millis) *schemas.Event {
	e, in := s.asks(name, to, t)
	e.Reason = "released"
	s.decide(e, schemas.VerdictGiveBack, t, in).Returned = s.place[name]
	return e
}

func (s *sheet) kept(name, to, reason string, t schemas.Millis) *schemas.Event {
	e, in := s.asks(name, to, t)
	e.Reason = reason
	s.decide(e, schemas.VerdictNothing, t, in)
	return e
}

func TestReleasesLawful(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *sheet)
	}{
		{"as it is", func(*sheet) {}},
		{"after the attempt that surely failed", func(s *sheet) { s.released("b", bob, start+5000) }},
		{"of what no rolling window sees, where a calendar window does", func(s *sheet) { s.released("h", carol, start+30_000) }},
		{"in no window any more", func(s *sheet) { s.kept("h", carol, "not_held", start+3_700_000) }},
		{"not held, since an attempt may have been received", func(s *sheet) {
			s.readmit[0].env.Taint = schemas.TaintReceived
			received(s.status, s.journal, "b")
			s.kept("b", bob, "not_held", start+5000)
		}},
		{"of a limit that is gone", func(s *sheet) {
			s.policies = append(s.policies, policyOf(t, strings.Replace(strings.Replace(sheetPolicy, "name: two", "name: three", 1), "type: simulated, channels: [sms], pace: [3/1s]", "type: none, channels: [sms]", 1)))
			s.marker(start+5000, map[string]map[string]schemas.Millis{"three": {"10s": start + 5000, "calendar-hour": start + 5000}, "pair": {"5s": start}})
			s.released("h", carol, start+6000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := onlyDecided(t)
			c.do(s)
			if r := s.audit(t); r.Outcome != Proven {
				t.Fatal(show(r))
			}
		})
	}
}

func TestReleasesEveryViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"released twice", KindCause, func(s *sheet) { s.released("g", carol, start+5000).Decision.Returned = nil }},
		{"released twice, and the place found again", KindReturned, func(s *sheet) { s.released("g", carol, start+5000) }},
		{"released by nobody", KindCause, func(s *sheet) {
			s.requests[len(s.requests)-4].value = `{"action":"cancel","id":"` + id("g") + `","to":"` + carol + `"}`
		}},
		{"released by who asked for another", KindCause, func(s *sheet) {
			s.requests[len(s.requests)-4].value = strings.Replace(s.requests[len(s.requests)-4].value, id("g"), id("h"), 1)
		}},
		{"released what was never decided", KindCause, func(s *sheet) { s.released("y", carol, start+5000) }},
		{"released what a consumer has", KindCause, func(s *sheet) {
			s.policies[1].Providers[0].Type = schemas.ProviderExternal
		}},
		{"released what may have been received", KindCause, func(s *sheet) {
			s.readmit[0].env.Taint = schemas.TaintReceived
			s.released("b", bob, start+5000)
		}},
		{"released, and the place kept", KindReturned, func(s *sheet) { s.released("h", carol, start+5000).Decision.Returned = nil }},
		{"released, and the place called missing", KindReturned, func(s *sheet) {
			d := s.released("h", carol, start+5000).Decision
			d.Returned, d.Missing = nil, d.Returned
		}},
		{"released, and another's place returned", KindReturned, func(s *sheet) {
			s.released("h", carol, start+5000).Decision.Returned = s.place["i"]
		}},
		{"not released, though it holds a place", KindCause, func(s *sheet) { s.kept("h", carol, "not_held", start+5000) }},
		{"called repeated, and it was not released", KindCause, func(s *sheet) { s.kept("h", carol, "repeated", start+5000) }},
		{"called repeated, of nothing", KindCause, func(s *sheet) { s.kept("y", carol, "repeated", start+5000) }},
		{"the place that was released counts", KindRefused, func(s *sheet) {
			s.released("i", carol, start+4600)
			s.refuse("j", carol, "verify", start+4700, start+14_100, schemas.Evidence{Limit: "two", Scope: carol, Window: "2/10s", N: 2, Count: 2, Cost: 1, Oldest: start + 4100, Since: start})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := onlyDecided(t)
			c.do(s)
			if r := s.audit(t); r.Outcome != Violated || r.Faults[c.want] == 0 {
				t.Fatalf("want %s:\n%s", c.want, show(r))
			}
		})
	}
}
