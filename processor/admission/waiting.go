package admission

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// waiter is what it takes to end a message while its record is in the delay
// topics, out of reach: all that its last status says beside the tenant,
// recipient and id that a cancel brings.
type waiter struct {
	Version     int              `json:"v"`
	Channel     string           `json:"channel,omitempty"`
	Class       string           `json:"class,omitempty"`
	Template    string           `json:"template,omitempty"`
	Provider    string           `json:"provider,omitempty"`
	Origin      schemas.Source   `json:"origin"`
	AcceptedAt  schemas.Millis   `json:"accepted_at"`
	Attempt     int              `json:"attempt,omitempty"`
	Taint       schemas.Taint    `json:"taint,omitempty"`
	Place       []schemas.Charge `json:"place,omitempty"`
	RedriveOf   string           `json:"redrive_of,omitempty"`
	CallbackURL string           `json:"callback_url,omitempty"`
	Cancelled   bool             `json:"cancelled,omitempty"` // it has ended; its record is still to come back

	check limit.Check // of its record
}

const waiterVersion = 1

// waitKey is the key of a waiting message. The tenant is in it, so that no
// tenant can cancel another's message, and the recipient, because a producer's
// id may name a message to each of several.
func waitKey(tenant, to, id string) stateKey { return stateKey(newSeenKey('w', tenant, to, id)) }

// waiting are the messages of one partition that admission let wait, scheduled
// or deferred, until their records come back. Changes are an overlay until
// commit.
type waiting struct {
	base    waitTable
	overlay map[stateKey]*waiter // nil: it came back
	tally   tally
}

func newWaiting() *waiting {
	return &waiting{base: newWaitTable(), overlay: make(map[stateKey]*waiter)}
}

func (w *waiting) none() bool { return w.base.n == 0 && len(w.overlay) == 0 }

// find returns the message under k. It is the caller's to change, and put.
func (w *waiting) find(k stateKey) (waiter, bool) {
	if m, changed := w.overlay[k]; changed {
		if m == nil {
			return waiter{}, false
		}
		return *m, true
	}
	return w.base.get(k)
}

func (w *waiting) put(k stateKey, m waiter) {
	m.Version = waiterVersion
	w.overlay[k] = &m
}

func (w *waiting) remove(k stateKey) { w.overlay[k] = nil }

func (w *waiting) commit() {
	for k, m := range w.overlay {
		w.base.remove(k)
		if m != nil {
			w.base.add(k, m)
		}
	}
	clear(w.overlay)
	w.tally.commit()
}

func (w *waiting) rollback() {
	clear(w.overlay)
	w.tally.rollback()
}

// dirty calls fn with every record that the open transaction changed; a nil
// value is a tombstone.
func (w *waiting) dirty(fn func(key stateKey, value []byte)) error {
	w.tally.begin()
	for k, m := range w.overlay {
		was := w.base.check(k)
		if m == nil {
			fn(k, nil)
			w.tally.write(k, was, nil)
			continue
		}
		b, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode waiting message: %w", err)
		}
		fn(k, b)
		m.check = w.tally.write(k, was, b)
	}
	return nil
}

// load takes one record of the ledger; an empty value is a tombstone.
func (w *waiting) load(k stateKey, value []byte) error {
	var m waiter
	if len(value) > 0 {
		if err := json.Unmarshal(value, &m); err != nil {
			return fmt.Errorf("waiting message is torn or foreign: %w", err)
		}
		if m.Version != waiterVersion {
			return fmt.Errorf("waiting message has version %d, this weir knows %d: run the version that wrote it", m.Version, waiterVersion)
		}
	}
	m.check = w.tally.load(k, w.base.check(k), value)
	w.base.remove(k)
	if len(value) > 0 {
		w.base.add(k, &m)
	}
	return nil
}

// waitTable keeps millions of waiting messages in 51 to 63 bytes each, out of
// the garbage collector's sight: an open-addressing table with linear probing,
// in many shards so that growing one pauses nobody for long. What many messages
// share is kept once; what few have (places after a refused retry, which cost some
// 200 bytes more) in a map.
type waitTable struct {
	shards   [256]waitShard
	n        int
	profiles []profileUse // by number
	numbers  map[profile]uint32
	free     []uint32
	rest     map[stateKey]waitRest
}

type waitShard struct {
	slots  []waitSlot
	checks []limit.Check // beside slots: those of the messages' records
	n      int
}

// waitSlot is 40 bytes without a pointer.
type waitSlot struct {
	hi, lo   uint64
	offset   int64 // of the request
	accepted int64 // Unix ms
	profile  uint32
	attempt  uint16
	flags    uint8
}

const (
	waitUsed = 1 << iota
	waitCancelled
	waitReceived // taints
	waitUnknown
	waitMore // the rest of it is in waitTable.rest
)

// profile is what many waiting messages have in common.
type profile struct {
	channel, class, template, provider, topic string
	partition                                 int32
}

type profileUse struct {
	profile
	users int
}

type waitRest struct {
	place     []schemas.Charge
	redriveOf string
	callback  string
}

func newWaitTable() waitTable {
	return waitTable{numbers: make(map[profile]uint32), rest: make(map[stateKey]waitRest)}
}

func halves(k stateKey) (hi, lo uint64) {
	return binary.BigEndian.Uint64(k[:]), binary.BigEndian.Uint64(k[8:])
}

// home is where a key belongs in its shard: the bits after the shard's, scaled
// to the size. Keys are hashes.
func (sh *waitShard) home(hi uint64) int {
	at, _ := bits.Mul64(hi<<8, uint64(len(sh.slots)))
	return int(at)
}

// at returns the index of a key, or that of the free slot where it would go, or
// -1 in a shard without slots.
func (sh *waitShard) at(hi, lo uint64) (i int, found bool) {
	if len(sh.slots) == 0 {
		return -1, false
	}
	for i = sh.home(hi); sh.slots[i].flags != 0; {
		if sh.slots[i].hi == hi && sh.slots[i].lo == lo {
			return i, true
		}
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	return i, false
}

func (t *waitTable) get(k stateKey) (waiter, bool) {
	hi, lo := halves(k)
	sh := &t.shards[hi>>56]
	i, ok := sh.at(hi, lo)
	if !ok {
		return waiter{}, false
	}
	s := &sh.slots[i]
	p := &t.profiles[s.profile]
	m := waiter{
		Version: waiterVersion,
		Channel: p.channel, Class: p.class, Template: p.template, Provider: p.provider,
		Origin:     schemas.Source{Topic: p.topic, Partition: p.partition, Offset: s.offset},
		AcceptedAt: schemas.Millis(s.accepted),
		Attempt:    int(s.attempt),
		Cancelled:  s.flags&waitCancelled != 0,
		check:      sh.checks[i],
	}
	switch {
	case s.flags&waitUnknown != 0:
		m.Taint = schemas.TaintUnknown
	case s.flags&waitReceived != 0:
		m.Taint = schemas.TaintReceived
	}
	if s.flags&waitMore != 0 {
		r := t.rest[k]
		m.Place, m.RedriveOf, m.CallbackURL = r.place, r.redriveOf, r.callback
	}
	return m, true
}

// check returns that of the record of k's message, or 0.
func (t *waitTable) check(k stateKey) limit.Check {
	hi, lo := halves(k)
	sh := &t.shards[hi>>56]
	if i, ok := sh.at(hi, lo); ok {
		return sh.checks[i]
	}
	return 0
}

// add puts in a message that is not there.
func (t *waitTable) add(k stateKey, m *waiter) {
	hi, lo := halves(k)
	s := waitSlot{
		hi: hi, lo: lo, flags: waitUsed,
		offset: m.Origin.Offset, accepted: int64(m.AcceptedAt), attempt: uint16(min(m.Attempt, math.MaxUint16)),
		profile: t.number(profile{m.Channel, m.Class, m.Template, m.Provider, m.Origin.Topic, m.Origin.Partition}),
	}
	if m.Cancelled {
		s.flags |= waitCancelled
	}
	switch m.Taint {
	case schemas.TaintUnknown:
		s.flags |= waitUnknown
	case schemas.TaintReceived:
		s.flags |= waitReceived
	case schemas.TaintNone:
	}
	if len(m.Place) > 0 || m.RedriveOf != "" || m.CallbackURL != "" {
		s.flags |= waitMore
		t.rest[k] = waitRest{m.Place, m.RedriveOf, m.CallbackURL}
	}
	sh := &t.shards[hi>>56]
	if (sh.n+1)*8 > len(sh.slots)*7 {
		old, checks := sh.slots, sh.checks
		sh.slots = make([]waitSlot, max(8, len(old)+len(old)/4)) // so that 70 to 87 of a hundred are used
		sh.checks = make([]limit.Check, len(sh.slots))
		for j := range old {
			if old[j].flags != 0 {
				i, _ := sh.at(old[j].hi, old[j].lo)
				sh.slots[i], sh.checks[i] = old[j], checks[j]
			}
		}
	}
	i, _ := sh.at(hi, lo)
	sh.slots[i], sh.checks[i] = s, m.check
	sh.n++
	t.n++
}

// remove takes k's message out, if it is there, and closes the gap, so that
// probing needs no tombstones.
func (t *waitTable) remove(k stateKey) {
	hi, lo := halves(k)
	sh := &t.shards[hi>>56]
	hole, ok := sh.at(hi, lo)
	if !ok {
		return
	}
	t.release(sh.slots[hole].profile)
	if sh.slots[hole].flags&waitMore != 0 {
		delete(t.rest, k)
	}
	size := len(sh.slots)
	for i := (hole + 1) % size; sh.slots[i].flags != 0; i = (i + 1) % size {
		// A slot may move back into the hole if its home is not beyond it.
		if (i-sh.home(sh.slots[i].hi)+size)%size >= (i-hole+size)%size {
			sh.slots[hole], sh.checks[hole] = sh.slots[i], sh.checks[i]
			hole = i
		}
	}
	sh.slots[hole] = waitSlot{}
	sh.n--
	t.n--
}

// number returns a profile's number for one user more.
func (t *waitTable) number(p profile) uint32 {
	n, ok := t.numbers[p]
	if !ok {
		if last := len(t.free) - 1; last >= 0 {
			n, t.free = t.free[last], t.free[:last]
			t.profiles[n] = profileUse{profile: p}
		} else {
			n = uint32(len(t.profiles))
			t.profiles = append(t.profiles, profileUse{profile: p})
		}
		t.numbers[p] = n
	}
	t.profiles[n].users++
	return n
}

// release gives back a profile's number: a class may be any text, so profiles
// that nobody waits with must not pile up.
func (t *waitTable) release(n uint32) {
	u := &t.profiles[n]
	if u.users--; u.users == 0 {
		delete(t.numbers, u.profile)
		*u = profileUse{}
		t.free = append(t.free, n)
	}
}
