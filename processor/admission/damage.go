package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// damages are records of the ledger that could not be read, by partition and
// key. A later good record of the same key makes good what was there: then
// nothing is damaged.
type damages map[damageKey]damage

type damageKey struct {
	partition int32
	key       string
}

type damage struct {
	topic  string
	offset int64
	why    error
}

func (d damages) note(r *kgo.Record, err error) {
	if err == nil && len(d) == 0 {
		return // as a rule, and then a record costs no key
	}
	k := damageKey{r.Partition, string(r.Key)}
	if err == nil {
		delete(d, k)
		return
	}
	d[k] = damage{r.Topic, r.Offset, err}
}

// err names what is damaged, the first few of it.
func (d damages) err() error {
	keys := slices.SortedFunc(maps.Keys(d), func(a, b damageKey) int {
		return int(d[a].offset - d[b].offset)
	})
	var errs []error
	for _, k := range keys[:min(len(keys), 3)] {
		errs = append(errs, fmt.Errorf("%s/%d offset %d, key %s: %w: %w", d[k].topic, k.partition, d[k].offset, keyText([]byte(k.key)), ErrLedgerRecord, d[k].why))
	}
	if len(errs) == 0 {
		return nil
	}
	return stream.Fatal(fmt.Errorf("%d damaged: %w", len(keys), errors.Join(errs...)))
}

// keyText shows a key of the ledger's own form: those are hashes and name
// nobody.
func keyText(key []byte) string {
	if string(key) == metaKey {
		return metaKey
	}
	return fmt.Sprintf("%x", key)
}

// stray is a record that is not Weir's and harms nothing. Neither key nor value
// is kept: they may be anything.
type stray struct {
	topic     string
	partition int32
	offset    int64
	why       error
}

func newStray(r *kgo.Record, why error) stray { return stray{r.Topic, r.Partition, r.Offset, why} }

// tell says once which strays a state has met.
func (s *stage) tell(p *partition) {
	for _, r := range p.strays {
		s.metrics.foreign.Inc()
		s.metrics.aside.Met(s.cfg.Logger, "a foreign record is left out; it replaced nothing: let nobody else write to this topic",
			"topic", r.topic, "partition", r.partition, "offset", r.offset, "error", r.why)
	}
	p.strays = nil
}

// decidedUpTo returns the last stable offsets of weir.status. They are to be asked for before the
// ledger is read: each decision below them is in the ledger then. Of decisions beyond them that is
// not known: while this worker reads, or is paused, another one may be assigned the partition, and decide.
func (s *stage) decidedUpTo(ctx context.Context, parts map[int32]*partition) (map[stream.Partition]int64, error) {
	var ask []stream.Partition
	for n := range parts {
		ask = append(ask, stream.Partition{Topic: s.env.names.Status(), Partition: n})
	}
	return s.reader.StableEnds(ctx, ask)
}

// whole reports whether the input that each partition is to read next is there,
// and is that of the topic it was read of; and whether the ledger has the decisions of weir.status
// below upTo, all of them where upTo is nil.
func (s *stage) whole(ctx context.Context, parts map[int32]*partition, upTo map[stream.Partition]int64) error {
	ledger, status := s.env.names.Ledger(), s.env.names.Status()
	var ask []stream.Partition
	for n := range parts {
		ask = append(ask, s.requests(n), s.readmit(n), stream.Partition{Topic: status, Partition: n})
	}
	extents, err := s.extents(ctx, ask)
	if err != nil {
		return err
	}
	for p, at := range upTo {
		is := extents[p]
		is.End = min(is.End, at)
		extents[p] = is
	}
	last, err := lastDecided(ctx, s.cfg.Read, status, extents, lastTail, true)
	if err != nil {
		return err
	}
	for n := range parts {
		m := &parts[n].base.meta
		if last[n] > m.Seq {
			return stream.Fatal(behind(ledger, n, m.Seq, last[n]))
		}
		if m.Seq == 0 {
			decided := stream.Partition{Topic: status, Partition: n}
			if extents[decided].End > 0 { // whatever the ledger's offsets say: its records may have been deleted
				was, err := stream.Holds(ctx, s.cfg.Read, decided, func(r *kgo.Record) bool { return r.Offset < extents[decided].End && isDecision(r) })
				if err != nil {
					return err
				}
				if was {
					return stream.Fatal(fmt.Errorf("%s/%d: %s/%d has decisions: %w", ledger, n, status, n, ErrLedgerLost))
				}
			}
			for _, in := range []stream.Partition{s.requests(n), s.readmit(n)} {
				if start := extents[in].Start; start > 0 { // or all that was there is what aborted
					s.cfg.Logger.Error("admission has never run here, and what was written before was deleted: requests among it were accepted and are lost",
						"topic", in.Topic, "partition", n, "begins_at", start)
				}
			}
		}
		if err := m.reads(s.requests(n), &m.RequestsID, m.Requests, extents[s.requests(n)]); err != nil {
			return stream.Fatal(err)
		}
		if err := m.reads(s.readmit(n), &m.ReadmitID, m.Readmit, extents[s.readmit(n)]); err != nil {
			return stream.Fatal(err)
		}
	}
	return nil
}

func behind(ledger string, n int32, seq, last int64) error {
	return fmt.Errorf("%s/%d ends at decision %d, and weir.status has decision %d: %w", ledger, n, seq, last, ErrLedgerLost)
}

// firstTail and lastTail are how far back of the end of weir.status a start looks for a partition's
// last decision, at first and at most: any number of receipts may come behind it.
const firstTail, lastTail = 100, 10_000

// lastDecided returns the number of the last decision of each partition of weir.status that has one
// among the last of its offsets below the extent's end, most at most. A ledger that ends before it is an older copy. It
// waits for the end of open transactions, such as a lane's, unless stable says to look before them.
func lastDecided(ctx context.Context, read stream.ReadConfig, status string, extents map[stream.Partition]stream.Extent, most int64, stable bool) (map[int32]int64, error) {
	last := make(map[int32]int64)
	for searched, back := int64(0), int64(firstTail); searched < most; searched, back = back, min(10*back, most) {
		var ranges []stream.Range
		for tp, is := range extents {
			if tp.Topic == status && last[tp.Partition] == 0 && is.End-searched > is.Start {
				ranges = append(ranges, stream.Range{Partition: tp, From: is.End - back, Stable: stable})
			}
		}
		if len(ranges) == 0 {
			break
		}
		if err := stream.Read(ctx, read, ranges, func(r *kgo.Record) error {
			if r.Offset >= extents[stream.Partition{Topic: status, Partition: r.Partition}].End {
				return nil
			}
			if e, err := schemas.DecodeEvent(r.Value); err == nil && e.Decision != nil {
				last[r.Partition] = max(last[r.Partition], e.Decision.Seq)
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("look for the last decision: %w", err)
		}
	}
	return last, nil
}

// isDecision reports whether a record of weir.status says that something was
// decided here. What is turned away at an input, and what a provider's receipt
// says of any message, may stand there before anything is.
func isDecision(r *kgo.Record) bool {
	e, err := schemas.DecodeEvent(r.Value)
	if err != nil || e.Decision != nil {
		return true
	}
	switch e.Status {
	case schemas.StatusRejected, schemas.StatusDelivered, schemas.StatusUndelivered:
		return false
	default:
		return true
	}
}

// reads reports whether the record at offset at of p, the next to read, is or
// will be there; id is the topic's as the state knows it, and set if it did not.
func (m *meta) reads(p stream.Partition, id *string, at int64, is stream.Extent) error {
	if m.Seq == 0 {
		*id = is.TopicID
		return nil
	}
	switch {
	case *id != "" && is.TopicID != "" && *id != is.TopicID:
		return fmt.Errorf("%s/%d: the state stands at %d of topic %s, and now it is %s: %w", p.Topic, p.Partition, at, *id, is.TopicID, ErrTopicRecreated)
	case at < is.Start:
		return fmt.Errorf("%s/%d: the state stands at %d and the log begins at %d, %d offsets later: %w", p.Topic, p.Partition, at, is.Start, is.Start-at, ErrDeleted)
	case at > is.End:
		return fmt.Errorf("%s/%d: the state stands at %d and the log ends at %d: %w", p.Topic, p.Partition, at, is.End, ErrBeyondEnd)
	}
	*id = is.TopicID
	return nil
}

// extents are where the logs begin and end; one that was cut ends there, whatever was written since.
func (s *stage) extents(ctx context.Context, ask []stream.Partition) (map[stream.Partition]stream.Extent, error) {
	all, err := stream.Extents(ctx, s.cfg.Read, ask)
	for p, at := range s.cuts {
		if is, asked := all[p]; asked {
			is.End = min(is.End, at)
			all[p] = is
		}
	}
	return all, err
}
