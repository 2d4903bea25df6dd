package client

import (
	"encoding/json"

	"github.com/weirhq/weir/schemas"
)

// Message is what is known of a message: its state, and every step that led to
// it in the order of the log. Times are RFC 3339 in UTC with milliseconds;
// absent means empty or 0.
//
// Status is the one of the highest rank in the timeline, among equals the
// latest; At, Reason, Limit, Window, RetryAt, ErrorCode, Error and DuplicateOf
// belong to that step. Provider, ProviderMessageID and Segments are the latest
// known. AcceptedAt is the broker's append time of the request, and until there
// is a step, this server's clock.
type Message struct {
	ID                string           `json:"id"`
	Status            schemas.Status   `json:"status"`
	Tenant            string           `json:"tenant,omitempty"`
	Channel           string           `json:"channel,omitempty"`
	Class             string           `json:"class,omitempty"`
	Template          string           `json:"template,omitempty"`
	To                string           `json:"to,omitempty"` // canonical where it could be read
	Attempt           int              `json:"attempt,omitempty"`
	AcceptedAt        schemas.Millis   `json:"accepted_at,omitzero"`
	At                schemas.Millis   `json:"at,omitzero"` // when it came to Status
	Reason            string           `json:"reason,omitempty"`
	Provider          string           `json:"provider,omitempty"`
	ProviderMessageID string           `json:"provider_message_id,omitempty"`
	ErrorCode         string           `json:"error_code,omitempty"`
	Error             string           `json:"error,omitempty"`
	Limit             string           `json:"limit,omitempty"`  // what refused it
	Window            string           `json:"window,omitempty"` // as printed in the policy: 1/60s
	RetryAt           schemas.Millis   `json:"retry_at,omitzero"`
	Segments          int              `json:"segments,omitempty"`
	Cost              int              `json:"cost,omitempty"` // what it takes in limits with count: cost, where that is more than one
	DuplicateOf       string           `json:"duplicate_of,omitempty"`
	RedriveOf         string           `json:"redrive_of,omitempty"`
	Observed          bool             `json:"observed,omitempty"` // a limit in observe mode would have refused it
	Timeline          []*schemas.Event `json:"timeline"`
}

// Sent is the answer to a message. Without waiting its status is accepted: the
// brokers hold it, and nothing has been decided. After waiting it is what was
// decided first (queued, scheduled, deferred …), with the limits that were
// asked; accepted at the timeout.
type Sent struct {
	ID        string         `json:"id"`
	Status    schemas.Status `json:"status"`
	RetryAt   schemas.Millis `json:"retry_at,omitzero"`    // of a deferred one: when it is asked for again
	RedriveOf string         `json:"redrive_of,omitempty"` // of one that sends another again
	Limits    []LimitState   `json:"limits,omitempty"`
	// Degraded is that Kafka could not decide it and the key's on_unavailable allowed it:
	// no limit was asked, and it takes its places later.
	Degraded bool `json:"degraded,omitempty"`
}

// Done is the answer to an action on a message. Outcome is what admission found,
// stable: cancelled, remembered, released, repeated, not_held …; empty if it had
// not decided in time. Status is cancelled where the action ended the message.
type Done struct {
	ID      string         `json:"id"`
	Status  schemas.Status `json:"status"`
	Outcome string         `json:"outcome,omitempty"`
}

// Replayed is the answer to asking for callbacks again: how many statuses are known of
// the message. Those that the policy asks for are told.
type Replayed struct {
	ID       string `json:"id"`
	Statuses int    `json:"statuses"`
}

// LimitState is what is left in one window of a limit that was asked.
type LimitState = schemas.LimitState

// BatchResult is what became of one message of a batch: an ID and a Status, or
// an Error. As NDJSON it is a line, in the order of the batch.
type BatchResult struct {
	Index  int            `json:"index"` // of the message in its batch, from 0
	ID     string         `json:"id,omitempty"`
	Status schemas.Status `json:"status,omitempty"`
	Error  *Problem       `json:"error,omitempty"`
}

// BatchResults is the answer to a batch that came as one JSON object.
type BatchResults struct {
	Results []BatchResult `json:"results"`
}

// MessagePage is a part of a list of messages, the newest first. Their
// timelines are empty: Get has them.
type MessagePage struct {
	Messages   []Message `json:"messages"`
	NextCursor string    `json:"next_cursor,omitempty"` // brings the next page; empty at the end
	// Partial says that only what this instance has in memory was looked at,
	// the last minutes: ClickHouse is away, or there is none.
	Partial bool `json:"partial,omitempty"`
}

// Quota is what a recipient's limits leave, as of the last commit of those who
// own them.
type Quota struct {
	To      string         `json:"to"` // canonical
	Channel string         `json:"channel"`
	Class   string         `json:"class"`
	At      schemas.Millis `json:"at"`
	Limits  []LimitState   `json:"limits"`
	// Unknown names the limits that may apply, by what was not asked for: such as
	// the content, the provider, or a field of metadata.
	Unknown []string `json:"unknown,omitempty"`
	// Suppressed is what the recipient has opted out of, on any channel and of any
	// class: of the caller's tenant's messages, or of everybody's.
	Suppressed []schemas.Suppression `json:"suppressed"`
}

// Stats counts what happened to the caller's messages from From up to Until,
// which are whole minutes.
type Stats struct {
	From   schemas.Millis `json:"from"`
	Until  schemas.Millis `json:"until"`
	Counts []StatsCount   `json:"counts"`
	Limits []StatsLimit   `json:"limits"`           // what limits refused
	Before []StatsDay     `json:"before,omitempty"` // the same span of days before, the last one first
}

// StatsCount counts how often messages came to one status: a message that is
// tried again comes to sending and retrying more than once. What was not asked
// for by is empty.
type StatsCount struct {
	At       schemas.Millis `json:"at,omitzero"` // the beginning of its minute, hour or day
	Channel  string         `json:"channel,omitempty"`
	Class    string         `json:"class,omitempty"`
	Provider string         `json:"provider,omitempty"` // empty where none was chosen yet
	Status   schemas.Status `json:"status"`
	Events   int64          `json:"events"`
	// From acceptance to this status, in milliseconds; absent where not known.
	P50 float64 `json:"p50_ms,omitempty"`
	P95 float64 `json:"p95_ms,omitempty"`
	P99 float64 `json:"p99_ms,omitempty"`
}

// StatsLimit counts the messages that a window refused, and those that it would
// have refused if its limit did not only observe.
type StatsLimit struct {
	At       schemas.Millis `json:"at,omitzero"`
	Channel  string         `json:"channel,omitempty"`
	Class    string         `json:"class,omitempty"`
	Limit    string         `json:"limit"`
	Window   string         `json:"window"` // as printed in the policy: 1/60s
	Refused  int64          `json:"refused,omitempty"`
	Observed int64          `json:"observed,omitempty"`
}

// StatsDay counts the same span of a day before, by status.
type StatsDay struct {
	From   schemas.Millis `json:"from"`
	Until  schemas.Millis `json:"until"`
	Counts []StatsCount   `json:"counts"`
}

// Resource is one entry of the policy as the API shows it. T is the entry's
// type, schemas.Limit and the like; Value's secrets are references.
type Resource[T any] struct {
	ETag     string `json:"etag"`     // as If-Match takes it, with its quotes
	Revision int64  `json:"revision"` // in force when this was read, or made by this change
	Value    T      `json:"value"`

	// Secret is the whole API key, in the one answer that makes it.
	Secret string `json:"secret,omitempty"`
	// Changes is what a PUT changed, or with a dry run would change, and Warming
	// what begins to count with it.
	Changes []schemas.Change `json:"changes,omitempty"`
	Warming []Warming        `json:"warming,omitempty"`
	Lost    []Loss           `json:"lost,omitempty"`   // history that limits lose by it
	Topics  []string         `json:"topics,omitempty"` // that a dry run would make or alter
	DryRun  bool             `json:"dry_run,omitempty"`
	// Unroutable are channels whose messages are all rejected after the change.
	Unroutable []schemas.Channel `json:"unroutable,omitempty"`
}

// Warming is a window whose history begins with a change, because what it
// counts was not kept before. From Complete on it counts as if it had always
// been there.
type Warming struct {
	Limit    string         `json:"limit"`
	Window   schemas.Window `json:"window"`
	Since    schemas.Millis `json:"since"`
	Complete schemas.Millis `json:"complete"`
}

// Loss is history of a limit that one of its windows does not count after a
// change: what was sent after From and up to Until.
type Loss struct {
	Limit  string         `json:"limit"`
	Window schemas.Window `json:"window"`
	From   schemas.Millis `json:"from"`
	Until  schemas.Millis `json:"until"`
}

// Removal is what a DELETE would change.
type Removal struct {
	Revision int64            `json:"revision"` // in force
	DryRun   bool             `json:"dry_run"`
	Changes  []schemas.Change `json:"changes"`
	// Unroutable are channels whose messages would all be rejected.
	Unroutable []schemas.Channel `json:"unroutable,omitempty"`
}

// Rollback is what a rollback changed, or with a dry run would change.
type Rollback struct {
	Revision int64            `json:"revision"` // in force when this was answered
	Changes  []schemas.Change `json:"changes"`
	Warming  []Warming        `json:"warming,omitempty"`
	Lost     []Loss           `json:"lost,omitempty"`   // history that limits lose by it
	Topics   []string         `json:"topics,omitempty"` // that a dry run would make or alter
	DryRun   bool             `json:"dry_run,omitempty"`
	// Unroutable are channels whose messages are all rejected after the change.
	Unroutable []schemas.Channel `json:"unroutable,omitempty"`
}

// ResourceList is all entries of one kind, in the policy's order.
type ResourceList[T any] struct {
	Revision int64         `json:"revision"`
	Items    []Resource[T] `json:"items"`
}

// RevisionPage is a part of the policy's history, the newest first.
type RevisionPage struct {
	Revisions  []Revision `json:"revisions"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// Revision is one change of the policy: who made it, when, and what it changed.
type Revision struct {
	Revision int64            `json:"revision"`
	At       schemas.Millis   `json:"at"`
	By       string           `json:"by,omitempty"`
	Changes  []schemas.Change `json:"changes"`
}

// PolicyRevision is the whole policy of one revision. Its keys are without their
// hashes.
type PolicyRevision struct {
	Revision int64          `json:"revision"`
	Parent   int64          `json:"parent"`
	At       schemas.Millis `json:"at,omitzero"`
	By       string         `json:"by,omitempty"`
	Policy   schemas.Policy `json:"policy"`
}

// RawResource is a resource whose type the reader does not know.
type RawResource = Resource[json.RawMessage]
