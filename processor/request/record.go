package request

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// weirHeader begins the names of Weir's own headers. Where producers write, anyone
// may have written them, so they are dropped.
const weirHeader = "weir-"

// reserved reports whether a header's name is Weir's own. Case makes no difference.
func reserved(key string) bool {
	return len(key) >= len(weirHeader) && strings.EqualFold(key[:len(weirHeader)], weirHeader)
}

// Header returns what finds a producer's header by its name, in any case; Weir's
// own names it does not find.
func Header(r *kgo.Record) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		for _, h := range r.Headers {
			if strings.EqualFold(h.Key, name) && !reserved(h.Key) {
				return string(h.Value), true
			}
		}
		return "", false
	}
}

// Time is when a producer says that it made its request: the header
// weir-timestamp, or CloudEvents' time. It is passed on and decides nothing, so
// anyone may give it, and one that is no time is none.
func Time(r *kgo.Record) schemas.Millis {
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

// ReplyTo is who waits for the first decision on a request: the header weir-reply,
// which decides nothing either, so anyone may give it, and one that is no address
// is none.
func ReplyTo(r *kgo.Record) string {
	for _, h := range r.Headers {
		if len(h.Key) == len(schemas.HeaderReply) && strings.EqualFold(h.Key, schemas.HeaderReply) {
			text := string(h.Value)
			if _, _, ok := schemas.ParseReplyTo(text); ok {
				return text
			}
		}
	}
	return ""
}

// Onward makes the record that passes in's request on: its bytes, key and foreign
// headers, under an envelope whose key, if it has one, is the record's.
func Onward(in *kgo.Record, topic string, partition int32, env *schemas.Envelope) *kgo.Record {
	out := &kgo.Record{Topic: topic, Partition: partition, Key: in.Key, Value: in.Value}
	if env.Key != "" {
		out.Key = []byte(env.Key)
	}
	out.Headers = make([]kgo.RecordHeader, 0, len(in.Headers)+16)
	for _, h := range in.Headers {
		if !reserved(h.Key) {
			out.Headers = append(out.Headers, h)
		}
	}
	env.Each(func(k string, v []byte) {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: v})
	})
	return out
}
