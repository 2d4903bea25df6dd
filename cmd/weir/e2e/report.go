package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Fault is a kind of violation.
type Fault string

const (
	FaultOver         Fault = "over"                // a place was taken that some window had no room for
	FaultWronglyHeld  Fault = "wrongly refused"     // refused, though no window was full
	FaultRetryAt      Fault = "wrong retry_at"      // not the first moment at which it would pass
	FaultLost         Fault = "lost"                // a request without a decision, or a message without an end
	FaultTwoEnds      Fault = "two ends"            // a message that ended twice, or went on after its end
	FaultTwice        Fault = "decided twice"       // one input record with two decisions
	FaultGap          Fault = "gap"                 // sequence numbers that are not dense
	FaultBackInTime   Fault = "back in time"        // a decision's t before the one before it
	FaultCharges      Fault = "wrong charges"       // places other than one in each matching limit, at the decision's t
	FaultReturned     Fault = "wrong return"        // places given back that did not stand, or by a message that was received
	FaultNoPermit     Fault = "sent without permit" // no sending of that attempt before
	FaultCalls        Fault = "wrong calls"         // the provider's record disagrees with sendings and ends
	FaultClose        Fault = "too close"           // calls to one recipient closer than their windows, less the slack
	FaultRound        Fault = "wrong round"         // a wide limit asked out of turn or not at all, or a step that belongs to no message's way
	FaultReleased     Fault = "wrong release"       // places that home gives up elsewhere, and what owners return, disagree
	FaultStands       Fault = "stands wrongly"      // what stands for a message in the end is not what it holds
	FaultCannotBeTold Fault = "cannot be told"      // this oracle does not know what the log holds
	maxKeptPerFault         = 5
)

// Violation is one thing that must not be.
type Violation struct {
	Fault     Fault
	Partition int32
	Offset    int64 // in weir.status; -1 where no record shows it
	Message   string
	Text      string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: status/%d/%d message %s: %s", v.Fault, v.Partition, v.Offset, v.Message, v.Text)
}

// Report is what the oracle found. Violations holds the first few of each
// fault; Faults counts all.
type Report struct {
	Requests  int // acknowledged by a broker
	Messages  int // different ids among them
	Decisions int
	Admitted  int
	Refused   int
	RefusedBy map[string]int // messages, by limit; those that wait, each time
	Moved     int
	GivenBack int
	Forwarded int
	Ends      map[schemas.Status]int
	Wide      Wide
	Released  int // decisions without sending
	NotHeld   int // releases of what is none, or not any more
	Calls     int
	Again     int // calls that may have been received before their message was called again
	Judged    int // calls that recipients may have received
	Appended  int // decisions that may have been acted upon, judged by their appends
	Late      int // those of messages of which Weir says that they were called late

	Faults     map[Fault]int
	Violations []Violation
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// String is one line of counts, then the violations.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %d messages, %d decisions: %d admitted, %d refused, %d moved, %d given back, %d forwarded; ends",
		r.Requests, r.Messages, r.Decisions, r.Admitted, r.Refused, r.Moved, r.GivenBack, r.Forwarded)
	for _, s := range slices.Sorted(maps.Keys(r.Ends)) {
		fmt.Fprintf(&b, " %s=%d", s, r.Ends[s])
	}
	for _, l := range slices.Sorted(maps.Keys(r.RefusedBy)) {
		fmt.Fprintf(&b, " refused_by_%s=%d", l, r.RefusedBy[l])
	}
	if r.Wide != (Wide{}) {
		fmt.Fprintf(&b, "; wide: %s", r.Wide)
	}
	fmt.Fprintf(&b, "; ORACLE over=%d wrongly_refused=%d lost=%d two_ends=%d other=%d",
		r.Faults[FaultOver], r.Faults[FaultWronglyHeld], r.Faults[FaultLost], r.Faults[FaultTwoEnds], r.others())
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "\n  %s", v)
	}
	return b.String()
}

func (r *Report) others() int {
	n := 0
	for f, count := range r.Faults {
		switch f {
		case FaultOver, FaultWronglyHeld, FaultLost, FaultTwoEnds:
		default:
			n += count
		}
	}
	return n
}
