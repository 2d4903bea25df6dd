package schemas

// Status is what happened to a message. An end is final: nothing follows it
// but the receipts that amend sent and unknown.
type Status string

const (
	StatusAccepted    Status = "accepted"    // in Kafka, not decided; answered by ingest, never a record
	StatusScheduled   Status = "scheduled"   // waits for its send_at
	StatusDeferred    Status = "deferred"    // waits: for a limit, quiet hours or a usable provider
	StatusQueued      Status = "queued"      // admitted, in its provider's dispatch topic
	StatusSending     Status = "sending"     // a permit stands, the call may be under way
	StatusRetrying    Status = "retrying"    // waits for its next attempt
	StatusSent        Status = "sent"        // end: the provider took it
	StatusDelivered   Status = "delivered"   // amendment: the receipt says received
	StatusUndelivered Status = "undelivered" // amendment: the receipt says not received
	StatusFailed      Status = "failed"      // end: the provider refused it for good, or attempts ran out
	StatusUnknown     Status = "unknown"     // end: it may have been received, and it is not sent again
	StatusLimited     Status = "limited"     // end: a limit refused it
	StatusSuppressed  Status = "suppressed"  // end: the recipient opted out
	StatusExpired     Status = "expired"     // end: its time ran out
	StatusCancelled   Status = "cancelled"   // end: its sender took it back
	StatusRejected    Status = "rejected"    // end: invalid
	StatusDuplicate   Status = "duplicate"   // end: its idempotency key was seen before
)

// Statuses lists every status, in the order of a message's life.
var Statuses = []Status{
	StatusAccepted, StatusScheduled, StatusDeferred, StatusQueued, StatusSending, StatusRetrying,
	StatusSent, StatusDelivered, StatusUndelivered, StatusFailed, StatusUnknown, StatusLimited,
	StatusSuppressed, StatusExpired, StatusCancelled, StatusRejected, StatusDuplicate,
}

// End reports whether s ends a message.
func (s Status) End() bool {
	switch s {
	case StatusSent, StatusFailed, StatusUnknown, StatusLimited, StatusSuppressed,
		StatusExpired, StatusCancelled, StatusRejected, StatusDuplicate:
		return true
	case StatusAccepted, StatusScheduled, StatusDeferred, StatusQueued, StatusSending, StatusRetrying,
		StatusDelivered, StatusUndelivered:
		return false
	}
	return false
}

// Rank orders what is known about a message: a reader shows the status of the
// highest rank, and among equals the latest. Receipts amend by it
// (sent < undelivered < delivered).
func (s Status) Rank() int {
	switch s {
	case StatusAccepted:
		return 0
	case StatusScheduled, StatusDeferred, StatusQueued, StatusSending, StatusRetrying:
		return 1
	case StatusLimited, StatusSuppressed, StatusExpired, StatusCancelled, StatusRejected, StatusDuplicate,
		StatusFailed, StatusUnknown, StatusSent:
		return 2
	case StatusUndelivered:
		return 3
	case StatusDelivered:
		return 4
	}
	return 0
}

// Kind tells a status of a message from a decision that is none.
type Kind string

const (
	KindStatus   Kind = "status"   // a status of a message; most carry a decision too
	KindDecision Kind = "decision" // only a decision: forward, give back, move, marker …; for the audit
)

// Event is a record of weir.status and a row of ClickHouse: one step of a
// message, or one change of a partition's state.
type Event struct {
	Kind              Kind      `json:"kind"`
	MessageID         string    `json:"message_id,omitempty"`
	Tenant            string    `json:"tenant,omitempty"`
	Channel           string    `json:"channel,omitempty"`
	Class             string    `json:"class,omitempty"`
	Template          string    `json:"template,omitempty"`
	To                string    `json:"to,omitempty"` // canonical where it could be read
	Status            Status    `json:"status,omitempty"`
	At                Millis    `json:"at"`
	Reason            string    `json:"reason,omitempty"` // snake_case, stable: what code may branch on
	Attempt           int       `json:"attempt,omitempty"`
	Provider          string    `json:"provider,omitempty"`
	ProviderMessageID string    `json:"provider_message_id,omitempty"`
	ErrorCode         string    `json:"error_code,omitempty"`
	Error             string    `json:"error,omitempty"` // for people
	Limit             string    `json:"limit,omitempty"` // the limit that refused it
	Window            string    `json:"window,omitempty"`
	RetryAt           Millis    `json:"retry_at,omitzero"`
	AcceptedAt        Millis    `json:"accepted_at,omitzero"`
	Segments          int       `json:"segments,omitempty"`
	Cost              int       `json:"cost,omitempty"`  // places that the request asks for in limits with count: cost; 0 is 1. No money: that is Price. ClickHouse has no column for it
	Price             string    `json:"price,omitempty"` // decimal, as text: money is not a float
	Currency          string    `json:"currency,omitempty"`
	DuplicateOf       string    `json:"duplicate_of,omitempty"`
	RedriveOf         string    `json:"redrive_of,omitempty"`
	Observed          bool      `json:"observed,omitempty"`
	CallbackURL       string    `json:"callback_url,omitempty"` // the request's own: for callbacks only, ClickHouse has no column for it
	Source            *Source   `json:"source,omitempty"`
	Decision          *Decision `json:"decision,omitempty"`
}

// Source is where a message's request stands in Kafka.
type Source struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Verdict names what a decision did to a partition's state.
type Verdict string

const (
	VerdictAdmit     Verdict = "admit"     // places taken, dispatched
	VerdictRefuse    Verdict = "refuse"    // a window was full; nothing taken
	VerdictDefer     Verdict = "defer"     // parked; nothing taken, an old place stands
	VerdictMove      Verdict = "move"      // a later attempt: the old place removed and a new one taken in one step
	VerdictGiveBack  Verdict = "give_back" // a place returned
	VerdictCharge    Verdict = "charge"    // places taken for a message that goes on to the next owner of a wide limit, or home
	VerdictForward   Verdict = "forward"   // sent to the partition that owns the recipient
	VerdictMarker    Verdict = "marker"    // a policy revision comes into force
	VerdictReject    Verdict = "reject"    // invalid
	VerdictDuplicate Verdict = "duplicate" // seen before; nothing taken
	VerdictExpire    Verdict = "expire"
	VerdictSuppress  Verdict = "suppress"
	VerdictCancel    Verdict = "cancel"
	VerdictRecord    Verdict = "record"  // a message sent elsewhere takes its place
	VerdictNothing   Verdict = "nothing" // changed nothing, kept so that every input offset has a decision
)

// Decision is one change of a partition's state. Seq is dense in a partition,
// T never goes back in it, and Revision is the policy it was taken under.
type Decision struct {
	Verdict   Verdict  `json:"verdict"`
	Partition int32    `json:"partition"`
	Seq       int64    `json:"seq"`
	T         Millis   `json:"t"`
	Revision  int64    `json:"revision"`
	Input     *Source  `json:"input,omitempty"`    // the record of requests or readmit that it answers
	Charges   []Charge `json:"charges,omitempty"`  // places taken
	Returned  []Charge `json:"returned,omitempty"` // places removed
	Missing   []Charge `json:"missing,omitempty"`  // places that a give-back named and did not find

	// Of limits that count without a recipient, whose places stand in other
	// partitions. Onward is the partition that the message goes to next. What a
	// message holds when it is admitted is Charges and Carried together.
	Carried    []Charge `json:"carried,omitempty"`    // taken for it by earlier decisions, here and elsewhere
	Passed     []Ask    `json:"passed,omitempty"`     // asked, and no place taken: the owner has no such limit, or only observes and is full; with a time, a place that its limit, gone or only a bucket, cannot give back
	Restored   []Charge `json:"restored,omitempty"`   // old places put back, since the attempt that moved them was refused elsewhere
	Released   []Charge `json:"released,omitempty"`   // places of other partitions that this decision asks them to return
	Reinstated []Charge `json:"reinstated,omitempty"` // and old ones that it asks them to put back
	Onward     *int32   `json:"onward,omitempty"`

	Evidence []Evidence `json:"evidence,omitempty"`
	Marker   *Marker    `json:"marker,omitempty"`
}

// Charge is one place: in which limit and scope it stands, at what time, and
// for how much.
type Charge struct {
	Limit string `json:"limit"`
	Scope string `json:"scope"`
	T     Millis `json:"t"`
	Cost  int64  `json:"cost"`
}

// Evidence says why a window refused: Count of N places stood in it at T, and
// the place that must leave first stands at Oldest (rolling), or the window
// began at Start (calendar).
type Evidence struct {
	Limit  string `json:"limit"`
	Scope  string `json:"scope"`
	Window string `json:"window"` // as printed in the policy: 1/60s, 10/calendar-day
	N      int64  `json:"n"`
	Count  int64  `json:"count"`
	Cost   int64  `json:"cost"`
	Oldest Millis `json:"oldest,omitzero"`
	Start  Millis `json:"start,omitzero"`
	Since  Millis `json:"since,omitzero"`
}

// Marker is the moment at which a partition switches to a revision. Since maps
// limit and window unit ("verify" → "60s", "calendar-day") to the moment from
// which that window's history is complete.
type Marker struct {
	Revision int64                        `json:"revision"`
	Seq      int64                        `json:"seq"`
	T        Millis                       `json:"t"`
	Since    map[string]map[string]Millis `json:"since,omitempty"`
}
