package limit

import (
	"crypto/sha256"
	"encoding/binary"
)

// hashKey is the ledger's key of a limit and scope, as their text: the first
// half of its SHA-256.
func hashKey(text []byte) [2]uint64 {
	sum := sha256.Sum256(text)
	return [2]uint64{binary.BigEndian.Uint64(sum[0:]), binary.BigEndian.Uint64(sum[8:])}
}
