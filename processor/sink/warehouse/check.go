package warehouse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// Window is the deduplication window that Weir's tables have, in blocks.
// MinWindow is the least with which a plan's token is sure to be remembered
// while the plan holds.
const (
	Window    = 10_000
	MinWindow = 1_000
)

// ErrUnfit means that this database would lose or double rows. It is fatal, and
// its text says what to run.
var ErrUnfit = errors.New("ClickHouse cannot keep rows exactly once")

// needed are the settings that every insert sets.
var needed = []string{"async_insert", "insert_deduplicate", "insert_deduplication_token", "deduplicate_blocks_in_dependent_materialized_views"}

// Check refuses a database in which a block sent twice could be two: a table
// that a view fills from one of schema.Logs, directly or through others, without a
// deduplication window, or a server that lacks a setting. Every reason is named.
func Check(ctx context.Context, conn driver.Conn) error {
	known, err := column(ctx, conn, "SELECT name FROM system.settings WHERE name IN ('"+strings.Join(needed, "', '")+"')")
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	var errs []error
	for _, name := range needed {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%w: this server has no setting %s: ClickHouse 24.8 or newer is needed", ErrUnfit, name))
		}
	}
	tables, err := catalogue(ctx, conn)
	if err != nil {
		return err
	}
	var reached []string
	for _, log := range schema.Logs {
		if _, ok := tables[log.Table]; !ok {
			return fmt.Errorf("%w: there is no table %s: migrate first", ErrUnfit, log.Table)
		}
		lacks, err := lacking(ctx, conn, log.Table, log.Columns)
		if err != nil {
			return err
		}
		errs = append(errs, lacks...)
		filled := fills(log.Table, tables)
		for _, name := range []string{"status_events", "decisions", "messages_state", "status_by_minute_state", "limits_by_minute_state", "messages_by_recipient", "messages_by_time"} {
			if !slices.Contains(filled, name) {
				errs = append(errs, fmt.Errorf("%w: nothing fills table %s: a view from %s is missing: migrate first", ErrUnfit, name, log.Table))
			}
		}
		reached = append(reached, filled...)
	}
	// A view leaves out without a word what its target has no column for.
	lacks, err := lacking(ctx, conn, "decisions", schema.Added)
	if err != nil {
		return err
	}
	errs = append(errs, lacks...)
	slices.Sort(reached)
	for _, name := range slices.Compact(reached) {
		errs = append(errs, fit(tables[name]))
	}
	return errors.Join(errs...)
}

// lacking says which columns a table should have and has not.
func lacking(ctx context.Context, conn driver.Conn, table string, want []string) (errs []error, err error) {
	columns, err := column(ctx, conn, "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '"+table+"'")
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	for _, c := range want {
		if !slices.Contains(columns, c) {
			errs = append(errs, fmt.Errorf("%w: table %s has no column %s: migrate first", ErrUnfit, table, c))
		}
	}
	return errs, nil
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
	windowPattern = regexp.MustCompile(`\b(non_replicated_deduplication_window|replicated_deduplication_window)\s*=\s*'?(\d+)`)
	targetPattern = regexp.MustCompile("(?s)^CREATE MATERIALIZED VIEW .*? TO (`[^`]+`|[^\\s.(]+)(?:\\.(`[^`]+`|[^\\s(]+))?[\\s(]")
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
	if window >= MinWindow {
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
