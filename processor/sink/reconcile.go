package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Partition    int32
	From, To     int64
	Records      int64
	Since, Until int64 // at of its rows, in Unix seconds; Until is not among them
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
	to           int64
	records      int64
	at           time.Time
	since, until int64 // at of its rows, in Unix seconds
}

func newLedger() *ledger { return &ledger{parts: make(map[int32]*entries)} }

func (l *ledger) clear() { clear(l.parts) }

func (l *ledger) start(partition int32) { l.parts[partition] = &entries{} }

// loaded adds a range. Ranges of the same minute become one.
func (l *ledger) loaded(partition int32, to int64, recs []*kgo.Record, minutes []int64, now time.Time) {
	e := l.parts[partition]
	if e == nil || len(recs) == 0 {
		return
	}
	since, until := slices.Min(minutes), slices.Max(minutes)+60
	if len(e.marks) == 0 {
		// Not the plan's beginning: Kafka may have deleted what is below,
		// though ClickHouse has it.
		e.from = recs[0].Offset
	}
	if n := len(e.marks); n > 0 && now.Sub(e.marks[n-1].at) < time.Minute {
		e.marks[n-1].to = to
		m := &e.marks[n-1]
		m.records += int64(len(recs))
		m.since, m.until = min(m.since, since), max(m.until, until)
	} else {
		e.marks = append(e.marks, mark{to, int64(len(recs)), now, since, until})
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
		r := Loaded{Partition: id, From: e.from, To: e.marks[len(e.marks)-1].to, Since: e.marks[0].since}
		for _, m := range e.marks {
			r.Records += m.records
			r.Since, r.Until = min(r.Since, m.since), max(r.Until, m.until)
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
	n, _, err := difference(ctx, conn, "''", ranges)
	return n, err
}

// difference is Difference, and says which replica answered: what the expression says.
func difference(ctx context.Context, conn driver.Conn, replica string, ranges []Loaded) (diff int64, answered string, err error) {
	var where []string
	want := make(map[int32]int64)
	since, until := ranges[0].Since, ranges[0].Until
	for _, r := range ranges {
		since, until = min(since, r.Since), max(until, r.Until)
		where = append(where, fmt.Sprintf("(status_partition = %d AND status_offset >= %d AND status_offset < %d)", r.Partition, r.From, r.To))
		want[r.Partition] += r.Records
	}
	// The tables have their days apart, and nothing else by which to find offsets.
	in := fmt.Sprintf("at >= toDateTime64(%d, 3, 'UTC') AND at < toDateTime64(%d, 3, 'UTC') AND (%s)", since, until, strings.Join(where, " OR "))
	rows, err := conn.Query(ctx, `
		SELECT status_partition, count(), uniqExact(status_offset), '' FROM (
			SELECT status_partition, status_offset FROM status_events WHERE `+in+`
			UNION ALL
			SELECT status_partition, status_offset FROM decisions WHERE kind = 'decision' AND (`+in+`))
		GROUP BY status_partition
		UNION ALL
		SELECT toInt32(-1), toUInt64(0), toUInt64(0), `+replica)
	if err != nil {
		return 0, "", fmt.Errorf("count what was loaded: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id            int32
			count, offset uint64
			name          string
		)
		if err := rows.Scan(&id, &count, &offset, &name); err != nil {
			return 0, "", fmt.Errorf("count what was loaded: %w", err)
		}
		if id < 0 {
			answered = name
			continue
		}
		missing := want[id] - int64(offset)
		twice := int64(count) - int64(offset)
		diff += max(missing, -missing) + twice
		delete(want, id)
	}
	if err := rows.Err(); err != nil {
		return 0, "", fmt.Errorf("count what was loaded: %w", err)
	}
	for _, n := range want {
		diff += n // nothing of this partition is there
	}
	return diff, answered, nil
}

// rest is how long no comparison follows one that took so long: it reads whole days,
// and where they are large must not take more than a twentieth of ClickHouse's time.
func rest(took time.Duration) time.Duration {
	if took < 3*time.Second {
		return 0
	}
	return 20 * took
}

// checked is the end of one comparison.
type checked struct {
	compared   bool
	took       time.Duration // to compare
	difference int64
	minutes    []int64 // of which all tables were compared
	unlike     []warehouse.Unlike
	unsure     error // why they were not
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
		if c.took > 0 {
			s.nextCompare = now.Add(rest(c.took))
		}
		if c.err == nil || c.unfit != nil {
			s.fit(c.unfit)
		}
		switch {
		case c.unfit != nil:
		case c.err != nil:
			s.cfg.Logger.Warn("what was loaded could not be compared with Kafka", "error", c.err)
		case c.compared:
			if c.unsure != nil {
				s.cfg.Logger.Warn("ClickHouse's other tables could not be compared with status_events", "error", c.unsure)
			}
			s.minutes.compared(c.minutes, c.unlike, now)
			others, tables := s.minutes.difference()
			if c.difference != 0 {
				s.cfg.Logger.Error("ClickHouse does not have what was loaded", "difference", c.difference)
			}
			if others != 0 {
				s.cfg.Logger.Error("tables of ClickHouse do not have what status_events and decisions say", "difference", others, "in", tables)
			}
			if c.difference == 0 { // otherwise they are no measure for what is made of them
				c.difference = others
			}
			s.metrics.difference.Set(float64(c.difference))
			s.health.current.Difference, s.health.current.CheckedAt = c.difference, schemas.MillisOf(now)
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
	ranges, minutes := s.toCompare(now)
	s.checking = true
	s.inserts.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err := warehouse.CheckOn(ctx, s.conn, s.cfg.Cluster)
		if errors.Is(err, warehouse.ErrNewer) {
			err = nil // an upgrade is under way, and this sink's rows have their table still
		}
		switch {
		case errors.Is(err, warehouse.ErrUnfit):
			s.checked <- checked{err: err, unfit: err}
		case err != nil || len(ranges) == 0:
			s.checked <- checked{err: err}
		default:
			s.checked <- s.compare(ctx, ranges, minutes)
		}
	})
}

// toCompare is what to compare now.
func (s *sink) toCompare(now time.Time) ([]Loaded, []int64) {
	if now.Before(s.nextCompare) {
		return nil, nil
	}
	return s.ledger.ranges(), s.minutes.due(now, s.cfg.Check/2)
}

// compare reads what ClickHouse has of ranges and of minutes.
func (s *sink) compare(ctx context.Context, ranges []Loaded, minutes []int64) (c checked) {
	began := time.Now()
	c.err = sameReplica(ctx, s.conn, s.cfg.Cluster, func(replica string) (answered string, err error) {
		c.difference, answered, err = difference(ctx, s.conn, replica, ranges)
		return answered, err
	})
	c.compared = c.err == nil
	// Replicas take a block and its token in one step, in every table by itself.
	if c.compared && s.cfg.Cluster == "" {
		if c.unlike, c.unsure = warehouse.Alike(ctx, s.conn, minutes); c.unsure == nil {
			c.minutes = minutes
		}
	}
	c.took = time.Since(began)
	return c
}
