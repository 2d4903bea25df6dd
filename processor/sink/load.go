package sink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// askWithin bounds one question to ClickHouse.
const askWithin = time.Minute

// load makes the plan true: on nil every row of its block is there, once. On
// an error nothing is known, and the same call may be made again until the plan
// expires.
func load(ctx context.Context, to *warehouse.Inserter, cfg Config, p Plan, b *Block) error {
	// Nobody inserts under a token that may have been forgotten.
	ctx, cancel := context.WithDeadline(ctx, p.Expires.Time())
	defer cancel()
	// A server that hangs must not take the whole of a plan's life.
	ctx, cancelTry := context.WithTimeout(ctx, cfg.Try)
	defer cancelTry()
	return insert(ctx, to, cfg.Cluster != "", p, b)
}

// blockOf is records as the rows of an encoder's version.
func blockOf(cfg Config, version int, recs []*kgo.Record) *Block {
	b := newBlock(cfg.HashKey, version)
	b.Reserve(len(recs))
	for _, r := range recs {
		b.Append(Record{Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp), Value: r.Value})
	}
	return b
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
		// Without Keeper it would try for minutes and not say why; the sink tries again
		// by itself.
		s["insert_keeper_max_retries"] = 5
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

// sameReplica asks a replica that has what the others had when it was asked: what it
// lacks would look as if nobody had it. ask returns which replica answered; behind a
// load balancer each statement may come to another, so it is asked until one that was
// caught up before is the one that answers. Without a cluster ask is called once.
func sameReplica(ctx context.Context, conn driver.Conn, cluster string, ask func(replica string) (string, error)) error {
	if cluster == "" {
		_, err := ask("''")
		return err
	}
	for {
		name, err := caughtUp(ctx, conn)
		if err != nil {
			return err
		}
		if name != "" {
			answered, err := ask("(SELECT any(replica_name) FROM system.replicas WHERE database = currentDatabase() AND table = 'status_events')")
			if err != nil || answered == name {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("find a replica that has all: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// caughtUp waits for one replica, whichever gets the statement, and returns the name of
// one that has all that was inserted, or "" if the one that it asked then has not. Merges
// are not waited for.
func caughtUp(ctx context.Context, conn driver.Conn) (name string, err error) {
	for _, table := range []string{"status_events", "decisions"} {
		if err := conn.Exec(ctx, "SYSTEM SYNC REPLICA "+table+" LIGHTWEIGHT"); err != nil {
			return "", fmt.Errorf("wait for the replica of %s: %w", table, err)
		}
	}
	// A replica that has read the whole log of a table stands beyond its last entry; 0 and
	// 0 is a log without any. Without Keeper both are 0, and it says so.
	err = conn.QueryRow(ctx, `
		SELECT if(count() = 2 AND min(log_pointer > log_max_index OR (log_pointer = 0 AND log_max_index = 0)) AND sum(inserts_in_queue) = 0
			AND max(is_readonly OR is_session_expired OR zookeeper_exception != '') = 0, any(replica_name), '')
		FROM system.replicas WHERE database = currentDatabase() AND table IN ('status_events', 'decisions')`).Scan(&name)
	if err != nil {
		return "", fmt.Errorf("ask how far the replica is: %w", err)
	}
	return name, nil
}

// present asks which of a block's rows ClickHouse has, and up to where it may have
// others of their partition: that is doubt, unless it is unknown. A row is known by
// its offset and its time, since weir.status may have been deleted and made again:
// offsets of the old topic's rows are given once more. And of the tables, which are
// apart by days, a few days are read.
func present(ctx context.Context, conn driver.Conn, cluster string, b *Block, doubt int64) (offsets map[int64]struct{}, end int64, err error) {
	if b.Rows() == 0 {
		return nil, doubt, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err = sameReplica(ctx, conn, cluster, func(replica string) (answered string, err error) {
		offsets, end, answered, err = lookAt(ctx, conn, replica, b, doubt)
		return answered, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("ask which rows are there: %w", err)
	}
	return offsets, end, nil
}

// lookAt is present of one replica. It is one query, so one replica answers all of it.
func lookAt(ctx context.Context, conn driver.Conn, replica string, b *Block, doubt int64) (offsets map[int64]struct{}, end int64, answered string, err error) {
	const within = "status_partition = $1 AND status_offset >= $2 AND status_offset <= $3 AND at >= fromUnixTimestamp64Milli(toInt64($4)) AND at <= fromUnixTimestamp64Milli(toInt64($5))"
	until := fmt.Sprintf("toInt64(%d)", doubt)
	if doubt == unknown {
		until = `greatest((SELECT max(status_offset + 1) FROM status_events WHERE status_partition = $1), (SELECT max(status_offset + 1) FROM decisions WHERE status_partition = $1))`
	}
	rows, err := conn.Query(ctx, `
		SELECT status_offset, toUnixTimestamp64Milli(at), '' FROM status_events WHERE `+within+`
		UNION ALL
		SELECT status_offset, toUnixTimestamp64Milli(at), '' FROM decisions WHERE kind = 'decision' AND `+within+`
		UNION ALL
		SELECT toInt64(-1), `+until+`, `+replica,
		b.statusPartition[0], b.statusOffset[0], b.statusOffset[b.rows-1], slices.Min(b.at), slices.Max(b.at))
	if err != nil {
		return nil, 0, "", err
	}
	defer rows.Close()
	offsets = make(map[int64]struct{})
	for rows.Next() {
		var (
			offset, at int64
			name       string
		)
		if err := rows.Scan(&offset, &at, &name); err != nil {
			return nil, 0, "", err
		}
		if offset < 0 {
			end, answered = at, name
		} else if i, found := slices.BinarySearch(b.statusOffset, offset); found && b.at[i] == at {
			offsets[offset] = struct{}{}
		}
	}
	return offsets, end, answered, rows.Err()
}

// partitionsThere asks of which of these partitions ClickHouse has rows. One that it
// does not name may have some, if the tables are too large to see soon.
func partitionsThere(ctx context.Context, conn driver.Conn, cluster string, ids []int32) (there map[int32]bool, err error) {
	var in []string
	for _, id := range ids {
		in = append(in, strconv.Itoa(int(id)))
	}
	of := strings.Join(in, ", ")
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err = sameReplica(ctx, conn, cluster, func(replica string) (answered string, err error) {
		there = make(map[int32]bool)
		rows, err := conn.Query(ctx, fmt.Sprintf(`
			SELECT status_partition, '' FROM (
				SELECT DISTINCT status_partition FROM (
					SELECT status_partition FROM status_events WHERE status_partition IN (%[1]s) UNION ALL SELECT status_partition FROM decisions WHERE status_partition IN (%[1]s))
				LIMIT %[2]d)
			UNION ALL
			SELECT toInt32(-1), %[3]s
			SETTINGS max_execution_time = %[4]d, timeout_overflow_mode = 'break'`, of, len(ids), replica, int(askWithin.Seconds())/6))
		if err != nil {
			return "", err
		}
		defer rows.Close()
		for rows.Next() {
			var (
				id   int32
				name string
			)
			if err := rows.Scan(&id, &name); err != nil {
				return "", err
			}
			if id < 0 {
				answered = name
			} else {
				there[id] = true
			}
		}
		return answered, rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("ask of which partitions rows are there: %w", err)
	}
	return there, nil
}
