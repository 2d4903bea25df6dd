package stream

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// A transaction is retried until it commits. A record that makes it fail every time
// would stop the stage for good, so the worker finds that record and hands it to its
// stage as poison: Tx.On returns why, and the stage ends the record instead of deciding
// it. How the record is found:
//
//   - A panic in Step is of the record that Step last named with Tx.On.
//   - What is produced after Tx.On is of that record. If a produce fails for a reason
//     that only the record can have, and fails alike in three transactions, that record
//     is poison. If several share the failed batch, the next transaction flushes
//     before and after each of them, so that one is left.
//   - If what failed is of no record, what a transaction takes is halved until it takes
//     one.
//
// What is poison is known only here, in memory. After a crash it is learnt again.

const (
	patience  = 3  // aborts in a row, all alike, before a record is the cause
	hopeless  = 40 // aborts in a row, all alike, after which the worker stops
	maxPanics = 3  // on different records, with none decided between
	maxTries  = 3  // failed attempts to end one record
)

// Poison says why a record cannot be processed. Its stage ends it without doing again
// what failed.
type Poison struct {
	Reason string // schemas.ReasonInternalError, ReasonTooLarge or ReasonBatchTooLarge
	Err    error  // for people; names no recipient
	// Tries is how often ending it has failed: the stage does less each time. After the
	// third the worker stops.
	Tries int
	// Batch says that the record stands for a batch that was not read, and whose last
	// offset it has. It is empty; Err says which offsets the batch has.
	Batch bool
}

// Code is the reason as it stands in a status event.
func (p *Poison) Code() string  { return p.Reason }
func (p *Poison) Error() string { return p.Err.Error() }
func (p *Poison) Unwrap() error { return p.Err }

// Resilient is a Stage whose Ended(false) undoes also what a panic in Step left half
// done. Any other stage is dropped after a panic, and restored from its log.
type Resilient interface {
	Stage
	Resilient()
}

// place is where a record stands. Offset -1 is none.
type place struct {
	Partition
	offset int64
}

func placeOf(r *kgo.Record) place { return place{Partition{r.Topic, r.Partition}, r.Offset} }

func (p place) String() string {
	return fmt.Sprintf("%s/%d/%d", p.Topic, p.Partition.Partition, p.offset)
}

// rejects returns why brokers, or the client, will never take a record as it is; nil for
// every error that another attempt may mend.
func rejects(err error) *kerr.Error {
	for _, e := range []*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp} {
		if errors.Is(err, e) {
			return e
		}
	}
	return nil
}

// quarantine is what one Run knows of records that its stage cannot process. It belongs
// to Run's goroutine.
type quarantine struct {
	poison   map[place]*Poison
	suspects map[place]bool      // share a batch that was refused: produced apart in the next transaction
	limit    int                 // how many records a transaction takes at most; 0 is no bound
	until    map[Partition]int64 // limit holds until these offsets are committed
	cause    *kerr.Error         // of the aborts in a row
	aborts   int
	panics   int // on different records, with none decided between
}

func newQuarantine() *quarantine { return &quarantine{poison: make(map[place]*Poison)} }

// attempt is what is known of a transaction that ended.
type attempt struct {
	took    []place         // records that it was handed
	decided int             // of those that it named, and that are not poison
	failed  map[place]error // produces that were refused, by record; of no record under the zero place
	certain bool            // each of failed is its record's own fault, and no other's in its batch
}

// condemn makes a record poison. The error means that it was before, and could not be
// ended: the worker stops.
func (q *quarantine) condemn(at place, reason string, why error) (*Poison, error) {
	q.aborts, q.suspects = 0, nil
	p := q.poison[at]
	if p == nil {
		p = &Poison{Reason: reason, Err: why}
		q.poison[at] = p
		return p, nil
	}
	p.Tries++
	if p.Tries >= maxTries {
		return p, Fatal(fmt.Errorf("%s cannot be processed (%w), and ending it failed %d times: %w", at, p.Err, p.Tries, why))
	}
	return p, nil
}

// aborted learns from a transaction that was aborted. It returns what it made poison.
func (q *quarantine) aborted(a *attempt) (found []place, err error) {
	var cause *kerr.Error
	for _, err := range a.failed {
		if cause = rejects(err); cause != nil {
			break
		}
	}
	if cause == nil {
		return nil, nil // not a record's fault; what is known of aborts before stays
	}
	if q.cause != cause {
		q.cause, q.aborts = cause, 0
	}
	if q.aborts++; q.aborts < patience {
		return nil, nil
	}
	if q.aborts >= hopeless {
		return nil, Fatal(fmt.Errorf("%d transactions in a row failed alike, and no record is the cause: %w", q.aborts, cause))
	}
	_, stateToo := a.failed[place{}]
	apart := true // each was alone in its batches
	for at := range a.failed {
		apart = apart && (a.certain || len(a.failed) == 1 || q.suspects[at])
	}
	switch {
	case apart && !stateToo:
		for at, why := range a.failed {
			if _, err := q.condemn(at, reasonOf(why), why); err != nil {
				return found, err
			}
			found = append(found, at)
		}
	case !stateToo:
		q.suspects = make(map[place]bool, len(a.failed))
		for at := range a.failed {
			q.suspects[at] = true
		}
	case len(a.took) == 1:
		if _, err := q.condemn(a.took[0], reasonOf(cause), cause); err != nil {
			return nil, err
		}
		found = append(found, a.took[0])
	case len(a.took) > 1:
		q.halve(a.took)
	}
	return found, nil
}

// halve bounds what transactions take until all of these records are committed.
func (q *quarantine) halve(took []place) {
	q.limit = max(1, len(took)/2)
	if q.until == nil {
		q.until = make(map[Partition]int64)
	}
	for _, at := range took {
		q.until[at.Partition] = max(q.until[at.Partition], at.offset+1)
	}
}

// panicked learns from a panic on a record.
func (q *quarantine) panicked(at place, why error) error {
	p, err := q.condemn(at, schemas.ReasonInternalError, why)
	if err != nil {
		return err
	}
	if p.Tries > 0 {
		return nil // on the same record
	}
	if q.panics++; q.panics >= maxPanics {
		return Fatal(fmt.Errorf("%d records in a row made this stage panic, so the fault is the program's and not a record's; please report it: %w", q.panics, why))
	}
	return nil
}

// committed forgets what is over.
func (q *quarantine) committed(a *attempt, positions map[Partition]Position) {
	q.aborts, q.suspects = 0, nil
	if a.decided > 0 {
		q.panics = 0
	}
	for at := range q.poison {
		if positions[at.Partition].Offset > at.offset {
			delete(q.poison, at)
		}
	}
	for p, end := range q.until {
		if positions[p].Offset >= end {
			delete(q.until, p)
		}
	}
	if len(q.until) == 0 {
		q.limit = 0
	}
}

// revoked forgets what was about records that are another's now.
func (q *quarantine) revoked() {
	q.suspects, q.until, q.limit, q.aborts = nil, nil, 0, 0
	clear(q.poison)
}

// portion returns how many of records a transaction may take that took some already, and
// whether it may take no more after them: what comes after poison waits for the next one.
func (q *quarantine) portion(records []*kgo.Record, took int) (n int, full bool) {
	n = len(records)
	if q.limit > 0 {
		n = min(n, max(q.limit-took, 0))
		full = took+n >= q.limit
	}
	if len(q.poison) > 0 {
		for i, r := range records[:n] {
			if q.poison[placeOf(r)] != nil {
				return i + 1, true
			}
		}
	}
	return n, full
}

func reasonOf(err error) string {
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) {
		return schemas.ReasonTooLarge
	}
	return schemas.ReasonInternalError
}
