package backtest

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// stepKind says what a recorded event means to a replay.
type stepKind uint8

const (
	stepNothing     stepKind = iota
	stepAsk                  // home's last word: admitted, moved, or refused by a limit
	stepOnward               // home sends a message to the owners of wide limits
	stepOwner                // an owner's answer
	stepGiveBack             // home returns what a message holds
	stepOwed                 // an owner returns what home asks it to
	stepPark                 // home lets a message wait, and not for a limit
	stepEnd                  // home ends a message, and not by a limit
	stepDone                 // a lane has ended it: nothing follows
	stepRecord               // a message that was sent elsewhere
	stepRecordOwner          // its places at an owner
	stepMarker               // a revision comes into force
	stepLeave                // places of another spelling go to the partition of the recipient's key
)

// step is what a replay needs to know of a recorded event.
type step struct {
	kind     stepKind
	again    bool // a further attempt
	own      bool // home's own limits were asked in this decision
	held     bool // the message was let through with places
	kept     bool // a round's end put old places back
	end      bool // nothing follows
	unknown  bool // it ended as one that may have been received
	part     int32
	home     int32
	onward   int32 // of a round: the partition where it goes on; -1 if it does not
	segments int32
	cost     int32
	seq      int64
	t        schemas.Millis
	at       schemas.Millis // of a message sent elsewhere: when, if it took a place; 0 if nobody knows
	returned schemas.Millis // the earliest of the places that were given back; 0 if none
	key      messageKey
	revision int64
	since    map[string]map[string]schemas.Millis // of a marker

	id, to, tenant, channel, class, template, provider string
	source                                             schemas.Source

	subject    *limit.Subject // if it was foreseen
	then       Said
	observed   []string         // limits that only observe and were full, in this decision
	asked      []scopeRef       // wide limits that were asked in this decision
	released   []scopeRef       // places that other partitions are asked to return
	reinstated []scopeRef       // and to put back
	moved      []schemas.Charge // that leave, or came with the message if it is the first that is heard of it
}

// scopeRef is a wide limit's count.
type scopeRef struct{ limit, scope string }

// messageKey is a tenant's id to one recipient, hashed: producers may use one id
// for several recipients. Of a hundred million messages two have the same key
// once in 10^22 times.
type messageKey [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// hashOf is a recipient's hash.
func hashOf(to string) uint64 { return maphash.String(seeds[0], to) }

func keyOf(tenant, to, id string) (k messageKey) {
	var buf [128]byte
	b := append(buf[:0], tenant...)
	b = append(b, 0)
	b = append(b, to...)
	b = append(b, 0)
	b = append(b, id...)
	return messageKey{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

// read turns an event into a step. partitions is N.
func (s *step) read(e *schemas.Event, partitions int32) {
	*s = step{id: e.MessageID, to: e.To, tenant: e.Tenant, t: e.At, onward: -1}
	d := e.Decision
	if d == nil {
		if e.Kind == schemas.KindStatus && (e.Status == schemas.StatusSent || e.Status == schemas.StatusUnknown) {
			s.kind, s.end = stepDone, true
			s.home = schemas.PartitionOf(e.To, partitions)
			s.key = keyOf(e.Tenant, e.To, e.MessageID)
		}
		return
	}
	s.part, s.seq, s.t, s.revision = d.Partition, d.Seq, d.T, d.Revision
	if d.Verdict == schemas.VerdictMarker {
		if s.kind = stepMarker; d.Marker != nil {
			s.since = d.Marker.Since
		}
		return
	}
	if e.To == "" {
		return
	}
	s.home = schemas.PartitionOf(e.To, partitions)
	status := e.Kind == schemas.KindStatus
	described := e.Source != nil // by home; an owner knows a message's round only
	switch d.Verdict {
	case schemas.VerdictAdmit, schemas.VerdictMove:
		s.kind, s.again = stepAsk, d.Verdict == schemas.VerdictMove
		s.then = Said{Observed: e.Observed, Places: d.Charges}
		s.held = len(d.Charges)+len(d.Carried) > 0
		if len(d.Carried) > 0 {
			s.then.Places = append(append([]schemas.Charge(nil), d.Carried...), d.Charges...)
		}
		if e.Observed {
			s.then.Limit, s.then.Window = e.Limit, e.Window
		}
	case schemas.VerdictRefuse:
		s.kind, s.end = stepAsk, true
		if !status {
			s.kind, s.end = stepOwner, false
		}
		s.refused(e)
	case schemas.VerdictDefer:
		if s.kind = stepPark; e.Reason == "limited" {
			s.kind, s.again = stepAsk, e.Attempt > 0
			s.refused(e)
		}
	case schemas.VerdictCharge:
		if s.kind = stepOwner; described {
			s.kind = stepOnward
		}
	case schemas.VerdictGiveBack:
		if s.kind = stepOwed; s.part == s.home {
			s.kind = stepGiveBack
		}
	case schemas.VerdictRecord:
		if s.kind = stepRecordOwner; described {
			s.kind = stepRecord
		}
		for i := range d.Charges {
			s.at = d.Charges[i].T
		}
	case schemas.VerdictExpire, schemas.VerdictSuppress, schemas.VerdictCancel, schemas.VerdictReject, schemas.VerdictDuplicate:
		if status {
			s.kind, s.end, s.unknown = stepEnd, true, e.Status == schemas.StatusUnknown
		}
	case schemas.VerdictForward:
		if len(d.Returned) > 0 {
			s.kind, s.moved = stepLeave, d.Returned
		}
		return
	case schemas.VerdictMarker, schemas.VerdictNothing:
	}
	if s.kind == stepNothing {
		return
	}
	s.key = keyOf(e.Tenant, e.To, e.MessageID)
	s.channel, s.class, s.template, s.provider = e.Channel, e.Class, e.Template, e.Provider
	s.segments, s.cost = int32(e.Segments), int32(e.Cost)
	if e.Source != nil {
		s.source = *e.Source
	}
	if d.Onward != nil {
		s.onward = *d.Onward
	}
	for i := range d.Charges {
		s.ask(d.Charges[i].Limit, d.Charges[i].Scope)
	}
	for i := range d.Passed {
		s.ask(d.Passed[i].Limit, d.Passed[i].Scope)
	}
	for i := range d.Evidence {
		s.ask(d.Evidence[i].Limit, d.Evidence[i].Scope)
		if !s.then.Refused {
			s.observed = append(s.observed, d.Evidence[i].Limit)
		}
	}
	for _, list := range [...][]schemas.Charge{d.Returned, d.Missing, d.Released} {
		for i := range list {
			if s.returned == 0 || list[i].T < s.returned {
				s.returned = list[i].T
			}
		}
	}
	s.moved = d.Restored
	s.kept = len(d.Restored)+len(d.Reinstated) > 0
	s.released, s.reinstated = refs(d.Released), refs(d.Reinstated)
}

// refused says which limit refused, as the message's status does.
func (s *step) refused(e *schemas.Event) {
	s.then.Refused = true
	s.then.Limit, s.then.Window = e.Limit, e.Window
	if ev := e.Decision.Evidence; e.Limit == "" && len(ev) > 0 {
		s.then.Limit, s.then.Window = ev[0].Limit, ev[0].Window
	}
}

// ask notes that a limit was asked in this decision.
func (s *step) ask(name, scope string) {
	if !limit.Wide(scope) {
		s.own = true
		return
	}
	s.asked = append(s.asked, scopeRef{name, scope})
}

func refs(charges []schemas.Charge) (out []scopeRef) {
	for i := range charges {
		out = append(out, scopeRef{charges[i].Limit, charges[i].Scope})
	}
	return out
}

// texts are words that come again and again, each kept once.
type texts map[string]string

func (m texts) one(s string) string {
	if known, ok := m[s]; ok {
		return known
	}
	if len(m) > 10_000 { // not words, after all
		clear(m)
	}
	s = strings.Clone(s)
	m[s] = s
	return s
}

// detach makes a step independent of the record that it was read from, whose text it
// would keep in memory as long as any part of it is. told says that somebody wants
// to know whose step it is.
func (s *step) detach(known texts, told bool) {
	s.to = strings.Clone(s.to)
	for _, word := range [...]*string{&s.tenant, &s.channel, &s.class, &s.template, &s.provider, &s.source.Topic, &s.then.Limit, &s.then.Window} {
		*word = known.one(*word)
	}
	for i := range s.observed {
		s.observed[i] = known.one(s.observed[i])
	}
	for _, list := range [...][]scopeRef{s.asked, s.released, s.reinstated} {
		for i := range list {
			list[i] = scopeRef{known.one(list[i].limit), known.one(list[i].scope)}
		}
	}
	s.moved = slices.Clone(s.moved) // few have any
	for i := range s.moved {
		c := &s.moved[i]
		c.Limit, c.Scope = known.one(c.Limit), strings.Clone(c.Scope)
	}
	if !told {
		s.id, s.then.Places = "", nil
		return
	}
	s.id = strings.Clone(s.id)
	s.then.Places = slices.Clone(s.then.Places)
	for i := range s.then.Places {
		c := &s.then.Places[i]
		c.Limit, c.Scope = known.one(c.Limit), strings.Clone(c.Scope)
	}
}
