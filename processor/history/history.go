// Package history names what can be asked of the store behind the topics, and
// its answers: messages by search, and counts. processor/sink/warehouse answers
// from ClickHouse; ingest asks.
//
// It reads nothing itself, and knows neither pages nor callers: whoever asks
// names the tenant.
package history

import (
	"cmp"

	"github.com/weirhq/weir/schemas"
)

// Place is where a message stands among its tenant's: by the time at which its
// request was accepted, and among equals by its id. It never changes.
type Place struct {
	At schemas.Millis
	ID string
}

// Compare orders places, the oldest first.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.At, q.At), cmp.Compare(p.ID, q.ID))
}

// Name is a message among its tenant's. An id alone is none: a producer may use
// one for several recipients.
type Name struct{ ID, To string }

// Search asks for messages of one tenant. A zero field asks for nothing.
type Search struct {
	Tenant   string
	To       []string // canonical: any of them
	Channel  string
	Class    string
	Statuses []schemas.Status // the message's now: any of them
	From     schemas.Millis   // accepted then or later
	Until    schemas.Millis   // accepted before
	Before   Place            // older than this one; the zero Place is no bound
	Limit    int              // at least 1
}

// Found is the answer to a Search.
type Found struct {
	// Events has one for each message, the newest message first: its latest
	// status, with all that is known of it in the other fields.
	Events []*schemas.Event
	// Reached is the oldest place that was looked at, where there may be more
	// behind it; nil when there is no more. Fewer than Limit events and a
	// Reached say that what was sought is rare.
	Reached *Place
}

// Unit is the span that a count is told apart by.
type Unit string

const (
	UnitNone   Unit = ""
	UnitMinute Unit = "minute"
	UnitHour   Unit = "hour"
	UnitDay    Unit = "day" // of UTC
)
