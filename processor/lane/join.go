package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// joinAgain is how soon a lane looks again whether the others have taken up the
// number of lanes.
const joinAgain = 200 * time.Millisecond

// errApart means that not every lane has taken up the number of lanes yet.
var errApart = errors.New("another lane has not taken up the number of lanes")

// joins reports whether a lane may give permits of its share of the pace.
//
// A lane that takes up a number of lanes says so beside its positions, with
// where in its journal that is: what it permitted before was permitted under
// the shares of fewer lanes. Each then waits until all have, and charges all
// that was permitted before, by any of them, to its own share. So no window
// that spans the growth holds more than the pace, whoever takes it up first.
func (s *stage) joins(ctx context.Context, tx *stream.Tx, l *lanePart, t schemas.Millis) bool {
	want := max(s.provider.Lanes, l.lanes, 1) // lanes only grow
	if l.lanes == 0 && want == 1 {
		l.lanes = 1
	}
	if l.lanes != want {
		if l.stands() {
			l.lanesWas, l.grewWas = l.lanes, l.grew
			l.lanes, l.grew, l.reach, l.dirty = want, l.journal, -1, true
			s.tx.grown = append(s.tx.grown, l)
			l.wakeAt(t)
		}
		return false
	}
	if long := longest(s.provider.Pace); long == 0 || long <= l.reach {
		return true
	}
	if t < l.joinAt {
		l.wakeAt(l.joinAt)
		return false
	}
	err := s.join(ctx, l, t)
	if err == nil {
		return true
	}
	if !errors.Is(err, errApart) {
		s.cfg.Logger.Warn("a lane cannot read what the others were permitted", "provider", s.cfg.Provider, "lane", l.num, "error", err)
	}
	l.joinAt = t.Add(joinAgain)
	l.wakeAt(l.joinAt)
	return false
}

// join reads from the journals what counts for a lane's share: its own permits,
// and the other lanes' from before they took up the number of lanes.
func (s *stage) join(ctx context.Context, l *lanePart, t schemas.Millis) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	until := map[int32]int64{l.num: l.journal}
	if l.lanes > 1 {
		if err := s.others(ctx, l, until); err != nil {
			return err
		}
	}
	topic := s.cfg.Names.Journal(s.cfg.Provider)
	from, err := s.pacedFrom(ctx, topic, t)
	if err != nil {
		return err
	}
	var ranges []stream.Range
	for p, end := range until {
		if at, ok := from[p]; ok && at < end {
			ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: topic, Partition: p}, From: at})
		}
	}
	var times []schemas.Millis
	look := &skip.Lookup{Read: s.cfg.Read, Names: s.cfg.Names}
	err = stream.Read(ctx, s.reading(), ranges, func(r *kgo.Record) error {
		if r.Offset >= until[r.Partition] {
			return nil
		}
		return s.recall(ctx, look, r, func(e entry) {
			if e.Kind == kindPermit {
				times = append(times, e.T)
			}
		})
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	slices.Sort(times)
	l.pace, l.even = pace{times: times}, even{}
	l.reach = longest(s.provider.Pace)
	return nil
}

// others finds where the journals of the other lanes end that count for this
// one; errApart when one of them has none yet.
func (s *stage) others(ctx context.Context, l *lanePart, until map[int32]int64) error {
	cl, err := openClient(s.cfg.Read)
	if err != nil {
		return err
	}
	defer cl.Close()
	group := Group(s.cfg.Names, s.cfg.Provider)
	stood, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return fmt.Errorf("fetch positions of %s: %w", group, err)
	}
	for p := range l.lanes {
		if p == l.num {
			continue
		}
		for _, q := range l.queues {
			o, ok := stood.Lookup(q.topic, p)
			if !ok {
				return errApart
			}
			st, err := parseStanding(o.Metadata)
			if err != nil {
				return fmt.Errorf("%s/%d: %w", q.topic, p, err)
			}
			if st.lanes != l.lanes {
				return errApart
			}
			until[p] = st.grew
		}
	}
	return nil
}
