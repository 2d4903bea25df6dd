package admission

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// partition is the state that decides: one a partition of weir.requests. What
// a transaction changes is an overlay until commit.
type partition struct {
	num     int32
	env     environment
	table   *limit.Table
	seen    *seen
	cancels *seen // of messages that were not waiting here

	suppressed *suppressions // recipients that opted out
	waiting    *waiting      // messages in the delay topics, which a cancel ends at once
	held       *holds        // decisions without sending, which a release takes back

	base    standing // as committed
	cur     standing // as the open transaction has it
	open    bool
	ahead   []limit.Subject // of messages that were read and are yet to be decided
	cursors map[cursorKey]cursor
	message message        // the one in hand: used again by the next
	floor   schemas.Millis // the broker's time of the ledger's last known append

	lift     time.Duration  // by which the process's clock is behind that of the ledger's leader
	earliest schemas.Millis // the time of the open transaction's first decision; 0: none
	opened   time.Time      // when that was taken
	finished schemas.Millis // when its ledger records were produced, by the process's clock

	log  replicated   // how much of the log base has
	sent transmission // of the open transaction

	spelled []stateKey // opt-outs to be moved to the owners of their keys; nil: not listed

	damaged damages  // records of the log that stand where state stood
	outside outsides // records of the ledger that are in no transaction
	strays  []stray  // those that replaced nothing, to be told
}

// standing is the part of the state that is replaced rather than mutated.
type standing struct {
	meta  meta
	rules *limit.Rules    // compiled for the marker's revision and since
	pol   *schemas.Policy // of the marker's revision
}

func newPartition(num int32, env environment) (*partition, error) {
	p := &partition{num: num, env: env, table: limit.NewTable(), seen: newSeen(), cancels: newSeen(), suppressed: newSuppressions(), waiting: newWaiting(), held: newHolds(), cursors: make(map[cursorKey]cursor), damaged: make(damages), outside: make(outsides)}
	data := cmp.Or(env.data, ownData)
	p.base.meta = meta{Version: metaVersion, Partitions: env.partitions, Phones: data.Phones, Zones: data.Zones, Spellings: spellings{Folds: true}}
	return p, p.adopt(&schemas.Revision{})
}

// adopt compiles the rules for the marker that stands in the meta record.
func (p *partition) adopt(rev *schemas.Revision) error {
	rules, err := limit.Compile(&rev.Policy, limit.Retained(p.base.meta.Marker.Since, p.base.meta.T))
	if err != nil {
		return fmt.Errorf("compile revision %d: %w", rev.Revision, err)
	}
	p.base.rules, p.base.pol = rules, &rev.Policy
	p.cur = p.base
	return nil
}

// begin opens the overlay, if it is not open.
func (p *partition) begin() {
	if p.open {
		return
	}
	p.open = true
	p.earliest = 0
	p.cur = p.base
	p.table.Begin()
}

func (p *partition) commit() {
	p.open = false
	p.base = p.cur
	p.table.Commit()
	p.seen.commit(p.cur.meta.T)
	p.cancels.commit(p.cur.meta.T)
	p.suppressed.commit()
	p.waiting.commit()
	p.held.commit()
	p.log.wrote(p.sent)
	p.sent = transmission{}
}

func (p *partition) rollback() {
	p.open = false
	p.cur = p.base
	p.table.Rollback()
	p.seen.rollback()
	p.cancels.rollback()
	p.suppressed.rollback()
	p.waiting.rollback()
	p.held.rollback()
	p.sent = transmission{}
	clear(p.cursors) // the times that it handed out are not taken, and may have been wrong
}

// changes calls ledger and seen with every record that the open transaction
// must write, the meta record last. A nil value is a tombstone. Keys and values
// are theirs to keep.
func (p *partition) changes(ledger func(key, value []byte), seen func(*seenRecord)) error {
	p.table.Dirty(ledger)
	keyed := func(kind byte) func(stateKey, []byte) {
		return func(k stateKey, value []byte) { ledger(append([]byte{kind}, k[:]...), value) }
	}
	p.suppressed.sweep(p.cur.meta.T, sweepSlots)
	if err := p.suppressed.dirty(keyed(suppressionKind)); err != nil {
		return err
	}
	if err := p.waiting.dirty(keyed(waitingKind)); err != nil {
		return err
	}
	p.held.sweep(p.cur.meta.T, sweepSlots+sweepSlots/8*len(p.held.overlay))
	if err := p.held.dirty(keyed(heldKind)); err != nil {
		return err
	}
	for _, r := range p.seen.overlay {
		seen(&r)
	}
	for _, r := range p.cancels.overlay {
		seen(&r)
	}
	p.cur.meta.Sums = p.sums(p.cur.meta.T)
	b, err := p.cur.meta.encode()
	if err != nil {
		return err
	}
	ledger([]byte(metaKey), b)
	return nil
}

// advance moves the partition's time to now, or to the broker's where that is
// later, and never back.
func (p *partition) advance(now schemas.Millis) {
	p.cur.meta.T = max(p.cur.meta.T, now, p.floor)
	if p.earliest == 0 {
		p.earliest, p.opened = p.cur.meta.T, time.Now()
	}
	if at := p.cur.rules.Lapses(); at > 0 && p.cur.meta.T >= at {
		// It compiled before, and now has less.
		if rules, err := limit.Compile(p.cur.pol, limit.Retained(p.cur.meta.Marker.Since, p.cur.meta.T)); err == nil {
			p.cur.rules = rules
		}
	}
}

// stamp gives a decision its place in the partition's log.
func (p *partition) stamp(v schemas.Verdict, input *schemas.Source) *schemas.Decision {
	p.cur.meta.Seq++
	return &schemas.Decision{
		Verdict:   v,
		Partition: p.num,
		Seq:       p.cur.meta.Seq,
		T:         p.cur.meta.T,
		Revision:  p.cur.meta.Marker.Revision,
		Input:     input,
	}
}

// switchTo brings a revision into force in this partition and returns the
// marker's decision. From here every decision names it.
func (p *partition) switchTo(rev *schemas.Revision) (schemas.Event, error) {
	t := p.cur.meta.T
	since := limit.NextSince(p.cur.pol, p.cur.meta.Marker.Since, &rev.Policy, t)
	rules, err := limit.Compile(&rev.Policy, since)
	if err != nil {
		return schemas.Event{}, fmt.Errorf("revision %d: %w: %w", rev.Revision, ErrUnusablePolicy, err)
	}
	p.cur.rules, p.cur.pol = rules, &rev.Policy
	p.cur.meta.Marker = schemas.Marker{Revision: rev.Revision, T: t, Since: since}
	d := p.stamp(schemas.VerdictMarker, nil)
	p.cur.meta.Marker.Seq = d.Seq
	marker := p.cur.meta.Marker
	d.Marker = &marker
	// A window that begins at the marker counts what comes after it.
	p.cur.meta.T++
	return schemas.Event{Kind: schemas.KindDecision, At: t, Decision: d}, nil
}

// close lets go of the state: the table's memory is not Go's.
func (p *partition) close() { p.table.Close() }
