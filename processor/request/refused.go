package request

import (
	"errors"

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

// Dead is the envelope under which a message's bytes go to weir.dlq: why it was
// given up on, for code and for people.
func Dead(env schemas.Envelope, why, text string) schemas.Envelope {
	env.Reason, env.Error, env.DueAt, env.Return = why, text, 0, ""
	return env
}
