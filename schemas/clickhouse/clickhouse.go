// Package clickhouse carries Weir's tables as goose migrations, and the columns
// that one row of weir.status fills.
//
// The sink inserts into StatusLog alone, which stores nothing: views fan each
// block out to status_events, decisions and the rollups. It opens no
// connection and runs nothing: processor/sink/warehouse does.
package clickhouse

import (
	"embed"
	"strings"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds migrations/*.sql, for goose. Table names in them are
// unqualified: they are made in the connection's database.
func Migrations() embed.FS { return files }

// StatusLog is the table that the sink inserts into.
const StatusLog = "status_log"

// Columns are the columns of StatusLog in the order in which the sink's encoder
// fills them. ingested_at is not among them: ClickHouse sets it.
var Columns = []string{
	"kind", "message_id", "tenant", "channel", "class", "template", "to", "recipient_hash", "country", "status",
	"at", "reason", "attempt", "provider", "provider_message_id", "error_code", "error", "limit", "window",
	"retry_at", "accepted_at", "segments", "price", "currency", "duplicate_of", "redrive_of", "observed",
	"source_topic", "source_partition", "source_offset",
	"decision_verdict", "decision_partition", "decision_seq", "decision_t", "revision",
	"input_topic", "input_partition", "input_offset",
	"charges.limit", "charges.scope", "charges.t", "charges.cost",
	"returned", "missing", "evidence", "marker",
	"bytes", "status_partition", "status_offset",
}

// InsertStatusLog is the statement that a batch of Columns is prepared with.
var InsertStatusLog = "INSERT INTO " + StatusLog + " (`" + strings.Join(Columns, "`, `") + "`)"
