package schemas

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// An id says nothing of its message's recipient: providers, callbacks and logs
// see it. Nor does it prove who made it: anyone can make a UUID of any form.

// NewID returns a UUIDv7 (RFC 9562).
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make message id: %w", err)
	}
	return id.String(), nil
}

// DerivedID returns the id of a Kafka record that brings none: a UUIDv8 of
// where it stands and when it was appended, the same at every reading.
func DerivedID(src Source, appended Millis) string {
	b := append(append(make([]byte, 0, 128), "weir record\x00"...), src.Topic...)
	for _, v := range [...]int64{int64(src.Partition), src.Offset, int64(appended)} {
		b = strconv.AppendInt(append(b, 0), v, 10)
	}
	sum := sha256.Sum256(b)
	return uuidV8(sum[:])
}

// KeyedID returns the id of an HTTP request with an idempotency key: a UUIDv8
// of (day, tenant, recipient, key), so that a repeat on the same UTC day gets
// the same answer without storage.
func KeyedID(now Millis, tenant, recipient, key string) string {
	day := int64(now) / (24 * 60 * 60 * 1000)
	h := sha256.New()
	fmt.Fprintf(h, "weir key\x00%d\x00%s\x00%s\x00%s", day, tenant, recipient, key)
	return uuidV8(h.Sum(nil))
}

// RedriveID returns the id of the message that sends old again, from a record
// at src: a UUIDv8 that is the same at every try, so that a record is sent again
// once however often it is asked for.
func RedriveID(old string, src Source) string {
	h := sha256.New()
	fmt.Fprintf(h, "weir redrive\x00%s\x00%s\x00%d\x00%d", old, src.Topic, src.Partition, src.Offset)
	return uuidV8(h.Sum(nil))
}

func uuidV8(sum []byte) string {
	var id uuid.UUID
	copy(id[:], sum)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// LegacyID returns the id that earlier versions derived where id is derived now:
// its last 32 bits were Murmur2(recipient). Logs still have such ids, and an
// operator's command may be older than admission.
func LegacyID(id, recipient string) string {
	const kept = 28 // hex digits and dashes before the last 32 bits
	if len(id) < kept {
		return id
	}
	return fmt.Sprintf("%s%08x", id[:kept], Murmur2([]byte(recipient)))
}
