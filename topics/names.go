package topics

import (
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// DefaultPrefix begins every topic's name unless the configuration says
// otherwise.
const DefaultPrefix = "weir."

// Queue is one of the dispatch topics of a provider. One lane reads all four.
type Queue string

const (
	QueueUrgent Queue = "urgent"
	QueueAgain  Queue = "again" // came back, for another attempt or decided again after going stale: must not wait behind the backlog
	QueueNormal Queue = "normal"
	QueueBulk   Queue = "bulk"
)

// Queues lists every queue of a provider, in the order in which a lane prefers
// them.
var Queues = []Queue{QueueUrgent, QueueAgain, QueueNormal, QueueBulk}

// QueueOf returns the queue of a newly decided message. An unknown or empty
// priority is normal.
func QueueOf(p schemas.Priority) Queue {
	switch p {
	case schemas.PriorityUrgent:
		return QueueUrgent
	case schemas.PriorityBulk:
		return QueueBulk
	case schemas.PriorityNormal:
		return QueueNormal
	}
	return QueueNormal
}

// Tier is a delay topic: whatever is written to it waits exactly Wait from its
// append time.
type Tier struct {
	Name string
	Wait time.Duration
}

// Tiers are the delay topics, sorted by wait. 5s, 30s and 5m serve retries as
// well as the longer waits, which are made of hops.
var Tiers = []Tier{
	{"1s", time.Second},
	{"5s", 5 * time.Second},
	{"30s", 30 * time.Second},
	{"5m", 5 * time.Minute},
	{"1h", time.Hour},
	{"6h", 6 * time.Hour},
	{"1d", 24 * time.Hour},
}

// TierFor returns the tier for the next hop of a record that must not return
// for remaining: the longest that makes it late by less than the shortest tier
// would at worst. So a record is never early, late by less than the shortest
// tier's wait, and a hop that took a little longer than its tier does not turn
// the rest into many short ones. A wait that a tier has is one hop of that tier.
// docs/delay.md has how many hops a wait takes.
func TierFor(remaining time.Duration) Tier {
	best := Tiers[0]
	for _, t := range Tiers[1:] {
		if t.Wait < remaining+Tiers[0].Wait {
			best = t
		}
	}
	return best
}

// Names are the topics' names under one prefix. The zero value has
// DefaultPrefix.
type Names struct {
	Prefix string
}

func (n Names) of(s string) string {
	if n.Prefix == "" {
		return DefaultPrefix + s
	}
	return n.Prefix + s
}

// Requests holds what producers ask for.
func (n Names) Requests() string { return n.of("requests") }

// Readmit holds what admission is asked to judge again.
func (n Names) Readmit() string { return n.of("readmit") }

// Ledger holds admission's state.
func (n Names) Ledger() string { return n.of("ledger") }

// Seen holds the keys and ids that clients gave.
func (n Names) Seen() string { return n.of("seen") }

// Status holds status events and decisions.
func (n Names) Status() string { return n.of("status") }

// Dispatch holds a provider's admitted messages in one queue.
func (n Names) Dispatch(provider string, q Queue) string {
	return n.of("dispatch." + provider + "." + string(q))
}

// Journal holds a provider's permits and outcomes.
func (n Names) Journal(provider string) string { return n.of("journal." + provider) }

// Delay holds what waits for one tier, by the tier's name.
func (n Names) Delay(tier string) string { return n.of("delay." + tier) }

// DLQ holds the messages given up on.
func (n Names) DLQ() string { return n.of("dlq") }

// Redriven says which records of the DLQ were sent again.
func (n Names) Redriven() string { return n.of("dlq.redriven") }

// Config holds the policy's revisions.
func (n Names) Config() string { return n.of("config") }

// Health holds breakers and success rates.
func (n Names) Health() string { return n.of("health") }

// Receipts holds what providers tell later about messages that they took.
func (n Names) Receipts() string { return n.of("receipts") }

// Replies holds the decisions that waiting HTTP requests asked for.
func (n Names) Replies() string { return n.of("replies") }

// Reports is the compacted topic of what processes say of their own work.
func (n Names) Reports() string { return n.of("reports") }

// Alerts is the compacted topic of what the alerter has told, and how far it has
// read.
func (n Names) Alerts() string { return n.of("alerts") }

// Skips is the compacted topic of records of Weir's own state that an operator let
// it go on without.
func (n Names) Skips() string { return n.of("skips") }

// Callbacks holds the callbacks that waited, and those that are to be made again.
func (n Names) Callbacks() string { return n.of("callbacks") }

// CallbackState is the compacted topic of which callbacks wait.
func (n Names) CallbackState() string { return n.of("callbacks.state") }

// Endpoints is the compacted topic of the callbacks' endpoints: which are disabled,
// and how the others are.
func (n Names) Endpoints() string { return n.of("callbacks.endpoints") }

// TierOf returns the tier whose delay topic this is.
func (n Names) TierOf(topic string) (Tier, bool) {
	name, ok := strings.CutPrefix(topic, n.of("delay."))
	if !ok {
		return Tier{}, false
	}
	for _, t := range Tiers {
		if t.Name == name {
			return t, true
		}
	}
	return Tier{}, false
}
