package audit

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// message is what the log says so far of one message.
type message struct {
	expires schemas.Millis // 0 is not known
	first   schemas.Millis // the time of its first status
	last    schemas.Millis // and of its last
	offset  int64          // where its last status stands
	held    int32          // what it was charged, as calls has it
	status  uint8          // index into schemas.Statuses, but receipts
	flags   uint8
}

// messageKey is the identity of a message: an id is its tenant's, and names one
// message to one recipient. A lane's and a receipt's events name the tenant as
// admission's do; where one says none, it is the default.
func messageKey(tenant, to, id string) sum {
	return sumOf(cmp.Or(tenant, schemas.DefaultTenant), to, id)
}

const (
	flagUnknown  = 1 << iota // an attempt's outcome is unknown: only sent or unknown may end it
	flagBefore               // it began before the log that was read
	flagReceived             // a receipt came
	flagRound                // it is on its way round the owners of wide limits
)

func (m *message) state() schemas.Status { return schemas.Statuses[m.status] }

func indexOf(s schemas.Status) uint8 { return uint8(max(slices.Index(schemas.Statuses, s), 0)) }

// remembered is how long an ended message is known, so that a second end is
// seen; unique is how long a client's id means one message.
const (
	remembered = schemas.Millis(25 * 3_600_000)
	unique     = schemas.Millis(24 * 3_600_000)
)

// mayFollow reports whether a message may go from one state to another, as
// ARCHITECTURE.md draws it; receipts are not asked about here. The empty state
// is that of a message that has none.
func mayFollow(from, to schemas.Status) bool {
	switch from {
	case "", schemas.StatusAccepted: // on its way round the owners, and nothing said yet
		switch to {
		case schemas.StatusSending, schemas.StatusRetrying, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusAccepted:
			return false
		default:
			return true
		}
	case schemas.StatusScheduled, schemas.StatusDeferred:
		switch to {
		case schemas.StatusScheduled:
			return from == schemas.StatusScheduled
		case schemas.StatusUnknown:
			return from == schemas.StatusDeferred
		case schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSent, schemas.StatusLimited, schemas.StatusSuppressed,
			schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected:
			return true
		default:
			return false
		}
	case schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying:
		switch to {
		case schemas.StatusSending:
			return from != schemas.StatusRetrying // again: its permit expired unused
		case schemas.StatusRetrying:
			return from == schemas.StatusSending
		case schemas.StatusFailed:
			return from != schemas.StatusRetrying
		case schemas.StatusQueued, schemas.StatusDeferred, schemas.StatusSent, schemas.StatusUnknown, schemas.StatusSuppressed,
			schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected:
			return true // sent by whom, sentByWhom judges
		default:
			return false
		}
	default:
		return false // ends
	}
}
