package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Assign restores the lanes that are new here, or that someone else has had,
// from the journal. Lanes whose positions are those that this stage wrote last
// keep their state and go on where they were.
func (s *stage) Assign(ctx context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	s.follow()
	owned := make(map[int32]*lanePart)
	var fresh []*lanePart
	for tp := range committed {
		if owned[tp.Partition] != nil {
			continue
		}
		l := s.lanes[tp.Partition]
		if l == nil || !s.ours(l, committed) {
			l = s.newLane(tp.Partition)
			fresh = append(fresh, l)
		}
		owned[tp.Partition] = l
	}
	if err := s.restore(ctx, fresh, committed); err != nil {
		return nil, err
	}
	start := make(map[stream.Partition]int64)
	for _, l := range owned {
		for _, q := range l.queues {
			p := stream.Partition{Topic: q.topic, Partition: l.num}
			if _, ok := committed[p]; ok && q.next >= 0 {
				start[p] = q.next
			}
			q.paused = false
			s.fetch.Resume(p)
		}
	}
	s.lanes, s.held = owned, true
	s.calls.sweep(s.now())
	return start, nil
}

func (s *stage) newLane(n int32) *lanePart {
	delete(s.calls.hushed, n) // its breaker is closed, and it holds nothing
	l := &lanePart{num: n, since: s.now(), reach: -1, breaker: newBreaker(func() schemas.Millis { return schemas.MillisOf(s.now()) })}
	for i, name := range queueNames {
		l.queues[i] = newQueue(s.cfg.Names.Dispatch(s.cfg.Provider, name))
	}
	return l
}

// ours reports whether nobody else has had a lane since this stage's last
// transaction: every transaction writes text of its own beside the positions.
func (s *stage) ours(l *lanePart, committed map[stream.Partition]stream.Position) bool {
	for _, q := range l.queues {
		pos, ok := committed[stream.Partition{Topic: q.topic, Partition: l.num}]
		if !ok || pos.Offset != q.at || pos.Metadata != q.stood {
			return false
		}
	}
	return true
}

// restore reads the journals of lanes that are new here.
func (s *stage) restore(ctx context.Context, fresh []*lanePart, committed map[stream.Partition]stream.Position) error {
	if len(fresh) == 0 {
		return nil
	}
	started := s.now()
	topic := s.cfg.Names.Journal(s.cfg.Provider)
	paced, err := s.pacedFrom(ctx, topic, schemas.MillisOf(started))
	if err != nil {
		return err
	}
	lanes := make(map[int32]*lanePart)
	var ranges []stream.Range
	for _, l := range fresh {
		lanes[l.num] = l
		from := int64(-1)
		for _, q := range l.queues {
			pos, ok := committed[stream.Partition{Topic: q.topic, Partition: l.num}]
			if !ok || pos.Offset < 0 {
				continue
			}
			st, err := parseStanding(pos.Metadata)
			switch {
			case errors.Is(err, errNewer):
				return stream.Fatal(fmt.Errorf("%s/%d: %w", q.topic, l.num, err))
			case err != nil:
				// Someone else set the group's offset. The journal says what was called,
				// from its start.
				s.cfg.Logger.Error("the group's offset was not committed by a lane; the journal is read from its start", "topic", q.topic, "partition", l.num, "offset", pos.Offset)
			}
			q.next, q.at, q.stood = pos.Offset, pos.Offset, pos.Metadata
			l.told.takenOver = true
			if st.lanes > l.lanes {
				l.lanes, l.grew = st.lanes, st.grew
			}
			l.seq = max(l.seq, st.seq)
			l.recall.resume(st.back)
			if from < 0 || st.journal < from {
				from = st.journal
			}
		}
		from = max(from, 0)
		l.journal = from
		if at, ok := paced[l.num]; ok {
			from = min(from, at)
		}
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: topic, Partition: l.num}, From: from})
	}
	look := &skip.Lookup{Read: s.cfg.Read, Names: s.cfg.Names}
	err = stream.Read(ctx, s.reading(), ranges, func(r *kgo.Record) error {
		l := lanes[r.Partition]
		l.journal = max(l.journal, r.Offset+1)
		return s.recall(ctx, look, r, func(e entry) { s.replay(l, r.Offset, e) })
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", topic, err)
	}
	if err := s.begin(ctx, fresh, committed); err != nil {
		return err
	}
	for _, l := range fresh {
		if l.lanes <= 1 {
			l.reach = longest(s.provider.Pace)
		}
		s.wait(l)
	}
	s.cfg.Logger.Info("lanes restored", "provider", s.cfg.Provider, "lanes", len(fresh), "by", s.by, "took", s.now().Sub(started).Round(time.Millisecond))
	return nil
}

// begin finds where the queues begin in which the group stands nowhere yet, so
// that a lane has positions to commit before its first message.
func (s *stage) begin(ctx context.Context, fresh []*lanePart, committed map[stream.Partition]stream.Position) error {
	var none []*queue
	var nums []int32
	var names []string
	for _, l := range fresh {
		for _, q := range l.queues {
			if _, ok := committed[stream.Partition{Topic: q.topic, Partition: l.num}]; ok && q.next < 0 {
				none, nums, names = append(none, q), append(nums, l.num), append(names, q.topic)
			}
		}
	}
	if len(none) == 0 {
		return nil
	}
	cl, err := openClient(s.cfg.Read)
	if err != nil {
		return err
	}
	defer cl.Close()
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("find where the queues begin: %w", err)
	}
	for i, q := range none {
		o, ok := starts.Lookup(q.topic, nums[i])
		if !ok || o.Err != nil {
			return fmt.Errorf("find where %s/%d begins: %w", q.topic, nums[i], cmp.Or(o.Err, errors.New("no answer")))
		}
		q.next = o.Offset
	}
	return nil
}

// pacedFrom returns where the permits begin that the longest window of the pace
// can see, by the broker's time. The margin is for clocks that differ.
func (s *stage) pacedFrom(ctx context.Context, topic string, now schemas.Millis) (map[int32]int64, error) {
	long := longest(s.provider.Pace)
	if long == 0 {
		return nil, nil
	}
	cl, err := openClient(s.cfg.Read)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).ListOffsetsAfterMilli(ctx, int64(now.Add(-long-time.Minute)), topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the pace in %s: %w", topic, err)
	}
	out := make(map[int32]int64)
	offsets.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out, nil
}

// replay takes one record of the journal.
func (s *stage) replay(l *lanePart, offset int64, e entry) {
	l.journal = max(l.journal, offset+1)
	l.last = max(l.last, e.T)
	l.seq = max(l.seq, e.Seq) // more than beside the positions where an earlier version set those
	if e.Kind == kindPermit {
		l.pace.add(e.T)
	}
	i, ok := s.index[e.Topic]
	if !ok {
		return
	}
	key := callKey{topic: e.Topic, partition: e.Partition, offset: e.Offset, permit: e.T}
	q := l.queues[i]
	if e.Kind == kindOutcome {
		key.permit = e.Permit
		s.calls.forgetAnswered(key)
	}
	if e.Offset < q.next {
		return // below the low-water mark
	}
	m, had := q.marks[e.Offset]
	if !had {
		m.journal = offset
	}
	switch {
	case e.Kind == kindPermit:
		m.inDoubt, m.attempt, m.permit = true, e.Attempt, e.T
	case e.Outcome == outcomeExpiredPermit:
		m.inDoubt = false
	default:
		m.inDoubt, m.finished = false, true
	}
	q.marks[e.Offset] = m
}

// wait keeps a new owner from permits of its own as long as another process
// may still call on its own.
func (s *stage) wait(l *lanePart) {
	now := schemas.MillisOf(s.now())
	for _, q := range l.queues {
		for offset, m := range q.marks {
			key := callKey{topic: q.topic, partition: l.num, offset: offset, permit: m.permit}
			if !m.inDoubt || s.calls.flights[key] != nil || s.calls.uncalled[key] {
				continue
			}
			if m.permit.Add(s.cfg.PermitLife+clockMistrust) > now {
				l.quiet = max(l.quiet, min(m.permit, now).Add(s.cfg.PermitLife))
			}
		}
	}
}
