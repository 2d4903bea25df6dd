package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// What a decision on a release says beside its verdict.
const (
	reasonReleased = "released"
	reasonNotHeld  = "not_held" // no decision without sending, or no window sees its places any more
)

// hold remembers what a decision without sending holds: nobody else does, since
// it goes nowhere. What an earlier attempt may have brought to the recipient is
// held for good.
func (p *partition) hold(m *message, place []schemas.Charge) {
	if m.env.Taint != schemas.TaintNone {
		return
	}
	until := schemas.Millis(0)
	for _, c := range place {
		until = max(until, p.cur.rules.Until(c))
	}
	if until > p.cur.meta.T {
		p.held.put(heldKey(m.req.Tenant, m.to.Key, m.env.ID), holding{Until: until, Place: slices.Clone(place)})
	}
}

// release gives back what a decision without sending holds, once; what of it
// stands in other partitions, their owners give back.
func (p *partition) release(m *message) outcome {
	m.event.MessageID, m.event.Channel, m.event.Class = m.req.ID, "", "" // the release's own say nothing of it
	k := heldKey(m.req.Tenant, m.to.Key, m.req.ID)
	h, ok := p.held.find(k)
	switch {
	case !ok || h.Until <= p.cur.meta.T:
		return p.note(m, schemas.VerdictNothing, reasonNotHeld)
	case len(h.Place) == 0:
		return p.note(m, schemas.VerdictNothing, reasonRepeated)
	}
	p.held.put(k, holding{Until: h.Until})
	o := p.note(m, schemas.VerdictGiveBack, reasonReleased)
	p.letGo(&o, &schemas.Envelope{ID: m.req.ID, Key: m.to.Key, Tenant: m.req.Tenant, Origin: m.env.Origin}, h.Place, nil, false)
	return o
}

// holding is what a decision without sending took, as it stands in the ledger.
type holding struct {
	Version int              `json:"v"`
	Until   schemas.Millis   `json:"until"`           // no window sees its places from then on
	Place   []schemas.Charge `json:"place,omitempty"` // none: it was released

	check limit.Check // of its record
}

const heldVersion = 1

// heldKey is the key of a decision without sending. Its tenant is in it, so that
// no other can release it.
func heldKey(tenant, to, id string) stateKey { return stateKey(newSeenKey('h', tenant, to, id)) }

// holds are the decisions without sending of one partition whose places some
// window may still see, in some 210 bytes each and 100 more for each limit beyond
// the first. Changes are an overlay until commit.
type holds struct {
	base    map[stateKey]holding
	overlay map[stateKey]*holding // nil: no window sees it any more
	ends    map[int64][]stateKey  // by the hour of their Until; some in vain. nil: to be made of base
	first   int64                 // no hour before has any
	taken   []stateKey            // out of ends, by the open transaction
	tally   tally
}

const heldBucket = 60 * 60 * 1000 // ms

func newHolds() *holds {
	return &holds{base: make(map[stateKey]holding), overlay: make(map[stateKey]*holding)}
}

func (h *holds) find(k stateKey) (holding, bool) {
	if e, changed := h.overlay[k]; changed {
		if e == nil {
			return holding{}, false
		}
		return *e, true
	}
	e, ok := h.base[k]
	return e, ok
}

func (h *holds) put(k stateKey, e holding) {
	e.Version = heldVersion
	h.overlay[k] = &e
}

// sweep lets go of decisions that ended in an hour that is over at t. It looks
// at so many at most; what is left, the next call goes on with.
func (h *holds) sweep(t schemas.Millis, most int) {
	if h.ends == nil {
		h.ends = make(map[int64][]stateKey)
		for k, e := range h.base {
			h.ending(k, e.Until)
		}
	}
	for most > 0 && len(h.ends) > 0 && h.first < int64(t)/heldBucket {
		keys := h.ends[h.first]
		n := max(len(keys)-most, 0)
		for _, k := range keys[n:] {
			if e, ok := h.find(k); ok && e.Until <= t {
				h.overlay[k] = nil
			}
		}
		h.taken, most = append(h.taken, keys[n:]...), most-len(keys[n:])
		if h.ends[h.first] = keys[:n]; n == 0 {
			delete(h.ends, h.first)
			h.first++
		}
	}
}

func (h *holds) ending(k stateKey, until schemas.Millis) {
	hour := int64(until) / heldBucket
	if len(h.ends) == 0 || hour < h.first {
		h.first = hour
	}
	h.ends[hour] = append(h.ends[hour], k)
}

func (h *holds) commit() {
	for k, e := range h.overlay {
		if e == nil {
			delete(h.base, k)
			continue
		}
		if old, ok := h.base[k]; h.ends != nil && (!ok || old.Until != e.Until) {
			h.ending(k, e.Until)
		}
		h.base[k] = *e
	}
	clear(h.overlay)
	h.tally.commit()
	h.taken = h.taken[:0]
}

func (h *holds) rollback() {
	clear(h.overlay)
	h.tally.rollback()
	for _, k := range h.taken {
		if e, ok := h.base[k]; ok {
			h.ending(k, e.Until)
		}
	}
	h.taken = h.taken[:0]
}

// dirty calls fn with every record that the open transaction changed; a nil
// value is a tombstone.
func (h *holds) dirty(fn func(key stateKey, value []byte)) error {
	h.tally.begin()
	for k, e := range h.overlay {
		was := h.base[k].check
		if e == nil {
			fn(k, nil)
			h.tally.write(k, was, nil)
			continue
		}
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode a decision without sending: %w", err)
		}
		fn(k, b)
		e.check = h.tally.write(k, was, b)
	}
	return nil
}

// load takes one record of the ledger; an empty value is a tombstone. Who only
// follows the ledger never sweeps, so it keeps no account of ends.
func (h *holds) load(k stateKey, value []byte) error {
	h.ends = nil
	if len(value) == 0 {
		h.tally.load(k, h.base[k].check, nil)
		delete(h.base, k)
		return nil
	}
	var e holding
	if err := json.Unmarshal(value, &e); err != nil {
		return fmt.Errorf("decision without sending is torn or foreign: %w", err)
	}
	if e.Version != heldVersion {
		return fmt.Errorf("decision without sending has version %d, this weir knows %d: run the version that wrote it", e.Version, heldVersion)
	}
	e.check = h.tally.load(k, h.base[k].check, value)
	h.base[k] = e
	return nil
}
