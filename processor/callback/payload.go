package callback

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/weirhq/weir/schemas"
)

// kindField is how schemas.AppendEvent begins a status.
var kindField = []byte(`{"kind":"status",`)

// Body returns what is posted for a status: its event, without what is Weir's own:
// the decision, where the request stands in Kafka, and the address of this callback.
func Body(e *schemas.Event) []byte {
	told := *e
	told.Kind, told.Tenant = schemas.KindStatus, cmp.Or(e.Tenant, schemas.DefaultTenant)
	told.Decision, told.Source, told.CallbackURL = nil, nil, ""
	data, _ := bytes.CutPrefix(schemas.AppendEvent(nil, &told), kindField)
	at, err := e.At.MarshalJSON()
	if err != nil {
		at = []byte("null") // a time that no calendar has
	}
	out := make([]byte, 0, len(data)+96)
	out = append(append(out, `{"type":"`...), typeOf(e.Status)...)
	out = append(append(out, `","timestamp":`...), at...)
	out = append(append(out, `,"data":{`...), data...)
	return append(out, '}')
}

func typeOf(s schemas.Status) string { return "message." + string(s) }

// ID returns a callback's webhook-id. It is made of what tells one status of a message
// from another, wherever the status is read: so it is the same over all tries, when the
// log is read again, and in a replay from ClickHouse.
func ID(e *schemas.Event) string {
	h := sha256.New()
	text(h, "weir callback")
	text(h, cmp.Or(e.Tenant, schemas.DefaultTenant))
	text(h, e.MessageID)
	text(h, e.To)
	text(h, string(e.Status))
	text(h, e.Reason)
	number(h, int64(e.At))
	number(h, int64(e.Attempt))
	return "msg_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// messageKey names a message: an id that a producer made may name one to each of
// several recipients, and be in use with several tenants.
type messageKey [16]byte

// keyOf returns a message's key. Replays are told apart from what happens now: they
// are in order among themselves.
func keyOf(tenant, id, to string, replay bool) (k messageKey) {
	h := sha256.New()
	text(h, "weir callback order")
	text(h, tenant)
	text(h, id)
	text(h, to)
	if replay {
		text(h, "replay")
	}
	copy(k[:], h.Sum(nil))
	return k
}

func text(h hash.Hash, s string) {
	number(h, int64(len(s)))
	h.Write([]byte(s))
}

func number(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}
