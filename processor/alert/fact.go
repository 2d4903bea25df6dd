package alert

import (
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Subject is what an alert tells of: what has the same subject is one line, and
// summed up. Only the fields that the event has are set.
type Subject struct {
	Event    string `json:"event"`
	Limit    string `json:"limit,omitempty"`
	Window   string `json:"window,omitempty"`
	Provider string `json:"provider,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Process  string `json:"process,omitempty"` // the slot of a sink or worker
	Stage    string `json:"stage,omitempty"`   // which is behind
}

// others is the subject of what no longer has a line of its own.
func (s Subject) others() Subject { return Subject{Event: s.Event, Reason: othersReason} }

const othersReason = "others"

func (s Subject) key() string {
	return strings.Join([]string{s.Event, s.Limit, s.Window, s.Provider, s.Reason, s.Process, s.Stage}, "\x1f")
}

// Happening is something that happened once: a refusal, a message given up on.
type Happening struct {
	Subject
	At     schemas.Millis
	Class  string
	Tenant string
	To     string // the recipient; kept as a hash, and masked
}

// Condition is something that stands for a while: an open breaker.
type Condition struct {
	Subject
	Since  schemas.Millis
	Detail string // for people, without recipients
}

// Outcome is what came of trying to send a notice.
type Outcome struct {
	Alert   string
	Notice  string // its id
	At      schemas.Millis
	Verdict Verdict
	After   int64 // milliseconds that the receiver asks to wait for; 0: it did not
}

// Verdict says what a try came to.
type Verdict string

const (
	Taken   Verdict = "taken"   // 2xx
	Again   Verdict = "again"   // not taken for now: no connection, 408, 429, 5xx: tried again
	Unsure  Verdict = "unsure"  // no answer, or one of who stands between: it may have been taken; tried again
	Refused Verdict = "refused" // any other answer, or an address that must not be called: this notice is not tried again
)

// Facts are what a step is told.
type Facts struct {
	Happened []Happening
	// Standing has all that stands of an event, for each event that is known
	// just now. An event that is not here goes on as it was.
	Standing map[string][]Condition
	Outcomes []Outcome
}

// failingReason marks a sink whose inserts fail.
const failingReason = "failing"

// behindReason marks a clock that is behind the broker's; without it, it is ahead.
const behindReason = "behind"
