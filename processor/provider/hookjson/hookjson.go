// Package hookjson reads what providers call with where that is JSON: an array of
// receipts or messages, each read alone.
//
// Each verifies nothing; Poster does, for providers that sign nothing. It knows no provider.
package hookjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/weirhq/weir/processor/provider"
)

// Each reads the elements of body, an array or one object, with one, which may say
// that an element tells nothing worth keeping.
//
// An element that cannot be read is left out and said so in the log: refused, the
// provider would send all of them again, and in the end give all of them up. Where
// none can be read the error is provider.ErrHook: somebody else's form came. What
// is logged holds nothing of body; one's errors must not either.
func Each[T, R any](body []byte, logger *slog.Logger, one func(T) (r R, tells bool, err error)) ([]R, error) {
	var elements []json.RawMessage
	if body = bytes.TrimSpace(body); bytes.HasPrefix(body, []byte("{")) {
		elements = []json.RawMessage{body}
	} else if err := json.Unmarshal(body, &elements); err != nil || elements == nil {
		return nil, provider.ErrHook
	}
	out := make([]R, 0, len(elements))
	unread := 0
	var first error
	for _, raw := range elements {
		r, tells, err := element(raw, one)
		switch {
		case err != nil:
			unread++
			if first == nil {
				first = err
			}
		case tells:
			out = append(out, r)
		}
	}
	if unread > 0 {
		logger.Warn("a provider sent what cannot be read", "unread", unread, "of", len(elements), "first", first)
		if unread == len(elements) {
			return nil, provider.ErrHook
		}
	}
	return out, nil
}

var errForm = errors.New("not an object, or a field is neither text nor number nor boolean")

func element[T, R any](raw []byte, one func(T) (R, bool, error)) (r R, tells bool, err error) {
	var in *T
	if json.Unmarshal(raw, &in) != nil || in == nil {
		return r, false, errForm // the error of encoding/json may quote
	}
	return one(*in)
}

// Text is a field that is text, a number or a boolean, as its digits or letters:
// what providers document and what they send differ, and change.
type Text string

// UnmarshalJSON reads any of these, and null as nothing.
func (t *Text) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		*t = ""
	case string:
		*t = Text(v)
	case float64, bool:
		*t = Text(b) // as it is written: a long number loses nothing
	default:
		return errForm
	}
	return nil
}
