// Package history names what can be asked of the store behind the topics, and
// its answers: messages by search, and counts. processor/sink/warehouse answers
// from ClickHouse; ingest asks.
//
// It reads nothing itself, and knows neither pages nor callers: whoever asks
// names the tenant.
package history

import (
	"cmp"
	"errors"

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
	// Reached say that what was sought is rare. Without an id it is before all
	// that were accepted then.
	Reached *Place
}

// Dimension is what counts are told apart by, besides their status.
type Dimension string

const (
	ByChannel  Dimension = "channel"
	ByClass    Dimension = "class"
	ByProvider Dimension = "provider"
	ByMinute   Dimension = "minute"
	ByHour     Dimension = "hour" // of UTC, as days are
	ByDay      Dimension = "day"
)

// AllTenants is the Tenant of a count over all tenants. No tenant has this name.
const AllTenants = "*"

// Tally asks how often what happened to a tenant's messages. Times are whole
// minutes. A zero field asks for nothing.
type Tally struct {
	Tenant   string // or AllTenants
	Channel  string
	Class    string
	Provider string // which limits know nothing of
	From     schemas.Millis
	Until    schemas.Millis
	By       []Dimension // at most one of the times
	Most     int         // rows of each kind; more are an error
	// Days asks for the same span of so many days before too, by status alone.
	// From and Until are then a day apart at most.
	Days int
	// How long it took, of the span and of the days before: nearly all that an answer
	// costs.
	Latency, LatencyBefore bool
}

// Counted is the answer to a Tally, in the order of its fields.
type Counted struct {
	Counts []Count
	Limits []LimitCount
	Before []Count
}

// Count is how many events brought messages to a status.
type Count struct {
	Day                      int            // 0, or so many days before
	At                       schemas.Millis // the beginning of its minute, hour or day; 0 where none was asked for
	Channel, Class, Provider string
	Status                   schemas.Status
	Events                   int64
	// From acceptance to this status in milliseconds; 0 where not known or not
	// asked for.
	P50, P95, P99 float64
}

// LimitCount is how many messages a window refused, and would have if its limit
// did not only observe.
type LimitCount struct {
	At                schemas.Millis
	Channel, Class    string
	Limit, Window     string
	Refused, Observed int64
}

// ErrTooMany means that an answer has more rows than it may.
var ErrTooMany = errors.New("more rows than may be")

// Handed names messages that a provider was given: by the provider's name and own id,
// or by Weir's id, whichever providers and recipients that is of.
type Handed struct {
	Provider, ProviderMessageID string
	MessageID                   string // the other two are empty
}

// Carried is what is known of a message that was handed to a provider.
type Carried struct {
	Provider, ProviderMessageID string
	MessageID, To, Tenant       string
	Channel, Class, Template    string
	Attempt                     int
}
