package status

import (
	"slices"

	"github.com/weirhq/weir/schemas"
)

// None is the state of a message that has no status yet.
const None schemas.Status = ""

// Next returns the state of a message after one more status event, and whether
// the event may follow. When it may not, the state stays as it is.
//
// An end stays: only receipts change sent and unknown, by rank. A receipt may
// come before the send is recorded; so after a receipt sent and unknown may
// follow, and change nothing.
func Next(current, event schemas.Status) (schemas.Status, bool) {
	if !slices.Contains(follows(current), event) {
		return current, false
	}
	if current.Rank() > event.Rank() {
		return current, true
	}
	return event, true
}

// follows lists what may come after a state.
func follows(current schemas.Status) []schemas.Status {
	switch current {
	case None, schemas.StatusAccepted:
		return []schemas.Status{
			schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusQueued,
			schemas.StatusSent, // its provider is none that Weir calls; so in every state that admission decides
			schemas.StatusLimited, schemas.StatusSuppressed, schemas.StatusExpired, schemas.StatusCancelled,
			schemas.StatusRejected, schemas.StatusDuplicate,
		}
	case schemas.StatusScheduled:
		return []schemas.Status{
			schemas.StatusScheduled, // it came back before its time, by the clock of the partition
			schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSent,
			schemas.StatusLimited, schemas.StatusSuppressed, schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected,
		}
	case schemas.StatusDeferred: // before the first attempt, or between attempts
		return []schemas.Status{
			schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSent,
			schemas.StatusLimited, schemas.StatusSuppressed, schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected,
			schemas.StatusUnknown, schemas.StatusUndelivered, schemas.StatusDelivered,
		}
	case schemas.StatusQueued:
		return []schemas.Status{
			schemas.StatusSending,
			schemas.StatusQueued, schemas.StatusDeferred, schemas.StatusSent, // it went stale and was decided anew
			schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusSuppressed, schemas.StatusExpired,
			schemas.StatusCancelled, schemas.StatusRejected,
			schemas.StatusUndelivered, schemas.StatusDelivered,
		}
	case schemas.StatusSending:
		return []schemas.Status{
			schemas.StatusSending,                        // its permit expired unused
			schemas.StatusQueued, schemas.StatusDeferred, // and then it went stale
			schemas.StatusSent, schemas.StatusRetrying, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusExpired,
			schemas.StatusSuppressed, schemas.StatusCancelled, schemas.StatusRejected,
			schemas.StatusUndelivered, schemas.StatusDelivered,
		}
	case schemas.StatusRetrying:
		return []schemas.Status{
			schemas.StatusQueued, schemas.StatusDeferred, schemas.StatusSent,
			schemas.StatusUnknown, schemas.StatusSuppressed, schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected,
			schemas.StatusUndelivered, schemas.StatusDelivered,
		}
	case schemas.StatusSent, schemas.StatusUnknown:
		return []schemas.Status{schemas.StatusUndelivered, schemas.StatusDelivered}
	case schemas.StatusUndelivered:
		return []schemas.Status{schemas.StatusDelivered, schemas.StatusSent, schemas.StatusUnknown}
	case schemas.StatusDelivered:
		return []schemas.Status{schemas.StatusUndelivered, schemas.StatusSent, schemas.StatusUnknown}
	case schemas.StatusFailed, schemas.StatusLimited, schemas.StatusSuppressed, schemas.StatusExpired,
		schemas.StatusCancelled, schemas.StatusRejected, schemas.StatusDuplicate:
		return nil
	}
	return nil
}
