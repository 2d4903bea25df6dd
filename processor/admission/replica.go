package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// A partition's committed state is a function of its logs: weir.ledger and
// weir.seen, read in order. So whatever has a state and the positions up to
// which it has read them can go on from there: a state that was empty (a
// restore), one that a standby built (a takeover), one that this worker itself
// decided on until the partition was taken away (a return). catchUp is the one
// way for all of them.

// replicated says how much of the logs a state has.
type replicated struct {
	// Everything below these offsets is in the state, and of what lies above
	// nothing that a second reading would change: records replace what they
	// name. 0 is nothing yet.
	ledger, seen int64
	// Of which topics: the names may be others' by now.
	ledgerID, seenID [16]byte
	records          int64     // read so far, in all
	fresh            time.Time // when it last had everything
}

// transmission is what a transaction wrote last. Offsets are known when it has
// been committed.
type transmission struct{ ledger, seen *kgo.Record }

// wrote takes the positions of a committed transaction: that of the meta record
// itself and not after it, so that a state that comes back is checked against
// its meta record, and knows when the broker appended it.
func (r *replicated) wrote(t transmission) {
	// A position that is too low only costs reading; the client does not learn
	// the offset of a batch that the broker had taken already.
	if t.ledger != nil {
		r.ledger = max(r.ledger, t.ledger.Offset)
	}
	if t.seen != nil {
		r.seen = max(r.seen, t.seen.Offset)
	}
}

// maxAge is how old a state may be and still go on from its position. The
// ledger is compacted: a tombstone is gone 24 hours after it was first seen by
// the cleaner (delete.retention.ms), and who did not read it by then would keep
// what it removed.
const maxAge = 12 * time.Hour

// tooOld holds both clocks against fresh: the monotonic one stands still while
// a machine sleeps, and the wall clock can be set back.
func (r *replicated) tooOld(now time.Time) bool {
	age := max(now.Sub(r.fresh), now.Round(0).Sub(r.fresh.Round(0)))
	return !r.fresh.IsZero() && age > maxAge
}

func (p *partition) ranges() []stream.Range {
	n := p.env.names
	return []stream.Range{
		{Partition: stream.Partition{Topic: n.Ledger(), Partition: p.num}, From: p.log.ledger, Resume: p.log.ledger > 0, TopicID: p.log.ledgerID},
		{Partition: stream.Partition{Topic: n.Seen(), Partition: p.num}, From: p.log.seen, Resume: p.log.seen > 0, TopicID: p.log.seenID},
	}
}

// catchUp reads what the states do not have yet, up to the high watermarks as
// of now, and returns how many records that were. Where it fails the states
// have their positions as far as they came, and the next call goes on. A state
// keeps note of records that it could not take: see damages.
func catchUp(ctx context.Context, reader *stream.Reader, parts map[int32]*partition) (int64, error) {
	var ranges []stream.Range
	var ledger string
	for _, p := range parts {
		ledger = p.env.names.Ledger()
		ranges = append(ranges, p.ranges()...)
	}
	began := time.Now()
	var records atomic.Int64
	reached, err := reader.Read(ctx, ranges, func(r *kgo.Record) error {
		p := parts[r.Partition] // one goroutine at a time has the records of a number
		p.log.records++
		records.Add(1)
		p.take(r, r.Topic == ledger)
		return nil
	})
	for tp, at := range reached {
		if p := parts[tp.Partition]; tp.Topic == ledger {
			p.log.ledger, p.log.ledgerID = at.From, at.TopicID
		} else {
			p.log.seen, p.log.seenID = at.From, at.TopicID
		}
	}
	if err != nil {
		return records.Load(), err
	}
	for _, p := range parts {
		p.log.fresh = began
	}
	return records.Load(), nil
}

// catchUpOrAnew is catchUp for states of which the logs may have lost what comes
// next: those are begun anew.
func catchUpOrAnew(ctx context.Context, reader *stream.Reader, parts map[int32]*partition) (records int64, anew []error, err error) {
	for {
		n, err := catchUp(ctx, reader, parts)
		records += n
		gone, ok := errors.AsType[*stream.GoneError](err)
		if !ok || parts[gone.Partition.Partition].log == (replicated{}) {
			return records, anew, err
		}
		anew = append(anew, gone)
		old := parts[gone.Partition.Partition]
		p, err := newPartition(old.num, old.env)
		if err != nil {
			return records, anew, err
		}
		old.close()
		parts[old.num] = p
	}
}

// take takes one record of weir.ledger, or of weir.seen.
func (p *partition) take(r *kgo.Record, ledger bool) {
	if ledger {
		p.loadLedger(r)
	} else {
		p.loadKnown(r)
	}
}

func (p *partition) loadLedger(r *kgo.Record) {
	p.floor = max(p.floor, schemas.MillisOf(r.Timestamp))
	switch err := p.load(r.Key, r.Value); {
	case errors.Is(err, errForeignKey):
		// Compaction goes by key: one that is not Weir's replaced nothing.
		p.strays = append(p.strays, newStray(r, err))
	default:
		p.damaged.note(r, err)
		p.outside.note(r)
	}
}

func (p *partition) loadKnown(r *kgo.Record) {
	rec, err := decodeSeen(r.Value)
	if err != nil {
		// This topic is not compacted, and the meta record says that no newer
		// version wrote here: it replaced nothing.
		p.strays = append(p.strays, newStray(r, err))
		return
	}
	p.loadSeen(rec)
}

func (p *partition) loadSeen(r seenRecord) {
	if r.cancel() {
		p.cancels.load(r)
	} else {
		p.seen.load(r)
	}
}

// load takes one record of the ledger; later ones win.
func (p *partition) load(key, value []byte) error {
	if string(key) == metaKey {
		m, err := decodeMeta(value)
		if err != nil {
			return err
		}
		p.base.meta = *m
		return nil
	}
	switch {
	case limit.IsKey(key):
		return p.table.Load(key, value)
	case len(key) == 17 && key[0] == suppressionKind:
		return p.suppressed.load(stateKey(key[1:]), value)
	case len(key) == 17 && key[0] == waitingKind:
		return p.waiting.load(stateKey(key[1:]), value)
	case len(key) == 17 && key[0] == heldKind:
		return p.held.load(stateKey(key[1:]), value)
	}
	if len(key) == 17 { // as long as ours: a kind that a newer version writes
		return fmt.Errorf("a record of kind %q: run the version that wrote it", key[:1])
	}
	return fmt.Errorf("%w: %d bytes", errForeignKey, len(key))
}
