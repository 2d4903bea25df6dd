package input

import (
	"cmp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// door is where records go, and as whose.
type door struct {
	names      topics.Names
	partitions int32 // N
	dlq        int32 // partitions of weir.dlq
	tenant     string
	met        *stream.UnknownOpen // counts the fields that are ignored; nil: not counted
}

// lateFrom is how old a record must be for its age to count against its expiry. A
// younger one passes as it is.
const lateFrom = time.Second

// pass says what becomes of a record: one of weir.requests, or the end of its
// request and its bytes for weir.dlq. refused is the end's reason.
func (d *door) pass(r *kgo.Record, pol *schemas.Policy, now schemas.Millis) (out []*kgo.Record, refused string) {
	if err := request.TooLarge(r); err != nil {
		return d.refuse(r, pol, now, err)
	}
	q, err := schemas.DecodeRequest(r.Value, request.Header(r))
	if err == nil {
		d.met.Met(q.Unknown, source(r))
		d.met.Met(request.Extensions(r), source(r))
	}
	if err == nil && q.Tenant != "" && q.Tenant != d.tenant {
		err = &schemas.RequestError{Partial: q, Problems: []schemas.FieldProblem{{
			Pointer: "/tenant", Code: schemas.ReasonForbiddenTenant, Message: "is another tenant than the one that the topic is bound to",
		}}}
	}
	if err == nil && pol.Strict(d.tenant, r.Topic) { // what is passed on has no unknown field any more
		err = q.KnowsFields()
	}
	if err != nil {
		return d.refuse(r, pol, now, err)
	}
	key := d.name(q, r, pol, now)
	passed := *r
	passed.Key = nil
	passed.Value = schemas.RequestJSON(q)
	encoding := "application/json"
	if len(passed.Value) > schemas.MaxRequestBytes { // text that JSON writes longer
		encoding = "application/x-protobuf"
		if passed.Value, err = schemas.RequestProto(q); err != nil || len(passed.Value) > schemas.MaxRequestBytes {
			return d.refuse(r, pol, now, tooLarge(q, "is larger than 256 KiB with its tenant and id"))
		}
	}
	passed.Headers = recoded(r.Headers, encoding)
	partition := r.Partition % d.partitions // nobody owns it
	if key != "" {
		passed.Key, partition = []byte(key), schemas.PartitionOf(key, d.partitions)
	}
	env := schemas.Envelope{Origin: source(r), Timestamp: request.Time(r), Reply: request.ReplyTo(r)}
	return []*kgo.Record{request.Onward(&passed, d.names.Requests(), partition, &env)}, ""
}

// name makes a request its tenant's, gives it an id where it has none of its own,
// and returns its canonical recipient; "" where that cannot be read. Its id is
// that of where it stands, so it is the same whenever the record is read.
func (d *door) name(q *schemas.Request, r *kgo.Record, pol *schemas.Policy, now schemas.Millis) (key string) {
	q.Tenant = d.tenant
	if to, err := request.Addressee(q, pol); err == nil {
		key = to.Key
	}
	if q.ID == "" && request.Named(q.Action) {
		q.ID = schemas.DerivedID(source(r), appended(r))
	}
	if q.Action == schemas.ActionSend && q.ExpiresAt == 0 && stamped(r) && now.Sub(appended(r)) > lateFrom {
		// Admission counts from when the request comes to it. What waited here, say
		// because nobody ran, must not live the longer for it. Under a key the moment
		// would be content, and a repeat that waited less be taken for another message.
		class := pol.Class(cmp.Or(q.Class, schemas.DefaultClass))
		if end := request.Expires(q, appended(r), &class); q.IdempotencyKey == "" || end <= now {
			q.ExpiresAt = end
		}
	}
	return key
}

// refuse ends a record that is nobody's to judge. Its id is never its own, which
// may be another message's.
func (d *door) refuse(r *kgo.Record, pol *schemas.Policy, now schemas.Millis, err error) ([]*kgo.Record, string) {
	env := schemas.Envelope{
		ID: schemas.DerivedID(source(r), appended(r)), Tenant: d.tenant,
		Origin: source(r), AcceptedAt: appended(r), Timestamp: request.Time(r),
	}
	origin := env.Origin
	event := schemas.Event{
		Kind: schemas.KindStatus, MessageID: env.ID, Tenant: d.tenant, AcceptedAt: env.AcceptedAt, Source: &origin,
		Status: schemas.StatusRejected, Reason: request.Reason(err), Error: err.Error(), At: max(now, env.AcceptedAt),
	}
	if q := request.Partial(err); q != nil {
		read := *q
		read.Tenant = d.tenant
		request.Describe(&read, pol, &env, &event)
	}
	key := cmp.Or(event.To, event.MessageID)
	env = request.Dead(env, event.Reason, event.Error)
	return []*kgo.Record{
		{Topic: d.names.Status(), Partition: schemas.PartitionOf(key, d.partitions), Key: []byte(key), Value: schemas.AppendEvent(nil, &event)},
		request.DeadLetter(r, d.names.DLQ(), schemas.PartitionOf(event.To, d.dlq), &env),
	}, event.Reason
}

// recoded are a record's headers after its value was written in another encoding.
func recoded(headers []kgo.RecordHeader, encoding string) []kgo.RecordHeader {
	out := make([]kgo.RecordHeader, 0, len(headers)+1)
	said := encoding == "application/json" // which needs no saying
	for _, h := range headers {
		if strings.EqualFold(h.Key, "content-type") {
			h.Value, said = []byte(encoding), true
		}
		out = append(out, h)
	}
	if !said {
		out = append(out, kgo.RecordHeader{Key: "content-type", Value: []byte(encoding)})
	}
	return out
}

func tooLarge(q *schemas.Request, why string) error {
	return &schemas.RequestError{Partial: q, Problems: []schemas.FieldProblem{{Code: schemas.ReasonTooLarge, Message: why}}}
}

func source(r *kgo.Record) schemas.Source {
	return schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

func appended(r *kgo.Record) schemas.Millis { return schemas.MillisOf(r.Timestamp) }

// stamped reports whether a record's time is the broker's and not its producer's.
func stamped(r *kgo.Record) bool { return r.Attrs.TimestampType() == 1 }
