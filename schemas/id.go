package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// Ids that Weir makes end in the 32 bits of Murmur2(canonical recipient), so
// that an id alone finds the partition that owns its message.

// NewID returns a UUIDv7 (RFC 9562) for a message to recipient.
func NewID(recipient string) (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make message id: %w", err)
	}
	binary.BigEndian.PutUint32(id[12:], Murmur2([]byte(recipient)))
	return id.String(), nil
}

// DerivedID returns the id of a Kafka record that brings none: a UUIDv8 of
// where it stands and when it was appended, the same at every reading.
func DerivedID(src Source, appended Millis, recipient string) string {
	b := append(append(make([]byte, 0, 128), "weir record\x00"...), src.Topic...)
	for _, v := range [...]int64{int64(src.Partition), src.Offset, int64(appended)} {
		b = strconv.AppendInt(append(b, 0), v, 10)
	}
	sum := sha256.Sum256(b)
	return uuidV8(sum[:], recipient)
}

// KeyedID returns the id of an HTTP request with an idempotency key: a UUIDv8
// of (day, tenant, recipient, key), so that a repeat on the same UTC day gets
// the same answer without storage.
func KeyedID(now Millis, tenant, recipient, key string) string {
	day := int64(now) / (24 * 60 * 60 * 1000)
	h := sha256.New()
	fmt.Fprintf(h, "weir key\x00%d\x00%s\x00%s\x00%s", day, tenant, recipient, key)
	return uuidV8(h.Sum(nil), recipient)
}

// RedriveID returns the id of the message that sends old again, from a record
// at src: a UUIDv8 that is the same at every try, so that a record is sent again
// once however often it is asked for.
func RedriveID(old string, src Source, recipient string) string {
	h := sha256.New()
	fmt.Fprintf(h, "weir redrive\x00%s\x00%s\x00%d\x00%d", old, src.Topic, src.Partition, src.Offset)
	return uuidV8(h.Sum(nil), recipient)
}

func uuidV8(sum []byte, recipient string) string {
	var id uuid.UUID
	copy(id[:], sum)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	binary.BigEndian.PutUint32(id[12:], Murmur2([]byte(recipient)))
	return id.String()
}

// IDPartition returns the partition of n that owns the message with an id that
// Weir made; false when the text is no UUID. For an id that a producer made
// the answer means nothing.
func IDPartition(id string, n int32) (int32, bool) {
	u, err := uuid.Parse(id)
	if err != nil {
		return 0, false
	}
	return Partition(binary.BigEndian.Uint32(u[12:]), n), true
}
