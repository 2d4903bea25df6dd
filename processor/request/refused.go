package request

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// Partial is what could be read of a request all the same, of the error of its
// decoding; nil when nothing could.
func Partial(err error) *schemas.Request {
	if bad, ok := errors.AsType[*schemas.RequestError](err); ok {
		return bad.Partial
	}
	return nil
}

// How much of a record's bytes a dead letter has. Up to wholeBytes it has all of them;
// beyond that the first keptBytes of the value, and as much of the key and headers.
const (
	wholeBytes = 1 << 20
	keptBytes  = 64 << 10
	textBytes  = 2 << 10 // of what says why

	headerBytes = 16 // what a record takes for each header beside its bytes, at most
)

// Dead is the envelope under which a message's bytes go to weir.dlq: why it was
// given up on, for code and for people.
func Dead(env schemas.Envelope, why, text string) schemas.Envelope {
	env.Reason, env.Error, env.DueAt, env.Return = why, text, 0, ""
	return env
}

// DeadLetter makes the record of weir.dlq for in: its bytes and its producer's headers,
// under an envelope of Dead. It always fits: of a record that is too large it has the
// beginning, and how long the rest is. It decodes nothing, so it works for any bytes.
func DeadLetter(in *kgo.Record, topic string, partition int32, env *schemas.Envelope) *kgo.Record {
	out := *env
	out.Error, out.LastError = cut(out.Error, textBytes), cut(out.LastError, textBytes)
	rest, n := len(in.Key), 0
	for _, h := range in.Headers {
		if !reserved(h.Key) {
			rest += len(h.Key) + len(h.Value)
			n++
		}
	}
	if len(in.Value)+rest+n*headerBytes <= wholeBytes {
		return Onward(in, topic, partition, &out)
	}
	sum := sha256.Sum256(in.Value)
	out.ValueBytes, out.ValueSHA256, out.RestBytes = int64(len(in.Value)), hex.EncodeToString(sum[:]), int64(rest)
	out.RequestKey, out.CallbackURL = cut(out.RequestKey, textBytes), cut(out.CallbackURL, textBytes)
	short := kgo.Record{Key: in.Key[:min(len(in.Key), textBytes)], Value: in.Value[:min(len(in.Value), keptBytes)]}
	for left, i := keptBytes, 0; i < len(in.Headers); i++ {
		h := in.Headers[i]
		if reserved(h.Key) || len(h.Key) > left {
			continue
		}
		h.Value = h.Value[:min(len(h.Value), left-len(h.Key))]
		left -= len(h.Key) + len(h.Value)
		if short.Headers = append(short.Headers, h); len(short.Headers) == keptHeaders {
			break
		}
	}
	return Onward(&short, topic, partition, &out)
}

// keptHeaders is how many headers a dead letter has that has not all of its record's
// bytes: an empty one takes a few bytes, too.
const keptHeaders = 1000

// cut returns the first n bytes of a text at most.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// TooLarge returns why a request that came over Kafka is refused before it is read; nil
// when its key and headers are within bounds. The value is its decoder's to bound.
func TooLarge(r *kgo.Record) error {
	n := len(r.Key)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + headerBytes
	}
	if n <= schemas.MaxHeaderBytes {
		return nil
	}
	return &schemas.RequestError{Problems: []schemas.FieldProblem{{Code: schemas.ReasonTooLarge, Message: "its key and headers are larger than 512 KiB together"}}}
}
