package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Assign brings the assigned partitions to where the log is. The group's offsets
// were fetched before, and are stable; the ledger and the known keys are read up
// to their high watermarks; and what the ledger says was read must be what the
// group says. Anything else means that state and input disagree, and deciding on
// it would be a guess.
func (s *stage) Assign(ctx context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	started := time.Now()
	owned, err := s.claim(committed)
	if err != nil {
		return nil, err
	}
	s.parts = owned
	cold := 0
	for _, p := range owned {
		if p.log == (replicated{}) {
			cold++
		}
	}
	decided, err := s.decidedUpTo(ctx, owned)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	records, anew, err := catchUpOrAnew(ctx, s.reader, owned)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	for _, err := range anew {
		cold++
		s.cfg.Logger.Warn("state began anew", "error", err)
	}
	for _, p := range owned {
		s.tell(p)
		if err := p.damaged.err(); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	if err := s.whole(ctx, owned, decided); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	start := make(map[stream.Partition]int64)
	for n, p := range owned {
		if err := s.ready(ctx, p); err != nil {
			return nil, fmt.Errorf("restore partition %d: %w", n, err)
		}
		if err := s.agrees(p, committed); err != nil {
			return nil, stream.Fatal(err)
		}
		if err := s.complete(p); err != nil {
			return nil, stream.Fatal(err)
		}
		if former, differ := p.base.meta.adoptData(s.env.data); differ {
			s.cfg.Logger.Warn("this partition was decided with other numbering plans or time zones; from now on this worker's are in effect",
				"partition", n, "phones", s.env.data.Phones, "former_phones", former.Phones, "zones", s.env.data.Zones, "former_zones", former.Zones)
		}
		if p.base.meta.Seq == 0 {
			continue // never decided: from the start of the log
		}
		// Group offsets vanish after days of idleness; the ledger knows better.
		start[s.requests(n)] = p.base.meta.Requests
		start[s.readmit(n)] = p.base.meta.Readmit
	}
	if s.stalled.IsZero() {
		s.fetch.Resume(s.inputs()...) // one may have been lost while it was paused
	}
	if len(owned) > 0 {
		took := time.Since(started)
		s.metrics.restore.Observe(took.Seconds())
		s.cfg.Logger.Info("partitions restored", "owned", len(owned), "cold", cold, "records", records, "took", took.Round(100*time.Microsecond))
	}
	return start, nil
}

// claim returns a state for every partition that is assigned: the one that was
// here before, the standby's, or an empty one. What it had of others is dropped,
// or the standby's again.
func (s *stage) claim(committed map[stream.Partition]stream.Position) (map[int32]*partition, error) {
	numbers := make(map[int32]bool)
	for tp := range committed {
		if tp.Partition >= s.env.partitions {
			return nil, stream.Fatal(fmt.Errorf("%s has a partition %d: %w", tp.Topic, tp.Partition, ErrPartitionsChanged))
		}
		numbers[tp.Partition] = true
	}
	have := s.parts
	if s.standby != nil {
		have = s.standby.exchange(s.parts, numbers)
	}
	s.parts = nil
	owned := make(map[int32]*partition)
	for n, p := range have {
		if !numbers[n] || p.log.tooOld(time.Now()) {
			p.close()
			continue
		}
		owned[n] = p
	}
	for n := range numbers {
		if owned[n] == nil {
			p, err := newPartition(n, s.env)
			if err != nil {
				return nil, err
			}
			owned[n] = p
		}
	}
	return owned, nil
}

// ready makes a state that has everything fit to decide.
func (s *stage) ready(ctx context.Context, p *partition) error {
	m := &p.base.meta
	if m.Partitions != s.env.partitions {
		return stream.Fatal(fmt.Errorf("%s/%d was written with %d partitions, now there are %d: %w", s.env.names.Ledger(), p.num, m.Partitions, s.env.partitions, ErrPartitionsChanged))
	}
	// The log's own time is the floor: a clock that lags behind the broker's
	// must not let a place seem older than it is.
	m.T = max(m.T, p.floor)
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.RestoreDeadline, fmt.Errorf("waited %v", s.cfg.RestoreDeadline))
	defer cancel()
	rev, err := s.policy.Get(ctx, m.Marker.Revision)
	if err != nil {
		return err
	}
	if err := p.adopt(rev); err != nil {
		return stream.Fatal(fmt.Errorf("%s/%d stands at a revision that this version cannot decide on: run the version that wrote it: %w", s.env.names.Ledger(), p.num, err))
	}
	return nil
}

// agrees reports whether a partition's state stands where the group does.
func (s *stage) agrees(p *partition, committed map[stream.Partition]stream.Position) error {
	m := &p.base.meta
	for tp, at := range map[stream.Partition]int64{s.requests(p.num): m.Requests, s.readmit(p.num): m.Readmit} {
		switch group := committed[tp].Offset; {
		case m.Seq == 0 && group > 0:
			return fmt.Errorf("%s/%d: the group stands at %d: %w", tp.Topic, tp.Partition, group, ErrLedgerLost)
		case m.Seq > 0 && group >= 0 && group != at:
			return fmt.Errorf("%s/%d: the group stands at %d, the ledger at %d: %w", tp.Topic, tp.Partition, group, at, ErrPositions)
		}
	}
	return nil
}

// complete reports whether a partition's state is what its last transaction left.
func (s *stage) complete(p *partition) error {
	now := schemas.MillisOf(s.cfg.Now())
	for _, o := range s.parts {
		now = max(now, o.floor) // the brokers' time, where they say it
	}
	if err := p.differs(now); err != nil {
		return err
	}
	if p.base.meta.Sums.Version == sumsVersion {
		p.table.Until(p.base.meta.T) // what an outsider wrote, and a repair replaced, may have any time
	}
	return nil
}

// drop lets go of a stage's states. A stage that was none has none.
func (s *stage) drop() {
	if s == nil {
		return
	}
	for _, p := range s.parts {
		p.close()
	}
	s.parts = nil
}
