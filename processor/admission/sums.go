package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Every record of a state can be read, and the state can still be another than the one that
// was decided on: a tombstone, an older copy of a record or one with another time reads as
// any, and of what was removed there is nothing to read. So each transaction's meta record
// says how many records the state has, and their hash. Who restores has counted what it
// read, in the same way, and both must be the same. What compaction removes was replaced,
// so it is in neither.

// sums are the counts and hashes of a partition's live records, by kind.
type sums struct {
	Version int       `json:"v"` // 0: not known
	Places  limit.Sum `json:"places,omitzero"`
	OptOuts limit.Sum `json:"optouts,omitzero"`
	Waiting limit.Sum `json:"waiting,omitzero"`
	Held    limit.Sum `json:"held,omitzero"`
	Known   []known   `json:"known,omitempty"` // keys and ids, and early cancels; by time
}

const sumsVersion = 1

// known is the Sum of the records of weir.seen of one span.
type known struct {
	Span int64 `json:"span"`
	limit.Sum
}

// Kafka deletes from weir.seen what is older than topics.SeenRetention. So its sums are by
// spans of spanHours, and only those are compared of which it has deleted nothing for sure.
const (
	spanHours = 3
	// comparedFor is the age of the oldest record that is compared. The difference to what
	// Kafka keeps is how far the clocks may be apart.
	comparedFor = topics.SeenRetention - time.Hour
)

func spanStart(span int64) schemas.Millis { return schemas.Millis(span * spanHours * seenBucket) }

// firstSpan is the earliest of which all hours are remembered at t.
func firstSpan(t schemas.Millis) int64 { return (firstHour(t) + spanHours - 1) / spanHours }

// tally is the Sum of the records of one kind, for those that are kept as JSON.
type tally struct {
	is, next limit.Sum // as loaded and committed; with the open transaction
	open     bool
}

func (y *tally) begin() { y.next, y.open = y.is, true }

func (y *tally) sum() limit.Sum {
	if y.open {
		return y.next
	}
	return y.is
}

func (y *tally) commit() { y.is, y.open = y.sum(), false }

func (y *tally) rollback() { y.open = false }

// write counts a record that the open transaction writes, and returns its check.
func (y *tally) write(k stateKey, was limit.Check, value []byte) limit.Check {
	is := limit.CheckOf(k[:], value)
	y.next.Replace(k, was, is)
	return is
}

// load counts a record that is read, and returns its check.
func (y *tally) load(k stateKey, was limit.Check, value []byte) limit.Check {
	is := limit.CheckOf(k[:], value)
	y.is.Replace(k, was, is)
	return is
}

// sums returns what the state has at t, with the open transaction once changes reported it.
func (p *partition) sums(t schemas.Millis) sums {
	s := sums{Version: sumsVersion, Places: p.table.Sum(), OptOuts: p.suppressed.tally.sum(), Waiting: p.waiting.tally.sum(), Held: p.held.tally.sum()}
	all := make(map[int64]limit.Sum)
	p.seen.sums(all)
	p.cancels.sums(all)
	for _, span := range slices.Sorted(maps.Keys(all)) {
		if span >= firstSpan(t) {
			s.Known = append(s.Known, known{span, all[span]})
		}
	}
	return s
}

// differs compares what was read with what the meta record says, at now.
func (p *partition) differs(now schemas.Millis) error {
	says := &p.base.meta.Sums
	if says.Version != sumsVersion {
		return nil // of an earlier or later Weir
	}
	is := p.sums(p.base.meta.T)
	n := p.env.names
	var ledger, seen []string
	for _, k := range [...]struct {
		name     string
		says, is limit.Sum
	}{
		{"of limits", says.Places, is.Places}, {"of opt-outs", says.OptOuts, is.OptOuts},
		{"of waiting messages", says.Waiting, is.Waiting}, {"of decisions without sending", says.Held, is.Held},
	} {
		if k.says != k.is {
			ledger = append(ledger, difference(k.says, k.is)+" "+k.name)
		}
	}
	spans := make(map[int64][2]limit.Sum)
	for _, k := range says.Known {
		spans[k.Span] = [2]limit.Sum{k.Sum}
	}
	for _, k := range is.Known {
		spans[k.Span] = [2]limit.Sum{spans[k.Span][0], k.Sum}
	}
	for _, span := range slices.Sorted(maps.Keys(spans)) {
		start, sums := spanStart(span), spans[span]
		if start >= now-schemas.Millis(comparedFor.Milliseconds()) && sums[0] != sums[1] {
			seen = append(seen, fmt.Sprintf("%s of the %d hours from %s", difference(sums[0], sums[1]), spanHours, start.Time().UTC().Format("2006-01-02 15:04Z")))
		}
	}
	var text []string
	if len(ledger) > 0 {
		text = append(text, fmt.Sprintf("%s/%d: %s%s", n.Ledger(), p.num, strings.Join(ledger, ", "), p.outside.text()))
	}
	if len(seen) > 0 {
		text = append(text, fmt.Sprintf("%s/%d: %s", n.Seen(), p.num, strings.Join(seen, ", ")))
	}
	if len(text) == 0 {
		return nil
	}
	return &differsError{text: strings.Join(text, "; "), ledger: len(ledger) > 0}
}

// differsError says which records differ.
type differsError struct {
	text   string
	ledger bool // records of weir.ledger do, perhaps among others
}

func (e *differsError) Error() string { return e.text + ": " + ErrLedgerDiffers.Error() }
func (e *differsError) Unwrap() error { return ErrLedgerDiffers }

func difference(says, is limit.Sum) string {
	switch d := is.Records - says.Records; {
	case d < 0:
		return fmt.Sprintf("%d of %d records are missing", -d, says.Records)
	case d > 0:
		return fmt.Sprintf("%d records too many beside %d", d, says.Records)
	}
	return fmt.Sprintf("some of %d records differ", says.Records)
}

// outsides are the ledger's last records that are in no transaction, by key. Admission writes
// in transactions, so others wrote them: weir ledger repair, or who put a copy back, or who
// had better not.
type outsides map[string]int64

// maxOutsides bounds those that are noted: of a copy all records are.
const maxOutsides = 1000

func (o outsides) note(r *kgo.Record) {
	if string(r.Key) == metaKey {
		return
	}
	if !r.Attrs.IsTransactional() {
		if len(o) < maxOutsides {
			o[string(r.Key)] = r.Offset
		}
	} else if len(o) > 0 {
		delete(o, string(r.Key))
	}
}

// text names the first few of them.
func (o outsides) text() string {
	if len(o) == 0 {
		return ""
	}
	keys := slices.SortedFunc(maps.Keys(o), func(a, b string) int { return cmp.Compare(o[a], o[b]) })
	named := make([]string, 0, 3)
	for _, k := range keys[:min(len(keys), 3)] {
		named = append(named, fmt.Sprintf("offset %d key %s", o[k], keyText([]byte(k))))
	}
	more := ""
	if len(keys) > len(named) {
		more = fmt.Sprintf(" and %d more", len(keys)-len(named))
	}
	return fmt.Sprintf(" (written outside of a transaction, and not by admission: %s%s)", strings.Join(named, ", "), more)
}
