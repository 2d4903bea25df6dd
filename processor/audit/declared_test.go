package audit

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestDeclared: a class that nobody declared and a field that Weir does not know are
// rejected where the policy says so, and nowhere else.
func TestDeclared(t *testing.T) {
	misspelt := func(s *sheet) {
		r := &s.requests[len(s.requests)-1]
		r.value = strings.Replace(r.value, `{`, `{"clas":"x",`, 1)
	}
	waited := func(s *sheet) {
		s.policies[0].Classes = append(s.policies[0].Classes, schemas.Class{Name: "slow"})
		s.waits("g", carol, "slow", "no_usable_provider", hour(1), hour(2))
		s.revise(hour(1.5), func(*schemas.Class) {})
		last := &s.policies[len(s.policies)-1]
		last.Classes = last.Classes[:len(last.Classes)-1]
		e, in := s.back("g", carol, "slow", schemas.ReadmitDue, hour(2))
		s.readmit[len(s.readmit)-1].env.ExpiresAt = hour(72)
		e.Status, e.Provider = schemas.StatusQueued, "sim"
		s.decide(e, schemas.VerdictAdmit, hour(2), in)
		s.dispatched(e)
	}
	for _, c := range []struct {
		name           string
		closed, strict bool
		want           Kind
		do             func(s *sheet)
	}{
		{"an undeclared class rejected", true, false, "", func(s *sheet) { s.stopped("g", carol, "verfy", schemas.ReasonUnknownClass, hour(1)) }},
		{"an undeclared class let in", true, false, KindUnknown, func(s *sheet) { s.free("g", carol, "verfy", hour(1)) }},
		{"an undeclared class waits", true, false, KindUnknown, func(s *sheet) { s.waits("g", carol, "verfy", "no_usable_provider", hour(1), hour(2)) }},
		{"an undeclared class let in where it may", false, false, "", func(s *sheet) { s.free("g", carol, "verfy", hour(1)) }},
		{"an undeclared class rejected where it may not", false, false, KindUnknown, func(s *sheet) { s.stopped("g", carol, "verfy", schemas.ReasonUnknownClass, hour(1)) }},
		{"a declared class rejected", true, false, KindUnknown, func(s *sheet) { s.stopped("g", carol, "verify", schemas.ReasonUnknownClass, hour(1)) }},
		{"the class default rejected", true, false, KindUnknown, func(s *sheet) { s.stopped("g", carol, "default", schemas.ReasonUnknownClass, hour(1)) }},
		{"a class let in before it was taken away", true, false, "", waited},
		{"an unknown field rejected", false, true, "", func(s *sheet) {
			s.stopped("g", carol, "verify", schemas.ReasonUnknownField, hour(1))
			misspelt(s)
		}},
		{"an unknown field let in", false, true, KindUnknown, func(s *sheet) {
			s.free("g", carol, "other", hour(1))
			misspelt(s)
		}},
		{"an unknown field let in where it may", false, false, "", func(s *sheet) {
			s.free("g", carol, "other", hour(1))
			misspelt(s)
		}},
		{"an unknown field rejected where it may not", false, false, KindUnknown, func(s *sheet) {
			s.stopped("g", carol, "verify", schemas.ReasonUnknownField, hour(1))
			misspelt(s)
		}},
		{"no unknown field rejected", false, true, KindUnknown, func(s *sheet) { s.stopped("g", carol, "verify", schemas.ReasonUnknownField, hour(1)) }},
		{"an opt-out rejected for a field", false, true, KindUnknown, func(s *sheet) {
			s.stopped("g", carol, "verify", schemas.ReasonUnknownField, hour(1))
			s.requests[len(s.requests)-1].value = `{"action":"suppress","to":"` + carol + `","clas":"x"}`
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			s.policies[0].Classes = append([]schemas.Class(nil), s.policies[0].Classes...)
			s.policies[0].Tenants = append([]schemas.Tenant(nil), s.policies[0].Tenants...)
			if c.closed {
				s.policies[0].Classes = append(s.policies[0].Classes, schemas.Class{Name: schemas.DefaultClass, Unknown: schemas.UnknownReject}, schemas.Class{Name: "pair"})
			}
			s.policies[0].Tenants[0].Strict = c.strict
			c.do(s)
			s.check(t, c.want)
		})
	}
}
