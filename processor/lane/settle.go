package lane

import (
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/retry"
	"github.com/weirhq/weir/schemas"
)

// Reasons in status events and on the DLQ.
const (
	reasonPermanent = "permanent"          // the provider refused it for good
	reasonExhausted = "attempts_exhausted" // after the last retry
	reasonHeld      = "held"               // an attempt may have been received and the class says hold
	reasonExpired   = "expired"
	reasonContent   = "bad_content" // what was admitted cannot be rendered under today's policy
	reasonLate      = "late"        // of a sending: its permit is later than its decision lets it be
	codeInDoubt     = "in_doubt"    // a permit whose outcome was lost with its process
)

// settlement is what becomes of a message.
type settlement struct {
	status     schemas.Status // sent, retrying, failed, unknown, expired
	reason     string
	wait       time.Duration // retrying: until the next attempt
	taint      schemas.Taint // with this attempt's
	deadLetter bool
	giveBack   bool // its place returns: it surely was not received
}

// settle decides what becomes of a message after attempt (from 1), whose
// earlier attempts left taint behind. Once an attempt is unknown only sent or
// unknown may end the message.
func settle(o provider.Outcome, class schemas.Class, attempt int, taint schemas.Taint) settlement {
	switch {
	case o.Kind == provider.Unknown:
		taint = taint.Join(schemas.TaintUnknown)
	case o.Kind != provider.Accepted && o.MayBeReceived:
		taint = taint.Join(schemas.TaintReceived)
	}
	wait, more := retry.Next(class, attempt, o.RetryAfter)
	if o.Suppress != "" && (o.Kind == provider.Throttled || o.Kind == provider.Transient) {
		return end(schemas.StatusFailed, reasonPermanent, taint) // nobody is to be sent to again: not by a retry either
	}
	switch o.Kind {
	case provider.Accepted:
		return settlement{status: schemas.StatusSent, taint: taint}
	case provider.Permanent:
		return end(schemas.StatusFailed, reasonPermanent, taint)
	case provider.Unknown, provider.Throttled, provider.Transient:
	}
	if class.OnUnknown == schemas.UnknownHold && taint != schemas.TaintNone {
		return end(schemas.StatusUnknown, reasonHeld, taint) // a retry would repeat a call that may have been received
	}
	if !more {
		return end(schemas.StatusFailed, reasonExhausted, taint)
	}
	return settlement{status: schemas.StatusRetrying, reason: string(o.Kind), wait: wait, taint: taint}
}

// within cuts a wait short at a message's expiry (0: it has none). There it
// comes back, and admission ends it: neither a class's longest wait nor what a
// provider asks for makes anyone wait for an end that is certain.
func within(wait time.Duration, expires, t schemas.Millis) time.Duration {
	if expires == 0 {
		return wait
	}
	return min(wait, max(expires.Sub(t), 0))
}

// end closes a message that was not sent.
func end(s schemas.Status, reason string, taint schemas.Taint) settlement {
	if taint == schemas.TaintUnknown {
		s = schemas.StatusUnknown
	}
	return settlement{
		status: s, reason: reason, taint: taint,
		deadLetter: s == schemas.StatusFailed,
		giveBack:   taint == schemas.TaintNone,
	}
}
