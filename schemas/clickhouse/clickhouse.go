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
	"strings"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds migrations/*.sql, for goose. Table names in them are
// unqualified: they are made in the connection's database.
func Migrations() embed.FS { return files }

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

// Insert is the statement that a batch of l's columns is prepared with.
func (l Log) Insert() string {
	return "INSERT INTO " + l.Table + " (`" + strings.Join(l.Columns, "`, `") + "`)"
}
