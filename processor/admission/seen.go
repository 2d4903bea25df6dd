package admission

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"

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
	buckets map[int64]map[seenKey]seenEntry // by hour of t
	overlay map[seenKey]seenRecord
	sums    map[int64]limit.Sum // of buckets, by span: see spanOf
	next    map[int64]limit.Sum // with the overlay; nil: not counted yet
}

// seenRecord is an entry with its time: what stands in weir.seen.
type seenRecord struct {
	key   seenKey
	entry seenEntry
	t     schemas.Millis
}

func newSeen() *seen {
	return &seen{buckets: make(map[int64]map[seenKey]seenEntry), overlay: make(map[seenKey]seenRecord), sums: make(map[int64]limit.Sum)}
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
		if e, ok := s.buckets[hour][k]; ok {
			return e, true
		}
	}
	return seenEntry{}, false
}

// none reports whether nothing at all is remembered.
func (s *seen) none() bool { return len(s.buckets) == 0 && len(s.overlay) == 0 }

func (s *seen) remember(r seenRecord) { s.overlay[r.key], s.next = r, nil }

// commit makes the overlay permanent and drops the buckets that are too old.
func (s *seen) commit(t schemas.Millis) {
	s.sums, s.next = s.pending(), nil
	for _, r := range s.overlay {
		s.bucket(r.t)[r.key] = r.entry
	}
	clear(s.overlay)
	first := firstHour(t)
	for hour := range s.buckets {
		if hour < first {
			delete(s.buckets, hour)
		}
	}
	for span := range s.sums {
		if span < firstSpan(t) {
			delete(s.sums, span)
		}
	}
}

// firstHour is the earliest of which keys are remembered at t.
func firstHour(t schemas.Millis) int64 { return (int64(t) - seenFor) / seenBucket }

func (s *seen) rollback() {
	clear(s.overlay)
	s.next = nil
}

func (s *seen) load(r seenRecord) {
	b := s.bucket(r.t)
	count(s.sums, b, &r)
	b[r.key] = r.entry
}

// bucket returns that of the hour of t.
func (s *seen) bucket(t schemas.Millis) map[seenKey]seenEntry {
	hour := int64(t) / seenBucket
	if s.buckets[hour] == nil {
		s.buckets[hour] = make(map[seenKey]seenEntry)
	}
	return s.buckets[hour]
}

// pending returns the sums with the overlay.
func (s *seen) pending() map[int64]limit.Sum {
	if len(s.overlay) == 0 {
		return s.sums
	}
	if s.next == nil {
		s.next = maps.Clone(s.sums)
		for _, r := range s.overlay {
			count(s.next, s.buckets[int64(r.t)/seenBucket], &r)
		}
	}
	return s.next
}

// count adds r to the sum of its span, in the place of what its bucket has.
func count(sums map[int64]limit.Sum, bucket map[seenKey]seenEntry, r *seenRecord) {
	old, again := bucket[r.key]
	if again && old == r.entry {
		return
	}
	sum := sums[spanOf(r.t)]
	if again {
		sum.Records--
		sum.Hash -= old.hash(r.key, r.t)
	}
	sum.Records++
	sum.Hash += r.entry.hash(r.key, r.t)
	sums[spanOf(r.t)] = sum
}

// hash is that of all that is kept of a record: of its time the hour.
func (e *seenEntry) hash(k seenKey, t schemas.Millis) uint64 {
	h := limit.Mix(words(k), uint64(int64(t)/seenBucket))
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
