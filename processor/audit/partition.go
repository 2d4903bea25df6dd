package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// aheadMost is how far a decision's t may lie ahead of its record's append
// time, in ms: the 2 s at which a worker stalls, and 1 s for the time between
// two looks at the broker's clock. How far it may lie behind depends on how long
// a transaction takes, and is only reported.
const aheadMost = 3000

// source brings the committed records of a partition in offset order; nil at
// the end. It may skip offsets: those of control records and of what was
// aborted.
type source func() (*kgo.Record, error)

// feed is a source that is read beside the log: one record is looked at, at a
// time.
type feed struct {
	topic string
	next  source
	head  *kgo.Record
	from  int64 // where the topic's partition begins
	read  int64 // the next offset that a decision may answer
	start bool  // the first decision on it was seen
	ended bool
}

func (f *feed) peek() (*kgo.Record, error) {
	if f.head == nil && !f.ended {
		r, err := f.next()
		if err != nil {
			return nil, err
		}
		f.head, f.ended = r, r == nil
	}
	return f.head, nil
}

// bounds is what the partitions have in common.
type bounds struct {
	partitions        int32
	statusTopic       string
	requests, readmit string
	config            *history
	doors             map[string][]string // by topic: the tenants whose input it was
	since             schemas.Millis      // judge from here on; before, only learn
	slack             time.Duration
	gone              map[string]bool // providers without topics
	dispatched        *join           // admissions against dispatch topics
	permitted         *join           // sendings against journals
	forwarded         *join           // forwards against readmit
	hops              *join           // what goes round the owners of wide limits, against readmit
	wide              *wideCalls
	released          *join // what home asks back of owners, against readmit
	found             *findings
}

// partition judges the log of one partition.
type partition struct {
	*bounds
	num      int32
	in       map[string]*feed
	done     map[string]int64 // by topic: every record below is answered, whatever the log says
	started  bool             // a decision was seen
	cut      bool             // the log read does not begin with the first decision: retention took it
	begin    schemas.Millis   // t of the first decision
	seq      int64
	t        schemas.Millis
	revision int64
	since    map[string]map[string]schemas.Millis
	known    bool // since is known, not only bounded by begin
	rules    *rules
	places   *places
	tanks    *tanks
	causes   *causes
	repeats  *repeats
	where    map[string][]*time.Location // by recipient: its zones, of some
	calls    *calls
	messages map[sum]message
	decided  map[sum]decided        // without sending
	early    map[sum]early          // receipts for messages that the log does not have so far
	moved    map[sum]schemas.Millis // old places that rounds gave up for new ones, and when
	owns     bool                   // it has taken places in wide limits
	counts   Counts
	ends     map[schemas.Status]int64
	clock    Clock
	from     schemas.Millis
	swept    schemas.Millis

	// Of the record in hand.
	rec     *kgo.Record
	e       *schemas.Event
	key     sum
	expires schemas.Millis // of a message that becomes known
	charged int32          // the places that it took, as calls has them
	to      string         // its recipient
	away    bool           // it is an owner's, on a message whose home is elsewhere
	blind   bool           // the record that it answers is gone
	trip    trip           // what the message brought
	why     string         // for what reason it came, before its round
	stops   []stop         // memory for its plan
	own     []bool         // and for its step
	judged  bool
	read    *kgo.Record // the input that was last read as a request
	req     *schemas.Request
}

func newPartition(num int32, b *bounds, requests, readmit source) *partition {
	return &partition{
		bounds: b, num: num, places: newPlaces(), tanks: newTanks(), causes: newCauses(), repeats: newRepeats(), calls: newCalls(b.wide), messages: make(map[sum]message), early: make(map[sum]early), decided: make(map[sum]decided), moved: make(map[sum]schemas.Millis), where: make(map[string][]*time.Location), ends: make(map[schemas.Status]int64),
		in: map[string]*feed{b.requests: {topic: b.requests, next: requests}, b.readmit: {topic: b.readmit, next: readmit}},
	}
}

// run judges all of the log.
func (p *partition) run(log source, tick func() error) error {
	for {
		r, err := log()
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		if err := p.take(r); err != nil {
			return fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
	}
	return p.finish()
}

func (p *partition) fault(k Kind, format string, args ...any) {
	if !p.judged {
		return
	}
	v := Violation{Kind: k, Topic: p.statusTopic, Partition: p.num, Offset: p.rec.Offset, Appended: schemas.MillisOf(p.rec.Timestamp), Text: fmt.Sprintf(format, args...)}
	if p.e != nil {
		v.MessageID, v.To, v.T = p.e.MessageID, p.e.To, p.e.At
		if p.e.Decision != nil {
			v.Seq, v.T = p.e.Decision.Seq, p.e.Decision.T
		}
	}
	p.found.violation(v)
}

func (p *partition) cannotTell(what string) {
	if p.judged {
		p.found.cannotTell(what, 1)
	}
}

func (p *partition) take(r *kgo.Record) error {
	p.rec, p.e, p.expires, p.charged = r, nil, 0, 0
	p.judged = schemas.MillisOf(r.Timestamp) >= p.bounds.since
	e, err := schemas.DecodeEvent(r.Value)
	if err == nil && e.Kind != schemas.KindStatus && (e.Kind != schemas.KindDecision || e.Decision == nil) {
		err = fmt.Errorf("an event of kind %q", e.Kind)
	}
	if err == nil && e.Kind == schemas.KindStatus && !slices.Contains(schemas.Statuses, e.Status) {
		err = fmt.Errorf("a status %q", e.Status)
	}
	if err != nil {
		p.fault(KindTorn, "%v", err)
		return nil
	}
	p.e = e
	if e.Decision != nil {
		p.judged = e.Decision.T >= p.bounds.since
	}
	if p.judged {
		p.counts.Records++
	}
	p.key = messageKey(e.Tenant, e.To, e.MessageID)
	if e.Decision != nil {
		if err := p.decision(); err != nil {
			return err
		}
	}
	if e.Kind == schemas.KindStatus {
		p.status()
	}
	return nil
}

// decision judges one change of the partition's state.
func (p *partition) decision() error {
	d := p.e.Decision
	if !p.started {
		p.started, p.begin, p.t = true, d.T, d.T
		p.seq = d.Seq - 1
		if d.Seq != 1 && !p.cut {
			p.judged = d.T >= p.bounds.since
			p.fault(KindSequence, "the log begins with seq %d, and nothing was deleted before it", d.Seq)
		}
		p.cut = d.Seq != 1
		if p.cut {
			// What was in force before is what the decision names; its since
			// lies before all that is read, where it makes no difference.
			p.revision = d.Revision
			if d.Verdict == schemas.VerdictMarker {
				p.revision = -1
			}
		}
		p.known = !p.cut
		p.tanks.cut, p.tanks.begin = p.cut, p.begin
		if err := p.adopt(); err != nil {
			return err
		}
	}
	if p.judged {
		p.counts.Decisions++
		if p.from == 0 {
			p.from = d.T
		}
	}
	if d.Partition != p.num || d.Seq != p.seq+1 {
		p.fault(KindSequence, "partition %d seq %d after %d", d.Partition, d.Seq, p.seq)
	}
	if d.T < p.t {
		p.fault(KindBackInTime, "t %s after %s", d.T, p.t)
	}
	if ahead := d.T - schemas.MillisOf(p.rec.Timestamp); ahead > aheadMost {
		p.fault(KindClock, "t is %d ms ahead of the broker's append time", ahead)
	}
	p.seq, p.t = d.Seq, max(p.t, d.T)
	if late := schemas.MillisOf(p.rec.Timestamp) - d.T; late >= 0 {
		p.clock.Behind = max(p.clock.Behind, time.Duration(late)*time.Millisecond)
	} else {
		p.clock.Ahead = max(p.clock.Ahead, time.Duration(-late)*time.Millisecond)
	}
	if d.Verdict != schemas.VerdictMarker && p.revision >= 0 && d.Revision != p.revision {
		p.fault(KindMarker, "decided under revision %d, while %d is in force here", d.Revision, p.revision)
	}
	if p.t-p.swept > 3_600_000 {
		p.sweep()
	}
	in, env, err := p.input()
	if err != nil {
		return err
	}
	p.to = p.e.To
	if p.to == "" && env != nil {
		p.to = env.Key
	}
	p.blind = d.Input != nil && in == nil
	p.trip = tripOf(env)
	p.why = p.begunFor(env)
	p.about(in, env)
	if p.away = ownersVerdict(d.Verdict) && p.to != "" && p.home() != p.num; p.away {
		p.owner(in, env)
		p.noMore()
		return nil
	}
	p.redriven(in, env)
	p.comesOnce(in, env)
	p.gates(in, env)
	p.comesHome(env)
	switch d.Verdict {
	case schemas.VerdictMarker:
		return p.marker()
	case schemas.VerdictAdmit, schemas.VerdictMove:
		p.goesOn()
		p.admit(in, env)
		p.decidesOnly(in, env)
	case schemas.VerdictCharge:
		p.goesOn()
		p.charge(in, env)
	case schemas.VerdictRefuse:
		p.counts.Refused += p.one()
		p.goesOn()
		p.refused(in, env)
	case schemas.VerdictDefer:
		p.counts.Deferred += p.one()
		p.goesOn()
		if p.e.Reason == "limited" { // waiting for a time is no refusal
			p.refused(in, env)
		} else {
			p.nothingReturned()
			p.learn(in, env)
		}
	case schemas.VerdictGiveBack:
		if p.e.Reason == reasonReleased {
			p.release(in, env)
		} else {
			p.giveBack(in, env)
		}
	case schemas.VerdictForward:
		p.counts.Forwarded += p.one()
		p.nothingReturned()
		if p.judged {
			p.forwarded.put(item{id: idOf(p.e.MessageID), t: p.e.AcceptedAt, rest: sumOf(p.e.To)[0]}, 1, d.T)
		}
		if p.e.To != "" && schemas.PartitionOf(p.e.To, p.partitions) == p.num {
			p.fault(KindForward, "forwarded by the partition that owns the recipient")
		}
	case schemas.VerdictExpire:
		p.counts.Others += p.one()
		p.goesOn()
		p.ownReturns(in, env)
		if m := p.messages[p.key]; p.t < max(m.expires, p.expires) {
			p.fault(KindLate, "expired before its time, which is %s", max(m.expires, p.expires))
		}
	case schemas.VerdictReject:
		p.counts.Others += p.one()
		p.ownReturns(in, env)
	case schemas.VerdictCancel:
		p.counts.Others += p.one()
		p.cancellation(in)
		p.ownReturns(in, env)
	case schemas.VerdictSuppress:
		p.counts.Others += p.one()
		p.suppression(in)
		p.ownReturns(in, env)
	case schemas.VerdictDuplicate:
		p.counts.Others += p.one()
		p.nothingReturned()
	case schemas.VerdictNothing:
		p.counts.Others += p.one()
		p.nothingReturned()
		p.nothing(in, env)
	case schemas.VerdictRecord:
		p.counts.Others += p.one()
		p.recorded(in, env)
	default:
		p.fault(KindTorn, "there is no verdict %q", d.Verdict)
	}
	p.noMore()
	return nil
}

// noMore judges that a decision says nothing that is not its verdict's to say.
func (p *partition) noMore() {
	d := p.e.Decision
	if len(d.Charges) > 0 {
		switch d.Verdict {
		case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictRecord, schemas.VerdictCharge:
		default:
			p.fault(KindCharges, "%s took %d places", d.Verdict, len(d.Charges))
		}
	}
	goesOn := d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictMove
	if len(d.Carried) > 0 && !goesOn {
		p.fault(KindCarried, "%s carries %d places", d.Verdict, len(d.Carried))
	}
	if d.Verdict == schemas.VerdictCharge && len(d.Restored)+len(d.Reinstated) > 0 {
		p.fault(KindRestored, "%s puts back %d old places", d.Verdict, len(d.Restored)+len(d.Reinstated))
	}
	if p.away && len(d.Released)+len(d.Reinstated) > 0 {
		p.fault(KindOwner, "an owner asks for %d places back: home alone does", len(d.Released)+len(d.Reinstated))
	}
	for i := range d.Passed {
		a := &d.Passed[i]
		l := p.rules.byName[a.Limit]
		switch {
		case d.Verdict == schemas.VerdictCharge, d.Verdict == schemas.VerdictRecord, goesOn && a.T == 0:
		case a.T == 0 || l != nil && !l.drains:
			p.fault(KindPassed, "%s says that %s passed it", d.Verdict, a.Limit)
		}
	}
	if d.Onward != nil && !p.away && d.Verdict != schemas.VerdictCharge && d.Verdict != schemas.VerdictRecord {
		p.fault(KindOwner, "%s sends the message on to partition %d", d.Verdict, *d.Onward)
	}
}

// about holds that a decision on a record of readmit is about the message that
// the record is, or that it asks to cancel or release.
func (p *partition) about(in *kgo.Record, env *schemas.Envelope) {
	if in == nil || in.Topic != p.readmit || p.e.Decision.Verdict == schemas.VerdictGiveBack {
		return
	}
	if !p.ours(env) {
		if p.e.Decision.Verdict != schemas.VerdictNothing {
			p.fault(KindPhantom, "the record that it answers is not of Weir's making")
		}
		return
	}
	if env.Reason == schemas.ReadmitQuota && p.e.Decision.Verdict != schemas.VerdictNothing {
		p.fault(KindPhantom, "the record that it answers only asks what is left")
	}
	if env.ID == p.e.MessageID && env.Key == p.e.To {
		return
	}
	req := p.request(in)
	names := req != nil && (req.Action == schemas.ActionCancel || req.Action == schemas.ActionRelease) && req.ID == p.e.MessageID
	if env.Key != p.e.To || !names {
		p.fault(KindPhantom, "the record that it answers is message %s's", env.ID)
	}
}

func (p *partition) one() int64 {
	if p.judged {
		return 1
	}
	return 0
}

// adopt takes up the rules of the revision in force.
func (p *partition) adopt() error {
	pol := &schemas.Policy{}
	if p.revision >= 0 {
		if pol = p.config.policy(p.revision); pol == nil {
			p.fault(KindMarker, "weir.config has no valid revision %d", p.revision)
			pol = &schemas.Policy{}
			p.revision = -1
		}
	}
	r, err := newRules(pol, p.since)
	if err != nil {
		return fmt.Errorf("revision %d: %w", p.revision, err)
	}
	p.rules = r
	return nil
}

// marker judges the switch to a revision.
func (p *partition) marker() error {
	d, m := p.e.Decision, p.e.Decision.Marker
	p.counts.Markers += p.one()
	if m == nil {
		p.fault(KindMarker, "a marker that says nothing")
		return nil
	}
	if m.Seq != d.Seq || m.T != d.T || m.Revision != d.Revision {
		p.fault(KindMarker, "it says revision %d, seq %d, t %s of itself, and stands under revision %d", m.Revision, m.Seq, m.T, d.Revision)
	}
	if m.Revision <= p.revision {
		p.fault(KindMarker, "revision %d comes into force after %d", m.Revision, p.revision)
	}
	next := p.config.policy(m.Revision)
	if next == nil {
		p.fault(KindMarker, "weir.config has no valid revision %d", m.Revision)
	} else if p.revision >= 0 {
		prev := p.since
		if !p.known { // take the marker's own word for what went on
			prev = m.Since
		}
		want := sinceOf(p.rules.policy, prev, next, d.T)
		for name, windows := range want {
			for unit, moment := range windows {
				if got, ok := m.Since[name][unit]; !ok || got != moment {
					p.fault(KindSince, "limit %s, window %s: its history counts from %s, and the rule gives %s", name, unit, got, moment)
				}
			}
		}
		for name, windows := range m.Since {
			for unit := range windows {
				if _, ok := want[name][unit]; !ok {
					p.fault(KindSince, "limit %s has no window %s", name, unit)
				}
			}
		}
	} else {
		p.cannotTell("markers whose former revision lies before the log")
	}
	p.revision, p.since, p.known = m.Revision, m.Since, true
	if p.rules != nil && next == nil {
		return nil
	}
	return p.adopt()
}

// input finds the record that a decision answers and holds that those between
// it and the last one are none. It returns nil for a record that is gone, with
// the envelope of one of readmit.
func (p *partition) input() (*kgo.Record, *schemas.Envelope, error) {
	d := p.e.Decision
	if d.Input == nil {
		if d.Verdict != schemas.VerdictMarker {
			p.fault(KindPhantom, "%s answers no record", d.Verdict)
		}
		return nil, nil, nil
	}
	f := p.in[d.Input.Topic]
	if f == nil || d.Input.Partition != p.num {
		p.fault(KindPhantom, "it answers %s, which is not this partition's to decide", d.Input)
		return nil, nil, nil
	}
	at := d.Input.Offset
	if f.start && at < f.read {
		p.fault(KindTwice, "%s was answered before", d.Input)
		return nil, nil, nil
	}
	for {
		r, err := f.peek()
		if err != nil {
			return nil, nil, err
		}
		if r == nil || r.Offset > at {
			if at >= f.from {
				p.fault(KindPhantom, "there is no committed record at %s", d.Input)
			} else {
				p.cannotTell("inputs that lie before the retained log")
			}
			f.read = at + 1
			return nil, nil, nil
		}
		if r.Offset < at {
			if f.start || !p.cut {
				p.skipped(r)
			}
			f.head = nil
			if f.topic == p.readmit {
				p.arrived(r)
			}
			continue
		}
		f.head, f.start, f.read = nil, true, at+1
		if f.topic == p.requests {
			p.counts.Requests += p.one()
			return r, nil, nil
		}
		p.counts.Readmitted += p.one()
		return r, p.arrived(r), nil
	}
}

// skipped reports a record that no decision answers.
func (p *partition) skipped(r *kgo.Record) {
	if !p.judged {
		return
	}
	p.found.violation(Violation{
		Kind: KindUnanswered, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp),
		Text: fmt.Sprintf("no decision answers it, and the next record is decided at %s/%d/%d", p.statusTopic, p.num, p.rec.Offset),
	})
}

// arrived reads a record of readmit, and counts it if another partition wrote it.
func (p *partition) arrived(r *kgo.Record) *schemas.Envelope {
	env := new(schemas.Envelope)
	for _, h := range r.Headers {
		if env.Set(h.Key, string(h.Value)) != nil {
			return nil // not of Weir's making
		}
	}
	p.came(r, env)
	return env
}

// subject is what the limits see of the message in hand.
func (p *partition) subject(in *kgo.Record) (*subject, bool) {
	e := p.e
	s := &subject{
		to: e.To, tenant: e.Tenant, channel: e.Channel, class: e.Class, template: e.Template, provider: e.Provider,
		segments: int64(e.Segments),
	}
	if p.rules.country {
		if to, err := recipient.Canonical(schemas.Channel(e.Channel), e.To, ""); err == nil {
			s.country = to.Country
		}
	}
	if !p.rules.metadata && !p.rules.content {
		return s, true
	}
	req := p.request(in)
	if req == nil {
		return s, false
	}
	s.metadata = req.Metadata
	if p.rules.content {
		s.segments = p.content(req, s)
	}
	return s, true
}

// content makes what is sent anew, as the policy in force has it, and returns
// how many parts it takes.
func (p *partition) content(req *schemas.Request, s *subject) int64 {
	if req.Action == schemas.ActionRecord && req.Body == "" && req.Template == "" {
		return 0 // sent elsewhere, and not said what
	}
	text, err := content.Of(req, p.rules.policy)
	if err != nil {
		if req.Action != schemas.ActionRecord {
			p.fault(KindCharges, "decided, though its content cannot be made: %v", err)
		}
		return 0
	}
	s.content = text.Hash()
	segments := 0
	if req.Channel == schemas.ChannelSMS {
		segments = schemas.Segments(text.Body)
	}
	if segments != p.e.Segments {
		p.fault(KindCharges, "it says %d parts, and the text makes %d", p.e.Segments, segments)
	}
	return int64(segments)
}

// request reads the record in hand; nil when it is gone or no request.
func (p *partition) request(in *kgo.Record) *schemas.Request {
	if in == nil {
		return nil
	}
	if p.read != in {
		p.read, p.req = in, decoded(in)
	}
	return p.req
}

func decoded(in *kgo.Record) *schemas.Request {
	req, err := schemas.DecodeRequest(in.Value, func(key string) (string, bool) {
		for _, h := range in.Headers {
			if strings.EqualFold(h.Key, key) && !strings.HasPrefix(strings.ToLower(h.Key), "weir-") {
				return string(h.Value), true
			}
		}
		return "", false
	})
	if err != nil {
		return nil
	}
	return req
}

// expiry is until when the message in hand must have ended; 0 when what it
// follows from is gone.
func (p *partition) expiry(in *kgo.Record, env *schemas.Envelope) schemas.Millis {
	if env != nil && env.ExpiresAt != 0 && env.Reason != schemas.ReadmitRedrive {
		return env.ExpiresAt
	}
	if in == nil || p.rules == nil {
		return 0
	}
	from := p.e.AcceptedAt
	if env != nil && env.Reason == schemas.ReadmitRedrive { // whatever its bytes say
		return from.Add(time.Duration(p.rules.policy.Class(p.e.Class).ExpiresAfter))
	}
	// Most requests name no time. Those that may, in plain JSON or in a form
	// that cannot be searched, are read.
	v := in.Value
	if len(v) == 0 || v[0] != '{' || bytes.Contains(v, []byte("_at")) || bytes.Contains(v, []byte(`\u`)) {
		req := p.request(in)
		if req == nil {
			return 0
		}
		if req.ExpiresAt != 0 {
			return req.ExpiresAt
		}
		from = max(from, req.SendAt)
	}
	if from == 0 {
		return 0
	}
	return from.Add(time.Duration(p.rules.policy.Class(p.e.Class).ExpiresAfter))
}

// status judges the next step of a message.
func (p *partition) status() {
	e := p.e
	m, there := p.messages[p.key]
	receipt := e.Status == schemas.StatusDelivered || e.Status == schemas.StatusUndelivered
	before := p.cut && !there && (e.AcceptedAt == 0 || !p.started || e.AcceptedAt < p.begin+60_000)
	switch {
	case !there && e.Decision == nil && !receipt && mayFollow("", e.Status) && (!before || e.Status == schemas.StatusRejected && p.foreign()):
		p.counts.Messages += p.one()
		p.turnedAway()
	case receipt:
		p.counts.Receipts += p.one()
		p.amended(m, there)
		return
	case !there && before && (!mayFollow("", e.Status) || e.Status == schemas.StatusSent && e.Decision == nil):
		p.cannotTell("messages that began before the log")
		m.flags |= flagBefore
		p.counts.Messages += p.one()
	case !there:
		p.counts.Messages += p.one()
		if !mayFollow("", e.Status) {
			p.fault(KindOrder, "%s of a message that is not open", e.Status)
		}
	case m.state().End() && e.At-m.first >= unique && mayFollow("", e.Status):
		// Its id may be used again.
		p.calls.release(m.held)
		m, there = message{}, false
		p.counts.Messages += p.one()
	case m.state().End():
		p.fault(KindTwoEnds, "%s after it ended as %s at %s", e.Status, m.state(), m.last)
		return
	case !mayFollow(m.state(), e.Status):
		p.fault(KindOrder, "%s after %s", e.Status, m.state())
	}
	if m.flags&flagBefore == 0 {
		p.sentByWhom(m.state())
	}
	if !there {
		m.first = e.At
	}
	if p.charged != 0 {
		p.calls.release(m.held)
		m.held = p.charged
	}
	if e.Status == schemas.StatusSending {
		unused := schemas.Millis(0)
		if m.state() == schemas.StatusSending {
			unused = m.last
		}
		p.calls.sent(m.held, e, p.key[0], unused, p.judged)
	}
	m.status, m.last, m.offset = indexOf(e.Status), e.At, p.rec.Offset
	if m.expires == 0 {
		m.expires = p.expires
	}
	switch e.Status {
	case schemas.StatusSending:
		if p.gone[e.Provider] {
			p.cannotTell("sendings of providers whose journals are gone")
		} else if p.judged {
			p.permitted.put(permitItem(e.MessageID, e.Provider, e.Attempt, e.At), 1, e.At)
		}
	case schemas.StatusRetrying:
		if e.Reason == "unknown" {
			m.flags |= flagUnknown
		}
	default: // says nothing of permits or outcomes
	}
	if e.Status.End() {
		p.calls.release(m.held)
		m.held = 0
		p.ends[e.Status] += p.one()
		p.counts.Ended += p.one()
		if m.flags&flagUnknown != 0 && e.Status != schemas.StatusSent && e.Status != schemas.StatusUnknown {
			p.fault(KindOrder, "ended as %s, though the outcome of an attempt is unknown", e.Status)
		}
		if m.expires != 0 && e.At > m.expires.Add(p.slack) {
			p.fault(KindLate, "ended as %s at %s: it expired at %s", e.Status, e.At, m.expires)
		}
	}
	p.messages[p.key] = m
	delete(p.early, p.key)
}

// amended judges an amendment. It is Weir's that it has the form of one and stands
// where its recipient does; that its message is one that was sent is the provider's
// word, and so no promise of Weir's: what does not fit is told.
func (p *partition) amended(m message, there bool) {
	switch {
	case p.e.Reason != "receipt" || p.e.Decision != nil:
		p.fault(KindOrder, "%s, and no receipt says so", p.e.Status)
	case schemas.PartitionOf(p.e.To, p.partitions) != p.num:
		p.fault(KindOrder, "a receipt in another partition than its recipient's")
	case !there:
		e := p.early[p.key]
		e.n += p.one()
		e.last = schemas.MillisOf(p.rec.Timestamp) // there may be no decision yet, and so no time
		p.early[p.key] = e
	case !p.judged:
	case m.state().End() && m.state() != schemas.StatusSent && m.state() != schemas.StatusUnknown:
		p.found.tell(fmt.Sprintf("receipts for messages that ended as %s", m.state()), 1)
	}
}

// early are receipts of one message that the log does not have so far: it may begin
// yet, since a provider may be told of it by who has not.
type early struct {
	n    int64 // of those judged
	last schemas.Millis
}

// tellOf says that receipts were of no message.
func (p *partition) tellOf(e early) {
	p.found.tell("receipts for messages that the log does not have, or no longer: sent before it begins, ended more than a day before, or never by this Weir", e.n)
}

// learn finds out until when the message in hand must have ended, unless that is
// known.
func (p *partition) learn(in *kgo.Record, env *schemas.Envelope) {
	if p.messages[p.key].expires == 0 {
		p.expires = p.expiry(in, env)
	}
}

func (p *partition) sweep() {
	p.swept = p.t
	var reach schemas.Millis
	if p.rules != nil {
		for i := range p.rules.limits {
			reach = max(reach, p.rules.limits[i].reach)
		}
	}
	p.places.sweep(p.t - reach)
	p.calls.made.sweep(p.t - reach)
	p.tanks.sweep(p.t)
	p.causes.sweep(p.t)
	p.sweepDecided()
	p.repeats.sweep(p.t)
	for k, e := range p.early {
		if e.last < p.t-remembered {
			p.tellOf(e)
			delete(p.early, k)
		}
	}
	for k, at := range p.moved {
		if at < p.t-remembered {
			delete(p.moved, k)
		}
	}
	for k, m := range p.messages {
		if m.state().End() && m.last < p.t-remembered {
			delete(p.messages, k)
		}
	}
}

// finish judges what only the whole log can show.
func (p *partition) finish() error {
	p.judged, p.e = true, nil
	for _, e := range p.early {
		p.tellOf(e)
	}
	if p.owns {
		p.counts.Owners = 1
	}
	for _, m := range p.messages {
		if m.state().End() {
			continue
		}
		p.counts.Open++
		if m.expires != 0 && p.t > m.expires.Add(p.slack) {
			p.counts.Overdue++
			p.found.violation(Violation{
				Kind: KindLate, Topic: p.statusTopic, Partition: p.num, Offset: m.offset, T: m.last,
				Text: fmt.Sprintf("%s since then, and no end: it expired at %s, and the log goes on to %s", m.state(), m.expires, p.t),
			})
		}
	}
	for _, f := range p.in {
		for {
			r, err := f.peek()
			if err != nil {
				return err
			}
			if r == nil {
				break
			}
			f.head = nil
			if f.topic == p.readmit {
				if env := p.arrived(r); env != nil && (env.Round != nil || env.Reason == schemas.ReadmitUnwind) {
					p.counts.UnderWay++
				}
			}
			if r.Offset < p.done[f.topic] && (f.start || !p.cut) {
				p.found.violation(Violation{
					Kind: KindUnanswered, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp),
					Text: fmt.Sprintf("no decision answers it, and the group has committed %d", p.done[f.topic]),
				})
				continue
			}
			p.counts.Pending++
		}
	}
	return nil
}
