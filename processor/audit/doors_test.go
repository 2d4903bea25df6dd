package audit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// away says that a record of an input was turned away.
func (s *sheet) away(to string, t schemas.Millis) *schemas.Event {
	src := &schemas.Source{Topic: "acme.sends", Partition: 11, Offset: int64(len(s.status))}
	return s.say(&schemas.Event{
		Kind: schemas.KindStatus, MessageID: schemas.DerivedID(*src, t-5), Tenant: "acme", Channel: "sms", Class: "default", To: to,
		Status: schemas.StatusRejected, Reason: "forbidden_tenant", AcceptedAt: t - 5, Source: src,
	}, t)
}

// newDoors is a clean log in which two records of an input were turned away.
func newDoors(t *testing.T) *sheet {
	s := newSheet(t)
	s.policies[0].Inputs = []schemas.Input{{Topic: "acme.sends", Tenant: "acme"}}
	s.away(alice, start+7300)
	s.away("", start+7400)
	return s
}

func TestTurnedAway(t *testing.T) {
	if r := newDoors(t).audit(t); r.Outcome != Proven || r.Checked.TurnedAway != 2 {
		t.Fatalf("%+v", r)
	}
	last := func(s *sheet) *schemas.Event { return s.status[len(s.status)-1].event }
	for _, c := range []struct {
		name string
		kind Kind
		do   func(s *sheet)
	}{
		{"twice", KindTwoEnds, func(s *sheet) {
			again := *last(s)
			s.say(&again, start+8000)
		}},
		{"of a topic that is no input", KindPhantom, func(s *sheet) { s.policies[0].Inputs = nil }},
		{"of another tenant's input", KindPhantom, func(s *sheet) { last(s).Tenant = "default" }},
		{"under a chosen id", KindPhantom, func(s *sheet) { last(s).MessageID = id("victim") }},
		{"at another place", KindPhantom, func(s *sheet) { last(s).Source.Offset++ }},
		{"at another time", KindPhantom, func(s *sheet) { last(s).AcceptedAt-- }},
		{"of requests, without a decision", KindPhantom, func(s *sheet) {
			last(s).Source.Topic = "weir.requests"
			last(s).MessageID = schemas.DerivedID(*last(s).Source, last(s).AcceptedAt)
		}},
		{"without a source", KindPhantom, func(s *sheet) { last(s).Source = nil }},
		{"suppressed at the door", KindPhantom, func(s *sheet) { last(s).Status = schemas.StatusSuppressed }},
		{"after an attempt", KindOrder, func(s *sheet) { last(s).Attempt = 1 }},
		{"in another partition", KindPhantom, func(s *sheet) {
			s.status, s.requests, s.readmit, s.dispatch, s.journal = nil, nil, nil, nil, nil
			s.seq, s.partitions = 0, 2
			s.marker(start, sinceAll(start))
			to := alice
			for i := 0; schemas.PartitionOf(to, 2) == 0; i++ {
				to = fmt.Sprintf("+861380000%04d", i)
			}
			s.away(to, start+1000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newDoors(t)
			c.do(s)
			r := s.audit(t)
			if r.Outcome != Violated || !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == c.kind }) {
				t.Fatalf("want %s: %+v", c.kind, r)
			}
		})
	}
}
