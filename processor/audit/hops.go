package audit

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// What partitions send each other for wide limits stands twice: as the decision
// that sends it, and as the record of readmit that arrives, in one transaction.
// Every hop is joined with all that it carries, as the sender's decision and the
// record that the sender answered give it. So what an owner took comes home
// unchanged, step by step, and home is held to what came: no place is lost or
// doubled on the way, and no refusal altered, however long the way takes.

// say and tell add to what is hashed.
func say(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = append(append(b, p...), 0)
	}
	return b
}

func tell(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// chargesHash is the same for the same places in any order.
func chargesHash(cs []schemas.Charge) (h uint64) {
	var room [256]byte
	for i := range cs {
		c := &cs[i]
		h += maphash.Bytes(seeds[0], tell(say(room[:0], c.Limit, c.Scope), int64(c.T), c.Cost))
	}
	return h
}

func evidenceHash(all []schemas.Evidence) (h uint64) {
	var room [256]byte
	for i := range all {
		v := &all[i]
		h += maphash.Bytes(seeds[0], tell(say(room[:0], v.Limit, v.Scope, v.Window), v.N, v.Count, v.Cost, int64(v.Oldest), int64(v.Start), int64(v.Since)))
	}
	return h
}

// hop is a message on its way from one partition to another.
type hop struct {
	id, to   string
	t        schemas.Millis // of the decision that sent it
	accepted schemas.Millis
	target   int32
	home     bool // back home, not to an owner
	attempt  int
	taint    schemas.Taint
	place    []schemas.Charge // of earlier attempts
	round    schemas.Round
}

// item is the hop as it is compared. Of a refusal it does not matter what was
// still to be asked, nor of any what comes after home's turn; of a message sent
// elsewhere, nothing but that. When a deferred message is to come back is the
// owner's to choose.
func (b *bounds) item(h *hop) item {
	r := &h.round
	why := r.For
	if why == schemas.ReadmitForward { // it is the first decision
		why = ""
	}
	var room [256]byte
	x := say(room[:0], h.to, string(h.taint), why)
	x = tell(x, int64(h.target), int64(h.attempt), r.Revision, r.HomeRevision, int64(r.RetryAt))
	if r.Home {
		x = say(x, "asked at home")
	}
	recorded := len(r.Ask) > 0 && r.Ask[0].T != 0
	for i := range r.Ask {
		a := &r.Ask[i]
		if r.Refused || !recorded && b.standsAt(a.Scope, "") == schemas.PartitionOf(h.to, b.partitions) {
			break
		}
		x = tell(say(x, a.Limit, a.Scope), a.Cost, int64(a.T))
	}
	if h.home {
		x = say(x, "home")
	}
	if r.Refused {
		x = say(x, "refused")
	}
	sum := maphash.Bytes(seeds[0], x)
	if !recorded {
		sum += 3*chargesHash(h.place) + 5*chargesHash(r.Taken) + 7*chargesHash(r.Moved) + 11*evidenceHash(r.Evidence)
		for i := range r.Passed {
			if r.Refused {
				break
			}
			sum += 13 * maphash.Bytes(seeds[0], say(x[:0], r.Passed[i].Limit, r.Passed[i].Scope))
		}
	}
	return item{id: idOf(h.id), t: h.t, rest: sum}
}

// sends counts a hop of the decision in hand, with the round that it must carry.
func (p *partition) sends(env *schemas.Envelope, target int32, round *schemas.Round) {
	h := hop{id: p.e.MessageID, to: p.to, t: p.e.Decision.T, accepted: p.e.AcceptedAt, target: target, home: target == p.home(), attempt: p.e.Attempt, round: *round}
	if env != nil {
		h.taint, h.place = env.Taint, env.Place
	}
	if p.away { // an owner says nothing of the message but whose it is
		h.accepted, h.attempt = env.AcceptedAt, env.Attempt
	}
	if p.e.Decision.Verdict == schemas.VerdictRecord {
		h.taint, h.place, h.attempt = "", nil, 0
	}
	if p.judged || h.accepted >= p.hops.from {
		p.hops.putOf(p.item(&h), h.accepted, 1, h.t)
	}
}

// home is the partition of the recipient of the message in hand.
func (p *partition) home() int32 { return schemas.PartitionOf(p.to, p.partitions) }

// askedBack is a place that its owner is asked to return, or an old one that it
// is asked to put back.
func askedBack(id, to string, target int32, restore bool, c *schemas.Charge) item {
	var room [256]byte
	x := tell(say(room[:0], to, c.Limit, c.Scope), int64(target), c.Cost)
	if restore {
		x = say(x, "restore")
	}
	return item{id: idOf(id), t: c.T, rest: maphash.Bytes(seeds[0], x)}
}

// asksBack counts what the decision in hand asks of owners.
func (p *partition) asksBack() {
	d := p.e.Decision
	p.counts.Released += int64(len(d.Released)) * p.one()
	p.counts.Reinstated += int64(len(d.Reinstated)) * p.one()
	for restore, cs := range map[bool][]schemas.Charge{false: d.Released, true: d.Reinstated} {
		for i := range cs {
			c := &cs[i]
			owner := p.standsAt(c.Scope, p.to)
			if owner == p.num {
				p.fault(KindOwner, "it asks others for the place in %s, which stands here", c.Limit)
			}
			if p.judged || c.T >= p.released.from {
				p.released.put(askedBack(p.e.MessageID, p.to, owner, restore, c), 1, d.T)
			}
		}
	}
}

// came counts a record of readmit that one partition wrote for another.
//
// One that belongs to another partition arrives nowhere: admission puts it aside.
// If a partition sent it so, that is what is missing.
func (p *partition) came(r *kgo.Record, env *schemas.Envelope) {
	if p.astray(env) {
		return
	}
	at := schemas.MillisOf(r.Timestamp)
	switch env.Reason {
	case schemas.ReadmitForward:
		if p.movedOptOut(env) {
			return // no request's, but what the partition of another spelling had
		}
		for i := range env.Restore {
			p.released.put(askedBack(env.ID, env.Key, p.num, true, &env.Restore[i]), -1, at)
		}
		p.forwarded.put(item{id: idOf(env.ID), t: env.AcceptedAt, rest: sumOf(env.Key)[0]}, -1, at)
	case schemas.ReadmitCharge, schemas.ReadmitCharged:
		if env.Round == nil {
			return // what is decided on it says so
		}
		h := hop{
			id: env.ID, to: env.Key, t: env.DecidedAt, accepted: env.AcceptedAt, target: p.num, home: env.Reason == schemas.ReadmitCharged,
			attempt: env.Attempt, taint: env.Taint, place: env.Place, round: *env.Round,
		}
		p.hops.putOf(p.item(&h), h.accepted, -1, at)
	case schemas.ReadmitUnwind, schemas.ReadmitGiveBack:
		if env.Reason == schemas.ReadmitGiveBack && schemas.PartitionOf(env.Key, p.partitions) == p.num {
			return // a lane's
		}
		for i := range env.Place {
			p.released.put(askedBack(env.ID, env.Key, p.num, false, &env.Place[i]), -1, at)
		}
		for i := range env.Restore {
			p.released.put(askedBack(env.ID, env.Key, p.num, true, &env.Restore[i]), -1, at)
		}
	}
}

// astray reports whether a record of readmit is in a partition that does not own
// what it is about.
func (p *partition) astray(env *schemas.Envelope) bool {
	home := schemas.PartitionOf(env.Key, p.partitions) == p.num
	switch env.Reason {
	case schemas.ReadmitForward, schemas.ReadmitDue, schemas.ReadmitRetry, schemas.ReadmitStale, schemas.ReadmitReroute, schemas.ReadmitCharged:
		return !home
	case schemas.ReadmitCharge:
		return env.Round != nil && len(env.Round.Ask) > 0 && schemas.PartitionOf(env.Round.Ask[0].Scope, p.partitions) != p.num
	case schemas.ReadmitGiveBack, schemas.ReadmitUnwind:
		return !home && slices.ContainsFunc(slices.Concat(env.Place, env.Restore), func(c schemas.Charge) bool {
			return p.standsAt(c.Scope, env.Key) != p.num
		})
	default:
		return false
	}
}
