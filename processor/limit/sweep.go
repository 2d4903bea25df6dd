package limit

import (
	"runtime"

	"github.com/weirhq/weir/schemas"
)

// sweepEach is how many slots are looked at for each that the transaction
// changed. Where every recipient is a new one, of n standing places a table then
// holds n and an eighth, however fast they come.
const sweepEach = 8

// Sweep looks at slots, at least at so many and at more the more the open
// transaction changed, going on where the last call ended, and empties those in
// which no window of r can see anything any more, now or later: of them Dirty
// reports a nil value. It returns how many it emptied. Slots of limits that r
// lacks are among them, since such a limit begins anew if it comes back. Calls
// that add or remove slots may make it miss one until its next round.
func (t *Table) Sweep(r *Rules, now schemas.Millis, atLeast int) (dropped int) {
	defer runtime.KeepAlive(t)
	now = t.advance(now)
	t.use(r)
	if t.live == 0 {
		return 0
	}
	for range atLeast + sweepEach*len(t.undo) {
		sh := &t.shards[t.sweepShard]
		for uint(t.sweepAt) >= sh.size() || sh.n == 0 {
			t.sweepShard, t.sweepAt = (t.sweepShard+1)%len(t.shards), 0
			sh = &t.shards[t.sweepShard]
		}
		at := sh.number(uint(t.sweepAt))
		s := t.memory.slot(at)
		t.sweepAt++
		if !s.used() || s.empty() || t.visible(r, s, now) {
			continue
		}
		t.touch(s, at)
		t.build(s, &standing{limit: s.limit}, now)
		dropped++
	}
	return dropped
}

// visible reports whether a window of r still sees something in s.
func (t *Table) visible(r *Rules, s *slot, now schemas.Millis) bool {
	l := r.byHash[s.limit]
	if l == nil {
		return false
	}
	if t.lasts(s, t.unseen(l, now)) || l.refills(t.tokens(s), now) {
		return true
	}
	for u := range unitCount {
		k, ok := s.counter(u)
		if ok && l.units&(1<<u) != 0 && s.w[k+1] > 0 && s.origin()+schemas.Millis(s.w[k]) >= t.from(l, u, now) {
			return true
		}
	}
	return false
}

// lasts reports whether a place of s is later than at.
func (t *Table) lasts(s *slot, at schemas.Millis) bool {
	if s.long() {
		segs := t.longOf(s.key).segs
		return len(segs) > 0 && segs[len(segs)-1].last > at
	}
	return t.after(s, at) < s.places()
}
