package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// Loaded is a range of a partition and what was loaded of it.
type Loaded struct {
	Partition    int32
	From, To     int64
	Records      int64
	Hash         uint64 // the sum of their rowHash
	Since, Until int64  // at of its rows, in Unix seconds; Until is not among them
}

// ledger is the account of what was loaded. Its ranges are contiguous in a
// partition: a part that is forgotten is the oldest.
type ledger struct {
	parts map[int32]*entries
}

type entries struct {
	from  int64 // of the first mark: an offset that was read
	marks []mark
}

func newLedger() *ledger { return &ledger{parts: make(map[int32]*entries)} }

func (l *ledger) clear() { clear(l.parts) }

// start begins a partition with what the group's metadata has of it.
func (l *ledger) start(partition int32, e *entries) { l.parts[partition] = e }

// loaded adds a range by the offsets and times of its rows. minutes are those of the times, or more.
func (l *ledger) loaded(partition int32, to int64, offsets, ats, minutes []int64, now time.Time) {
	e := l.parts[partition]
	if e == nil || len(offsets) == 0 {
		return
	}
	m := mark{to: to, records: int64(len(offsets)), at: now.Unix(), since: slices.Min(minutes), until: slices.Max(minutes) + 60}
	for i, offset := range offsets {
		m.hash += rowHash(offset, ats[i])
	}
	if len(e.marks) == 0 {
		// Not the plan's beginning: Kafka may have deleted what is below,
		// though ClickHouse has it.
		e.from = offsets[0]
	}
	if n := len(e.marks); n > 0 && m.at-e.marks[n-1].at < 60 {
		e.marks[n-1] = e.marks[n-1].and(m)
	} else {
		e.marks = thin(append(e.marks, m), now)
	}
	for len(e.marks) > 1 && now.Unix()-e.marks[1].at > int64(accountFor.Seconds()) {
		e.from = e.marks[0].to
		e.marks = e.marks[1:]
	}
}

// ranges are what was loaded since, and a little before.
func (l *ledger) ranges(since time.Time) []Loaded {
	var out []Loaded
	for id, e := range l.parts {
		r := Loaded{Partition: id, From: e.from}
		for i, m := range e.marks {
			if i+1 < len(e.marks) && e.marks[i+1].at < since.Unix() {
				r.From = m.to
				continue
			}
			if r.To == 0 {
				r.Since = m.since
			}
			r.To, r.Records, r.Hash = m.to, r.Records+m.records, r.Hash+m.hash
			r.Since, r.Until = min(r.Since, m.since), max(r.Until, m.until)
		}
		if r.Records > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Difference compares ranges with what ClickHouse has of them: the records
// without a row, plus the rows too many. 0 is as it must be.
func Difference(ctx context.Context, conn driver.Conn, ranges []Loaded) (int64, error) {
	n, _, err := difference(ctx, conn, "''", ranges)
	return n, err
}

// difference is Difference, and says which replica answered: what the expression says. What
// differs is counted once more: which rows are missing and which too many is dear to know.
func difference(ctx context.Context, conn driver.Conn, replica string, ranges []Loaded) (diff int64, answered string, err error) {
	counts, answered, err := count(ctx, conn, replica, ranges, "toUInt64(0)")
	if err != nil {
		return 0, "", err
	}
	unlike := slices.DeleteFunc(slices.Clone(ranges), func(r Loaded) bool {
		c := counts[r.Partition]
		return apart(c.rows, r.Records, c.hash, r.Hash) == 0
	})
	if len(unlike) == 0 {
		return 0, answered, nil
	}
	if counts, answered, err = count(ctx, conn, replica, unlike, "uniqExact(status_offset)"); err != nil {
		return 0, "", err
	}
	for _, r := range unlike {
		c := counts[r.Partition]
		missing, twice := r.Records-c.offsets, c.rows-c.offsets
		n := max(missing, -missing) + twice
		if n == 0 && c.hash != r.Hash {
			n = 1 // of other records than Kafka has, and it is not known how many
		}
		diff += n
	}
	return diff, answered, nil
}

// counted is what ClickHouse has of a range.
type counted struct {
	rows, offsets int64
	hash          uint64
}

// whereOf is what the rows of ranges have. The tables have their days apart, and nothing else by
// which to find offsets.
func whereOf(ranges []Loaded) string {
	var where []string
	since, until := ranges[0].Since, ranges[0].Until
	for _, r := range ranges {
		since, until = min(since, r.Since), max(until, r.Until)
		where = append(where, fmt.Sprintf("(status_partition = %d AND status_offset >= %d AND status_offset < %d)", r.Partition, r.From, r.To))
	}
	return fmt.Sprintf("at >= toDateTime64(%d, 3, 'UTC') AND at < toDateTime64(%d, 3, 'UTC') AND (%s)", since, until, strings.Join(where, " OR "))
}

// count reads what ClickHouse has of ranges, each of another partition.
func count(ctx context.Context, conn driver.Conn, replica string, ranges []Loaded, offsets string) (of map[int32]counted, answered string, err error) {
	of = make(map[int32]counted)
	if len(ranges) == 0 {
		return of, "", nil
	}
	in := whereOf(ranges)
	rows, err := conn.Query(ctx, `
		SELECT status_partition, count(), `+offsets+`, sumWithOverflow(`+rowHashSQL+`), '' FROM (
			SELECT status_partition, status_offset, at FROM status_events WHERE `+in+`
			UNION ALL
			SELECT status_partition, status_offset, at FROM decisions WHERE kind = 'decision' AND (`+in+`))
		GROUP BY status_partition
		UNION ALL
		SELECT toInt32(-1), toUInt64(0), toUInt64(0), toUInt64(0), `+replica)
	if err != nil {
		return nil, "", fmt.Errorf("count what was loaded: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id               int32
			n, offsets, hash uint64
			name             string
		)
		if err := rows.Scan(&id, &n, &offsets, &hash, &name); err != nil {
			return nil, "", fmt.Errorf("count what was loaded: %w", err)
		}
		if id < 0 {
			answered = name
		} else {
			of[id] = counted{int64(n), int64(offsets), hash}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, "", fmt.Errorf("count what was loaded: %w", err)
	}
	return of, answered, nil
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
	whole      bool          // with all that the account has
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
		why, more, _ := strings.Cut(unfit.Error(), "\n")
		if more != "" {
			why += fmt.Sprintf(" (and %d more: the sink's log)", strings.Count(more, "\n")+1)
		}
		s.health.failed(noPartition, why)
		s.metrics.ready.Set(0)
		s.cfg.Logger.Error("somebody has changed ClickHouse, and nothing is loaded until that is mended; nothing is lost: what is to be loaded stands in Kafka", "why", unfit)
	case s.unfit:
		s.health.well(noPartition)
		s.metrics.ready.Set(1)
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
			if c.whole {
				s.nextWhole = now.Add(accountEvery)
			}
			if c.difference != 0 {
				s.nextWhole = now
			}
			s.metrics.difference.WithLabelValues().Set(float64(c.difference))
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
	if len(s.minutes.at) == 0 && !now.Before(s.nextMinutes) {
		s.nextMinutes = now.Add(minutesEvery)
		s.minutes.again(s.ledger.ranges(time.Time{}), now)
	}
	if len(s.parts) == 0 { // what it compared is others' by now
		s.metrics.difference.Reset()
		s.health.current.Difference, s.health.current.CheckedAt = 0, 0
	}
	ranges, minutes := s.toCompare(now)
	whole := !now.Before(s.nextWhole)
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
			c := s.compare(ctx, ranges, minutes)
			c.whole = whole
			s.checked <- c
		}
	})
}

// toCompare is what to compare now.
func (s *sink) toCompare(now time.Time) ([]Loaded, []int64) {
	if now.Before(s.nextCompare) {
		return nil, nil
	}
	since := now.Add(-remember)
	if !now.Before(s.nextWhole) {
		since = time.Time{}
	}
	return s.ledger.ranges(since), s.minutes.due(now, s.cfg.Check/2)
}

// compare reads what ClickHouse has of ranges and of minutes.
func (s *sink) compare(ctx context.Context, ranges []Loaded, minutes []int64) (c checked) {
	began := time.Now()
	c.err = sameReplica(ctx, s.conn, s.cfg.Cluster, func(replica string) (answered string, err error) {
		c.difference, answered, err = difference(ctx, s.conn, replica, ranges)
		return answered, err
	})
	c.compared = c.err == nil
	if c.compared {
		if c.unlike, c.unsure = warehouse.Alike(ctx, s.conn, s.cfg.Cluster, minutes); c.unsure == nil {
			c.minutes = minutes
		}
	}
	c.took = time.Since(began)
	return c
}
