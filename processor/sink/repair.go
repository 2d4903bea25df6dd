package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/processor/stream"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

var (
	// ErrSinksRun means that a sink would insert while a table is made again.
	ErrSinksRun = errors.New("sinks are running: take the role sink away from every process first, and wait until the group has forgotten them, ten seconds")
	// ErrInserting means that a sink ended in the middle of an insert: some tables may have its
	// rows, and ClickHouse knows its token.
	ErrInserting = errors.New("a sink ended in the middle of an insert: let one run until it has loaded that, and stop it with SIGTERM")
	// ErrNoAccount means that there is nothing to compare the tables with.
	ErrNoAccount = errors.New("there is no account of what was loaded: no sink that keeps one has loaded anything, so nothing was compared")
	// ErrSinksRan means that the group's offsets changed while tables were made again.
	ErrSinksRan = errors.New("a sink ran meanwhile: stop it, and repair again")
)

// repair makes the tables what weir.status says. It does so in this order, since each table is made
// of those before it:
//
//	weir.status ─► status_events, decisions, suppression_events ─► rollups and lists
//
// A record's row is inserted where one is missing, into that table alone: by a table of
// repair's own, with one view. A minute
// of a rollup that does not add up is deleted and made again. So what is interrupted is done
// again, and nothing counts twice.
type repair struct {
	cfg    Config
	change bool // else it says what it would do
	say    func(string)
	adm    *kadm.Client
	conn   driver.Conn
	insert *warehouse.Inserter
	topic  string
	parts  map[int32]*entries
	stood  kadm.OffsetResponses // where the group stood at the beginning
	tokens int64
	left   int64

	progress      func(done, total int64)
	steps, stepOf int64
}

// repairLog is the table of repair's own that fills another, by a view. It keeps nothing.
func repairLog(fills string) string { return "status_log_repair_" + fills }

// fromRecords are the tables whose rows are of records, and not of other tables' rows.
var fromRecords = []string{"status_events", "decisions", "suppression_events"}

// implied are those of which the rows of another table say which there must be: the offsets of these.
var implied = []struct{ table, offsets string }{
	{"decisions", "SELECT DISTINCT status_offset FROM status_events WHERE decision_verdict != ''"},
	{"suppression_events", "SELECT DISTINCT status_offset FROM decisions WHERE kind = 'decision' AND verdict = 'suppress' AND reason IN ('suppress', 'unsuppress')"},
}

// Repair compares all tables with the account of what was confirmed, and with change mends what
// differs. It says what it finds and does. left is how many rows differ at its end, and with an error how
// many were found until then; what Kafka has deleted cannot be loaded again. With change no sink may run.
// progress is called with how many comparisons are done, of how many; that may become more while
// something is found.
func Repair(ctx context.Context, cfg Config, change bool, say func(string), progress func(done, total int64)) (left int64, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	r := &repair{cfg: cfg.withDefaults(), change: change, say: say, progress: progress, topic: cfg.Names.Status(), parts: make(map[int32]*entries), tokens: time.Now().UnixNano()}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("weir-sink-repair")}, cfg.Options...)...)
	if err != nil {
		return 0, fmt.Errorf("open client: %w", err)
	}
	defer cl.Close()
	r.adm = kadm.NewClient(cl)
	if r.conn, err = warehouse.OpenPatient(ctx, cfg.URL); err != nil {
		return 0, err
	}
	defer r.conn.Close()
	if err := warehouse.CheckOn(ctx, r.conn, cfg.Cluster); err != nil {
		return 0, err
	}
	if r.insert, err = warehouse.NewInserter(cfg.URL); err != nil {
		return 0, err
	}
	defer r.insert.Close()
	if err := r.accounts(ctx); err != nil {
		return 0, err
	}
	if len(r.parts) == 0 {
		return 0, ErrNoAccount
	}
	if change {
		if err := r.makeLogs(ctx); err != nil {
			return 0, err
		}
		defer func() {
			if e := r.dropLogs(context.WithoutCancel(ctx)); err == nil {
				err = e
			}
		}()
	}
	r.more(1 + len(implied)*len(r.ranges()) + len(rollups) + len(lacking)*len(r.days()))
	for _, step := range []func(context.Context) error{r.events, r.others, r.rollups, r.lists} {
		if err := step(ctx); err != nil {
			return r.left, err
		}
	}
	return r.left, r.unchanged(ctx)
}

// more says that so many comparisons are to be made, and compared that one is.
func (r *repair) more(n int) { r.stepOf += int64(n) }

func (r *repair) compared() {
	r.steps++
	r.progress(r.steps, r.stepOf)
}

// accounts reads what the group says of each partition.
func (r *repair) accounts(ctx context.Context) error {
	group := Group(r.cfg.Names)
	ts, err := r.adm.ListTopics(ctx, r.topic)
	if err == nil {
		err = ts.Error()
	}
	if err != nil {
		return fmt.Errorf("read the topic %s: %w", r.topic, err)
	}
	if r.stood, err = r.offsets(ctx); err != nil {
		return err
	}
	described, err := r.adm.DescribeGroups(ctx, group)
	if err != nil {
		return fmt.Errorf("describe the group %s: %w", group, err)
	}
	if n := len(described[group].Members); n > 0 && r.change {
		return fmt.Errorf("group %s has %d members: %w", group, n, ErrSinksRun)
	}
	for id, at := range r.stood[r.topic] {
		plan, err := ParseMetadata(id, at.At, at.Metadata)
		switch {
		case errors.Is(err, ErrForeignMetadata):
			r.say(fmt.Sprintf("partition %d: the group's offset was not set by a sink, which compares what is there when it runs", id))
			continue
		case err != nil:
			return fmt.Errorf("partition %d: %w", id, err)
		case plan.planned() && r.change:
			return fmt.Errorf("partition %d: %w", id, ErrInserting)
		case plan.Topic != ts[r.topic].ID.String():
			continue // made again: the sink begins anew
		}
		if e := parseEntries(plan.From, at.Metadata); len(e.marks) > 0 {
			r.parts[id] = e
		}
	}
	return nil
}

func (r *repair) offsets(ctx context.Context) (kadm.OffsetResponses, error) {
	o, err := r.adm.FetchOffsets(ctx, Group(r.cfg.Names))
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch the group's offsets: %w", err)
	}
	return o, nil
}

// unchanged reports whether a sink ran meanwhile.
func (r *repair) unchanged(ctx context.Context) error {
	if !r.change {
		return nil
	}
	now, err := r.offsets(ctx)
	if err != nil {
		return err
	}
	for id, was := range r.stood[r.topic] {
		if is, ok := now.Lookup(r.topic, id); !ok || is.At != was.At || is.Metadata != was.Metadata {
			return ErrSinksRan
		}
	}
	return nil
}

// ranges are all of the account, and what it has of one partition, mark by mark.
func (r *repair) ranges() []Loaded {
	return (&ledger{parts: r.parts}).ranges(time.Time{})
}

func marksOf(id int32, e *entries) (all []Loaded) {
	from := e.from
	for _, m := range e.marks {
		all = append(all, Loaded{Partition: id, From: from, To: m.to, Records: m.records, Hash: m.hash, Since: m.since, Until: m.until})
		from = m.to
	}
	return all
}

// unlike are the ranges of which ClickHouse has other rows. Each is of another partition.
func (r *repair) unlike(ctx context.Context, ranges []Loaded) (out []Loaded, err error) {
	var counts map[int32]counted
	err = sameReplica(ctx, r.conn, r.cfg.Cluster, func(replica string) (answered string, err error) {
		counts, answered, err = count(ctx, r.conn, replica, ranges, "toUInt64(0)")
		return answered, err
	})
	for _, l := range ranges {
		if c := counts[l.Partition]; apart(c.rows, l.Records, c.hash, l.Hash) != 0 {
			out = append(out, l)
		}
	}
	return out, err
}

// events makes status_events and decisions whole.
func (r *repair) events(ctx context.Context) error {
	bad, err := r.unlike(ctx, r.ranges())
	if err != nil {
		return err
	}
	starts, err := r.adm.ListStartOffsets(ctx, r.topic)
	if err != nil {
		return fmt.Errorf("ask where the log begins: %w", err)
	}
	var marks []Loaded
	for _, part := range bad {
		marks = append(marks, marksOf(part.Partition, r.parts[part.Partition])...)
	}
	r.more(len(marks))
	r.compared()
	for _, l := range marks {
		unlike, err := r.unlike(ctx, []Loaded{l})
		if err != nil {
			return err
		}
		if len(unlike) > 0 {
			start, _ := starts.Lookup(r.topic, l.Partition)
			if err := r.mend(ctx, l, start.Offset); err != nil {
				return err
			}
		}
		r.compared()
	}
	return nil
}

// mend mends one range of the log, which begins at start.
func (r *repair) mend(ctx context.Context, l Loaded, start int64) error {
	diff, err := r.difference(ctx, l)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("partition %d, offsets %d to %d: %d rows of status_events and decisions are missing or too many", l.Partition, l.From, l.To-1, diff)
	if !r.change {
		r.left += diff
		r.say(what)
		return nil
	}
	for _, table := range []string{"status_events", "decisions"} {
		if _, err := r.once(ctx, table, l, start); err != nil {
			return err
		}
	}
	loaded := 0
	err = r.read(ctx, l.Partition, max(l.From, start), l.To, func(recs []*kgo.Record) (bool, error) {
		b := blockOf(r.cfg, EncoderVersion, recs)
		there, _, err := present(ctx, r.conn, r.cfg.Cluster, b, 0)
		if err != nil {
			return false, err
		}
		for _, rec := range recs {
			if _, ok := there[rec.Offset]; !ok {
				loaded++
			}
		}
		for _, table := range []string{"status_events", "decisions"} {
			if err := r.add(ctx, table, recs); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if diff, err = r.difference(ctx, l); err != nil {
		return err
	}
	what += fmt.Sprintf("; %d were loaded", loaded)
	if diff != 0 {
		what += fmt.Sprintf(", and %d differ still", diff)
		if start > l.From {
			what += fmt.Sprintf(": Kafka has nothing before offset %d any more", start)
		}
	}
	r.left += diff
	r.say(what)
	return nil
}

func (r *repair) difference(ctx context.Context, l Loaded) (diff int64, err error) {
	err = sameReplica(ctx, r.conn, r.cfg.Cluster, func(replica string) (answered string, err error) {
		diff, answered, err = difference(ctx, r.conn, replica, []Loaded{l})
		return answered, err
	})
	return diff, err
}

// once deletes the rows of a table that are there twice and that Kafka still has, to be loaded again.
// It says how many are too many.
func (r *repair) once(ctx context.Context, table string, l Loaded, start int64) (n int, err error) {
	l.From = max(l.From, start)
	in := whereOf([]Loaded{l})
	twice, err := list(ctx, r.conn, "SELECT status_offset FROM "+table+" WHERE "+in+" AND "+warehouse.Whole(r.cfg.Cluster)+" GROUP BY status_offset HAVING count() > 1 ORDER BY ALL")
	if err != nil {
		return 0, fmt.Errorf("look for rows that %s has twice: %w", table, err)
	}
	if !r.change {
		return len(twice), nil
	}
	for some := range slices.Chunk(twice, 1000) {
		if err := r.exec(ctx, "ALTER TABLE "+table+" DELETE WHERE "+in+" AND status_offset IN ("+join(some)+")"); err != nil {
			return 0, err
		}
	}
	return len(twice), nil
}

// add loads the rows of records that a table lacks.
func (r *repair) add(ctx context.Context, table string, recs []*kgo.Record) error {
	b := blockOf(r.cfg, EncoderVersion, recs)
	if b.Rows() == 0 {
		return nil
	}
	has := make(map[int64]int64)
	err := sameReplica(ctx, r.conn, r.cfg.Cluster, func(replica string) (answered string, err error) {
		clear(has)
		rows, err := r.conn.Query(ctx, fmt.Sprintf(`
			SELECT status_offset, toUnixTimestamp64Milli(at), '' FROM %s WHERE status_partition = $1 AND status_offset >= $2 AND status_offset <= $3
				AND at >= fromUnixTimestamp64Milli(toInt64($4)) AND at <= fromUnixTimestamp64Milli(toInt64($5))
			UNION ALL SELECT toInt64(-1), toInt64(0), %s`, table, replica),
			b.statusPartition[0], b.statusOffset[0], b.statusOffset[b.rows-1], slices.Min(b.at), slices.Max(b.at))
		if err != nil {
			return "", err
		}
		defer rows.Close()
		for rows.Next() {
			var (
				offset, at int64
				name       string
			)
			if err := rows.Scan(&offset, &at, &name); err != nil {
				return "", err
			}
			if offset < 0 {
				answered = name
			} else {
				has[offset] = at
			}
		}
		return answered, rows.Err()
	})
	if err != nil {
		return fmt.Errorf("ask which rows %s has: %w", table, err)
	}
	var missing []*kgo.Record
	for i, rec := range recs {
		if at, ok := has[rec.Offset]; !ok || at != b.at[i] {
			missing = append(missing, rec)
		}
	}
	return r.load(ctx, table, missing)
}

// others makes those tables whole of which the events say what they must have.
func (r *repair) others(ctx context.Context) error {
	starts, err := r.adm.ListStartOffsets(ctx, r.topic)
	if err != nil {
		return fmt.Errorf("ask where the log begins: %w", err)
	}
	for _, t := range implied {
		for _, l := range r.ranges() {
			start, _ := starts.Lookup(r.topic, l.Partition)
			var twice int
			if t.table == "decisions" { // the other keeps one of rows that are alike
				n, err := r.once(ctx, t.table, l, start.Offset)
				if err != nil {
					return err
				}
				twice = n
			}
			missing, err := r.missing(ctx, t.table, t.offsets, l)
			if err != nil {
				return err
			}
			n := len(missing)
			if n+twice == 0 {
				r.compared()
				continue
			}
			if r.change && n > 0 {
				err = r.read(ctx, l.Partition, max(missing[0], start.Offset), missing[n-1]+1, func(recs []*kgo.Record) (bool, error) {
					return true, r.add(ctx, t.table, slices.DeleteFunc(recs, func(rec *kgo.Record) bool {
						_, ok := slices.BinarySearch(missing, rec.Offset)
						return !ok
					}))
				})
				if err == nil {
					missing, err = r.missing(ctx, t.table, t.offsets, l)
				}
				if err != nil {
					return err
				}
			}
			r.left += int64(len(missing))
			if !r.change {
				r.left += int64(twice)
			}
			r.say(fmt.Sprintf("partition %d: %s: %d rows were missing and %d there twice; %d are missing now", l.Partition, t.table, n, twice, len(missing)))
			r.compared()
		}
	}
	return nil
}

// missing are the offsets of a range that a table must have and has not.
func (r *repair) missing(ctx context.Context, table, must string, l Loaded) (offsets []int64, err error) {
	in := whereOf([]Loaded{l})
	offsets, err = list(ctx, r.conn, must+" AND "+in+" AND "+warehouse.Whole(r.cfg.Cluster)+" AND status_offset NOT IN (SELECT status_offset FROM "+table+" WHERE "+in+") ORDER BY ALL")
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", table, err)
	}
	return offsets, nil
}

// read hands the records of a range over, some at a time, until the end or until it is told that
// no more are needed.
func (r *repair) read(ctx context.Context, id int32, from, to int64, take func([]*kgo.Record) (more bool, err error)) error {
	if from >= to {
		return nil
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.cfg.Brokers...), kgo.ClientID("weir-sink-repair"),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: {id: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()), stream.Bounded(),
	}, r.cfg.Options...)...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer cl.Close()
	for next := from; next < to; {
		pollCtx, cancel := context.WithTimeout(ctx, askWithin)
		fetches := cl.PollRecords(pollCtx, r.cfg.Rows)
		cancel()
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return fmt.Errorf("read %s/%d from offset %d: %w", r.topic, id, next, err)
		}
		var recs []*kgo.Record
		for _, rec := range fetches.Records() {
			next = rec.Offset + 1
			if !rec.Attrs.IsControl() && rec.Offset < to {
				recs = append(recs, rec)
			}
		}
		if len(recs) == 0 {
			continue
		}
		if more, err := take(recs); err != nil || !more {
			return err
		}
	}
	return nil
}

// load inserts the rows of records into a table. A block that is sent again has its token.
func (r *repair) load(ctx context.Context, table string, recs []*kgo.Record) error {
	if len(recs) == 0 {
		return nil
	}
	b := blockOf(r.cfg, EncoderVersion, recs)
	data, err := b.native()
	if err != nil {
		return fmt.Errorf("make a block of %d rows: %w", b.Rows(), err)
	}
	r.tokens++
	settings := insertSettings(Plan{}, askWithin, r.cfg.Cluster != "")
	settings[warehouse.TokenSetting] = fmt.Sprintf("repair/%d", r.tokens)
	into := schema.Log{Table: repairLog(table), Columns: b.log.Columns}
	for n := range 5 {
		if err = r.insert.Insert(ctx, into.Insert(), settings, data); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(r.cfg.wait(n))
	}
	if err != nil {
		return fmt.Errorf("load %d rows again: %w", b.Rows(), err)
	}
	return nil
}

// makeLogs makes repair's tables, with the views that the migrations have.
func (r *repair) makeLogs(ctx context.Context) error {
	log := schema.StatusLog.Table
	for _, table := range fromRecords {
		for _, s := range []string{
			schema.Statement("CREATE TABLE IF NOT EXISTS " + log + " "),
			schema.Statement("CREATE MATERIALIZED VIEW IF NOT EXISTS " + log + "_to_" + table + " "),
		} {
			if err := r.define(ctx, strings.ReplaceAll(s, log, repairLog(table))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *repair) dropLogs(ctx context.Context) error {
	for _, table := range fromRecords {
		for _, s := range []string{"DROP TABLE IF EXISTS " + repairLog(table), "DROP VIEW IF EXISTS " + repairLog(table) + "_to_" + table} {
			if err := r.define(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// define makes or drops a table on every replica.
func (r *repair) define(ctx context.Context, statement string) error {
	if r.cfg.Cluster != "" {
		var err error
		if statement, err = schema.OnCluster(statement, r.cfg.Cluster); err != nil {
			return err
		}
	}
	if err := r.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("make repair's tables: %w", err)
	}
	return nil
}

// exec changes tables, and waits until that is done on all replicas.
func (r *repair) exec(ctx context.Context, statement string) error {
	settings := clickhouse.Settings{
		"mutations_sync": 2, "insert_deduplicate": 0, "max_partitions_per_insert_block": 0, "optimize_on_insert": 0, "max_execution_time": 0,
	}
	if r.cfg.Cluster != "" {
		settings["insert_quorum"] = "auto"
		settings["insert_quorum_parallel"] = 1
	}
	err := settled(ctx, func() error {
		return r.conn.Exec(clickhouse.Context(ctx, clickhouse.WithSettings(settings)), statement)
	})
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(statement), "\n")
		return fmt.Errorf("%.100s: %w", first, err)
	}
	return nil
}

// settled asks again while the replica that answers has not all yet (warehouse.Whole).
func settled(ctx context.Context, ask func() error) error {
	const throwIf = 395
	for n := 0; ; n++ {
		err := ask()
		if e, ok := errors.AsType[*clickhouse.Exception](err); !ok || e.Code != throwIf || n == 100 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(firstBackoff):
		}
	}
}

// list reads a column of numbers.
func list(ctx context.Context, conn driver.Conn, query string) (all []int64, err error) {
	err = settled(ctx, func() error {
		all, err = listOnce(ctx, conn, query)
		return err
	})
	return all, err
}

func listOnce(ctx context.Context, conn driver.Conn, query string) (all []int64, err error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

func join(numbers []int64) string {
	var text []string
	for _, n := range numbers {
		text = append(text, strconv.FormatInt(n, 10))
	}
	return strings.Join(text, ", ")
}

// span is from when until when rows of the account are, in Unix seconds.
func (r *repair) span() (since, until int64) {
	for i, l := range r.ranges() {
		if i == 0 {
			since, until = l.Since, l.Until
		}
		since, until = min(since, l.Since), max(until, l.Until)
	}
	return since, until
}

// known is from when on, in Unix seconds, all rows are of records of the account: that of a row is
// no earlier than its record was appended, receipts aside, whose minutes can only be added to.
// Where the account has the log from its offset 0 it knows all.
func (r *repair) known(ctx context.Context) (at int64, err error) {
	starts, err := r.adm.ListStartOffsets(ctx, r.topic)
	if err != nil {
		return 0, fmt.Errorf("ask where the log begins: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(r.parts)) {
		e := r.parts[id]
		start, _ := starts.Lookup(r.topic, id)
		err := r.read(ctx, id, start.Offset, e.marks[len(e.marks)-1].to, func(recs []*kgo.Record) (bool, error) {
			if start.Offset > 0 || recs[0].Offset < e.from {
				i := slices.IndexFunc(recs, func(rec *kgo.Record) bool { return rec.Offset >= e.from })
				if i < 0 {
					return true, nil
				}
				at = max(at, recs[i].Timestamp.Unix()+int64(clocksDiffer.Seconds()))
			}
			return false, nil
		})
		if err != nil {
			return 0, err
		}
	}
	return at, nil
}

// rollup is a table by minute, and how it is made of the events. has and want are figures of a minute:
// as many as there are must be the same.
type rollup struct {
	table, from   string // where the events are
	has, want     []string
	where, insert string
}

var rollups = []rollup{
	{
		table: "status_by_minute_state", from: "status_events",
		has: []string{"toInt64(sum(events))"}, want: []string{"toInt64(count())"}, where: "kind = 'status'",
		insert: `(minute, tenant, channel, class, provider, status, events, latency)
SELECT toStartOfMinute(l.at) AS minute, l.tenant AS tenant, l.channel AS channel, l.class AS class, l.provider AS provider, l.status AS status,
	count() AS events, quantilesTDigestState(0.5, 0.95, 0.99)(toUnixTimestamp64Milli(l.at) - toUnixTimestamp64Milli(l.accepted_at)) AS latency
FROM status_events AS l
WHERE l.kind = 'status' AND %s
GROUP BY minute, tenant, channel, class, provider, status`,
	},
	{
		table: "limits_by_minute_state", from: "decisions",
		has: []string{"toInt64(sum(places))", "sum(cost)", "toInt64(sum(refusals))", "toInt64(sum(observed))"},
		want: []string{
			"toInt64(sumIf(length(charges.limit) + length(carried.limit), verdict IN ('admit', 'move', 'record')))",
			"toInt64(sumIf(arraySum(charges.cost) + arraySum(carried.cost), verdict IN ('admit', 'move', 'record')))",
			"toInt64(countIf(kind = 'status' AND limit != '' AND verdict IN ('refuse', 'defer') AND NOT observed))",
			"toInt64(countIf(kind = 'status' AND limit != '' AND observed))",
		},
		where: "verdict != ''",
		insert: `(minute, tenant, channel, class, limit, window, places, cost, refusals, observed)
SELECT toStartOfMinute(at) AS minute, tenant, channel, class, x.1 AS limit, x.2 AS window,
	sum(x.3) AS places, sum(x.4) AS cost, sum(x.5) AS refusals, sum(x.6) AS observed
FROM (
	SELECT l.at AS at, l.tenant AS tenant, l.channel AS channel, l.class AS class,
		arrayJoin(arrayConcat(
			if(l.verdict IN ('admit', 'move', 'record'),
				arrayMap((limit, cost) -> (toString(limit), '', toUInt64(1), cost, toUInt64(0), toUInt64(0)),
					arrayConcat(l.charges.limit, l.carried.limit), arrayConcat(l.charges.cost, l.carried.cost)),
				[]),
			if(l.kind = 'status' AND l.limit != '' AND (l.verdict IN ('refuse', 'defer') OR l.observed),
				[(toString(l.limit), toString(l.window), toUInt64(0), toInt64(0), toUInt64(NOT l.observed), toUInt64(l.observed))],
				[]))) AS x
	FROM decisions AS l
	WHERE l.verdict != '' AND %s
)
GROUP BY minute, tenant, channel, class, limit, window`,
	},
}

// compare finds the minutes that do not add up, and which of them count more than the events.
func (t rollup) compare(ctx context.Context, r *repair, since, until int64) (unlike map[int64]bool, err error) {
	query := fmt.Sprintf(`
		SELECT toUnixTimestamp(m), arrayExists((h, w) -> h > w, sumForEach(h) AS has, sumForEach(w) AS want) FROM (
			SELECT toStartOfMinute(at) AS m, arrayMap(x -> toInt64(0), [%[1]s]) AS h, [%[1]s] AS w FROM %[2]s WHERE %[3]s AND %[4]s GROUP BY m
			UNION ALL
			SELECT minute AS m, [%[5]s] AS h, arrayMap(x -> toInt64(0), [%[5]s]) AS w FROM %[6]s WHERE %[7]s GROUP BY m)
		WHERE %[8]s
		GROUP BY m HAVING has != want`,
		strings.Join(t.want, ", "), t.from, t.where, within("at", since, until), strings.Join(t.has, ", "), t.table, within("minute", since, until), warehouse.Whole(r.cfg.Cluster))
	err = settled(ctx, func() error {
		unlike = make(map[int64]bool)
		rows, err := r.conn.Query(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var (
				m    uint32
				over uint8
			)
			if err := rows.Scan(&m, &over); err != nil {
				return err
			}
			unlike[int64(m)] = over != 0
		}
		return rows.Err()
	})
	return unlike, err
}

// rollups makes the minutes again that do not add up. One that has more than the events is made
// again only where all of its events are known to be there: it may count what the events
// have no more.
func (r *repair) rollups(ctx context.Context) error {
	since, until := r.span()
	known, err := r.known(ctx)
	if err != nil {
		return err
	}
	for _, t := range rollups {
		unlike, err := t.compare(ctx, r, since, until)
		if err != nil {
			return fmt.Errorf("compare %s: %w", t.table, err)
		}
		var less, more []int64
		for m, over := range unlike {
			if over && (m < known || r.left > 0) {
				more = append(more, m)
			} else {
				less = append(less, m)
			}
		}
		slices.Sort(less)
		slices.Sort(more)
		if len(more) > 0 {
			r.left += int64(len(more))
			r.say(fmt.Sprintf("%s: %d minutes, from %s on, count more than %s has, and may count what that has lost: they stay", t.table, len(more), clock(more[0]), t.from))
		}
		r.compared()
		if len(less) == 0 {
			continue
		}
		what := fmt.Sprintf("%s: %d minutes, from %s on, do not add up", t.table, len(less), clock(less[0]))
		if !r.change {
			r.left += int64(len(less))
			r.say(what)
			continue
		}
		for some := range slices.Chunk(less, 1000) {
			if err := r.exec(ctx, "ALTER TABLE "+t.table+" DELETE WHERE toUnixTimestamp(minute) IN ("+join(some)+")"); err != nil {
				return err
			}
			in := within("l.at", some[0], some[len(some)-1]+60) + " AND toUnixTimestamp(toStartOfMinute(l.at)) IN (" + join(some) + ") AND " + warehouse.Whole(r.cfg.Cluster)
			if err := r.exec(ctx, "INSERT INTO "+t.table+" "+fmt.Sprintf(t.insert, in)); err != nil {
				return err
			}
		}
		r.say(what + "; they were made again")
	}
	return nil
}

func clock(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02 15:04") }

func within(column string, since, until int64) string {
	return fmt.Sprintf("%[1]s >= toDateTime64(%[2]d, 3, 'UTC') AND %[1]s < toDateTime64(%[3]d, 3, 'UTC')", column, since, until)
}

// lacking are the rows that a list lacks of the events between two times: the columns, and a FROM clause.
var lacking = []struct{ table, columns, from string }{
	{"messages_by_recipient", listColumns, listFrom("messages_by_recipient")},
	{"messages_by_time", listColumns, listFrom("messages_by_time")},
	{"messages_by_provider_id", "id, message_id, at", `(
		SELECT cityHash64(toString(e.provider), e.provider_message_id) AS id, e.message_id AS message_id, e.at AS at FROM status_events AS e
		WHERE e.provider_message_id != '' AND e.kind = 'status' AND e.message_id != '' AND e.status NOT IN ('delivered', 'undelivered')
			AND e.at > now() - INTERVAL 90 DAY AND %[1]s AND %[2]s) AS e
		WHERE (id, message_id) NOT IN (SELECT id, message_id FROM messages_by_provider_id WHERE %[1]s)`},
}

const listColumns = "tenant, `to`, accepted_at, message_id, channel, class, status, ver"

// listFrom is of one list of messages: a row for each message of which the list has none or an earlier one.
func listFrom(table string) string {
	return `(
		SELECT tenant, ` + "`to`" + `, accepted_at, message_id, argMax(x.1, v) AS channel, argMax(x.2, v) AS class, argMax(x.3, v) AS status, max(v) AS ver,
			cityHash64(tenant, ` + "`to`" + `, accepted_at, message_id) AS k
		FROM (
			SELECT if(e.tenant = '', 'default', toString(e.tenant)) AS tenant, e.to AS ` + "`to`" + `, assumeNotNull(e.accepted_at) AS accepted_at, e.message_id AS message_id,
				(toString(e.channel), toString(e.class), toString(e.status)) AS x,
				bitShiftLeft(toUInt64(if(e.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
					+ bitShiftLeft(toUInt64(toUnixTimestamp64Milli(e.at)), 18) + toUInt64(e.status_offset %% 262144) AS v
			FROM status_events AS e
			WHERE e.kind = 'status' AND e.message_id != '' AND e.status NOT IN ('delivered', 'undelivered') AND isNotNull(e.accepted_at) AND %[1]s AND %[2]s)
		GROUP BY tenant, ` + "`to`" + `, accepted_at, message_id) AS n
		LEFT JOIN (
			SELECT cityHash64(toString(tenant), ` + "`to`" + `, accepted_at, message_id) AS k, max(ver) AS was FROM ` + table + `
			WHERE accepted_at >= (SELECT min(accepted_at) FROM status_events WHERE %[1]s) AND accepted_at <= (SELECT max(accepted_at) FROM status_events WHERE %[1]s)
			GROUP BY k) AS o ON n.k = o.k
		WHERE o.was < n.ver`
}

const day = 24 * 60 * 60 // in seconds

// days are when the days of the account begin, in Unix seconds.
func (r *repair) days() (all []int64) {
	since, until := r.span()
	for at := since / day * day; at < until; at += day {
		all = append(all, at)
	}
	return all
}

// lists adds what the tables of messages lack, day by day. What they have twice is one message.
func (r *repair) lists(ctx context.Context) error {
	for _, t := range lacking {
		var added int64
		for _, at := range r.days() {
			from := fmt.Sprintf(t.from, within("at", at, at+day), warehouse.Whole(r.cfg.Cluster))
			n, err := list(ctx, r.conn, "SELECT toInt64(count()) FROM "+from)
			if err != nil {
				return fmt.Errorf("compare %s: %w", t.table, err)
			}
			if added += n[0]; n[0] > 0 && r.change {
				if err := r.exec(ctx, "INSERT INTO "+t.table+" ("+t.columns+") SELECT "+t.columns+" FROM "+from); err != nil {
					return err
				}
			}
			r.compared()
		}
		switch {
		case added == 0:
		case r.change:
			r.say(fmt.Sprintf("%s lacked %d rows; they were made again", t.table, added))
		default:
			r.left += added
			r.say(fmt.Sprintf("%s lacks %d rows", t.table, added))
		}
	}
	return nil
}
