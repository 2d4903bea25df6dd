package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// bounds is what the partitions have in common.
type bounds struct {
	partitions        int32
	statusTopic       string
	requests, readmit string
	ledger, seenTopic string
	config            *history
	skips             skips
	holes             map[string]int64    // records of journals that were skipped, by provider
	doors             map[string][]string // by topic: the tenants whose input it was
	since             schemas.Millis      // judge from here on; before, only learn
	slack             time.Duration
	gone              map[string]bool // providers without topics
	dispatched        *join           // admissions against dispatch topics
	permitted         *join           // sendings against journals
	ended             *join           // what lanes say came of attempts, against journals
	forwarded         *join           // forwards against readmit
	hops              *join           // what goes round the owners of wide limits, against readmit
	wide              *wideCalls
	released          *join // what home asks back of owners, against readmit
	refusals          *join // refusals by owners, as home and the owner have them
	dead              *join // what was given up on, against weir.dlq
	waiting           waits
	begins            map[string]schemas.Millis  // by topic: its oldest record, of those that age took records of
	metas             *metas                     // nil: there is no ledger to compare with
	over              map[string]map[int32]int64 // of journals: below, what they say is said by a status of the log
	wrote             map[string]map[int32]int64 // of journals: the last number that each lane had written before their ends were taken
	clocks            clocks
	found             *findings
}

// partition judges the log of one partition.
type partition struct {
	*bounds
	num     int32
	in      map[string]*feed
	done    map[string]int64 // by topic: every record below is answered, whatever the log says
	started bool             // a decision was seen
	cut     bool             // the log read does not begin with the first decision: retention took it
	begin   schemas.Millis   // t of the first decision
	first   int64            // its seq
	seq     int64
	// When the last decision was made that may have been with other time zones than this
	// program has; 0 is none.
	zonesUntil schemas.Millis
	others     []usedData // other time zones and numbering plans than this program's, as of the metas
	othersOf   *metas
	t          schemas.Millis
	revision   int64
	since      map[string]map[string]schemas.Millis
	known      bool // since is known, not only bounded by begin
	rules      *rules
	places     *places
	tanks      *tanks
	causes     *causes
	repeats    *repeats
	where      map[string][]*time.Location // by recipient: its zones, of some
	calls      *calls
	messages   map[sum]message
	decided    map[sum]decided        // without sending
	back       map[sum]returning      // messages whose records of readmit wait to be decided
	underWay   int64                  // such records that are on their way round owners
	forgot     forgotten              // messages that are not in messages any more
	providers  []string               // as message.given has them
	moved      map[sum]schemas.Millis // old places that rounds gave up for new ones, and when
	owns       bool                   // it has taken places in wide limits
	counts     Counts
	found      *findings // the bounds', or those of the cut while that is judged
	end        Counts    // of the cut
	share      *share
	ends       map[schemas.Status]int64
	clock      Clock
	outside    int // decisions whose t is too far from the append time
	from       schemas.Millis
	swept      schemas.Millis
	atCut      func(reached bool) error // compares the state with the ledger's; once

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
	again   bool           // places of the recipient's limits move to the end of their round: no bucket is drawn from
	judged  bool
	read    *kgo.Record // the input that was last read as a request
	req     *schemas.Request
}

func newPartition(num int32, b *bounds, requests, readmit source) *partition {
	return &partition{
		bounds: b, num: num, found: b.found, places: newPlaces(), tanks: newTanks(), causes: newCauses(), repeats: newRepeats(), calls: newCalls(b.wide), messages: make(map[sum]message), decided: make(map[sum]decided), back: make(map[sum]returning), moved: make(map[sum]schemas.Millis), where: make(map[string][]*time.Location), ends: make(map[schemas.Status]int64),
		done: make(map[string]int64),
		in:   map[string]*feed{b.requests: {topic: b.requests, next: requests}, b.readmit: {topic: b.readmit, next: readmit}},
	}
}

// walk judges the log up to the cut.
func (p *partition) walk(log source, tick func() error) error {
	for {
		r, err := log()
		if err != nil {
			return err
		}
		if r == nil {
			return p.reached(true)
		}
		if err := p.take(r); err != nil {
			return fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if err := p.reached(false); err != nil {
			return err
		}
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
	}
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
	p.rec, p.e, p.expires, p.charged, p.again = r, nil, 0, 0, false
	p.judged = schemas.MillisOf(r.Timestamp) >= p.bounds.since
	var reader schemas.EventReader // not used again: parts of the event are kept
	e, err := reader.Read(string(r.Value))
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
	p.buried()
	if e.Kind == schemas.KindStatus {
		p.status()
	}
	return nil
}

func (p *partition) one() int64 {
	if p.judged {
		return 1
	}
	return 0
}

func (p *partition) sweep() {
	p.swept = p.t
	var reach schemas.Millis
	if p.rules != nil {
		for i := range p.rules.limits {
			reach = max(reach, p.rules.limits[i].reach)
		}
		p.tanks.sweep(p.t, p.rules.byHash)
	}
	p.places.sweep(p.t - reach)
	p.calls.made.sweep(p.t - reach)
	p.causes.sweep(p.t)
	p.sweepDecided()
	p.repeats.sweep(p.t)
	for k, at := range p.moved {
		if at < p.t-remembered {
			delete(p.moved, k)
		}
	}
	for k, m := range p.messages {
		if m.state().End() && m.last < p.t-remembered {
			p.kept(k, &m)
			delete(p.messages, k)
			if !p.cut {
				p.forgot.add(k)
			}
		}
	}
}

// judgeCut judges what only the log up to a cut can show: into the findings of the cut,
// since what is missing there may still come. The partition can go on after it.
func (p *partition) judgeCut(into *findings) error {
	p.found, p.end, p.judged, p.e = into, Counts{}, true, nil
	defer func() { p.found = p.bounds.found }()
	p.agrees()
	if p.owns {
		p.end.Owners = 1
	}
	for _, f := range p.in {
		if err := p.pending(f); err != nil {
			return err
		}
		p.end.Pending += f.waiting
	}
	p.end.UnderWay = p.underWay
	for k, m := range p.messages {
		if m.state().End() {
			p.kept(k, &m)
			continue
		}
		p.end.Open++
		p.overdue(&m)
		p.waitsSomewhere(k, &m)
	}
	return nil
}
