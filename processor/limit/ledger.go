package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math/bits"
	"runtime"

	"github.com/weirhq/weir/schemas"
)

// A ledger record's key is the first 16 bytes of SHA-256(limit, 0, scope). Its
// value, version 1, or 2 if it has a bucket:
//
//	'L' 1|2                   what it is, and its version
//	flags                     calendar units, a bit each; bit 4: a bucket; bit 7: costs follow
//	limit       uint32        FNV-1a of the limit's name, little endian
//	per unit:   from, count   uvarint
//	bucket:     t, fill, level, parts   uvarint, with bit 4: as in tokens
//	places      uvarint       how many
//	per place:  time          uvarint: the first in Unix ms, then from the one before
//	            cost          uvarint, with bit 7
//	sum         uint32        CRC-32C of the key and all the above, little endian
//
// Version 3 is of a scope whose places are in segments: the same without places.
// Version 4 is a segment: the same with neither units nor bucket, and at least
// one place. A segment's key is 'p', the scope's key, and the segment's number
// in four bytes, big endian. Which places are the older is told by their times.
//
// An empty value is a tombstone: nothing stands. It is written for a segment as
// well when it ends, so that at every commit the scope's record and those of its
// segments are what stands, whichever a reader comes by first.

// Errors of Load, for errors.Is. The ledger is Weir's own, so either means that
// the partition must not be decided on: restore it from a good copy, or report it.
var (
	ErrForeign = errors.New("not a ledger record of this version of Weir: was the topic written by another program, or a newer Weir?")
	ErrTorn    = errors.New("ledger record is damaged: its sum, length or order is wrong")
	ErrInTx    = errors.New("a transaction is open")
)

const (
	ledgerMagic    = 'L'
	ledgerVersion  = 1
	ledgerBuckets  = 2 // the version of records with a bucket
	ledgerLong     = 3 // the version of records without places: they are in segments
	ledgerSegment  = 4 // the version of a segment
	ledgerBucket   = 1 << 4
	ledgerWeighted = 1 << 7
	ledgerSmallest = 2 + 1 + 4 + 4

	keySize        = 16
	segmentKind    = 'p'
	segmentKeySize = 1 + keySize + 4
)

// ledgerFlags has the flags that a record of each version may have.
var ledgerFlags = [...]byte{
	ledgerVersion: flagUnits | ledgerWeighted,
	ledgerBuckets: flagUnits | ledgerWeighted | ledgerBucket,
	ledgerLong:    flagUnits | ledgerBucket,
	ledgerSegment: ledgerWeighted,
}

// IsKey reports whether a key of the ledger is a Table's: 16 bytes, or 21 and
// the first of them a p.
func IsKey(key []byte) bool {
	return len(key) == keySize || len(key) == segmentKeySize && key[0] == segmentKind
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func nameHash(limit string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(limit))
	return h.Sum32()
}

func appendKey(b []byte, key [2]uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, key[0]), key[1])
}

func appendSegmentKey(b []byte, key [2]uint64, number uint32) []byte {
	return binary.BigEndian.AppendUint32(appendKey(append(b, segmentKind), key), number)
}

func readKey(b []byte) [2]uint64 {
	return [2]uint64{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Dirty calls fn with every record that the open transaction changed: those of
// scopes in the order of its first changes, and those of segments after them. A
// nil value is a tombstone. Key and value are fn's to keep.
func (t *Table) Dirty(fn func(key, value []byte)) {
	defer runtime.KeepAlive(t)
	t.writing, t.told = t.written, true
	var chunk []byte
	tell := func(from int, st *standing) Check {
		key := chunk[from:len(chunk):len(chunk)]
		if st == nil {
			fn(key, nil)
			return 0
		}
		at := len(chunk)
		chunk = appendRecord(chunk, key, st)
		value := chunk[at:len(chunk):len(chunk)]
		fn(key, value)
		if len(chunk) > 1<<16 { // so that a record kept for long does not keep many others
			chunk = make([]byte, 0, 1<<16)
		}
		return checkOf(value)
	}
	for i := range t.undo {
		b := &t.undo[i]
		key := b.slot.key
		from := len(chunk)
		chunk = appendKey(chunk, key)
		s, at := t.again(key, b.at)
		if s.empty() {
			b.check = tell(from, nil)
		} else {
			b.check = tell(from, t.open(s))
		}
		was := Check(0)
		if b.existed {
			was = *t.memory.check(at)
		}
		t.writing.replace(key, was, b.check)
	}
	for i := range t.saved {
		b := &t.saved[i]
		l := t.longOf(b.key)
		k := l.index(b.segment.number)
		if k < 0 && !b.existed {
			continue // it came and went
		}
		from := len(chunk)
		chunk = appendSegmentKey(chunk, b.key, b.segment.number)
		if k < 0 {
			b.check = tell(from, nil)
		} else {
			st := t.relaid()
			st.limit, st.part = l.limit, true
			t.lay(st, &l.segs[k])
			b.check = tell(from, st)
		}
		t.writing.replace(b.key, b.segment.check, b.check)
	}
}

// Load puts one record of the ledger in its place; a later record of a key
// replaces an earlier one, and an empty value removes it. Records of different
// keys may come in any order, and any number of them again, as long as in the
// end each key's last one was loaded last. No transaction may be open.
func (t *Table) Load(key, value []byte) error {
	defer runtime.KeepAlive(t)
	if t.inTx {
		return fmt.Errorf("load ledger record: %w", ErrInTx)
	}
	if !IsKey(key) {
		return fmt.Errorf("load ledger record: a key of %d bytes: %w", len(key), ErrForeign)
	}
	newest := schemas.Millis(0)
	if len(value) > 0 {
		var err error
		if newest, err = readRecord(&t.laid, key, value); err != nil {
			return fmt.Errorf("load ledger record: %w", err)
		}
	}
	t.last = max(t.last, newest)
	t.stood = t.last
	if len(key) == segmentKeySize {
		t.loadSegment(readKey(key[1:]), binary.BigEndian.Uint32(key[1+keySize:]), checkOf(value))
	} else {
		t.loadSlot(readKey(key), newest, checkOf(value))
	}
	t.loaded = t.loaded || len(t.longs) > 0
	return nil
}

// loadSlot makes the slot of key what is laid open, or nothing if c is 0.
func (t *Table) loadSlot(key [2]uint64, newest schemas.Millis, c Check) {
	s, at := t.locate(key)
	was := Check(0) // of a new slot, as a rule: to read it would be to wait for its memory
	switch {
	case s != nil:
		was = *t.memory.check(at)
	case c == 0:
		return
	default:
		s, at = t.add(key)
	}
	t.written.replace(key, was, c)
	*t.memory.check(at) = c
	if c == 0 {
		t.remove(key)
		return
	}
	t.build(s, &t.laid, newest)
	if s.empty() { // of another version: nothing stands in it
		t.written.replace(key, c, 0)
		t.remove(key)
	}
}

// loadSegment makes a segment what is laid open, or nothing if c is 0.
func (t *Table) loadSegment(key [2]uint64, number uint32, c Check) {
	l := t.longFor(key)
	was := Check(0)
	if i := l.index(number); i >= 0 {
		was = l.segs[i].check
		t.blocks.release(l.segs[i].class, l.segs[i].block)
		l.detach(i, i+1)
	}
	t.written.replace(key, was, c)
	if c != 0 {
		sg := t.newSegment(t.laid.times, t.laid.costs)
		sg.number, sg.check, l.limit = number, c, t.laid.limit
		l.attach(&sg)
	}
	t.letGo(key)
}

// appendRecord appends the value of a record; key may be what b ends with.
func appendRecord(b, key []byte, st *standing) []byte {
	begin := len(b)
	flags, weighted := uint8(0), false
	for u := range unitCount {
		if st.units&(1<<u) != 0 && st.count[u] > 0 {
			flags |= 1 << u
		}
	}
	for _, c := range st.costs {
		weighted = weighted || c != 1
	}
	if weighted {
		flags |= ledgerWeighted
	}
	version := byte(ledgerVersion)
	if st.bucket.parts > 0 {
		version, flags = ledgerBuckets, flags|ledgerBucket
	}
	switch {
	case st.long:
		version = ledgerLong
	case st.part:
		version = ledgerSegment
	}
	b = append(b, ledgerMagic, version, flags)
	b = binary.LittleEndian.AppendUint32(b, st.limit)
	for u := range unitCount {
		if flags&(1<<u) != 0 {
			b = binary.AppendUvarint(b, uint64(st.from[u]))
			b = binary.AppendUvarint(b, uint64(st.count[u]))
		}
	}
	if st.bucket.parts > 0 {
		for _, v := range [...]int64{int64(st.bucket.t), st.bucket.fill, st.bucket.level, st.bucket.parts} {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	if !st.long {
		b = binary.AppendUvarint(b, uint64(len(st.times)))
	}
	last := schemas.Millis(0)
	for i, at := range st.times {
		b = binary.AppendUvarint(b, uint64(at-last))
		last = at
		if weighted {
			b = binary.AppendUvarint(b, uint64(st.costs[i]))
		}
	}
	return binary.LittleEndian.AppendUint32(b, recordSum(key, b[begin:]))
}

func recordSum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// readRecord reads value into st, whose memory it uses again, and returns the
// latest moment in it: the time of the latest place, or the start of a counter.
func readRecord(st *standing, key, value []byte) (newest schemas.Millis, err error) {
	if len(value) < 2 || value[0] != ledgerMagic || value[1] < ledgerVersion || value[1] > ledgerSegment {
		return 0, ErrForeign
	}
	if len(value) < ledgerSmallest {
		return 0, ErrTorn
	}
	body := value[:len(value)-4]
	if binary.LittleEndian.Uint32(value[len(body):]) != recordSum(key, body) {
		return 0, ErrTorn
	}
	flags, version := body[2], body[1]
	if flags&^ledgerFlags[version] != 0 || version == ledgerBuckets && flags&ledgerBucket == 0 || (version == ledgerSegment) != (len(key) == segmentKeySize) {
		return 0, ErrForeign
	}
	*st = standing{limit: binary.LittleEndian.Uint32(body[3:]), units: flags & flagUnits, times: st.times[:0], costs: st.costs[:0], long: version == ledgerLong, part: version == ledgerSegment}
	in := body[7:]
	number := func(limit uint64) uint64 {
		v, n := binary.Uvarint(in)
		if n <= 0 || v > limit || n != (max(bits.Len64(v), 1)+6)/7 { // one spelling only
			err, in = ErrTorn, nil
			return 0
		}
		in = in[n:]
		return v
	}
	for u := range unitCount {
		if st.units&(1<<u) != 0 {
			st.from[u] = schemas.Millis(number(uint64(maxTime)))
			st.count[u] = uint32(number(1<<32 - 1))
			newest = max(newest, st.from[u])
		}
	}
	if flags&ledgerBucket != 0 {
		st.bucket = tokens{
			t: schemas.Millis(number(uint64(maxTime))), fill: int64(number(maxFill)),
			level: int64(number(maxLevel - 1)), parts: int64(number(maxParts - 1)),
		}
		if st.bucket.t == 0 || st.bucket.parts == 0 {
			return 0, ErrTorn
		}
		newest = max(newest, st.bucket.t)
	}
	n := uint64(0)
	if !st.long {
		n = number(uint64(len(in)))
	}
	last := schemas.Millis(0)
	for range n {
		last += schemas.Millis(number(uint64(maxTime - last)))
		cost := uint32(1)
		if flags&ledgerWeighted != 0 {
			cost = uint32(number(maxCount))
		}
		if err != nil || cost == 0 {
			return 0, ErrTorn
		}
		st.times, st.costs = append(st.times, last), append(st.costs, cost)
	}
	if err != nil || len(in) > 0 || st.part && (n == 0 || n >= maxSegment || !spans(st.times[0], last)) {
		return 0, ErrTorn
	}
	return max(newest, last), nil
}
