package warehouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	schema "github.com/weirhq/weir/schemas/clickhouse"
)

const (
	// Window is the deduplication window that Weir's tables have, in blocks, and
	// that every table which a view fills needs: with fewer a plan's token could be
	// forgotten while the plan holds.
	Window = 10_000
	// MinSeconds is the least time for which a replicated table has to remember
	// them: a plan whose insert broke off is good for half of it.
	MinSeconds = 86_400
)

// ErrUnfit means that this database would lose or double rows. It is fatal, and
// its text says what to run.
var ErrUnfit = errors.New("ClickHouse cannot keep rows exactly once")

// ErrNewer is an ErrUnfit: a newer Weir has migrated the tables.
var ErrNewer = fmt.Errorf("%w: this database is of a newer Weir", ErrUnfit)

// InsertSettings are those without which a block that is sent again could stand
// twice, or in a part of the tables. Every insert of the sink has them, beside its
// token.
var InsertSettings = clickhouse.Settings{
	"async_insert":       0,
	"insert_deduplicate": 1,
	"deduplicate_blocks_in_dependent_materialized_views": 1,
	"materialized_views_ignore_errors":                   0,
}

// TokenSetting names the setting that a block is known by when it is sent again.
const TokenSetting = "insert_deduplication_token"

// Oldest is the first version of ClickHouse in which views deduplicate a block by
// its token, and searches read in order without buffering.
var Oldest = [2]int{24, 8}

// Check refuses a database in which a block sent twice could be two, or lose a part
// of itself without a word: a server that is too old or does not take the settings
// of an insert, tables of a newer Weir, a table or a column that is missing or of
// another type, and a table that a view fills from one of schema.Logs, directly or
// through others (an operator's own too), without a deduplication window or without a
// column that the view fills. Every reason is named, with what to do.
func Check(ctx context.Context, conn driver.Conn) error { return CheckOn(ctx, conn, "") }

// CheckOn is Check for a cluster of replicas; the empty name is none.
func CheckOn(ctx context.Context, conn driver.Conn, cluster string) error {
	if err := checkServer(ctx, conn); err != nil {
		return err
	}
	if cluster != "" {
		if err := checkCluster(ctx, conn, cluster); err != nil {
			return err
		}
	}
	tables, err := catalogue(ctx, conn)
	if err != nil {
		return err
	}
	at, err := migrated(ctx, conn, tables)
	if err != nil {
		return err
	}
	if newest := schema.Newest(); at > newest {
		return fmt.Errorf("%w: it has migration %d, and this one knows %d: run that version, or a newer one", ErrNewer, at, newest)
	}
	mend := "migrate first"
	if at == schema.Newest() {
		mend = fmt.Sprintf("goose_db_version says that migration %d is done: run TRUNCATE TABLE goose_db_version and start Weir again, which makes what is missing and leaves what is there", at)
	}
	columns, err := columnsOf(ctx, conn)
	if err != nil {
		return err
	}
	errs := compareColumns(columns, tables, mend)
	var reached []string
	for _, log := range schema.Logs {
		if _, ok := tables[log.Table]; !ok {
			continue // named already
		}
		filled := fills(log.Table, tables)
		for _, name := range schema.Filled {
			if _, ok := tables[name]; ok && !slices.Contains(filled, name) {
				errs = append(errs, fmt.Errorf("%w: nothing fills table %s: a view from %s is missing: %s", ErrUnfit, name, log.Table, mend))
			}
		}
		reached = append(reached, filled...)
	}
	errs = append(errs, unfilled(columns, tables, reached)...)
	slices.Sort(reached)
	for _, name := range slices.Compact(reached) {
		errs = append(errs, fit(tables[name]))
		if cluster != "" {
			errs = append(errs, replicated(tables[name]))
		}
	}
	return errors.Join(errs...)
}

// checkServer looks at what the server is, and whether this user's inserts have the
// settings that they need.
func checkServer(ctx context.Context, conn driver.Conn) error {
	var version string
	err := conn.QueryRow(ctx, "SELECT version()").Scan(&version)
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok && e.Code == 81 {
		return fmt.Errorf("%w: there is no database any more: start Weir again, which makes it and its tables: %w", ErrUnfit, err)
	}
	if err != nil {
		return fmt.Errorf("ask for the server's version: %w", err)
	}
	if tooOld(version) {
		return fmt.Errorf("%w: this server is ClickHouse %s: %d.%d or newer is needed", ErrUnfit, version, Oldest[0], Oldest[1])
	}
	names := append(slices.Sorted(maps.Keys(InsertSettings)), TokenSetting)
	list := "'" + strings.Join(names, "', '") + "'"
	known, err := column(ctx, conn, "SELECT name FROM system.settings WHERE name IN ("+list+")")
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	var errs []error
	for _, name := range names {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%w: this server has no setting %s: ClickHouse %d.%d or newer is needed", ErrUnfit, name, Oldest[0], Oldest[1]))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	// As an insert sets them. A constraint of the user's profile refuses them, or
	// something between here and the server puts others in their place.
	set := maps.Clone(InsertSettings)
	set[TokenSetting] = "weir-check"
	got, err := column(clickhouse.Context(ctx, clickhouse.WithSettings(set)), conn, "SELECT concat(name, '=', value) FROM system.settings WHERE name IN ("+list+")")
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok && (e.Code == 452 || e.Code == 164) {
		return fmt.Errorf("%w: ClickHouse does not let this user set what an insert needs (%s): take the constraint, or readonly, from its profile, or give Weir a user without: %w", ErrUnfit, strings.Join(names, ", "), err)
	}
	if err != nil {
		return fmt.Errorf("try the settings of an insert: %w", err)
	}
	for _, name := range names {
		if want := fmt.Sprintf("%s=%v", name, set[name]); !slices.Contains(got, want) {
			i := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, name+"=") })
			is := "it is not there"
			if i >= 0 {
				is = got[i]
			}
			errs = append(errs, fmt.Errorf("%w: Weir sets %s, and ClickHouse has %s: a proxy or a profile forces it; take that away for Weir's user", ErrUnfit, want, is))
		}
	}
	return errors.Join(errs...)
}

// checkCluster refuses a cluster that the server does not know, and one of several
// shards: a plan's token is known to one shard only.
func checkCluster(ctx context.Context, conn driver.Conn, cluster string) error {
	name := "'" + cluster + "'"
	if macro, ok := strings.CutPrefix(cluster, "{"); ok {
		name = "getMacro('" + strings.TrimSuffix(macro, "}") + "')"
	}
	var shards uint64
	if err := conn.QueryRow(ctx, "SELECT uniqExact(shard_num) FROM system.clusters WHERE cluster = "+name).Scan(&shards); err != nil {
		return fmt.Errorf("ask for the cluster %s: %w", cluster, err)
	}
	switch shards {
	case 0:
		return fmt.Errorf("%w: this server knows no cluster %s: SELECT DISTINCT cluster FROM system.clusters shows which there are; correct clickhouse.cluster", ErrUnfit, cluster)
	case 1:
		return nil
	}
	return fmt.Errorf("%w: the cluster %s has %d shards: a block that is sent again to another shard would stand twice: name a cluster of one shard and its replicas", ErrUnfit, cluster, shards)
}

// replicated refuses, on a cluster, a table of one node.
func replicated(t table) error {
	if !strings.HasSuffix(t.engine, "MergeTree") || strings.HasPrefix(t.engine, "Replicated") || strings.HasPrefix(t.engine, "Shared") {
		return nil
	}
	return fmt.Errorf("%w: table %s is on this node only (engine %s), though clickhouse.cluster is set: name another database, which is made on the cluster and loaded with what Kafka still has, or unset clickhouse.cluster",
		ErrUnfit, t.name, t.engine)
}

// Unsynced are Weir's tables of a single server that acknowledge a block before it is on disk: a loss of
// power takes along what the system had not written yet. Replicas have it from one another.
func Unsynced(ctx context.Context, conn driver.Conn, cluster string) ([]string, error) {
	if cluster != "" {
		return nil, nil
	}
	const insert, directory = "fsync_after_insert", "fsync_part_directory"
	def, err := column(ctx, conn, "SELECT name FROM system.merge_tree_settings WHERE name IN ('"+insert+"', '"+directory+"') AND value = '1'")
	if err != nil {
		return nil, fmt.Errorf("read the settings of tables: %w", err)
	}
	tables, err := catalogue(ctx, conn)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range schema.Filled {
		for _, setting := range []string{insert, directory} {
			m := regexp.MustCompile(`\b` + setting + `\s*=\s*'?(\w+)`).FindStringSubmatch(tables[name].full)
			on := slices.Contains(def, setting)
			if m != nil {
				on = m[1] == "1" || m[1] == "true"
			}
			if !on {
				out = append(out, name)
				break
			}
		}
	}
	return out, nil
}

// tooOld says whether a version such as 24.3.1.2672 is before Oldest. One that
// cannot be read is not: the settings tell.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err != nil || err2 != nil {
		return false
	}
	return slices.Compare([]int{a, b}, Oldest[:]) < 0
}

// migrated is the last migration that was carried out, by goose's own table.
func migrated(ctx context.Context, conn driver.Conn, tables map[string]table) (int64, error) {
	if _, ok := tables[versions]; !ok {
		return 0, nil
	}
	var at int64
	// The last row of a version counts: a migration that was taken back has one
	// more, with is_applied 0.
	err := conn.QueryRow(ctx, "SELECT max(if(applied = 1, version_id, 0)) FROM (SELECT version_id, argMax(is_applied, tstamp) AS applied FROM "+versions+" GROUP BY version_id)").Scan(&at)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", versions, err)
	}
	return at, nil
}

// versions is goose's table.
const versions = "goose_db_version"

// columnsOf reads the types of all columns by table and name. Views have some too.
func columnsOf(ctx context.Context, conn driver.Conn) (map[string]map[string]string, error) {
	rows, err := conn.Query(ctx, "SELECT table, name, type FROM system.columns WHERE database = currentDatabase()")
	if err != nil {
		return nil, fmt.Errorf("read the columns: %w", err)
	}
	defer rows.Close()
	all := make(map[string]map[string]string)
	for rows.Next() {
		var table, name, kind string
		if err := rows.Scan(&table, &name, &kind); err != nil {
			return nil, fmt.Errorf("read the columns: %w", err)
		}
		if all[table] == nil {
			all[table] = make(map[string]string)
		}
		all[table][name] = kind
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the columns: %w", err)
	}
	return all, nil
}

// compareColumns says which of Weir's tables and columns are missing, or of another
// type than the migrations give them.
func compareColumns(got map[string]map[string]string, tables map[string]table, mend string) (errs []error) {
	last := ""
	for _, c := range schema.AllColumns() {
		switch kind, ok := got[c.Table][c.Name]; {
		case tables[c.Table].name == "":
			if c.Table != last {
				errs = append(errs, fmt.Errorf("%w: there is no table %s: %s", ErrUnfit, c.Table, mend))
			}
		case !ok:
			errs = append(errs, fmt.Errorf("%w: table %s has no column %s: run ALTER TABLE %s ADD COLUMN `%s` %s", ErrUnfit, c.Table, c.Name, c.Table, c.Name, definition(c)))
		case plainType(kind) != plainType(c.Type):
			errs = append(errs, fmt.Errorf("%w: column %s of table %s is of type %s, and Weir's rows have %s: put it back", ErrUnfit, c.Name, c.Table, kind, c.Type))
		}
		last = c.Table
	}
	return errs
}

func definition(c schema.Column) string {
	if c.Default == "" {
		return c.Type
	}
	return c.Type + " DEFAULT " + c.Default
}

var dictionary = regexp.MustCompile(`LowCardinality\((\w+)\)`)

// plainType is a type without how it is stored.
func plainType(t string) string { return dictionary.ReplaceAllString(t, "$1") }

// unfilled says which columns a view fills that its target does not have: ClickHouse
// leaves them out without a word.
func unfilled(columns map[string]map[string]string, tables map[string]table, reached []string) (errs []error) {
	var seen []string
	for _, name := range reached {
		for _, v := range tables[name].views {
			to := target(tables[v])
			if slices.Contains(seen, v) || tables[to].name == "" || slices.Contains(schema.Filled, to) {
				continue // Weir's own have been compared
			}
			seen = append(seen, v)
			for _, c := range slices.Sorted(maps.Keys(columns[v])) {
				if _, ok := columns[to][c]; !ok {
					errs = append(errs, fmt.Errorf("%w: view %s fills column %s, which table %s has not, so it would be left out without a word: add the column, or take it from the view", ErrUnfit, v, c, to))
				}
			}
		}
	}
	return errs
}

// table is what Check looks at of one.
type table struct {
	name   string
	engine string
	full   string   // the engine's clause with its settings
	create string   // the whole statement
	views  []string // materialized views that read it
}

// fills walks from a log through the views and returns every table on the way, the
// log too.
func fills(log string, tables map[string]table) []string {
	var (
		seen []string
		todo = []string{log}
	)
	for len(todo) > 0 {
		t, ok := tables[todo[0]]
		todo = todo[1:]
		if !ok || slices.Contains(seen, t.name) {
			continue
		}
		seen = append(seen, t.name)
		for _, v := range t.views {
			todo = append(todo, target(tables[v]))
		}
	}
	return seen
}

var (
	windowPattern  = regexp.MustCompile(`\b(non_replicated_deduplication_window|replicated_deduplication_window)\s*=\s*'?(\d+)`)
	secondsPattern = regexp.MustCompile(`\breplicated_deduplication_window_seconds\s*=\s*'?(\d+)`)
	targetPattern  = regexp.MustCompile("(?s)^CREATE MATERIALIZED VIEW .*? TO (`[^`]+`|[^\\s.(]+)(?:\\.(`[^`]+`|[^\\s(]+))?[\\s(]")
)

// target is the table that a materialized view fills.
func target(view table) string {
	m := targetPattern.FindStringSubmatch(view.create)
	if m == nil {
		return ""
	}
	name := strings.Trim(m[1], "`")
	if m[2] != "" {
		name = strings.Trim(m[2], "`")
	}
	return name
}

// fit says whether a table remembers the tokens of enough blocks.
func fit(t table) error {
	if !strings.HasSuffix(t.engine, "MergeTree") {
		return nil // Null keeps nothing, and so doubles nothing
	}
	// Replicated tables, and ClickHouse Cloud's shared ones, deduplicate by
	// themselves; the others only if told to.
	setting, window := "non_replicated_deduplication_window", 0
	if strings.HasPrefix(t.engine, "Replicated") || strings.HasPrefix(t.engine, "Shared") {
		setting, window = "replicated_deduplication_window", Window
	}
	for _, m := range windowPattern.FindAllStringSubmatch(t.full, -1) {
		if m[1] == setting {
			window, _ = strconv.Atoi(m[2])
		}
	}
	if window >= Window {
		if m := secondsPattern.FindStringSubmatch(t.full); m != nil {
			if seconds, err := strconv.Atoi(m[1]); err == nil && seconds < MinSeconds {
				return fmt.Errorf("%w: table %s remembers blocks for %d s, so one sent again after a crash could stand twice; run: ALTER TABLE %s MODIFY SETTING replicated_deduplication_window_seconds = %d",
					ErrUnfit, t.name, seconds, t.name, schema.ReplicatedSeconds)
			}
		}
		return nil
	}
	return fmt.Errorf("%w: table %s remembers the last %d blocks, so one sent again after a crash could stand twice; run: ALTER TABLE %s MODIFY SETTING %s = %d",
		ErrUnfit, t.name, window, t.name, setting, Window)
}

// catalogue reads the database's tables.
func catalogue(ctx context.Context, conn driver.Conn) (map[string]table, error) {
	rows, err := conn.Query(ctx, `SELECT name, engine, engine_full, create_table_query, dependencies_table FROM system.tables WHERE database = currentDatabase()`)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	defer rows.Close()
	tables := make(map[string]table)
	for rows.Next() {
		var t table
		if err := rows.Scan(&t.name, &t.engine, &t.full, &t.create, &t.views); err != nil {
			return nil, fmt.Errorf("read the tables: %w", err)
		}
		tables[t.name] = t
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	return tables, nil
}

func column(ctx context.Context, conn driver.Conn, query string) ([]string, error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}
