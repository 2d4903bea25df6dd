package sink

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// When a plan that is over may be made once more. A table forgets a token when
// warehouse.Window blocks came after it. So many may have come since the plan was
// made, and the others may come in one more life of it.
const (
	renewBlocks = warehouse.Window / 5
	// renewWithin is half of the time for which replicated tables remember.
	renewWithin = warehouse.MinSeconds / 2 * time.Second
	// clocksDiffer is by how much ClickHouse's clock may be behind this one.
	clocksDiffer = 20 * time.Second
)

// remembered reports whether ClickHouse is sure to remember the plan's token: it
// counts the blocks that came since the plan was made, in the two tables that get one
// of every insert. Only days that something was written into since are read. What it
// counts by are ClickHouse's times: where its clock is not this one's, nothing is sure.
func remembered(ctx context.Context, conn driver.Conn, cluster string, p Plan) (bool, error) {
	if time.Since(p.Made.Time()) > renewWithin {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var (
		blocks uint64
		clock  int64
	)
	err := sameReplica(ctx, conn, cluster, func(replica string) (answered string, err error) {
		asked := time.Now()
		err = conn.QueryRow(ctx, blocksSince(replica), int64(p.Made-schemas.Millis(clocksDiffer.Milliseconds()))).Scan(&blocks, &clock, &answered)
		if time.UnixMilli(clock).Before(asked.Add(-clocksDiffer)) {
			blocks = math.MaxUint64
		}
		return answered, err
	})
	if err != nil {
		return false, fmt.Errorf("ask how many blocks came since: %w", err)
	}
	return blocks <= renewBlocks, nil
}

// blocksSince counts inserts by what an insert has of its own: a partition of the
// topic and a time, and a part for each day.
func blocksSince(replica string) string {
	from := func(table string) string {
		return `SELECT DISTINCT status_partition, ingested_at, toDate(at) AS day FROM ` + table + `
			WHERE ingested_at >= fromUnixTimestamp64Milli(toInt64($1)) AND _partition_id IN (
				SELECT partition_id FROM system.parts WHERE database = currentDatabase() AND table = '` + table + `'
					AND modification_time >= toDateTime(fromUnixTimestamp64Milli(toInt64($1))))`
	}
	return `SELECT count(), toUnixTimestamp64Milli(now64(3)), ` + replica + ` FROM (SELECT DISTINCT * FROM (` + from("status_events") + ` UNION ALL ` + from("decisions") + `))`
}
