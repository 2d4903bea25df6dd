package dlq

import (
	"cmp"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Entry is what a list says of one record: no body, no variables, and no
// recipient that could be reached.
type Entry struct {
	Position  string         `json:"position"` // PARTITION/OFFSET
	At        schemas.Millis `json:"at"`       // the broker's time of the record
	MessageID string         `json:"message_id"`
	To        string         `json:"to,omitempty"` // masked
	Tenant    string         `json:"tenant,omitempty"`
	Channel   string         `json:"channel,omitempty"`
	Class     string         `json:"class,omitempty"`
	Template  string         `json:"template,omitempty"`
	Provider  string         `json:"provider,omitempty"`
	Reason    string         `json:"reason"`
	ErrorCode string         `json:"error_code,omitempty"`
	// Attempt is how many were made.
	Attempt    int            `json:"attempt,omitempty"`
	AcceptedAt schemas.Millis `json:"accepted_at,omitzero"`
	// Timestamp is the producer's own, where it gave one.
	Timestamp schemas.Millis `json:"timestamp,omitzero"`
	Origin    string         `json:"origin,omitempty"` // topic/partition/offset of the request
	RedriveOf string         `json:"redrive_of,omitempty"`
	// RedrivenAt is when it was sent again, as a message with an id of its own.
	RedrivenAt schemas.Millis `json:"redriven_at,omitzero"`
	Bytes      int            `json:"bytes"`
	// Skip says why it cannot be sent again; empty when it can.
	Skip string `json:"skip,omitempty"`
}

// Record is one record of the topic, with its bytes.
type Record struct {
	Entry
	Kafka    *kgo.Record
	Envelope schemas.Envelope
}

// Why a record cannot be sent again, beside the reasons of a request that cannot
// be read (schemas.RequestError).
const (
	SkipHeaders   = "bad_headers"               // its headers are no envelope
	SkipForeign   = schemas.ReasonForeignRecord // something that Weir did not write
	SkipAction    = "no_message"                // an action, such as suppress, or a provider's receipt
	SkipRecipient = "no_recipient"              // the recipient could not be read
	SkipTenant    = schemas.ReasonForbiddenTenant
	SkipRedriven  = "redriven"   // it was sent again before
	SkipTruncated = "truncated"  // it has only the beginning of its bytes
	SkipUnreached = "unreadable" // a request that cannot be read, for no reason that is known here
)

// read reads a record of weir.dlq.
func read(r *kgo.Record) *Record {
	out := &Record{Kafka: r, Entry: Entry{
		Position: position(r.Partition, r.Offset), At: schemas.MillisOf(r.Timestamp), Bytes: len(r.Value),
	}}
	env := &out.Envelope
	for _, h := range r.Headers {
		if err := env.Set(h.Key, string(h.Value)); err != nil {
			out.Skip = SkipHeaders
		}
	}
	e := &out.Entry
	e.MessageID, e.Provider, e.Reason, e.ErrorCode, e.Attempt = env.ID, env.Provider, env.Reason, env.LastError, env.Attempt
	e.AcceptedAt, e.Timestamp, e.RedriveOf = env.AcceptedAt, env.Timestamp, env.RedriveOf
	if env.Origin.Topic != "" {
		e.Origin = env.Origin.String()
	}
	req, err := schemas.DecodeRequest(r.Value, func(key string) (string, bool) {
		for _, h := range r.Headers {
			if strings.EqualFold(h.Key, key) && !own(h.Key) {
				return string(h.Value), true
			}
		}
		return "", false
	})
	skip := ""
	if bad, ok := errors.AsType[*schemas.RequestError](err); ok {
		skip = bad.Reason()
		req = bad.Partial
	} else if err != nil {
		skip = SkipUnreached
	}
	if req == nil {
		req = new(schemas.Request)
	}
	e.To = recipient.Mask(cmp.Or(env.Key, req.To))
	e.Tenant = cmp.Or(env.Tenant, req.Tenant, schemas.DefaultTenant)
	e.Channel, e.Template, e.Class = string(req.Channel), req.Template, cmp.Or(req.Class, schemas.DefaultClass)
	switch {
	case e.Skip != "":
	case env.Cut():
		e.Skip = SkipTruncated
	case env.Reason == SkipForeign:
		e.Skip = SkipForeign
	case env.Reason == schemas.ReasonUnmatchedReceipt, env.Reason == schemas.ReasonUnreadableReceipt:
		e.Skip = SkipAction
	case skip != "":
		e.Skip = skip
	case env.OtherTenant(req):
		e.Skip = SkipTenant
	case req.Action != schemas.ActionSend:
		e.Skip = SkipAction
	case env.Key == "" || env.ID == "":
		e.Skip = SkipRecipient
	}
	return out
}

// own tells Weir's headers from the producer's.
func own(key string) bool {
	return len(key) >= 5 && strings.EqualFold(key[:5], "weir-")
}

// source is where the record stands.
func (r *Record) source() schemas.Source {
	return schemas.Source{Topic: r.Kafka.Topic, Partition: r.Kafka.Partition, Offset: r.Kafka.Offset}
}

// NewID is the id of the message that sends r again.
func (r *Record) NewID() string {
	return schemas.RedriveID(r.Envelope.ID, r.source())
}

// key is the recipient's, as it is now: a dead letter may be from before keys ignored
// letter case.
func (r *Record) key() string {
	if r.Channel == string(schemas.ChannelEmail) {
		return recipient.Fold(r.Envelope.Key)
	}
	return r.Envelope.Key
}

// again is the record of weir.readmit that asks for r to be sent again: its bytes
// and its producer's headers, under an envelope that has nothing of the first
// message but what it was.
func (r *Record) again(readmit string, partitions int32) *kgo.Record {
	env := schemas.Envelope{
		ID: r.NewID(), Key: r.key(), Tenant: r.Envelope.Tenant, Origin: r.source(), Reason: schemas.ReadmitRedrive,
		RedriveOf: r.Envelope.ID, Timestamp: r.Envelope.Timestamp, RequestKey: r.Envelope.RequestKey,
	}
	return again(&env, r.Kafka, readmit, partitions)
}

// again is was under another envelope, with its producer's headers, for the
// owner of its recipient.
func again(env *schemas.Envelope, was *kgo.Record, readmit string, partitions int32) *kgo.Record {
	out := &kgo.Record{Topic: readmit, Partition: schemas.PartitionOf(env.Key, partitions), Key: []byte(env.Key), Value: was.Value}
	for _, h := range was.Headers {
		if !own(h.Key) {
			out.Headers = append(out.Headers, h)
		}
	}
	env.Each(func(k string, v []byte) { out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	return out
}
