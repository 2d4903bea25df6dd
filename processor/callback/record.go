package callback

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// job is a callback that was read and is neither told nor away.
type job struct {
	heading
	key     messageKey
	seq     int64
	hop     int
	tenant  string
	message string
	body    []byte

	from    *intake // where it was read
	offset  int64
	arrived schemas.Millis
	entry   *entry
	thread  *thread
	part    *part
}

// heading is the header weir-callback of a record of weir.callbacks: which callback its
// value is the body of.
type heading struct {
	ID     string         `json:"id"`     // webhook-id
	Key    string         `json:"key"`    // of the message, hex
	Status schemas.Status `json:"status"` // for people
	Seq    int64          `json:"seq"`
	Hop    int            `json:"hop"`            // 0: a replay that was never away
	Since  schemas.Millis `json:"since,omitzero"` // when it first could not be told
	URL    string         `json:"url,omitempty"`  // the request's own
	Replay bool           `json:"replay,omitempty"`
	Of     string         `json:"of,omitempty"` // the key under which what happens now is, of a replay
}

// waits returns the record by which a callback waits in a tier, until due where that is
// not just the tier's time.
func (j *job) waits(topic string, partition int32, salt, back string, due schemas.Millis) *kgo.Record {
	h := j.heading
	h.Key, h.Seq, h.Hop = hex.EncodeToString(j.key[:]), j.seq, j.hop
	head, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("a callback's heading cannot be written: %v", err)) // text and numbers
	}
	r := &kgo.Record{Topic: topic, Partition: partition, Value: j.body}
	env := schemas.Envelope{ID: j.message, Key: salt, Tenant: j.tenant, DueAt: due, Return: back}
	env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: schemas.HeaderCallback, Value: head})
	return r
}

// readJob reads a record of weir.callbacks.
func readJob(r *kgo.Record) (*job, error) {
	j := &job{body: r.Value, offset: r.Offset}
	var found bool
	for _, h := range r.Headers {
		switch h.Key {
		case schemas.HeaderID:
			j.message = string(h.Value)
		case schemas.HeaderTenant:
			j.tenant = string(h.Value)
		case schemas.HeaderCallback:
			found = true
			if err := json.Unmarshal(h.Value, &j.heading); err != nil {
				return nil, fmt.Errorf("read the header %s: %w", schemas.HeaderCallback, err)
			}
		}
	}
	key, err := hex.DecodeString(j.Key)
	if !found || err != nil || len(key) != len(j.key) || j.ID == "" || strings.Contains(j.ID, ".") || j.tenant == "" || len(j.body) == 0 || j.Seq < 0 || j.Hop < 0 {
		return nil, fmt.Errorf("it is no callback")
	}
	copy(j.key[:], key)
	j.seq, j.hop = j.Seq, j.Hop
	if j.hop == 0 { // a replay: those of a message are in the order of the log
		j.seq = r.Offset
	}
	return j, nil
}

// liveKey reads a message's key; one that is none is nobody's.
func liveKey(text string) (k messageKey) {
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(k) {
		copy(k[:], b)
	}
	return k
}

// Keys of weir.callbacks.state: w and a message's key, u and a message's key, or this.
const (
	waitKind = 'w'
	ownKind  = 'u'
	metaKey  = "meta"
)

// saved is which callbacks of a message are away, or have come back and are not told.
type saved struct {
	Tenant string  `json:"tenant"`
	Away   []stand `json:"away"`
}

type stand struct {
	Seq int64          `json:"seq"`
	Hop int            `json:"hop"`
	Due schemas.Millis `json:"due"`
}

// own is the callback_url of a message that has one, for receipts, which do not know it.
type own struct {
	URL   string         `json:"url"`
	Until schemas.Millis `json:"until"`
}

// meta says how far the stage had read, for when the group's offsets are gone.
type meta struct {
	Status    int64 `json:"status"`
	Callbacks int64 `json:"callbacks"`
}

// state returns the value of a message's record; nil where nothing of it is away.
func (b *book) state(k messageKey) []byte {
	t := b.threads[k]
	if t == nil {
		return nil
	}
	s := saved{Tenant: t.tenant}
	for _, e := range t.entries {
		if e.hop > 0 {
			s.Away = append(s.Away, stand{e.seq, e.hop, e.due})
		}
	}
	if len(s.Away) == 0 {
		return nil
	}
	return encode(s)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a record of the state cannot be written: %v", err)) // text and numbers
	}
	return b
}

func stateKeyOf(kind byte, k messageKey) []byte { return append([]byte{kind}, k[:]...) }
