package schemas

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
)

// ContentHash tells whether two requests under one idempotency key or id ask
// for the same: SHA-256, cut to 128 bits, of every field that has a meaning,
// with tenant and class filled in. The order of JSON fields, spaces and the
// encoding make no difference.
//
// Three fields are left out. The key and the id name the message and are not
// its content; and the recipient stands canonical in whatever the hash is kept
// under, so that "138 0000 0000" and "+8613800000000" are one message.
func ContentHash(q *Request) [16]byte {
	var room [1024]byte
	h := contentHasher(room[:0])
	h.text(1, string(q.Action))
	h.text(2, cmp.Or(q.Tenant, DefaultTenant))
	h.text(3, string(q.Channel))
	h.text(4, cmp.Or(q.Class, DefaultClass))
	h.text(5, q.Template)
	h.texts(6, q.Vars)
	h.text(7, q.Subject)
	h.text(8, q.Body)
	h.text(9, q.HTML)
	h.text(10, q.ReplyTo)
	h.text(11, q.Title)
	h.texts(12, q.Data)
	h.text(13, q.From)
	h.text(14, string(q.Priority))
	h.text(15, q.Provider)
	h.time(16, q.SendAt)
	h.time(17, q.ExpiresAt)
	h.text(18, q.CallbackURL)
	h.texts(19, q.Metadata)
	h.time(20, q.At)
	if q.Cost > 1 {
		h = binary.AppendUvarint(append(h, 21), uint64(q.Cost))
	}
	sum := sha256.Sum256(h)
	return [16]byte(sum[:16])
}

// contentHasher gathers the fields that are set, each as tag, length and value,
// so that no two requests gather the same bytes. The tags are for ever: hashes
// stand in topics.
type contentHasher []byte

func (h *contentHasher) text(tag byte, s string) {
	if s != "" {
		*h = append(*h, tag)
		h.bytes(s)
	}
}

func (h *contentHasher) bytes(s string) {
	*h = append(binary.AppendUvarint(*h, uint64(len(s))), s...)
}

func (h *contentHasher) texts(tag byte, m map[string]string) {
	if len(m) == 0 {
		return
	}
	*h = binary.AppendUvarint(append(*h, tag), uint64(len(m)))
	for _, k := range sortedKeys(m) {
		h.bytes(k)
		h.bytes(m[k])
	}
}

func (h *contentHasher) time(tag byte, m Millis) {
	if m != 0 {
		*h = binary.AppendVarint(append(*h, tag), int64(m))
	}
}
