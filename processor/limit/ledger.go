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
// An empty value is a tombstone: nothing stands.

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
	ledgerBucket   = 1 << 4
	ledgerWeighted = 1 << 7
	ledgerSmallest = 2 + 1 + 4 + 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func nameHash(limit string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(limit))
	return h.Sum32()
}

func keyBytes(key [2]uint64) (b [16]byte) {
	binary.BigEndian.PutUint64(b[0:], key[0])
	binary.BigEndian.PutUint64(b[8:], key[1])
	return b
}

// Dirty calls fn with every record that the open transaction changed, in the
// order of its first changes. A nil value is a tombstone. The value is fn's to
// keep.
func (t *Table) Dirty(fn func(key [16]byte, value []byte)) {
	defer runtime.KeepAlive(t)
	var chunk []byte
	for i := range t.undo {
		key := t.undo[i].slot.key
		s, _ := t.again(key, t.undo[i].at)
		if s.empty() {
			fn(keyBytes(key), nil)
			continue
		}
		at := len(chunk)
		chunk = appendRecord(chunk, keyBytes(key), t.open(s))
		fn(keyBytes(key), chunk[at:len(chunk):len(chunk)])
		if len(chunk) > 1<<16 { // so that a record kept for long does not keep many others
			chunk = make([]byte, 0, 1<<16)
		}
	}
}

// Load puts one record of the ledger in its place; a later record of a key
// replaces an earlier one, and an empty value removes it. No transaction may be
// open.
func (t *Table) Load(key [16]byte, value []byte) error {
	defer runtime.KeepAlive(t)
	if t.inTx {
		return fmt.Errorf("load ledger record: %w", ErrInTx)
	}
	k := [2]uint64{binary.BigEndian.Uint64(key[0:]), binary.BigEndian.Uint64(key[8:])}
	if len(value) == 0 {
		t.remove(k)
		return nil
	}
	newest, err := readRecord(&t.laid, key, value)
	if err != nil {
		return fmt.Errorf("load ledger record: %w", err)
	}
	s := t.find(k)
	if s == nil {
		s, _ = t.add(k)
	}
	t.last = max(t.last, newest)
	t.stood = t.last
	t.build(s, &t.laid, newest)
	if s.empty() {
		t.remove(k)
	}
	return nil
}

func appendRecord(b []byte, key [16]byte, st *standing) []byte {
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
	b = binary.AppendUvarint(b, uint64(len(st.times)))
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

func recordSum(key [16]byte, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key[:], castagnoli), castagnoli, body)
}

// readRecord reads value into st, whose memory it uses again, and returns the
// latest moment in it: the time of the latest place, or the start of a counter.
func readRecord(st *standing, key [16]byte, value []byte) (newest schemas.Millis, err error) {
	if len(value) < 2 || value[0] != ledgerMagic || value[1] != ledgerVersion && value[1] != ledgerBuckets {
		return 0, ErrForeign
	}
	if len(value) < ledgerSmallest {
		return 0, ErrTorn
	}
	body := value[:len(value)-4]
	if binary.LittleEndian.Uint32(value[len(body):]) != recordSum(key, body) {
		return 0, ErrTorn
	}
	flags := body[2]
	if flags&^(flagUnits|ledgerBucket|ledgerWeighted) != 0 || (flags&ledgerBucket != 0) != (value[1] == ledgerBuckets) {
		return 0, ErrForeign
	}
	*st = standing{limit: binary.LittleEndian.Uint32(body[3:]), units: flags & flagUnits, times: st.times[:0], costs: st.costs[:0]}
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
	n := number(uint64(len(in)))
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
	if err != nil || len(in) > 0 {
		return 0, ErrTorn
	}
	return max(newest, last), nil
}
