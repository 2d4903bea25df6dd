package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Assign restores the partitions that came and keeps those that came back
// where they stood. The group's offsets were fetched before, and are stable;
// the ledger and the known keys are read up to their high watermarks; and what
// the ledger says was read must be what the group says. Anything else means
// that state and input disagree, and deciding on it would be a guess.
func (s *stage) Assign(ctx context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	started := time.Now()
	owned := make(map[int32]*partition)
	var restore []int32
	for tp := range committed {
		n := tp.Partition
		if _, done := owned[n]; done {
			continue
		}
		p := s.parts[n]
		if p != nil && s.agrees(p, committed) == nil {
			owned[n] = p
			continue
		}
		p, err := newPartition(n, s.env)
		if err != nil {
			return nil, err
		}
		owned[n] = p
		restore = append(restore, n)
	}
	if err := s.restore(ctx, owned, restore); err != nil {
		return nil, err
	}
	start := make(map[stream.Partition]int64)
	for n, p := range owned {
		if err := s.agrees(p, committed); err != nil {
			return nil, stream.Fatal(err)
		}
		if p.base.meta.Seq == 0 {
			continue // never decided: from the start of the log
		}
		// Group offsets vanish after days of idleness; the ledger knows better.
		start[s.requests(n)] = p.base.meta.Requests
		start[s.readmit(n)] = p.base.meta.Readmit
	}
	s.parts = owned
	s.checked = time.Time{} // another partition's leader may have another clock
	if s.stalled.IsZero() {
		s.fetch.Resume(s.inputs()...) // one may have been lost while it was paused
	}
	if len(restore) > 0 {
		took := time.Since(started)
		s.metrics.restore.Observe(took.Seconds())
		s.cfg.Logger.Info("partitions restored", "restored", len(restore), "owned", len(owned), "took", took.Round(time.Millisecond))
	}
	return start, nil
}

// agrees reports whether a partition's state stands where the group does.
func (s *stage) agrees(p *partition, committed map[stream.Partition]stream.Position) error {
	m := &p.base.meta
	for tp, at := range map[stream.Partition]int64{s.requests(p.num): m.Requests, s.readmit(p.num): m.Readmit} {
		switch group := committed[tp].Offset; {
		case m.Seq == 0 && group > 0:
			return fmt.Errorf("%s/%d: the group stands at %d, but the ledger is empty: the ledger was deleted, or belongs to another prefix", tp.Topic, tp.Partition, group)
		case m.Seq > 0 && group >= 0 && group != at:
			return fmt.Errorf("%s/%d: the group stands at %d, the ledger at %d", tp.Topic, tp.Partition, group, at)
		}
	}
	return nil
}

// restore reads ledger and known keys of new partitions.
func (s *stage) restore(ctx context.Context, parts map[int32]*partition, which []int32) error {
	var ranges []stream.Range
	for _, n := range which {
		ranges = append(ranges,
			stream.Range{Partition: stream.Partition{Topic: s.env.names.Ledger(), Partition: n}},
			stream.Range{Partition: stream.Partition{Topic: s.env.names.Seen(), Partition: n}})
	}
	last := make(map[int32]schemas.Millis) // the broker's time of each ledger's last record
	ledger := s.env.names.Ledger()
	err := stream.Read(ctx, s.cfg.Read, ranges, func(r *kgo.Record) error {
		p := parts[r.Partition]
		if r.Topic != ledger {
			rec, err := decodeSeen(r.Value)
			if err != nil {
				return stream.Fatal(fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err))
			}
			p.loadSeen(rec)
			return nil
		}
		last[r.Partition] = max(last[r.Partition], schemas.MillisOf(r.Timestamp))
		if err := p.load(r.Key, r.Value); err != nil {
			return stream.Fatal(fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, n := range which {
		p := parts[n]
		if have := p.base.meta.Partitions; have != s.env.partitions {
			return stream.Fatal(fmt.Errorf("%s/%d was written with %d partitions, now there are %d: the partition count is part of the state; see weir topics grow", ledger, n, have, s.env.partitions))
		}
		// The log's own time is the floor: a clock that lags behind the
		// broker's must not let a place seem older than it is.
		p.base.meta.T = max(p.base.meta.T, last[n])
		revCtx, cancel := context.WithTimeoutCause(ctx, s.cfg.RestoreDeadline, fmt.Errorf("waited %v", s.cfg.RestoreDeadline))
		rev, err := s.policy.Get(revCtx, p.base.meta.Marker.Revision)
		cancel()
		if err != nil {
			return fmt.Errorf("restore partition %d: %w", n, err)
		}
		if err := p.adopt(rev); err != nil {
			return stream.Fatal(err)
		}
	}
	return nil
}

// loadSeen takes one record of weir.seen.
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
	case len(key) == 16:
		return p.table.Load([16]byte(key), value)
	case len(key) == 17 && key[0] == suppressionKind:
		return p.suppressed.load(stateKey(key[1:]), value)
	case len(key) == 17 && key[0] == waitingKind:
		return p.waiting.load(stateKey(key[1:]), value)
	}
	return fmt.Errorf("ledger key of %d bytes is foreign", len(key))
}
