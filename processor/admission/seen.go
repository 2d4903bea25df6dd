package admission

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// seenFor is how long a key names one message. Buckets are dropped whole, so a
// key lives between seenFor and one bucket more.
const (
	seenFor    = 24 * 60 * 60 * 1000 // ms
	seenBucket = 60 * 60 * 1000      // ms
)

// seenKey is 128 bits of SHA-256 over (kind, tenant, recipient, key): clients
// choose keys, so the hash must not be one in which they can find collisions.
type seenKey [16]byte

// seenEntry is the first message under a key. An early cancel is an entry too:
// of the id that it cancels, without content, in a table of its own.
type seenEntry struct {
	id      uuid.UUID
	content [16]byte
}

// seen remembers the keys and ids that clients gave. Changes are an overlay
// until commit.
type seen struct {
	buckets map[int64]*seenHour // by hour of t
	overlay map[seenKey]seenRecord
}

// seenHour are the keys of one hour.
type seenHour struct {
	keys  map[seenKey]seenEntry
	sum   limit.Sum
	stale bool // a key was replaced, or read again: the sum is to be taken of keys
}

// seenRecord is an entry with its time: what stands in weir.seen.
type seenRecord struct {
	key   seenKey
	entry seenEntry
	t     schemas.Millis
}

func newSeen() *seen {
	return &seen{buckets: make(map[int64]*seenHour), overlay: make(map[seenKey]seenRecord)}
}

func newSeenKey(kind byte, tenant, recipient, key string) seenKey {
	h := sha256.New()
	h.Write([]byte{kind})
	for _, s := range [...]string{tenant, recipient, key} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	var k seenKey
	copy(k[:], h.Sum(nil))
	return k
}

// find returns the first message under k, if it is younger than seenFor at t.
func (s *seen) find(k seenKey, t schemas.Millis) (seenEntry, bool) {
	if r, ok := s.overlay[k]; ok {
		return r.entry, true
	}
	for hour := (int64(t) - seenFor) / seenBucket; hour <= int64(t)/seenBucket; hour++ {
		if b := s.buckets[hour]; b != nil {
			if e, ok := b.keys[k]; ok {
				return e, true
			}
		}
	}
	return seenEntry{}, false
}

// none reports whether nothing at all is remembered.
func (s *seen) none() bool { return len(s.buckets) == 0 && len(s.overlay) == 0 }

func (s *seen) remember(r seenRecord) { s.overlay[r.key] = r }

// commit makes the overlay permanent and drops the buckets that are too old.
func (s *seen) commit(t schemas.Millis) {
	for _, r := range s.overlay {
		s.load(r)
	}
	clear(s.overlay)
	first := firstHour(t)
	for hour := range s.buckets {
		if hour < first {
			delete(s.buckets, hour)
		}
	}
}

// firstHour is the earliest of which keys are remembered at t.
func firstHour(t schemas.Millis) int64 { return (int64(t) - seenFor) / seenBucket }

func (s *seen) rollback() { clear(s.overlay) }

func (s *seen) load(r seenRecord) {
	hour := int64(r.t) / seenBucket
	b := s.buckets[hour]
	if b == nil {
		b = &seenHour{keys: make(map[seenKey]seenEntry)}
		s.buckets[hour] = b
	}
	n := len(b.keys)
	if b.keys[r.key] = r.entry; len(b.keys) > n {
		b.sum.Records++
		b.sum.Hash += r.entry.hash(r.key, hour)
	} else {
		b.stale = true
	}
}

// sums adds those of the records of each span to out, with the overlay.
func (s *seen) sums(out map[int64]limit.Sum) {
	add := func(span int64, sum limit.Sum) {
		sum.Add(out[span])
		out[span] = sum
	}
	for hour, b := range s.buckets {
		if b.stale {
			b.sum, b.stale = limit.Sum{}, false
			for k, e := range b.keys {
				b.sum.Records++
				b.sum.Hash += e.hash(k, hour)
			}
		}
		add(hour/spanHours, b.sum)
	}
	for k, r := range s.overlay {
		hour, sum := int64(r.t)/seenBucket, limit.Sum{Records: 1}
		if b := s.buckets[hour]; b != nil {
			if old, again := b.keys[k]; again {
				sum = limit.Sum{Hash: -old.hash(k, hour)}
			}
		}
		sum.Hash += r.entry.hash(k, hour)
		add(hour/spanHours, sum)
	}
}

// hash is that of all that is kept of a record: of its time the hour.
func (e *seenEntry) hash(k seenKey, hour int64) uint64 {
	h := limit.Mix(words(k), uint64(hour))
	return limit.Mix(words(e.content), limit.Mix(words(e.id), h))
}

func words(b [16]byte) [2]uint64 {
	return [2]uint64{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
}

const seenRecordVersion, seenRecordLen = 1, 1 + 16 + 16 + 16 + 8

// encode returns the value of a weir.seen record: version, key, id, content
// hash, t in Unix milliseconds, big endian.
func (r *seenRecord) encode() []byte {
	b := make([]byte, 0, seenRecordLen)
	b = append(b, seenRecordVersion)
	b = append(b, r.key[:]...)
	b = append(b, r.entry.id[:]...)
	b = append(b, r.entry.content[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(r.t))
}

// cancel tells an early cancel: no message has a content hash of zeros.
func (r *seenRecord) cancel() bool { return r.entry.content == [16]byte{} }

func decodeSeen(b []byte) (seenRecord, error) {
	var r seenRecord
	if len(b) != seenRecordLen || b[0] != seenRecordVersion {
		return r, fmt.Errorf("record of %d bytes is torn or foreign", len(b))
	}
	copy(r.key[:], b[1:])
	copy(r.entry.id[:], b[17:])
	copy(r.entry.content[:], b[33:])
	r.t = schemas.Millis(binary.BigEndian.Uint64(b[49:]))
	return r, nil
}
