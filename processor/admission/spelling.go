package admission

import (
	"bytes"
	"encoding/hex"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Keys of mail addresses ignore letter case. A ledger that was written before they
// did has state under other spellings: Ann@example.com had its own partition. Nothing
// there can be listed by recipient but opt-outs, since the keys of all other state
// are hashes. So it is found again in two ways:
//
//   - Opt-outs are moved. Each partition sends those that it has under another
//     spelling to the owner of the key, once, when it first runs this version.
//   - Everything else is looked up by the spelling of the request. For lookBack,
//     a request in another spelling goes first to the partition that owned that
//     spelling. What it knows there (a repeated id or idempotency key, a message that
//     waits, a decision without sending) it decides as before, under the old key. Else
//     it sends the request on to the owner of the key, with the places that stand
//     under the old key: they are taken out here and put in there.
//
// A message that was accepted under an old key keeps it until its end, with its
// partition, its places and the opt-outs of that spelling.
//
// In a rolling upgrade, a partition whose worker is old treats a request that comes
// in another spelling as its own, as it always did. What goes on to the owner of a
// key is an ordinary forward, which an old worker decides too; it does not put the
// places in.

// lookBack is for how long requests in another spelling are looked up: as long as
// the longest window, and as a message may be scheduled ahead, and some days more,
// since partitions do not begin at the same moment.
const lookBack = 35 * 24 * time.Hour

// mostMoved bounds the places that go with one request.
const mostMoved = 256

// spellings is how far a partition is with the state from before.
type spellings struct {
	Folds bool           `json:"folds,omitempty"` // this version wrote the ledger last
	Since schemas.Millis `json:"since,omitempty"` // when it began; 0 in a ledger that has no state from before
	Moved string         `json:"moved,omitempty"` // the last opt-out that was moved; movedAll
}

// movedAll sorts behind every key.
const movedAll = "z"

// looksBack reports whether a request in another spelling goes by way of the
// partition that owned that spelling.
func (p *partition) looksBack() bool {
	s := &p.cur.meta.Spellings
	return s.Since > 0 && p.cur.meta.T < s.Since.Add(lookBack)
}

// spelledAs returns the key of what a record of readmit has as its key, which an
// older version, or a partition on behalf of one, may have left as it was spelled.
func spelledAs(channel schemas.Channel, key string) string {
	if channel == schemas.ChannelEmail || channel == "" {
		return recipient.Fold(key)
	}
	return key
}

// readdress sends a request that another spelling brought here on to the owner of
// its key. It returns false if the request is decided here, under the old key.
func (p *partition) readdress(m *message, valid bool) (outcome, bool) {
	old, key := m.to.Spelled, m.to.Key
	if valid && p.knows(m, old) {
		return outcome{}, false
	}
	var left []schemas.Charge
	if valid {
		left = p.leave(m, old)
	}
	optOuts := p.optOutsOf(old) // ahead of the request
	m.env.Key = key
	f := p.forward(m, schemas.PartitionOf(key, p.env.partitions))
	d := f.event.Decision
	d.Returned = left
	for _, c := range left {
		c.Scope = limit.Rescope(c.Scope, old, key)
		d.Reinstated = append(d.Reinstated, c)
	}
	f.send[0].env.Restore = d.Reinstated
	f.send = append(optOuts, f.send...)
	return f, true
}

// knows reports whether a request is about something that stands under an old key.
func (p *partition) knows(m *message, old string) bool {
	q, t := &m.req, p.cur.meta.T
	switch q.Action {
	case schemas.ActionSend, schemas.ActionRecord:
		if q.IdempotencyKey != "" {
			if _, known := p.seen.find(newSeenKey('k', q.Tenant, old, q.IdempotencyKey), t); known {
				return true
			}
		}
		if q.ID == "" {
			return false
		}
		_, known := p.seen.find(newSeenKey('i', q.Tenant, old, q.ID), t)
		_, waits := p.waiting.find(waitKey(q.Tenant, old, q.ID))
		_, cancelled := p.cancels.find(cancelKey(q.Tenant, old, q.ID), t)
		return known || waits || cancelled
	case schemas.ActionCancel:
		_, waits := p.waiting.find(waitKey(q.Tenant, old, q.ID))
		return waits
	case schemas.ActionRelease:
		h, held := p.held.find(heldKey(q.Tenant, old, q.ID))
		return held && h.Until > t
	case schemas.ActionSuppress, schemas.ActionUnsuppress:
	}
	return false
}

// leave does what a request means for messages that are on their way under an old
// key, and takes out the places that go with a message to its key.
func (p *partition) leave(m *message, old string) []schemas.Charge {
	q, t := &m.req, p.cur.meta.T
	switch q.Action {
	case schemas.ActionSend, schemas.ActionRecord:
		moved, _ := p.table.Unwind(p.cur.rules, p.standingAs(m, old), t)
		return moved
	case schemas.ActionSuppress:
		if n := termsOf(q); !n.over(t) {
			_, _ = p.suppressed.add(old, scopeOf(q), n, t) // where there are too many, the owner of the key refuses it
		}
	case schemas.ActionUnsuppress:
		p.suppressed.remove(old, scopeOf(q), t)
	case schemas.ActionCancel: // of one that a lane may have, or that did not come yet
		if id, err := uuid.Parse(q.ID); err == nil {
			p.cancels.remember(seenRecord{key: cancelKey(q.Tenant, old, q.ID), entry: seenEntry{id: id}, t: t})
		}
	case schemas.ActionRelease:
	}
	return nil
}

// standingAs returns the places that limits have under an old key, in the scopes that
// a message would have there. By which provider it goes is not known yet.
func (p *partition) standingAs(m *message, old string) (all []schemas.Charge) {
	segments := m.event.Segments
	_ = m.render(p.cur.pol) // for limits by content; without one it is counted by none
	m.event.Segments = segments
	s := m.subject()
	s.Recipient = old
	providers := []string{s.Provider}
	if s.Provider == "" {
		for i := range p.cur.pol.Providers {
			if v := &p.cur.pol.Providers[i]; slices.Contains(v.Channels, m.req.Channel) {
				providers = append(providers, v.Name)
			}
		}
	}
	seen := make(map[[2]string]bool) // limits and scopes: most do not ask for the provider
	for _, s.Provider = range providers {
		for _, c := range p.table.Standing(p.cur.rules, s, mostMoved, p.cur.meta.T) {
			if of := [2]string{c.Limit, c.Scope}; !seen[of] && len(all) < mostMoved {
				all = append(all, c)
			}
		}
		for _, c := range all {
			seen[[2]string{c.Limit, c.Scope}] = true
		}
	}
	return all
}

// moves reports whether opt-outs are still to be moved.
func (p *partition) moves() bool {
	s := &p.cur.meta.Spellings
	return !s.Folds || s.Since > 0 && s.Moved != movedAll
}

// moveOptOuts sends opt-outs of other spellings to the owners of their keys, so many
// recipients at most, and notes how far it is.
func (p *partition) moveOptOuts(most int) (out []send) {
	s := &p.cur.meta.Spellings
	if !s.Folds {
		*s = spellings{Folds: true, Since: p.cur.meta.T}
		p.spelled = nil
	}
	if p.spelled == nil {
		p.spelled = p.suppressed.spelled()
	}
	at, _ := hex.DecodeString(s.Moved)
	i, _ := slices.BinarySearchFunc(p.spelled, at, func(k stateKey, at []byte) int { return bytes.Compare(k[:], at) })
	if i < len(p.spelled) && bytes.Equal(p.spelled[i][:], at) {
		i++
	}
	for ; i < len(p.spelled) && most > 0; i, most = i+1, most-1 {
		k := p.spelled[i]
		out = append(out, p.optOut(p.suppressed.find(k))...)
		s.Moved = hex.EncodeToString(k[:])
	}
	if i == len(p.spelled) {
		s.Moved, p.spelled = movedAll, nil
	}
	return out
}

// optOutsOf are those of one spelling, if they are still to be moved.
func (p *partition) optOutsOf(old string) []send {
	k := suppressionKey(old)
	if !p.moves() || hex.EncodeToString(k[:]) <= p.cur.meta.Spellings.Moved {
		return nil
	}
	return p.optOut(p.suppressed.find(k))
}

// optOut asks the owner of a recipient's key to suppress it as it is suppressed here
// under another spelling.
func (p *partition) optOut(r suppressed) (out []send) {
	key := recipient.Fold(r.To)
	for _, c := range r.Scopes {
		if c.over(p.cur.meta.T) || key == r.To || c.Channel != "" && c.Channel != string(schemas.ChannelEmail) {
			continue
		}
		q := schemas.Request{Action: schemas.ActionSuppress, To: key, Tenant: c.Tenant, Channel: schemas.Channel(c.Channel), Class: c.Class, ExpiresAt: c.Until}
		for name, v := range map[string]string{schemas.MetaReason: c.Reason, schemas.MetaProvider: c.Provider} {
			if v != "" {
				if q.Metadata == nil {
					q.Metadata = make(map[string]string, 2)
				}
				q.Metadata[name] = v
			}
		}
		out = append(out, send{
			topic: p.env.names.Readmit(), partition: schemas.PartitionOf(key, p.env.partitions), bare: true, value: schemas.RequestJSON(&q),
			env: schemas.Envelope{
				ID: schemas.KeyedID(c.At, c.Tenant, key, r.To+"\x00"+c.Channel+"\x00"+c.Class), Key: key, Tenant: c.Tenant, Reason: schemas.ReadmitForward,
				Origin: schemas.Source{Topic: p.env.names.Ledger(), Partition: p.num}, AcceptedAt: c.At, DecidedAt: p.cur.meta.T,
			},
		})
	}
	return out
}

// moved reports whether a request to suppress is an opt-out of another spelling that
// its partition moved here. What is in effect here already and lasts as long stays.
func (p *partition) moved(m *message) bool {
	return m.readmit && m.env.Origin.Topic == p.env.names.Ledger()
}

// spelled are the keys of recipients that have opt-outs in another spelling than their
// key, in order.
func (s *suppressions) spelled() []stateKey {
	keys := []stateKey{}
	for k, r := range s.base {
		if recipient.Fold(r.To) != r.To {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b stateKey) int { return bytes.Compare(a[:], b[:]) })
	return keys
}

// outlasts reports whether what is suppressed in a scope lasts as long as n.
func (s *suppressions) outlasts(to string, sc scope, n terms, t schemas.Millis) bool {
	return slices.ContainsFunc(s.of(to), func(c suppression) bool {
		return c.scope == sc && !c.over(t) && (c.Until == 0 || n.Until != 0 && c.Until >= n.Until)
	})
}
