package audit

import (
	"fmt"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// message is what the log says so far of one message.
type message struct {
	expires schemas.Millis // 0 is not known
	first   schemas.Millis // the time of its first status
	last    schemas.Millis // and of its last
	offset  int64          // where its last status stands
	by      schemas.Millis // when it may be called at the latest; 0 is not known
	held    int32          // what it was charged, as calls has it
	status  uint8          // index into schemas.Statuses, but receipts
	flags   uint8
	stale   uint8  // how many times in a row it was decided again because its decision was old
	given   uint16 // the providers that it was given to: bits of partition.bitOf
}

// messageKey is the identity of a message: an id is its tenant's, and names one
// message to one recipient. A lane's and a receipt's events name the tenant as
// admission's do; where one says none, it is the default.
func messageKey(tenant, to, id string) sum {
	return nameKey(kindWaiting, tenant, to, id)
}

const (
	flagUnknown  = 1 << iota // an attempt's outcome is unknown: only sent or unknown may end it
	flagBefore               // it began before the log that was read
	flagReceived             // a receipt came
	flagRound                // it is on its way round the owners of wide limits
	flagTaint                // an attempt may have been received
	flagUnsaid               // of an attempt it is not said whether it may have been: an earlier version made it
	flagHolds                // its last admission took places
	flagOwed                 // it ended, and its places are to be returned
)

func (m *message) state() schemas.Status { return schemas.Statuses[m.status] }

func indexOf(s schemas.Status) uint8 { return uint8(max(slices.Index(schemas.Statuses, s), 0)) }

// remembered is how long an ended message is known, so that a second end is
// seen; unique is how long a client's id means one message.
const (
	remembered = schemas.Millis(25 * 3_600_000)
	unique     = schemas.Millis(24 * 3_600_000)
)

// mayFollow reports whether a message may go from one state to another, as
// ARCHITECTURE.md draws it; receipts are not asked about here. The empty state
// is that of a message that has none.
func mayFollow(from, to schemas.Status) bool {
	switch from {
	case "", schemas.StatusAccepted: // on its way round the owners, and nothing said yet
		switch to {
		case schemas.StatusSending, schemas.StatusRetrying, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusAccepted:
			return false
		default:
			return true
		}
	case schemas.StatusScheduled, schemas.StatusDeferred:
		switch to {
		case schemas.StatusScheduled:
			return from == schemas.StatusScheduled
		case schemas.StatusUnknown:
			return from == schemas.StatusDeferred
		case schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSent, schemas.StatusLimited, schemas.StatusSuppressed,
			schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected:
			return true
		default:
			return false
		}
	case schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying:
		switch to {
		case schemas.StatusSending:
			return from != schemas.StatusRetrying // again: its permit expired unused
		case schemas.StatusRetrying:
			return from == schemas.StatusSending
		case schemas.StatusFailed:
			return from != schemas.StatusRetrying
		case schemas.StatusQueued, schemas.StatusDeferred, schemas.StatusSent, schemas.StatusUnknown, schemas.StatusSuppressed,
			schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected:
			return true // sent by whom, sentByWhom judges
		default:
			return false
		}
	default:
		return false // ends
	}
}

// status judges the next step of a message.
func (p *partition) status() {
	e := p.e
	m, there := p.messages[p.key]
	receipt := e.Status == schemas.StatusDelivered || e.Status == schemas.StatusUndelivered
	before := p.cut && !there && (e.AcceptedAt == 0 || !p.started || e.AcceptedAt < p.begin+60_000)
	switch {
	case !there && e.Decision == nil && !receipt && mayFollow("", e.Status) && (!before || e.Status == schemas.StatusRejected && p.foreign()):
		p.counts.Messages += p.one()
		p.turnedAway()
	case receipt:
		p.counts.Receipts += p.one()
		p.amended(m, there)
		return
	case !there && before && (!mayFollow("", e.Status) || e.Status == schemas.StatusSent && e.Decision == nil):
		p.cannotTell("messages that began before the log")
		m.flags |= flagBefore
		p.counts.Messages += p.one()
	case !there:
		p.counts.Messages += p.one()
		if !mayFollow("", e.Status) {
			p.fault(KindOrder, "%s of a message that is not open", e.Status)
		}
	case m.state().End() && e.At-m.first >= unique && mayFollow("", e.Status):
		// Its id may be used again.
		p.kept(p.key, &m)
		p.calls.release(m.held)
		m, there = message{given: m.given}, false
		p.counts.Messages += p.one()
	case m.state().End():
		p.fault(KindTwoEnds, "%s after it ended as %s at %s", e.Status, m.state(), m.last)
		return
	case !mayFollow(m.state(), e.Status):
		p.fault(KindOrder, "%s after %s", e.Status, m.state())
	}
	if m.flags&flagBefore == 0 {
		p.sentByWhom(m.state())
	}
	if !there {
		m.first = e.At
	}
	if p.charged != 0 {
		p.calls.release(m.held)
		m.held = p.charged
	}
	if d := e.Decision; d != nil && (d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictMove) {
		if m.by = p.callBy(p.charged, d.T); p.why == schemas.ReadmitStale {
			m.stale = min(m.stale+1, staleTwice)
		} else {
			m.stale = 0
		}
	}
	if e.Status == schemas.StatusSending {
		p.called(&m)
		unused := schemas.Millis(0)
		if m.state() == schemas.StatusSending {
			unused = m.last
		}
		p.calls.sent(m.held, e, p.key[0], unused, p.judged)
	}
	if given(e.Status) && e.Provider != "" {
		m.given |= p.bitOf(e.Provider)
	}
	m.status, m.last, m.offset = indexOf(e.Status), e.At, p.rec.Offset
	if m.expires == 0 {
		m.expires = p.expires
	}
	switch e.Status {
	case schemas.StatusSending:
		if p.gone[e.Provider] {
			p.cannotTell("sendings of providers whose journals are gone")
		} else if p.judged {
			p.permitted.put(permitItem(e.MessageID, e.Provider, e.Attempt, e.At, recordNamed(p.rec)), 1, e.At)
		}
	case schemas.StatusRetrying:
		if e.Reason == "unknown" {
			m.flags |= flagUnknown
		}
	default: // says nothing of permits
	}
	p.outcome(&m)
	m.holds(e.Decision)
	if e.Status.End() {
		p.calls.release(m.held)
		m.held = 0
		p.ends[e.Status] += p.one()
		p.counts.Ended += p.one()
		if m.flags&flagUnknown != 0 && e.Status != schemas.StatusSent && e.Status != schemas.StatusUnknown {
			p.fault(KindOrder, "ended as %s, though the outcome of an attempt is unknown", e.Status)
		}
		p.owes(&m)
		// One that came after its expiry has the slack from then on.
		if m.expires != 0 && e.At > max(m.expires, e.AcceptedAt).Add(p.slack) {
			p.fault(KindLate, "ended as %s at %s: it expired at %s", e.Status, e.At, m.expires)
		}
	}
	p.messages[p.key] = m
}

// given reports whether a status says that its provider was given the message: Weir
// called it, or it calls itself.
func given(s schemas.Status) bool {
	switch s {
	case schemas.StatusSending, schemas.StatusRetrying, schemas.StatusSent, schemas.StatusFailed, schemas.StatusUnknown:
		return true
	default:
		return false
	}
}

// bitOf is a provider's bit in message.given. All but the first fifteen share one.
func (p *partition) bitOf(provider string) uint16 {
	i := slices.Index(p.providers, provider)
	if i < 0 && len(p.providers) < 15 {
		i = len(p.providers)
		p.providers = append(p.providers, provider)
	}
	if i < 0 {
		i = 15
	}
	return 1 << i
}

// amended judges an amendment: it has the form of one, stands where its recipient
// does, and is of a message of that tenant and recipient that was given to that
// provider before. What the provider says is the provider's: a receipt of a message
// that failed is told.
func (p *partition) amended(m message, there bool) {
	switch {
	case p.e.Reason != "receipt" || p.e.Decision != nil:
		p.fault(KindOrder, "%s, and no receipt says so", p.e.Status)
	case schemas.PartitionOf(p.e.To, p.partitions) != p.num:
		p.fault(KindOrder, "a receipt in another partition than its recipient's")
	case !there && !p.cut && !p.forgot.lost && !p.forgot.has(p.key):
		p.fault(KindReceipt, "%s by a receipt of %s, and this tenant has no such message to this recipient", p.e.Status, p.e.Provider)
	case !there:
		p.found.tell("receipts for messages that the log does not have, or no longer: sent before it begins, or ended more than a day before", p.one())
	case m.flags&flagBefore == 0 && m.given&p.bitOf(p.e.Provider) == 0 && !p.forgot.has(p.key):
		p.fault(KindReceipt, "%s by a receipt of %s, which was not given the message", p.e.Status, p.e.Provider)
	case !p.judged:
	case m.state().End() && m.state() != schemas.StatusSent && m.state() != schemas.StatusUnknown:
		p.found.tell(fmt.Sprintf("receipts for messages that ended as %s", m.state()), 1)
	}
}
