package admission

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// weirHeader begins the names of Weir's own headers. On requests anyone may
// have written them, so they are dropped.
const weirHeader = "weir-"

func isWeirHeader(key string) bool {
	return len(key) >= len(weirHeader) && strings.EqualFold(key[:len(weirHeader)], weirHeader)
}

// readInput turns a record into an input. A readmit record whose headers are no
// envelope is foreign: Weir alone writes there.
func readInput(in *input, r *kgo.Record, readmit bool) {
	*in = input{
		source:   schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset},
		readmit:  readmit,
		value:    r.Value,
		appended: schemas.MillisOf(r.Timestamp),
		key:      r.Key,
		header: func(key string) (string, bool) {
			for _, h := range r.Headers {
				if strings.EqualFold(h.Key, key) && !isWeirHeader(h.Key) {
					return string(h.Value), true
				}
			}
			return "", false
		},
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
	in.env.Timestamp = producerTime(r)
}

// producerTime is when a producer says that it made its request: the header
// weir-timestamp, or CloudEvents' time. The topic's own timestamps are the
// broker's. It is passed on and decides nothing, so anyone may give it, and one
// that is no time is none.
func producerTime(r *kgo.Record) schemas.Millis {
	for _, name := range [...]string{schemas.HeaderTimestamp, "ce_time"} {
		for _, h := range r.Headers {
			if strings.EqualFold(h.Key, name) {
				if t, err := schemas.ParseMillis(string(h.Value)); err == nil && t > 0 {
					return t
				}
			}
		}
	}
	return 0
}

// record makes the Kafka record of a send: the input's bytes and foreign
// headers, under the envelope.
func (s *send) record(in *kgo.Record) *kgo.Record {
	out := &kgo.Record{Topic: s.topic, Partition: s.partition}
	if !s.bare {
		out.Value = in.Value
	}
	if s.env.Key != "" {
		out.Key = []byte(s.env.Key)
	} else {
		out.Key = in.Key
	}
	out.Headers = make([]kgo.RecordHeader, 0, len(in.Headers)+16)
	if s.relayed {
		for _, h := range in.Headers {
			switch h.Key {
			case schemas.HeaderReason, schemas.HeaderDecidedAt, schemas.HeaderRound:
			default:
				out.Headers = append(out.Headers, h)
			}
		}
		news := schemas.Envelope{Reason: s.env.Reason, DecidedAt: s.env.DecidedAt, Round: s.env.Round}
		news.Each(func(k string, v []byte) {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v})
		})
		return out
	}
	for _, h := range in.Headers {
		if !s.bare && !isWeirHeader(h.Key) {
			out.Headers = append(out.Headers, h)
		}
	}
	s.env.Each(func(k string, v []byte) {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v})
	})
	return out
}
