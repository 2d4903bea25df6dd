package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// What a journal says came of a call, and of a message that was not called.
const (
	wasAccepted  = "accepted"
	wasThrottled = "throttled"
	wasTransient = "transient"
	wasPermanent = "permanent"
	wasUnknown   = "unknown"
	wasExpired   = "expired"
	wasContent   = "bad_content"
)

// outcomes are those that have a status. The others of a journal have none: the
// message is decided again, or permitted again.
var outcomes = []string{wasAccepted, wasThrottled, wasTransient, wasPermanent, wasUnknown, wasExpired, wasContent}

// answer is what came of an attempt. Earlier versions do not say it beside the status,
// nor in the journal whether the recipient may have the message: there it is only
// whether it was accepted.
type answer struct {
	what     string
	received bool // the recipient may have the message by this attempt
	said     bool // by this version
}

// The codes of an answer are below answerCodes, so that many attempts have room beside a
// provider's hash.
const (
	answerCodes    = 32
	notAccepted    = answerCodes - 1 // of an earlier version
	onlyAccepted   = answerCodes - 2
	lastOutcome    = schemas.MaxRetries + 1
	outcomesOfHole = answerCodes * (lastOutcome + 1)
)

// code is an answer as both sides of the comparison have it.
func (a answer) code(attempt int) uint64 {
	switch {
	case !a.said && a.what == wasAccepted:
		return onlyAccepted
	case !a.said:
		return notAccepted
	}
	code := uint64(2 * (slices.Index(outcomes, a.what) + 1))
	if a.received {
		code++
	}
	if a.what == wasExpired || a.what == wasContent { // no attempt
		return code
	}
	return code + answerCodes*uint64(attempt)
}

// outcomeItem is what came of an attempt as it stands in weir.status and in a journal, at
// a place there.
func outcomeItem(id, provider string, attempt int, t schemas.Millis, a answer, at uint64) item {
	return item{id: idOf(id), t: t, rest: sumOf(provider)[1] + a.code(attempt) + at}
}

// answered reads what a lane says of an attempt beside its status.
func answered(r *kgo.Record, st schemas.Status) answer {
	for _, h := range r.Headers {
		if h.Key == schemas.HeaderOutcome {
			what, received := strings.CutSuffix(string(h.Value), " received")
			return answer{what, received, true}
		}
	}
	if st == schemas.StatusSent {
		return answer{what: wasAccepted, received: true}
	}
	return answer{}
}

// byLane reports whether the status in hand is what a lane says of an attempt that is
// over, or of a message that it ends without a call.
func (p *partition) byLane() bool {
	switch p.e.Status {
	case schemas.StatusRetrying, schemas.StatusSent, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusExpired:
		return p.e.Decision == nil
	default:
		return false
	}
}

// outcome judges what a lane says of an attempt: the status follows from the answer, the
// journal has the same one, and what may have been received is remembered until the
// message's end.
func (p *partition) outcome(m *message) {
	if !p.byLane() {
		return
	}
	e := p.e
	a := answered(p.rec, e.Status)
	switch {
	case p.gone[e.Provider]: // its sendings are counted as what cannot be told
	case p.judged:
		p.ended.put(outcomeItem(e.MessageID, e.Provider, e.Attempt, e.At, a, recordNamed(p.rec)), 1, e.At)
	}
	switch {
	case !a.said:
		m.flags |= flagUnsaid
		return
	case a.what == wasUnknown:
		m.flags |= flagUnknown | flagTaint
	case a.received && a.what != wasAccepted:
		m.flags |= flagTaint
	}
	if !p.follows(a, m) {
		p.fault(KindOutcome, "%s (%s), and the attempt was %s", e.Status, e.Reason, a)
	}
}

func (a answer) String() string {
	if a.received && a.what != wasAccepted {
		return a.what + ", and may have been received"
	}
	return a.what
}

// follows reports whether a status may follow from an answer.
func (p *partition) follows(a answer, m *message) bool {
	again := a.what == wasThrottled || a.what == wasTransient || a.what == wasUnknown // may be tried again
	switch p.e.Status {
	case schemas.StatusSent:
		return a.what == wasAccepted
	case schemas.StatusRetrying:
		return again && p.e.Reason == a.what
	case schemas.StatusFailed:
		return a.what == wasPermanent || a.what == wasContent || again && a.what != wasUnknown
	case schemas.StatusUnknown: // by this attempt or an earlier one
		return a.what != wasAccepted && (m.flags&(flagUnknown|flagBefore|flagUnsaid) != 0 || again && m.flags&flagTaint != 0)
	case schemas.StatusExpired:
		return a.what == wasExpired
	default:
		return true
	}
}

// holds notes at an admission whether the message holds places.
func (m *message) holds(d *schemas.Decision) {
	if d == nil || d.Verdict != schemas.VerdictAdmit && d.Verdict != schemas.VerdictMove {
		return
	}
	m.flags &^= flagHolds
	if len(d.Charges)+len(d.Carried) > 0 {
		m.flags |= flagHolds
	}
}

// owes notes at an end by a lane whether its places are to be returned: if and only if
// no attempt may have been received.
func (p *partition) owes(m *message) {
	known := m.flags&(flagBefore|flagUnsaid) == 0
	if p.byLane() && known && p.e.Status != schemas.StatusSent && m.flags&flagHolds != 0 && m.flags&(flagTaint|flagUnknown) == 0 {
		m.flags |= flagOwed
	}
}

// refunded judges a give-back of a message: no attempt of it may have been received.
func (p *partition) refunded(m message) {
	if m.flags&flagTaint != 0 && m.flags&flagUnknown == 0 {
		p.fault(KindCause, "an attempt may have been received: its place stands")
	}
	m.flags &^= flagOwed
	p.messages[p.key] = m
}

// kept judges a message that is forgotten, or the log's end: what was to be returned was,
// or its give-back waits to be decided.
func (p *partition) kept(k sum, m *message) {
	if m.flags&flagOwed == 0 || m.last < p.bounds.since || p.back[k].giveBacks > 0 {
		return
	}
	p.found.violation(Violation{
		Kind: KindCause, Topic: p.statusTopic, Partition: p.num, Offset: m.offset, T: m.last,
		Text: "it ended as " + string(m.state()) + " and cannot have been received, and its places were not returned",
	})
}

// comesTainted judges what a record of readmit says of a message's attempts: that one may
// have been received, or its outcome is unknown, if and only if it is so.
func (p *partition) comesTainted(env *schemas.Envelope) {
	if env == nil || env.ID != p.e.MessageID || env.Key != p.e.To || env.Reason == schemas.ReadmitRedrive || env.Reason == schemas.ReadmitForward {
		return
	}
	m, there := p.messages[p.key]
	if !there || m.flags&(flagBefore|flagUnsaid) != 0 || m.state() == "" {
		return
	}
	want := schemas.TaintNone
	switch {
	case m.flags&flagUnknown != 0:
		want = schemas.TaintUnknown
	case m.flags&flagTaint != 0:
		want = schemas.TaintReceived
	}
	if env.Taint != want {
		p.fault(KindOutcome, "the record that it answers says %q of its attempts, and %q is what they were", env.Taint, want)
	}
}

// outcome compares an outcome of a journal with what weir.status says.
func (l *lane) outcome(r *kgo.Record, e *journalled, fault func(Kind, string, ...any)) {
	if !slices.Contains(outcomes, e.Outcome) {
		return
	}
	a := answer{what: e.Outcome, received: e.Outcome == wasAccepted}
	if e.Received != nil {
		a.received, a.said = *e.Received, true
	} else {
		l.counts.Unsaid++
	}
	if a.said && !a.received && (a.what == wasUnknown || a.what == wasAccepted) {
		fault(KindOutcome, "outcome %s of attempt %d, and it says that it cannot have been received", e.Outcome, e.Attempt)
	}
	l.ended.put(outcomeItem(e.ID, l.provider, e.Attempt, e.T, a, recordAt(r.Partition, e.Seq)), -1, l.when(r, e.T))
}

// when is whether a record of a journal belongs to the tail, in which it may say more than
// was read of weir.status: not where its transaction was over before.
func (l *lane) when(r *kgo.Record, t schemas.Millis) schemas.Millis {
	if r.Offset < l.over[r.Topic][r.Partition] {
		return 0
	}
	return t
}

// skippedOutcome reports whether the outcome of a status may be a record that was
// skipped. Each such record is one outcome at most.
func (f *findings) skippedOutcome(holes map[string]int64, i item) bool {
	for _, provider := range slices.Sorted(maps.Keys(holes)) {
		if code, ok := f.codeIn(provider, i.rest-sumOf(provider)[1]); holes[provider] > 0 && ok && code < outcomesOfHole {
			holes[provider]--
			return true
		}
	}
	return false
}
