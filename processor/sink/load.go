package sink

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// askWithin bounds one question to ClickHouse.
const askWithin = time.Minute

// load makes the plan true: on nil every one of its records is a row, once. On
// an error nothing is known, and the same call may be made again until the plan
// expires.
func load(ctx context.Context, to *warehouse.Inserter, cfg Config, p Plan, recs []*kgo.Record) error {
	// Nobody inserts under a token that may have been forgotten.
	ctx, cancel := context.WithDeadline(ctx, p.Expires.Time())
	defer cancel()
	// A server that hangs must not take the whole of a plan's life.
	ctx, cancelTry := context.WithTimeout(ctx, cfg.Try)
	defer cancelTry()
	b := newBlock(cfg.HashKey, p.Encoder)
	b.Reserve(len(recs))
	for _, r := range recs {
		b.Append(Record{Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp), Value: r.Value})
	}
	return insert(ctx, to, cfg.Cluster != "", p, b)
}

// insertSettings are those of a plan's insert. On a cluster most of the replicas
// must have the rows before they count as loaded, or the end of one could take them
// along.
func insertSettings(p Plan, left time.Duration, quorum bool) clickhouse.Settings {
	s := maps.Clone(warehouse.InsertSettings)
	maps.Copy(s, clickhouse.Settings{
		"insert_deduplication_token":               p.Token(),
		"max_insert_threads":                       1,
		"parallel_view_processing":                 0,
		"max_partitions_per_insert_block":          0, // days: an old backlog must not fail for ever
		"min_insert_block_size_rows":               1 << 20,
		"min_insert_block_size_bytes":              1 << 30,
		"max_insert_block_size":                    1 << 20,
		"max_execution_time":                       max(1, int(left.Seconds())), // the server stops too
		"insert_null_as_default":                   1,
		"date_time_overflow_behavior":              "saturate",
		"input_format_defaults_for_omitted_fields": 1,
		// Parts are merged later anyway, and whoever reads the tables reckons
		// with rows that are not merged yet.
		"optimize_on_insert": 0,
	})
	if quorum {
		s["insert_quorum"] = "auto"
		s["insert_quorum_parallel"] = 1
		s["insert_quorum_timeout"] = quorumWithin.Milliseconds()
	}
	return s
}

// quorumWithin is how long an insert waits for the other replicas.
const quorumWithin = 30 * time.Second

// insert sends the block in one statement.
func insert(ctx context.Context, to *warehouse.Inserter, quorum bool, p Plan, b *Block) error {
	settings := insertSettings(p, time.Until(p.Expires.Time()), quorum)
	data, err := b.native()
	if err != nil {
		return fmt.Errorf("make a block of %d rows: %w", b.Rows(), err)
	}
	if err := to.Insert(ctx, b.log.Insert(), settings, data); err != nil {
		return fmt.Errorf("%d rows: %w", b.Rows(), err)
	}
	return nil
}

// caughtUp waits, on a cluster, until the replica that is asked has what the others
// had when it was asked: what it lacks would look as if nobody had it.
func caughtUp(ctx context.Context, conn driver.Conn, cluster string) error {
	if cluster == "" {
		return nil
	}
	for _, table := range []string{"status_events", "decisions"} {
		if err := conn.Exec(ctx, "SYSTEM SYNC REPLICA "+table); err != nil {
			return fmt.Errorf("wait for the replica of %s: %w", table, err)
		}
	}
	return nil
}

// present asks which offsets of a partition in [from, to) ClickHouse has, and
// whether it has none at or above to.
func present(ctx context.Context, conn driver.Conn, cluster string, partition int32, from, to int64) (offsets map[int64]struct{}, none bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := caughtUp(ctx, conn, cluster); err != nil {
		return nil, false, err
	}
	offsets = make(map[int64]struct{})
	rows, err := conn.Query(ctx, `
		SELECT status_offset FROM status_events WHERE status_partition = $1 AND status_offset >= $2 AND status_offset < $3
		UNION ALL
		SELECT status_offset FROM decisions WHERE kind = 'decision' AND status_partition = $1 AND status_offset >= $2 AND status_offset < $3`,
		partition, from, to)
	if err != nil {
		return nil, false, fmt.Errorf("ask which rows are there: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return nil, false, fmt.Errorf("ask which rows are there: %w", err)
		}
		offsets[at] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("ask which rows are there: %w", err)
	}
	var above uint64
	err = conn.QueryRow(ctx, `
		SELECT (SELECT count() FROM status_events WHERE status_partition = $1 AND status_offset >= $2)
		     + (SELECT count() FROM decisions WHERE kind = 'decision' AND status_partition = $1 AND status_offset >= $2)`,
		partition, to).Scan(&above)
	if err != nil {
		return nil, false, fmt.Errorf("ask for rows beyond the range: %w", err)
	}
	return offsets, above == 0, nil
}
