package limit

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"runtime"

	"github.com/weirhq/weir/schemas"
)

// Sum is the number and the hash of some records, each under a key of its own. It
// does not depend on the order in which they came, nor on what each key had before:
// who reads a compacted log has the Sum of who wrote it, or not the same records.
// The hash finds accidents. Who wants to deceive it can.
type Sum struct {
	Records int64  `json:"n"`
	Hash    uint64 `json:"h,string"` // as text: many JSON readers have 53 bits for a number
}

// Check is the CRC-32C of a record's key and value; 0 is no record. Who keeps a Sum keeps the
// Check of each key's last record, because a Sum changes by what a record replaces.
type Check uint32

// CheckOf returns the Check of a record that is not a table's.
func CheckOf(key, value []byte) Check {
	if len(value) == 0 {
		return 0
	}
	return Check(max(recordSum(key, value), 1))
}

// checkOf returns the check with which the value of a table's record ends.
func checkOf(value []byte) Check {
	if len(value) == 0 {
		return 0
	}
	return Check(max(binary.LittleEndian.Uint32(value[len(value)-crc32.Size:]), 1))
}

// Replace counts one record in the place of another; 0 is none.
func (s *Sum) Replace(key [keySize]byte, was, is Check) {
	s.replace(readKey(key[:]), was, is)
}

func (s *Sum) replace(key [2]uint64, was, is Check) {
	if was == is {
		return
	}
	if was != 0 {
		s.Records--
		s.Hash -= Mix(key, uint64(was))
	}
	if is != 0 {
		s.Records++
		s.Hash += Mix(key, uint64(is))
	}
}

// Add counts the records of another Sum, of other keys.
func (s *Sum) Add(o Sum) {
	s.Records += o.Records
	s.Hash += o.Hash
}

// Sum returns that of the ledger's records: as it was loaded and committed, and with the
// open transaction once Dirty has reported it.
func (t *Table) Sum() Sum {
	if t.told {
		return t.writing
	}
	return t.written
}

// Until sets the table's time back to at if it is later. Who calls it knows that nothing that
// stands is later than that: of records that were replaced since one may be.
func (t *Table) Until(at schemas.Millis) {
	if t.last > at && !t.inTx {
		t.last, t.stood = at, at
	}
}

// Has returns the ledger's key of a limit in a scope, whether it has a record there, and
// whether it has segments.
func (t *Table) Has(limit, scope string) (key []byte, record, segments bool) {
	defer runtime.KeepAlive(t)
	k := t.keyOf(limit, scope)
	return appendKey(nil, k), t.find(k) != nil, len(t.longOf(k).segs) > 0
}

// Mix hashes a key and what stands under it.
func Mix(key [2]uint64, what uint64) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	hi, lo := bits.Mul64(key[0]^what*a, key[1]^b)
	hi, lo = bits.Mul64(hi^lo^a, what^key[0]^b)
	return hi ^ lo
}
