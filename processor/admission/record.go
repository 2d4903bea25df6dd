package admission

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/schemas"
)

// readInput turns a record into an input. A readmit record whose headers are no
// envelope is foreign: Weir alone writes there.
func readInput(in *input, r *kgo.Record, readmit bool) {
	*in = input{
		source:   schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset},
		readmit:  readmit,
		value:    r.Value,
		appended: schemas.MillisOf(r.Timestamp),
		key:      r.Key,
		header:   request.Header(r),
	}
	if readmit {
		size := 0
		for _, h := range r.Headers {
			size += len(h.Value)
		}
		var all strings.Builder // one piece of memory for the values, and not the fetch's
		all.Grow(size)
		for _, h := range r.Headers {
			at := all.Len()
			all.Write(h.Value)
			if err := in.env.Set(h.Key, all.String()[at:]); err != nil {
				in.foreign = true
			}
		}
		return
	}
	if err := request.TooLarge(r); err != nil { // what is forwarded, and goes on, must fit into a record
		in.decoded, in.bad, in.key = true, err, nil
	}
	in.env.Timestamp = request.Time(r)
	in.env.Reply = request.ReplyTo(r)
}

// record makes the Kafka record of a send: the input's bytes and foreign
// headers, under the envelope.
func (s *send) record(in *kgo.Record) *kgo.Record {
	if s.dead {
		return request.DeadLetter(in, s.topic, s.partition, &s.env)
	}
	if !s.bare && !s.relayed {
		return request.Onward(in, s.topic, s.partition, &s.env)
	}
	out := &kgo.Record{Topic: s.topic, Partition: s.partition}
	if out.Value = s.value; !s.bare {
		out.Value = in.Value
	}
	if s.env.Key != "" {
		out.Key = []byte(s.env.Key)
	} else {
		out.Key = in.Key
	}
	env := s.env
	if s.relayed {
		out.Headers = make([]kgo.RecordHeader, 0, len(in.Headers)+3)
		for _, h := range in.Headers {
			switch h.Key {
			case schemas.HeaderReason, schemas.HeaderDecidedAt, schemas.HeaderRound:
			default:
				out.Headers = append(out.Headers, h)
			}
		}
		env = schemas.Envelope{Reason: s.env.Reason, DecidedAt: s.env.DecidedAt, Round: s.env.Round}
	}
	env.Each(func(k string, v []byte) {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v})
	})
	return out
}
