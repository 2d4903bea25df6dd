package audit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Kind is a way in which a promise can be broken.
type Kind string

const (
	KindTorn       Kind = "torn_record"     // a record that cannot be read
	KindSequence   Kind = "sequence"        // decisions, or the records of a journal, are not dense
	KindBackInTime Kind = "back_in_time"    // a decision's t before the one before it
	KindUnanswered Kind = "unanswered"      // a record of requests or readmit without a decision
	KindTwice      Kind = "answered_twice"  // a record with two decisions, or one out of order
	KindPhantom    Kind = "phantom_input"   // a decision on a record that is not there, or is not this message's
	KindMarker     Kind = "marker"          // a marker or revision that breaks the chain
	KindSince      Kind = "since"           // a window's since is not what the rule gives
	KindOver       Kind = "over"            // a place was taken that a window had no room for
	KindRefused    Kind = "wrongly_refused" // refused, though no window was full
	KindEvidence   Kind = "evidence"        // a refusal's evidence is not true
	KindRetryAt    Kind = "retry_at"        // not the first moment at which it would pass
	KindCharges    Kind = "charges"         // not one place in each matching limit
	KindReturned   Kind = "returned"        // a place returned that did not stand for the message, or kept that should go
	KindCause      Kind = "give_back_cause" // a give-back that no end caused, or of what may have been received
	KindTwoEnds    Kind = "two_ends"        // a message went on after its end
	KindOrder      Kind = "order"           // a status that may not follow
	KindCalled     Kind = "called_late"     // called later than its slack after its decision
	KindLate       Kind = "late_end"        // ended after its expiry and the slack
	KindOwner      Kind = "owner"           // a wide limit asked of the wrong partition, out of turn, or the message sent elsewhere
	KindHop        Kind = "hop"             // sent on to an owner or home, and not there once and as it was
	KindCarried    Kind = "carried"         // what a message holds is not what its round of the owners took
	KindPassed     Kind = "passed"          // a limit that should have taken a place, or was not asked
	KindReleased   Kind = "released"        // a place of an owner not asked back once, or asked back without cause
	KindRestored   Kind = "restored"        // an old place put back that no round moved, or left out
	KindDispatch   Kind = "dispatch"        // an admission not dispatched once, or a dispatch without admission
	KindForward    Kind = "forward"         // a forward that did not arrive once, or arrived from nowhere
	KindPermit     Kind = "permit"          // a sending without permit, or an outcome before one
	KindOutcome    Kind = "outcome"         // what came of a call, its status and its journal do not agree
	KindLetter     Kind = "dead_letter"     // given up on, and not in weir.dlq
	KindDelay      Kind = "delay"           // a message that waits, and no record that brings it back
	KindLedger     Kind = "ledger"          // the ledger and the log do not have the same decisions
	KindState      Kind = "state"           // what weir.ledger or weir.seen has is not what the decisions leave
	KindSuppressed Kind = "suppressed"      // against a suppression that stood, or because of one that did not
	KindCancelled  Kind = "cancelled"       // against a cancel, or without one
	KindReceipt    Kind = "receipt"         // an amendment of a message that is not there, or of a provider that was not given it
	KindPace       Kind = "pace"            // more permits in a pace window than any revision allowed
	KindCountry    Kind = "country"         // on to a country to which the class does not go, or ended for one to which it does
	KindDuplicate  Kind = "duplicate"       // one message taken for two, or called a repeat of one that did not come
	KindRecipient  Kind = "recipient"       // decided for another recipient than the request names
	KindUnknown    Kind = "unknown"         // let in with a class or field that the policy rejects as unknown, or rejected for one that it does not
	KindQuiet      Kind = "quiet_hours"     // on in quiet hours, held for them outside, or until another moment than their end
)

// Violation is one thing that must not be.
type Violation struct {
	Kind      Kind           `json:"kind"`
	Topic     string         `json:"topic,omitempty"`
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"` // -1 where no single record shows it
	Seq       int64          `json:"seq,omitempty"`
	MessageID string         `json:"message_id,omitempty"`
	To        string         `json:"to,omitempty"` // masked
	T         schemas.Millis `json:"t,omitzero"`   // the decision's or event's
	Appended  schemas.Millis `json:"appended,omitzero"`
	Text      string         `json:"text"`
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s/%d", v.Kind, v.Topic, v.Partition)
	if v.Offset >= 0 {
		fmt.Fprintf(&b, "/%d", v.Offset)
	}
	if v.Seq > 0 {
		fmt.Fprintf(&b, " seq %d", v.Seq)
	}
	if v.T > 0 {
		fmt.Fprintf(&b, " t %s", v.T)
	}
	if v.Appended > 0 {
		fmt.Fprintf(&b, " appended %s", v.Appended)
	}
	if v.MessageID != "" {
		fmt.Fprintf(&b, " message %s", v.MessageID)
	}
	if v.To != "" {
		fmt.Fprintf(&b, " to %s", v.To)
	}
	return b.String() + ": " + v.Text
}

// Untold is what the logs do not show, and so was not judged.
type Untold struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

// Unread is a batch of requests that decompresses to more than Weir reads. One decision and
// one dead letter are about all of it, and its requests have no status.
type Unread struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first"` // offset
	Last      int64  `json:"last"`
}

// Counts is what was checked.
type Counts struct {
	Records    int64 `json:"records"` // of weir.status
	Decisions  int64 `json:"decisions"`
	Requests   int64 `json:"requests"` // answered
	Readmitted int64 `json:"readmitted"`
	Pending    int64 `json:"pending"` // records beyond what was processed
	Markers    int64 `json:"markers"`
	Admitted   int64 `json:"admitted"`
	Moved      int64 `json:"moved"`
	Refused    int64 `json:"refused"`
	Deferred   int64 `json:"deferred"`
	GivenBack  int64 `json:"given_back"`
	Forwarded  int64 `json:"forwarded"`
	Redriven   int64 `json:"redriven"`
	TurnedAway int64 `json:"turned_away"` // ended at an input: another tenant's, or unreadable
	Unread     int64 `json:"unread_batches"`
	Others     int64 `json:"other_verdicts"`
	Windows    int64 `json:"windows"` // recounted

	// Of limits that count without a recipient.
	Owners        int64 `json:"owners"`        // partitions that own a scope
	Charged       int64 `json:"charged"`       // decisions that sent a message on
	OwnersPlaces  int64 `json:"owners_places"` // taken in them; also in Places
	OwnersRefused int64 `json:"owners_refused"`
	Passed        int64 `json:"passed"`
	Carried       int64 `json:"carried"`    // places that admissions name, taken by earlier steps
	Released      int64 `json:"released"`   // places that home asked owners to return
	Reinstated    int64 `json:"reinstated"` // old places that home asked owners to put back
	Restored      int64 `json:"restored"`   // old places put back
	UnderWay      int64 `json:"under_way"`  // records to and from owners, beyond what was processed

	Places     int64 `json:"places"` // taken
	Returned   int64 `json:"returned"`
	Missing    int64 `json:"missing"`
	Messages   int64 `json:"messages"`
	Ended      int64 `json:"ended"`
	Open       int64 `json:"open"`
	Overdue    int64 `json:"overdue"` // open, beyond their expiry and the slack
	Waiting    int64 `json:"waiting"` // open, and wait for their time
	Letters    int64 `json:"letters"` // of weir.dlq, of messages
	Receipts   int64 `json:"receipts"`
	Dispatched int64 `json:"dispatched"`
	Permits    int64 `json:"permits"`
	Outcomes   int64 `json:"outcomes"`
	InFlight   int64 `json:"in_flight"`  // permits without outcome
	LateCalls  int64 `json:"late_calls"` // permits later than their slack that say so
	Unnumbered int64 `json:"unnumbered"` // records of journals without a number: of earlier versions
	Unsaid     int64 `json:"unsaid"`     // outcomes that do not say whether the attempt may have been received: of earlier versions
}

// Clock is how far decisions' times and the broker's append times of their
// records lay apart at most.
type Clock struct {
	Ahead  time.Duration `json:"ahead"`  // t after the append time
	Behind time.Duration `json:"behind"` // t before it: the time a transaction takes to be written
}

// Density is the densest real sending: the most calls that any trailing window
// held, each at the time of its permit. Of a provider, in the windows of its
// pace; of a limit, in one of its scopes and rolling windows, where it may
// exceed N by calls that followed their decisions by up to the slack, and by those made again.
type Density struct {
	Provider string         `json:"provider,omitempty"`
	Limit    string         `json:"limit,omitempty"`
	To       string         `json:"to,omitempty"` // of a limit that counts by recipient: whom, masked
	Window   string         `json:"window"`
	N        int64          `json:"n"` // allowed, by the latest revision that has the window
	Most     int64          `json:"most"`
	At       schemas.Millis `json:"at,omitzero"` // when the window ended
	// Unenforced is in which revisions of the judged time the limit refused nothing: "observe in revision 3".
	Unenforced string `json:"unenforced,omitempty"`
}

// Outcome is the audit's answer.
type Outcome string

const (
	Proven       Outcome = "proven"
	Violated     Outcome = "violated"
	CouldNotTell Outcome = "could_not_tell"
)

// Report is what an audit found.
type Report struct {
	Outcome    Outcome                  `json:"outcome"`
	From       schemas.Millis           `json:"from,omitzero"` // of the first decision judged
	Until      schemas.Millis           `json:"until,omitzero"`
	Cut        schemas.Millis           `json:"cut,omitzero"` // when the ends of the logs were taken, by this machine's clock: all that was decided before is judged
	Partitions int32                    `json:"partitions"`
	Revisions  int                      `json:"revisions"`
	Checked    Counts                   `json:"checked"`
	Ends       map[schemas.Status]int64 `json:"ends"`
	Clock      Clock                    `json:"clock"`
	Densest    []Density                `json:"densest"`
	Untold     []Untold                 `json:"untold"`
	Aside      []Untold                 `json:"aside"` // records that Weir did not write, and that changed nothing
	Skips      []Skip                   `json:"skips"` // records that an operator let Weir go on without
	Unread     []Unread                 `json:"unread_batches"`
	Told       []Untold                 `json:"told"` // by providers, and does not fit: no promise of Weir's, and so no part of the outcome
	Faults     map[Kind]int64           `json:"faults"`
	Violations []Violation              `json:"violations"` // the first of each kind
	Took       time.Duration            `json:"took"`
}

// kept is how many violations of a kind a report shows.
const kept = 20

// findings gathers what workers find: for good, or at one cut.
type findings struct {
	mu     sync.Mutex
	report Report
	untold map[string]unknown
	told   map[string]int64
	aside  map[string]int64
	since  schemas.Millis // the time of the last unknown that was forgotten

	lateCalls map[string]*lateCalls     // by provider
	boundless map[string]schemas.Millis // by provider: its last permit of an earlier version
	numbers   map[string]int64          // by provider: the highest number of a record of its journal
}

// unknown counts what could not be judged, and says when the last of it was met.
type unknown struct {
	count int64
	last  time.Time
}

func newFindings() *findings {
	return &findings{
		report: Report{Ends: make(map[schemas.Status]int64), Faults: make(map[Kind]int64), Violations: []Violation{}, Densest: []Density{}},
		untold: make(map[string]unknown), told: make(map[string]int64), aside: make(map[string]int64),
		lateCalls: make(map[string]*lateCalls), boundless: make(map[string]schemas.Millis), numbers: make(map[string]int64),
	}
}

func (f *findings) violation(v Violation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.report.Faults[v.Kind]++; f.report.Faults[v.Kind] <= kept {
		v.To = recipient.Mask(v.To)
		f.report.Violations = append(f.report.Violations, v)
	}
}

func (f *findings) cannotTell(what string, n int64) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.untold[what] = unknown{f.untold[what].count + n, time.Now()}
}

// tell counts what a provider told that does not fit.
func (f *findings) tell(what string, n int64) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[what] += n
}

// putAside counts a record that Weir did not write, and left out.
func (f *findings) putAside(r *kgo.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aside[r.Topic]++
}

// notRead takes note of a batch of requests that no one reads.
func (f *findings) notRead(b Unread) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.report.Unread) < kept {
		f.report.Unread = append(f.report.Unread, b)
	}
}

// take adds what was found for good to the findings of a cut.
func (f *findings) take(o *findings) {
	for kind, n := range o.report.Faults {
		f.report.Faults[kind] += n
	}
	f.report.Violations = append(f.report.Violations, o.report.Violations...)
	f.report.Unread = append(f.report.Unread, o.report.Unread...)
	for what, u := range o.untold {
		f.untold[what] = unknown{f.untold[what].count + u.count, u.last}
	}
	for what, n := range o.told {
		f.told[what] += n
	}
	for topic, n := range o.aside {
		f.aside[topic] += n
	}
	if o.since != 0 {
		f.report.From = max(f.report.From, o.since)
	}
}

// forget drops what could not be judged before a time: what is proven begins after it.
func (f *findings) forget(before time.Time) {
	for what, u := range f.untold {
		if u.last.Before(before) {
			f.since = max(f.since, schemas.MillisOf(u.last))
			delete(f.untold, what)
		}
	}
}

func (f *findings) finish() *Report {
	r := &f.report
	if r.Checked.Decisions == 0 {
		f.untold["the log has no decision to judge: nothing was proven"] = unknown{count: 1}
	}
	r.Untold, r.Told, r.Aside = []Untold{}, []Untold{}, []Untold{}
	for _, topic := range slices.Sorted(maps.Keys(f.aside)) {
		r.Aside = append(r.Aside, Untold{topic, f.aside[topic]})
	}
	if r.Skips == nil {
		r.Skips = []Skip{}
	}
	if r.Unread == nil {
		r.Unread = []Unread{}
	}
	slices.SortFunc(r.Unread, func(a, b Unread) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.First, b.First))
	})
	for _, what := range slices.Sorted(maps.Keys(f.told)) {
		r.Told = append(r.Told, Untold{what, f.told[what]})
	}
	for _, what := range slices.Sorted(maps.Keys(f.untold)) {
		r.Untold = append(r.Untold, Untold{what, f.untold[what].count})
	}
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	shown := make(map[Kind]int)
	r.Violations = slices.DeleteFunc(r.Violations, func(v Violation) bool { shown[v.Kind]++; return shown[v.Kind] > kept })
	slices.SortFunc(r.Densest, func(a, b Density) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Window, b.Window))
	})
	switch {
	case len(r.Faults) > 0:
		r.Outcome = Violated
	case len(r.Untold) > 0:
		r.Outcome = CouldNotTell
	default:
		r.Outcome = Proven
	}
	return r
}

// add sums up what a partition counted.
func (c *Counts) add(o *Counts) {
	for _, p := range [][2]*int64{
		{&c.Records, &o.Records}, {&c.Decisions, &o.Decisions}, {&c.Requests, &o.Requests}, {&c.Readmitted, &o.Readmitted},
		{&c.Pending, &o.Pending}, {&c.Markers, &o.Markers}, {&c.Admitted, &o.Admitted}, {&c.Moved, &o.Moved},
		{&c.Refused, &o.Refused}, {&c.Deferred, &o.Deferred}, {&c.GivenBack, &o.GivenBack}, {&c.Forwarded, &o.Forwarded}, {&c.Redriven, &o.Redriven}, {&c.TurnedAway, &o.TurnedAway},
		{&c.Others, &o.Others}, {&c.Windows, &o.Windows}, {&c.Places, &o.Places}, {&c.Returned, &o.Returned},
		{&c.Missing, &o.Missing}, {&c.Messages, &o.Messages}, {&c.Ended, &o.Ended}, {&c.Open, &o.Open}, {&c.Overdue, &o.Overdue},
		{&c.Receipts, &o.Receipts}, {&c.Dispatched, &o.Dispatched}, {&c.Permits, &o.Permits}, {&c.Outcomes, &o.Outcomes},
		{&c.InFlight, &o.InFlight}, {&c.LateCalls, &o.LateCalls}, {&c.Unsaid, &o.Unsaid}, {&c.Unnumbered, &o.Unnumbered}, {&c.Waiting, &o.Waiting}, {&c.Letters, &o.Letters},
		{&c.Owners, &o.Owners}, {&c.Charged, &o.Charged}, {&c.OwnersPlaces, &o.OwnersPlaces}, {&c.OwnersRefused, &o.OwnersRefused},
		{&c.Passed, &o.Passed}, {&c.Carried, &o.Carried}, {&c.Released, &o.Released}, {&c.Reinstated, &o.Reinstated},
		{&c.Restored, &o.Restored}, {&c.UnderWay, &o.UnderWay}, {&c.Unread, &o.Unread},
	} {
		*p[0] += *p[1]
	}
}

// Line is the answer in one line.
func (r *Report) Line() string {
	answer := map[Outcome]string{Proven: "PROVEN", Violated: "VIOLATED", CouldNotTell: "COULD NOT TELL"}[r.Outcome]
	if r.Outcome == Violated {
		n := int64(0)
		for _, of := range r.Faults {
			n += of
		}
		answer = fmt.Sprintf("VIOLATED (%d)", n)
	}
	line := fmt.Sprintf("%s up to %s: %d decisions of %d partitions", answer, r.Cut, r.Checked.Decisions, r.Partitions)
	if r.From > 0 {
		line += fmt.Sprintf(" from %s on", r.From)
	}
	return fmt.Sprintf("%s, %d messages open; judged in %s", line, r.Checked.Open, r.Took.Round(time.Millisecond))
}

// WriteText shows a report to people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	c := &r.Checked
	b.WriteString(map[Outcome]string{
		Proven: "PROVEN", Violated: "VIOLATED", CouldNotTell: "COULD NOT TELL all of it; what was judged holds",
	}[r.Outcome])
	fmt.Fprintf(&b, ": %d decisions of %d partitions", c.Decisions, r.Partitions)
	if r.From > 0 {
		fmt.Fprintf(&b, ", %s to %s", r.From, r.Until)
	}
	fmt.Fprintf(&b, ", in %s\n\n", r.Took.Round(time.Millisecond))
	fmt.Fprintf(&b, "requests answered once      %d, readmit %d (%d wait beyond what was processed)\n", c.Requests, c.Readmitted, c.Pending)
	fmt.Fprintf(&b, "verdicts recounted          %d admitted, %d moved, %d refused, %d deferred; %d windows\n", c.Admitted, c.Moved, c.Refused, c.Deferred, c.Windows)
	fmt.Fprintf(&b, "places                      %d taken, %d returned (%d give-backs), %d named and not there\n", c.Places, c.Returned, c.GivenBack, c.Missing)
	if c.Charged+c.OwnersPlaces > 0 {
		fmt.Fprintf(&b, "owners of wide limits       %d partitions: %d places taken, %d steps sent on, %d refused, %d passed\n", c.Owners, c.OwnersPlaces, c.Charged, c.OwnersRefused, c.Passed)
		fmt.Fprintf(&b, "                            %d carried home, %d asked back, %d to be put back (%d were); %d under way\n", c.Carried, c.Released, c.Reinstated, c.Restored, c.UnderWay)
	}
	fmt.Fprintf(&b, "forwards, markers, others   %d, %d, %d\n", c.Forwarded, c.Markers, c.Others)
	if c.Redriven > 0 {
		fmt.Fprintf(&b, "redriven, as new messages   %d\n", c.Redriven)
	}
	if c.TurnedAway > 0 {
		fmt.Fprintf(&b, "turned away at inputs       %d\n", c.TurnedAway)
	}
	fmt.Fprintf(&b, "messages                    %d, ended %d, open %d (%d overdue), receipts %d\n", c.Messages, c.Ended, c.Open, c.Overdue, c.Receipts)
	ends := slices.Sorted(maps.Keys(r.Ends))
	for i, s := range ends {
		ends[i] = schemas.Status(fmt.Sprintf("%s %d", s, r.Ends[s]))
	}
	fmt.Fprintf(&b, "ends                        %s\n", joined(ends))
	fmt.Fprintf(&b, "waiting, dead letters       %d, %d\n", c.Waiting, c.Letters)
	fmt.Fprintf(&b, "dispatched, permits         %d, %d (outcomes %d, in flight %d)\n", c.Dispatched, c.Permits, c.Outcomes, c.InFlight)
	if c.LateCalls > 0 {
		fmt.Fprintf(&b, "called late, and named so   %d\n", c.LateCalls)
	}
	if c.Unsaid > 0 {
		fmt.Fprintf(&b, "outcomes, refunds           of %d outcomes it is not said whether they may have been received: an earlier version wrote them, and refunds after them are not judged\n", c.Unsaid)
	}
	if c.Unnumbered > 0 {
		fmt.Fprintf(&b, "records without a number    %d of journals: an earlier version wrote them, and one that was removed with its status does not show\n", c.Unnumbered)
	}
	fmt.Fprintf(&b, "t against append time       at most %s ahead, %s behind\n", r.Clock.Ahead, r.Clock.Behind)
	for _, d := range r.Densest {
		if d.Limit != "" {
			fmt.Fprintf(&b, "calls, retries included     limit %s: at most %d in a window of %s", d.Limit, d.Most, d.Window)
			if d.To != "" {
				fmt.Fprintf(&b, ", to %s", d.To)
			}
		} else {
			fmt.Fprintf(&b, "calls, retries included     provider %s: at most %d in a window of %s", d.Provider, d.Most, d.Window)
		}
		if d.At > 0 {
			fmt.Fprintf(&b, ", which ended at %s", d.At)
		}
		if d.Unenforced != "" {
			fmt.Fprintf(&b, "; it refused nothing for a time: %s", d.Unenforced)
		}
		b.WriteByte('\n')
	}
	if len(r.Untold) > 0 {
		b.WriteString("\nCould not tell:\n")
		for _, u := range r.Untold {
			fmt.Fprintf(&b, "  %d: %s\n", u.Count, u.What)
		}
	}
	if len(r.Told) > 0 {
		b.WriteString("\nProviders told, and it does not fit (nothing that Weir promises):\n")
		for _, u := range r.Told {
			fmt.Fprintf(&b, "  %d: %s\n", u.Count, u.What)
		}
	}
	if len(r.Aside) > 0 {
		b.WriteString("\nRecords that Weir did not write, which changed nothing:\n")
		for _, u := range r.Aside {
			fmt.Fprintf(&b, "  %d: %s\n", u.Count, u.What)
		}
	}
	if len(r.Unread) > 0 {
		fmt.Fprintf(&b, "\nBatches that decompress to more than %d MiB, %d in all: not read, so their requests have no status:\n", schemas.MaxBatchBytes>>20, c.Unread)
		for _, u := range r.Unread {
			fmt.Fprintf(&b, "  %s/%d, offsets %d to %d\n", u.Topic, u.Partition, u.First, u.Last)
		}
	}
	if len(r.Skips) > 0 {
		b.WriteString("\nSkipped by an operator (weir skip):\n")
		for _, s := range r.Skips {
			fmt.Fprintf(&b, "  %s at %s by %s: %s\n", s.Record, s.At, s.By, s.Reason)
		}
	}
	if len(r.Faults) > 0 {
		b.WriteString("\nViolations:\n")
		for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
			fmt.Fprintf(&b, "  %s: %d\n", k, r.Faults[k])
			for _, v := range r.Violations {
				if v.Kind == k {
					fmt.Fprintf(&b, "    %s\n", v)
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func joined(s []schemas.Status) string {
	var t []string
	for _, v := range s {
		t = append(t, string(v))
	}
	return strings.Join(t, ", ")
}
