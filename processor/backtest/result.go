package backtest

import "github.com/weirhq/weir/schemas"

// Result is what a policy would have done to recorded traffic, and what was
// done. Counts are of messages. Refused counts deferred ones too: a limit said
// no.
type Result struct {
	From     schemas.Millis `json:"from"` // of the traffic that was judged
	Until    schemas.Millis `json:"until"`
	Warmed   schemas.Millis `json:"warmed_from"` // traffic from here to From filled the windows and is not counted
	Source   string         `json:"source"`      // kafka, clickhouse, or both
	Revision int64          `json:"revision"`    // of the policy in force now, to which the other one is compared

	Messages int64 `json:"messages"`
	Then     Tally `json:"then"` // what was decided
	Now      Tally `json:"now"`  // what the other policy would decide

	// The difference, message by message.
	NewlyRefused  int64 `json:"newly_refused"`  // admitted then, refused now
	NewlyAdmitted int64 `json:"newly_admitted"` // refused then, admitted now

	ByLimit []LimitCount `json:"by_limit"` // most refusals first
	ByClass []ClassCount `json:"by_class"`
	ByHour  []HourCount  `json:"by_hour"`
	Busiest []Recipient  `json:"busiest"` // refused most under the other policy

	// Notes say what could not be told or was assumed, in sentences: limits
	// that need what is no longer kept, messages that ended otherwise.
	Notes []string `json:"notes,omitempty"`
}

// Tally is how messages were decided.
type Tally struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
	Observed int64 `json:"observed"` // of the admitted: a limit in observe mode was full
	Held     int64 `json:"held"`     // of the admitted: a limit refused a further attempt, which waits with the old place
}

// LimitCount is what one window of a limit refused, or in observe mode would have.
type LimitCount struct {
	Limit  string `json:"limit"`
	Window string `json:"window"`
	Mode   string `json:"mode"` // enforce or observe, under the other policy
	Then   int64  `json:"then"`
	Now    int64  `json:"now"`
}

// ClassCount is refusals by class.
type ClassCount struct {
	Class    string `json:"class"`
	Messages int64  `json:"messages"`
	Then     int64  `json:"then"`
	Now      int64  `json:"now"`
}

// HourCount is refusals by hour of UTC.
type HourCount struct {
	Hour     schemas.Millis `json:"hour"`
	Messages int64          `json:"messages"`
	Then     int64          `json:"then"`
	Now      int64          `json:"now"`
}

// Recipient is one who would be refused, masked.
type Recipient struct {
	To       string `json:"to"`
	Messages int64  `json:"messages"`
	Then     int64  `json:"then"`
	Now      int64  `json:"now"`
}
