package client

import "github.com/weirhq/weir/schemas"

// Errors counts what providers answered the caller's messages from From up to
// Until, the most frequent first.
type Errors struct {
	From   schemas.Millis `json:"from"`
	Until  schemas.Millis `json:"until"`
	Errors []ErrorCount   `json:"errors"`
}

// ErrorCount counts one error of one provider; a message that is tried again
// counts each time.
type ErrorCount struct {
	Provider  string `json:"provider"`
	ErrorCode string `json:"error_code"` // the provider's own; empty where it gave none
	Example   string `json:"example"`    // what one of them said, for people
	Events    int64  `json:"events"`
}

// Refused counts whom limits refused from From up to Until, who was refused most
// first.
type Refused struct {
	From       schemas.Millis `json:"from"`
	Until      schemas.Millis `json:"until"`
	Recipients []RefusedCount `json:"recipients"`
}

// RefusedCount counts how often limits refused or deferred the messages to one
// recipient.
type RefusedCount struct {
	To      string         `json:"to"` // masked
	Refused int64          `json:"refused"`
	LastAt  schemas.Millis `json:"last_at"`
	Limit   string         `json:"limit"` // that refused last
}

// ProvidersHealth is every provider in the policy's order.
type ProvidersHealth struct {
	Providers []ProviderHealth `json:"providers"`
}

// ProviderHealth is a provider of the policy in force, and what its lanes say of
// it. Share is how much of its weight routing gives it, 0 to 1.
type ProviderHealth struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Channels    []schemas.Channel `json:"channels"`
	Pace        []string          `json:"pace"` // as printed in the policy: 5/1s
	Smooth      bool              `json:"smooth"`
	Concurrency int               `json:"concurrency"`
	Lanes       []LaneHealth      `json:"lanes"` // those that have spoken
	Share       float64           `json:"share"`
}

// LaneHealth is what one lane said of its provider at At. Calls ended in the
// minute before; those of Failures were transient or unknown.
type LaneHealth struct {
	Lane    int32           `json:"lane"`
	Breaker schemas.Breaker `json:"breaker"`
	ProbeAt schemas.Millis  `json:"probe_at,omitzero"` // of an open one
	// SilentUntil is until when it makes no call, because the provider throttles everyone.
	SilentUntil schemas.Millis `json:"silent_until,omitzero"`
	Calls       int64          `json:"calls"`
	Failures    int64          `json:"failures"` // transient or unknown
	Refused     int64          `json:"refused"`  // throttled or refused for good
	At          schemas.Millis `json:"at"`
}

// Proof is what the last audit and each sink said of their work; Report.At tells
// when.
type Proof struct {
	Audit      *schemas.Report  `json:"audit"` // nil where none has been run
	Sinks      []schemas.Report `json:"sinks"`
	StatusLag  int64            `json:"status_lag_ms"` // the longest that a sink reported
	Difference int64            `json:"difference"`    // of all sinks that have compared (CheckedAt): 0 unless something is wrong
	Stuck      []schemas.Report `json:"stuck"`         // of processes with a stage that has work and commits nothing
	Unknown    []schemas.Report `json:"unknown"`       // of processes that met fields of requests over Kafka that Weir does not know, in the last day
}

// Delays is every delay topic, the shortest wait first.
type Delays struct {
	Tiers []DelayTier `json:"tiers"`
}

// DelayTier is what waits in one delay topic.
type DelayTier struct {
	Name     string         `json:"name"`
	Wait     int64          `json:"wait_ms"`
	Waiting  int64          `json:"waiting"`
	AtMost   bool           `json:"at_most,omitempty"`  // too many to count: so many at most
	OldestAt schemas.Millis `json:"oldest_at,omitzero"` // since when; 0 where none waits
}

// Backlog is what waits to be worked on, of all tenants, as Kafka showed it at At.
type Backlog struct {
	At      schemas.Millis `json:"at"`
	Waiting int64          `json:"waiting"` // in all queues
	AtMost  bool           `json:"at_most,omitempty"`
	Queues  []QueueBacklog `json:"queues"`
	// Stalled are the providers that make no calls although messages wait for them.
	Stalled []string `json:"stalled"`
}

// QueueBacklog is what waits in one queue.
type QueueBacklog struct {
	Stage     string         `json:"stage"`              // inputs, admission or lanes
	Provider  string         `json:"provider,omitempty"` // of lanes only
	Queue     string         `json:"queue"`
	Waiting   int64          `json:"waiting"`
	AtMost    bool           `json:"at_most,omitempty"`    // too many to count: so many at most
	OldestAt  schemas.Millis `json:"oldest_at,omitzero"`   // since when; 0 where none waits
	PerMinute *float64       `json:"per_minute,omitempty"` // worked off, over the last minute or less: of lanes by calls, else by positions, and nil where only one look was taken
	Drain     int64          `json:"drain_ms,omitempty"`   // until it is empty at that rate, if nothing is added; 0 where nothing waits or moves
}

// LimitTry is limits to try on recorded traffic. They are added to those in force,
// or replace those of their names.
type LimitTry struct {
	Limits []schemas.Limit  `json:"limits,omitempty"`
	Remove []string         `json:"remove,omitempty"`
	Since  schemas.Duration `json:"since,omitempty"` // how far back; 0 is the server's default, 24 h
}

// Summary is what an event stream says with summary=1s instead of each status: how
// many came from From up to Until, by the server's clock. It says so also where
// none did.
type Summary struct {
	From   schemas.Millis `json:"from"`
	Until  schemas.Millis `json:"until"`
	Counts []SummaryCount `json:"counts"`
}

// SummaryCount is how many statuses came. Where there are more than 500 kinds of
// them, those of the rest are told apart by status alone.
type SummaryCount struct {
	Channel  string         `json:"channel,omitempty"`
	Class    string         `json:"class,omitempty"`
	Provider string         `json:"provider,omitempty"` // empty where none was chosen yet
	Status   schemas.Status `json:"status"`
	Events   int64          `json:"events"`
}

// Backtest is what limits would have done to recorded traffic, and what was
// done. Counts are of messages; refused ones include those that would wait.
type Backtest struct {
	From          schemas.Millis      `json:"from"` // of the traffic that was judged
	Until         schemas.Millis      `json:"until"`
	WarmedFrom    schemas.Millis      `json:"warmed_from"` // traffic from here to From filled the windows
	Source        string              `json:"source"`      // kafka, clickhouse or both
	Revision      int64               `json:"revision"`    // in force, to which the limits are compared
	Messages      int64               `json:"messages"`
	Then          BacktestTally       `json:"then"`
	Now           BacktestTally       `json:"now"`
	NewlyRefused  int64               `json:"newly_refused"`
	NewlyAdmitted int64               `json:"newly_admitted"`
	ByLimit       []BacktestLimit     `json:"by_limit"`
	ByClass       []BacktestClass     `json:"by_class"`
	ByHour        []BacktestHour      `json:"by_hour"`
	Busiest       []BacktestRecipient `json:"busiest"`
	Notes         []string            `json:"notes,omitempty"` // what could not be told or was assumed
}

// BacktestTally is how messages are decided.
type BacktestTally struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
	Observed int64 `json:"observed"` // of the admitted: a limit in observe mode was full
	Held     int64 `json:"held"`     // of the admitted: a limit refused a further attempt, which waits with the old place
}

// BacktestLimit is what one window refused then, and would now.
type BacktestLimit struct {
	Limit  string `json:"limit"`
	Window string `json:"window"`
	Mode   string `json:"mode"` // enforce or observe
	Then   int64  `json:"then"`
	Now    int64  `json:"now"`
}

// BacktestClass is the refusals of one class.
type BacktestClass struct {
	Class    string `json:"class"`
	Messages int64  `json:"messages"`
	Then     int64  `json:"then"`
	Now      int64  `json:"now"`
}

// BacktestHour is the refusals of one hour of UTC.
type BacktestHour struct {
	Hour     schemas.Millis `json:"hour"`
	Messages int64          `json:"messages"`
	Then     int64          `json:"then"`
	Now      int64          `json:"now"`
}

// BacktestRecipient is someone who would be refused, masked.
type BacktestRecipient struct {
	To       string `json:"to"`
	Messages int64  `json:"messages"`
	Then     int64  `json:"then"`
	Now      int64  `json:"now"`
}
