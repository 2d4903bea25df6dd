package limit

import (
	"math/bits"
	"runtime"

	"github.com/weirhq/weir/schemas"
)

// Table holds the places of one partition. It is not safe for concurrent use.
//
// Time never goes back in a table: a call with an earlier now than any before
// it, or than any place loaded, is taken as of that latest moment. What was rolled
// back was not seen: its time may be why.
type Table struct {
	shards [1 << shardBits]shard
	memory *memory
	blocks arena
	live   int            // slots with something in them, or touched
	moves  uint64         // how often a slot was added or removed, which may move others; from 1
	last   schemas.Millis // the latest time it has seen
	stood  schemas.Millis // last, before the open transaction

	inTx    bool
	undo    []before
	words   []uint32 // the blocks of undo, one after another
	mark    int      // where the running decision's part of undo begins, or -1
	saved   []savedSegment
	written Sum  // of the ledger's records, as loaded and committed
	writing Sum  // with the open transaction, as Dirty reported it
	told    bool // Dirty was called in the open transaction

	longs      map[[2]uint64]*long // by the slot's key
	lately     *long               // the one that was asked for last
	perSegment int                 // segmentPlaces, but in tests
	loaded     bool                // since mend looked
	mended     bool                // in the open transaction

	rules   *Rules // whose periods are cached
	periods []cachedPeriod

	sweepShard, sweepAt int

	ahead keyQueue // of Touch

	// Memory used again by every call.
	laid    standing
	segment standing
	named   []byte
	plans   []plan
}

// shard is an open-addressing table with linear probing, which looks at tags
// before slots. There are many, and each grows by itself, so that growing is no
// long pause: with ten million slots in the table, one of them has 1.3 MB.
type shard struct {
	pages []uint32
	tags  tags
	n     int // slots in use
}

const shardBits = 9

// before is a slot as it was before the open transaction, or before the
// decision that may still be refused.
type before struct {
	slot    slot   // its key alone if it did not exist
	words   int    // where its block begins in Table.words
	at      uint32 // where the slot was then: it may have moved
	check   Check  // of the record that Dirty reported; 0: a tombstone
	existed bool
}

type cachedPeriod struct{ start, end schemas.Millis }

// NewTable returns an empty table. Its slots are outside of Go's heap: Close it.
// What works on slots keeps the table alive until it is done, since the
// collector closes those that nobody needs any more.
func NewTable() *Table {
	t := &Table{mark: -1, moves: 1, memory: &memory{}, perSegment: segmentPlaces}
	runtime.AddCleanup(t, (*memory).close, t.memory)
	return t
}

// Close returns the table's memory to the system at once. Nothing may be called
// after it. A table that is forgotten is closed by the garbage collector, which
// may come late, since it does not see that memory.
func (t *Table) Close() {
	t.memory.close()
	*t = Table{memory: t.memory, moves: t.moves + 1} // nothing may point to where it was
}

// Len returns the number of limits and scopes in which something stands.
func (t *Table) Len() int { return t.live }

// keyOf is the ledger's key of a limit and scope: the first half of SHA-256 of
// both. A limit's name has no zero byte.
func (t *Table) keyOf(limit, scope string) [2]uint64 {
	t.named = append(t.named[:0], limit...)
	t.named = append(t.named, 0)
	t.named = append(t.named, scope...)
	return hashKey(t.named)
}

func (t *Table) shardOf(key [2]uint64) *shard { return &t.shards[key[0]>>(64-shardBits)] }

// size is how many slots the shard has room for.
func (sh *shard) size() uint { return uint(len(sh.pages)) * pageSlots }

// home is where a key belongs: the bits after the shard's, scaled to the size,
// which therefore need not be a power of two.
func (sh *shard) home(key [2]uint64) uint {
	hi, _ := bits.Mul64(key[0]<<shardBits|key[1]>>(64-shardBits), uint64(sh.size()))
	return uint(hi)
}

// number returns where in the memory the slot with index i is.
func (sh *shard) number(i uint) uint32 {
	return sh.pages[i/pageSlots]*pageSlots + uint32(i%pageSlots)
}

func (t *Table) at(sh *shard, i uint) *slot { return t.memory.slot(sh.number(i)) }

// find returns the slot of key, or nil. The pointer holds until a slot is added
// or removed.
func (t *Table) find(key [2]uint64) *slot {
	s, _ := t.locate(key)
	return s
}

// locate is find that says where the slot is, as well.
func (t *Table) locate(key [2]uint64) (*slot, uint32) {
	sh := t.shardOf(key)
	if sh.n == 0 {
		return nil, nowhere
	}
	i := t.probe(sh, key)
	if sh.tags[i] == 0 {
		return nil, nowhere
	}
	at := sh.number(i)
	return t.memory.slot(at), at
}

// nowhere is the place of a slot that is not there, or was not looked for.
const nowhere = ^uint32(0)

// again is locate for a slot that was at a place, and as a rule still is.
func (t *Table) again(key [2]uint64, at uint32) (*slot, uint32) {
	if at != nowhere {
		if s := t.memory.slot(at); s.key == key && s.used() {
			return s, at
		}
	}
	return t.locate(key)
}

// probe returns the index of key's slot, or of the empty one where it belongs.
// There is one: a shard is never full.
func (t *Table) probe(sh *shard, key [2]uint64) uint {
	tag := tagOf(key)
	for i := sh.home(key); ; i = (i + 1) % sh.size() {
		i = sh.tags.first(i, tag)
		if sh.tags[i] == 0 || t.at(sh, i).key == key {
			return i
		}
	}
}

// add returns a new slot for key, which is not there.
func (t *Table) add(key [2]uint64) (*slot, uint32) {
	sh := t.shardOf(key)
	if uint(sh.n+1)*5 > sh.size()*4 {
		t.grow(sh)
	}
	i := t.probe(sh, key)
	sh.tags[i] = tagOf(key)
	at := sh.number(i)
	s := t.memory.slot(at)
	*s = slot{key: key, flags: flagUsed}
	sh.n++
	t.live++
	t.moves++
	return s, at
}

// grow makes a shard larger by a quarter, so that between 64 and 80 of a hundred
// slots are used, but for a shard of a few pages: with their tags 81 to 102 bytes
// a scope.
func (t *Table) grow(sh *shard) {
	pages, old := sh.pages, sh.tags
	sh.pages = make([]uint32, max(1, (len(pages)*5+3)/4))
	for i := range sh.pages {
		sh.pages[i] = t.memory.take()
	}
	sh.tags = newTags(sh.size())
	for n, number := range pages {
		p := t.memory.page(number)
		for i, tag := range old[n*pageSlots:][:pageSlots] {
			if tag != 0 {
				to := sh.tags.first(sh.home(p.slots[i].key), 0)
				at := sh.number(to)
				*t.memory.slot(at), *t.memory.check(at), sh.tags[to] = p.slots[i], p.checks[i], tag
			}
		}
	}
	t.memory.release(pages)
}

// remove takes key's slot out and closes the gap, so that probing needs no
// tombstones.
func (t *Table) remove(key [2]uint64) {
	sh := t.shardOf(key)
	if sh.n == 0 {
		return
	}
	size, hole := sh.size(), t.probe(sh, key)
	if sh.tags[hole] == 0 {
		return
	}
	if s := t.at(sh, hole); s.size >= spilled {
		t.blocks.release(s.class(), s.w[0])
	}
	for i := (hole + 1) % size; sh.tags[i] != 0; i = (i + 1) % size {
		// A slot may move back into the hole if its home is not beyond it.
		if s := t.at(sh, i); (i-sh.home(s.key)+size)%size >= (i-hole+size)%size {
			at := sh.number(hole)
			*t.memory.slot(at), *t.memory.check(at), sh.tags[hole] = *s, *t.memory.check(sh.number(i)), sh.tags[i]
			hole = i
		}
	}
	at := sh.number(hole)
	*t.memory.slot(at), *t.memory.check(at), sh.tags[hole] = slot{}, 0, 0
	sh.n--
	t.live--
	t.moves++
}

// Begin opens a transaction, or goes on with the open one. Decide, GiveBack,
// Record and Sweep open one if none is.
func (t *Table) Begin() {
	if t.loaded && !t.inTx {
		defer runtime.KeepAlive(t)
		t.mend()
	}
	t.inTx = true
}

// Commit keeps what the open transaction did.
func (t *Table) Commit() {
	defer runtime.KeepAlive(t)
	for i := range t.undo {
		key := t.undo[i].slot.key
		s, at := t.again(key, t.undo[i].at)
		s.flags &^= flagDirty
		if s.empty() {
			t.remove(key)
		} else if t.told {
			*t.memory.check(at) = t.undo[i].check
		}
	}
	t.commitSegments()
	t.written = t.Sum()
	t.stood = t.last
	t.close()
}

// Rollback undoes what the open transaction did, the table's time among it.
func (t *Table) Rollback() {
	defer runtime.KeepAlive(t)
	t.undoTo(0)
	t.last = t.stood
	t.loaded = t.loaded || t.mended
	t.close()
}

func (t *Table) close() {
	t.undo, t.words, t.saved, t.inTx, t.mark, t.mended, t.told = t.undo[:0], t.words[:0], t.saved[:0], false, -1, false, false
}

// touch saves s as it is before its first change in the transaction and, while
// a decision may still be refused, before its first change in the decision.
func (t *Table) touch(s *slot, at uint32) {
	t.inTx = true
	if s.dirty() {
		if t.mark < 0 {
			return
		}
		for i := t.mark; i < len(t.undo); i++ {
			if t.undo[i].slot.key == s.key {
				return
			}
		}
	}
	var b *before
	t.undo, b = extend(t.undo)
	b.slot, b.at, b.words, b.existed = *s, at, len(t.words), true
	if s.size >= spilled {
		t.words = append(t.words, t.blocks.at(s.class(), s.w[0])...)
	}
	s.flags |= flagDirty
}

// touchNew adds a slot for key in the transaction.
func (t *Table) touchNew(key [2]uint64) *slot {
	t.inTx = true
	s, at := t.add(key)
	s.flags |= flagDirty
	t.undo = append(t.undo, before{slot: slot{key: key}, at: at})
	return s
}

// undoTo takes back the changes since mark, the latest first.
func (t *Table) undoTo(mark int) {
	t.undoSegments(mark)
	for i := len(t.undo) - 1; i >= mark; i-- {
		b := &t.undo[i]
		if !b.existed {
			t.remove(b.slot.key)
			continue
		}
		s := t.find(b.slot.key)
		if s.size >= spilled {
			t.blocks.release(s.class(), s.w[0])
		}
		*s = b.slot
		if s.size >= spilled {
			class := s.class()
			s.w[0] = t.blocks.take(class)
			block := t.blocks.at(class, s.w[0])
			copy(block, t.words[b.words:])
		}
		t.words = t.words[:b.words]
	}
	t.undo = t.undo[:mark]
}

// keepFrom joins a decision's part of the undo log to the transaction's: what
// the transaction had touched before is saved there already.
func (t *Table) keepFrom(mark int) {
	kept := t.undo[:mark]
	for _, b := range t.undo[mark:] {
		if !b.existed || !b.slot.dirty() {
			kept = append(kept, b)
		}
	}
	t.undo = kept
	t.keepSegments(mark)
}

// advance takes the time of a call and returns the time that counts.
func (t *Table) advance(now schemas.Millis) schemas.Millis {
	t.last = min(max(t.last, now), maxTime)
	return t.last
}

// use makes the cached periods those of r.
func (t *Table) use(r *Rules) {
	if t.rules == r {
		return
	}
	t.rules = r
	t.periods = append(t.periods[:0], make([]cachedPeriod, len(r.limits)*unitCount)...)
}

func (t *Table) period(l *rule, unit int, now schemas.Millis) cachedPeriod {
	p := &t.periods[l.index*unitCount+unit]
	if now < p.start || now >= p.end {
		p.start, p.end = period(uint8(unit), l.zone, now)
	}
	return *p
}

// from returns the moment from which, that moment included, a calendar window
// counts at now.
func (t *Table) from(l *rule, unit int, now schemas.Millis) schemas.Millis {
	from := t.period(l, unit, now).start
	// Without since the history is complete. A place at since is not counted.
	if since := l.calSince[unit]; since > 0 {
		from = max(from, since+1)
	}
	return from
}

// unseen returns the moment up to which, that moment included, no window of the
// limit needs a place, now or later, whatever policy follows: NextSince gives no
// window an earlier since.
func (t *Table) unseen(l *rule, now schemas.Millis) schemas.Millis {
	at := rolledOut(l, now)
	if l.named == 0 {
		return at
	}
	for u := range unitCount {
		if l.named&(1<<u) != 0 {
			at = min(at, t.from(l, u, now)-1)
		}
	}
	return at
}

// rolledOut is unseen of the rolling windows alone: every later place that
// stands is in its slot, whatever policies were before.
func rolledOut(l *rule, now schemas.Millis) schemas.Millis {
	at := now - l.longest
	if l.begun {
		return at
	}
	at = now
	for i := range l.rolling {
		at = min(at, l.rolling[i].opens(now))
	}
	return at
}
