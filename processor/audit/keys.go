package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"

	"github.com/weirhq/weir/schemas"
)

// What weir.ledger and weir.seen have their records under. The audit counts by the same
// keys, so that it can compare what stands under each: none of them can be read back.

// scopeKey is that of a limit in a scope: the first 12 bytes of SHA-256(limit, 0, scope), as
// the ledger's key begins, and the 4 bytes by which the ledger's record names the limit, the
// FNV-1a of its name.
func scopeKey(limit, scope string) sum {
	var room [256]byte
	h := sha256.Sum256(append(append(append(room[:0], limit...), 0), scope...))
	return scopeOf(binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint32(h[8:]), limitHash(limit))
}

func scopeOf(hi uint64, mid, limit uint32) sum { return sum{hi, uint64(mid)<<32 | uint64(limit)} }

func limitHash(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// Kinds of what a tenant's ids and keys name.
const (
	kindWaiting = 'w' // messages that wait, in weir.ledger
	kindHeld    = 'h' // decisions without sending, in weir.ledger
	kindKnown   = 'k' // idempotency keys, in weir.seen
)

// nameKey is that of a tenant's id or key to a recipient: the first half of the SHA-256 of
// its kind and of the three, each behind its length.
func nameKey(kind byte, tenant, to, name string) sum {
	var room [256]byte
	b := append(room[:0], kind)
	for _, s := range [...]string{cmp.Or(tenant, schemas.DefaultTenant), to, name} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return half(sha256.Sum256(b))
}

// half is the first half of a hash.
func half(h [sha256.Size]byte) sum {
	return sum{binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])}
}

// optOutKey is that of a recipient's opt-outs.
func optOutKey(to string) sum { return half(sha256.Sum256([]byte(to))) }
