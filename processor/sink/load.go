package sink

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// tryWithin bounds one try of an insert: a server that hangs must not take the
// whole of a plan's life.
const tryWithin = time.Minute

// loaded is what became of a plan.
type loaded struct {
	clear bool // ClickHouse has nothing of the partition at or above the plan's end
}

// load makes the plan true: on nil every one of its rows is in ClickHouse, once.
// On an error nothing is known, and the same call may be made again until the
// plan expires.
func load(ctx context.Context, conn driver.Conn, key []byte, p Plan, recs []*kgo.Record) (loaded, error) {
	// Nobody inserts under a token that may have been forgotten.
	ctx, cancel := context.WithDeadline(ctx, p.Expires.Time())
	defer cancel()
	ctx, cancelTry := context.WithTimeout(ctx, tryWithin)
	defer cancelTry()
	var (
		out     loaded
		present map[int64]struct{}
	)
	if p.Try > 0 {
		var err error
		if present, out.clear, err = presentOffsets(ctx, conn, p); err != nil {
			return out, err
		}
	}
	b := NewBlock(key)
	for _, r := range recs {
		if _, ok := present[r.Offset]; !ok {
			b.Append(Record{Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp), Value: r.Value})
		}
	}
	if b.Rows() == 0 {
		return out, nil
	}
	return out, insert(ctx, conn, p, b)
}

// insert sends the block in one statement. Each of its settings is one without
// which a block sent twice could be two.
func insert(ctx context.Context, conn driver.Conn, p Plan, b *Block) error {
	left := time.Until(p.Expires.Time())
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_deduplication_token":                         p.Token(),
		"insert_deduplicate":                                 1,
		"deduplicate_blocks_in_dependent_materialized_views": 1,
		"async_insert":                                       0,
		"materialized_views_ignore_errors":                   0,
		"max_insert_threads":                                 1,
		"parallel_view_processing":                           0,
		"max_partitions_per_insert_block":                    0, // days: an old backlog must not fail for ever
		"min_insert_block_size_rows":                         1 << 20,
		"min_insert_block_size_bytes":                        1 << 30,
		"max_insert_block_size":                              1 << 20,
		"max_execution_time":                                 max(1, int(left.Seconds())), // the server stops too
		"insert_null_as_default":                             1,
		"date_time_overflow_behavior":                        "saturate",
		"input_format_defaults_for_omitted_fields":           1,
	}))
	batch, err := conn.PrepareBatch(ctx, schema.InsertStatusLog)
	if err != nil {
		return fmt.Errorf("prepare insert: %w", err)
	}
	defer func() { _ = batch.Close() }()
	for i, col := range b.Columns() {
		if err := batch.Column(i).Append(col); err != nil {
			return fmt.Errorf("fill column %s: %w", schema.Columns[i], err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert %d rows: %w", b.Rows(), err)
	}
	return nil
}

// presentOffsets asks which offsets of the plan's range ClickHouse has, and
// whether it has none at or above the range's end.
func presentOffsets(ctx context.Context, conn driver.Conn, p Plan) (map[int64]struct{}, bool, error) {
	present := make(map[int64]struct{})
	rows, err := conn.Query(ctx, `
		SELECT status_offset FROM status_events WHERE status_partition = $1 AND status_offset >= $2 AND status_offset < $3
		UNION ALL
		SELECT status_offset FROM decisions WHERE kind = 'decision' AND status_partition = $1 AND status_offset >= $2 AND status_offset < $3`,
		p.Partition, p.From, p.To)
	if err != nil {
		return nil, false, fmt.Errorf("ask which rows are there: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return nil, false, fmt.Errorf("ask which rows are there: %w", err)
		}
		present[at] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("ask which rows are there: %w", err)
	}
	var above uint64
	err = conn.QueryRow(ctx, `
		SELECT (SELECT count() FROM status_events WHERE status_partition = $1 AND status_offset >= $2)
		     + (SELECT count() FROM decisions WHERE kind = 'decision' AND status_partition = $1 AND status_offset >= $2)`,
		p.Partition, p.To).Scan(&above)
	if err != nil {
		return nil, false, fmt.Errorf("ask for rows beyond the plan: %w", err)
	}
	return present, above == 0, nil
}
