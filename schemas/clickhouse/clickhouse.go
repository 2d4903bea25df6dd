// Package clickhouse carries Weir's tables as goose migrations, and the columns
// that one row of weir.status fills.
//
// The sink inserts into StatusLog, which stores nothing: views fan each block out
// to status_events, decisions and the rollups. It opens no connection and runs
// nothing: processor/sink/warehouse does.
package clickhouse

import (
	"embed"
	"slices"
	"strconv"
	"strings"
)

// Table names in migrations/*.sql are unqualified: they are made in the
// connection's database.
//
//go:embed migrations/*.sql
var files embed.FS

// Log is a table that the sink inserts into, and the columns in the order in which
// its encoder fills them. ingested_at is not among them: ClickHouse sets it.
type Log struct {
	Table   string
	Columns []string
}

// StatusLog takes the rows of this version. FormerStatusLog takes what a sink of the
// former one has planned: under its token ClickHouse knows a block only where it
// came in before. A migration that drops it must wait until no such plan can be
// left.
var (
	StatusLog       = Log{"status_log_2", columns}
	FormerStatusLog = Log{"status_log", slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return slices.Contains(Added, c) })}
)

// Logs are both.
var Logs = []Log{FormerStatusLog, StatusLog}

// Added are the columns that FormerStatusLog lacks. decisions has them too.
var Added = []string{
	"carried.limit", "carried.scope", "carried.t", "carried.cost", "passed", "restored", "released", "reinstated", "onward",
}

var columns = []string{
	"kind", "message_id", "tenant", "channel", "class", "template", "to", "recipient_hash", "country", "status",
	"at", "reason", "attempt", "provider", "provider_message_id", "error_code", "error", "limit", "window",
	"retry_at", "accepted_at", "segments", "price", "currency", "duplicate_of", "redrive_of", "observed",
	"source_topic", "source_partition", "source_offset",
	"decision_verdict", "decision_partition", "decision_seq", "decision_t", "revision",
	"input_topic", "input_partition", "input_offset",
	"charges.limit", "charges.scope", "charges.t", "charges.cost",
	"carried.limit", "carried.scope", "carried.t", "carried.cost",
	"returned", "missing", "passed", "restored", "released", "reinstated", "onward", "evidence", "marker",
	"bytes", "status_partition", "status_offset",
}

// Filled are the tables that views fill from each of Logs.
var Filled = []string{
	"status_events", "decisions", "status_by_minute_state", "limits_by_minute_state",
	"messages_by_recipient", "messages_by_time", "messages_by_provider_id", "suppression_events",
}

// Column is one column of a table that the migrations make. Default is the
// expression behind DEFAULT, if it has one.
type Column struct{ Table, Name, Type, Default string }

//go:embed columns.txt
var columnsText string

// AllColumns are the columns of all tables after the last migration, in their
// order: what ClickHouse itself says of them. A test holds columns.txt to the
// migrations; go test ./processor/sink/warehouse -run Columns -rewrite makes it.
func AllColumns() (all []Column) {
	for line := range strings.Lines(columnsText) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 4 {
			all = append(all, Column{f[0], f[1], f[2], f[3]})
		}
	}
	return all
}

// Newest is the number of the last migration.
func Newest() int64 {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		panic(err) // they are embedded
	}
	var newest int64
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}

// Statement is the statement of the last migration that has one with this beginning; empty, if none has.
func Statement(beginning string) (last string) {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries { // by name, hence by number
		text, err := files.ReadFile("migrations/" + e.Name())
		if err != nil {
			panic(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for _, s := range Statements(up) {
			if strings.HasPrefix(s, beginning) {
				last = s
			}
		}
	}
	return last
}

// Insert is the statement that a batch of l's columns is prepared with.
func (l Log) Insert() string {
	return "INSERT INTO " + l.Table + " (`" + strings.Join(l.Columns, "`, `") + "`)"
}
