package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// remember is how far back what was loaded is compared again and again, so that
// a block that lands twice late is noticed.
const remember = time.Hour

// Loaded is a range of a partition and how many records Kafka has in it.
type Loaded struct {
	Partition int32
	From, To  int64
	Records   int64
}

// ledger remembers what was loaded lately. Its ranges are contiguous in a
// partition: a part that is forgotten is the oldest.
type ledger struct {
	parts map[int32]*entries
}

type entries struct {
	from  int64 // of the first mark: an offset that was read
	marks []mark
}

type mark struct {
	to      int64
	records int64
	at      time.Time
}

func newLedger() *ledger { return &ledger{parts: make(map[int32]*entries)} }

func (l *ledger) clear() { clear(l.parts) }

func (l *ledger) start(partition int32) { l.parts[partition] = &entries{} }

// loaded adds a range. Ranges of the same minute become one.
func (l *ledger) loaded(partition int32, to int64, recs []*kgo.Record, now time.Time) {
	e := l.parts[partition]
	if e == nil || len(recs) == 0 {
		return
	}
	if len(e.marks) == 0 {
		// Not the plan's beginning: Kafka may have deleted what is below,
		// though ClickHouse has it.
		e.from = recs[0].Offset
	}
	if n := len(e.marks); n > 0 && now.Sub(e.marks[n-1].at) < time.Minute {
		e.marks[n-1].to = to
		e.marks[n-1].records += int64(len(recs))
	} else {
		e.marks = append(e.marks, mark{to, int64(len(recs)), now})
	}
	for len(e.marks) > 1 && now.Sub(e.marks[0].at) > remember {
		e.from = e.marks[0].to
		e.marks = e.marks[1:]
	}
}

// ranges are what is remembered.
func (l *ledger) ranges() []Loaded {
	var out []Loaded
	for id, e := range l.parts {
		if len(e.marks) == 0 {
			continue
		}
		r := Loaded{Partition: id, From: e.from, To: e.marks[len(e.marks)-1].to}
		for _, m := range e.marks {
			r.Records += m.records
		}
		out = append(out, r)
	}
	return out
}

// Difference compares ranges with what ClickHouse has of them: the records
// without a row, plus the rows too many. 0 is as it must be.
func Difference(ctx context.Context, conn driver.Conn, ranges []Loaded) (int64, error) {
	if len(ranges) == 0 {
		return 0, nil
	}
	var where []string
	want := make(map[int32]int64)
	for _, r := range ranges {
		where = append(where, fmt.Sprintf("(status_partition = %d AND status_offset >= %d AND status_offset < %d)", r.Partition, r.From, r.To))
		want[r.Partition] += r.Records
	}
	in := strings.Join(where, " OR ")
	rows, err := conn.Query(ctx, `
		SELECT status_partition, count(), uniqExact(status_offset) FROM (
			SELECT status_partition, status_offset FROM status_events WHERE `+in+`
			UNION ALL
			SELECT status_partition, status_offset FROM decisions WHERE kind = 'decision' AND (`+in+`))
		GROUP BY status_partition`)
	if err != nil {
		return 0, fmt.Errorf("count what was loaded: %w", err)
	}
	defer rows.Close()
	var diff int64
	for rows.Next() {
		var (
			id            int32
			count, offset uint64
		)
		if err := rows.Scan(&id, &count, &offset); err != nil {
			return 0, fmt.Errorf("count what was loaded: %w", err)
		}
		missing := want[id] - int64(offset)
		twice := int64(count) - int64(offset)
		diff += max(missing, -missing) + twice
		delete(want, id)
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("count what was loaded: %w", err)
	}
	for _, n := range want {
		diff += n // nothing of this partition is there
	}
	return diff, nil
}

// checked is the end of one comparison.
type checked struct {
	compared   bool
	difference int64
	unfit      error // warehouse.ErrUnfit
	err        error
}

// noPartition stands for all where health keeps why they fail.
const noPartition = -1

// fit takes in what a look at the tables said. Inserting into tables that somebody
// has changed could lose a column, or double rows: then rows wait in Kafka.
func (s *sink) fit(unfit error) {
	switch {
	case unfit != nil:
		s.health.failed(noPartition, "ClickHouse cannot keep rows exactly once any more: the sink's log says why and what to do")
		s.cfg.Logger.Error("somebody has changed ClickHouse, and nothing is loaded until that is mended; nothing is lost: what is to be loaded stands in Kafka", "why", unfit)
	case s.unfit:
		s.health.well(noPartition)
		s.cfg.Logger.Info("ClickHouse is as it must be again, and is loaded")
	}
	s.unfit = unfit != nil
}

// check compares once in a while, beside everything else.
func (s *sink) check(ctx context.Context, now time.Time) {
	select {
	case c := <-s.checked:
		s.checking = false
		if c.err == nil || c.unfit != nil {
			s.fit(c.unfit)
		}
		switch {
		case c.unfit != nil:
		case c.err != nil:
			s.cfg.Logger.Warn("what was loaded could not be compared with Kafka", "error", c.err)
		case c.compared:
			s.metrics.difference.Set(float64(c.difference))
			s.health.current.Difference, s.health.current.CheckedAt = c.difference, schemas.MillisOf(now)
			if c.difference != 0 {
				s.cfg.Logger.Error("ClickHouse does not have what was loaded", "difference", c.difference)
			}
		}
	default:
	}
	if s.nextCheck.IsZero() {
		s.nextCheck = now.Add(s.cfg.Check)
	}
	if s.checking || now.Before(s.nextCheck) {
		return
	}
	s.nextCheck = now.Add(s.cfg.Check)
	if s.unfit {
		s.nextCheck = now.Add(min(s.cfg.Check, 5*time.Second))
	}
	ranges := s.ledger.ranges()
	s.checking = true
	s.inserts.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var c checked
		c.err = warehouse.CheckOn(ctx, s.conn, s.cfg.Cluster)
		if errors.Is(c.err, warehouse.ErrNewer) {
			c.err = nil // an upgrade is under way, and this sink's rows have their table still
		}
		if errors.Is(c.err, warehouse.ErrUnfit) {
			c.unfit = c.err
		} else if c.err == nil && len(ranges) > 0 {
			if c.err = caughtUp(ctx, s.conn, s.cfg.Cluster); c.err == nil {
				c.difference, c.err = Difference(ctx, s.conn, ranges)
				c.compared = true
			}
		}
		s.checked <- c
	})
}
