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
func readInput(r *kgo.Record, readmit bool) *input {
	in := &input{
		source:   schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset},
		readmit:  readmit,
		value:    r.Value,
		appended: schemas.MillisOf(r.Timestamp),
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
		for _, h := range r.Headers {
			if err := in.env.Set(h.Key, string(h.Value)); err != nil {
				in.foreign = true
			}
		}
	}
	return in
}

// record makes the Kafka record of a send: the input's bytes and foreign
// headers, under the envelope.
func (s *send) record(in *kgo.Record) *kgo.Record {
	out := &kgo.Record{Topic: s.topic, Partition: s.partition, Value: in.Value}
	if s.env.Key != "" {
		out.Key = []byte(s.env.Key)
	} else {
		out.Key = in.Key
	}
	for _, h := range in.Headers {
		if !isWeirHeader(h.Key) {
			out.Headers = append(out.Headers, h)
		}
	}
	s.env.Each(func(k, v string) {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	})
	return out
}
