package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// daysBefore is how many copies of the day's minutes lie before it.
const daysBefore = 7

// minutesCopied says whether they do.
func minutesCopied(ctx context.Context, conn driver.Conn) (bool, error) {
	first, last, err := minutes(ctx, conn)
	return last.Sub(first) > 48*time.Hour, err
}

func minutes(ctx context.Context, conn driver.Conn) (first, last time.Time, err error) {
	if err := conn.QueryRow(ctx, "SELECT min(minute), max(minute) FROM status_by_minute_state").Scan(&first, &last); err != nil {
		return first, last, fmt.Errorf("read the minutes: %w", err)
	}
	return first, last, nil
}

// copyMinutes gives each of the days before the minutes of the day, where they have
// none: so questions that compare this hour with those of a week find as much of each.
func copyMinutes(ctx context.Context, conn driver.Conn) error {
	if copied, err := minutesCopied(ctx, conn); copied || err != nil {
		return err
	}
	first, _, err := minutes(ctx, conn)
	if err != nil {
		return err
	}
	for _, table := range []string{"status_by_minute_state", "limits_by_minute_state"} {
		// The last day first: the one before it is read for each.
		for d := daysBefore; d > 0; d-- {
			if err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %[1]s SELECT * REPLACE (minute - INTERVAL %[2]d DAY AS minute) FROM %[1]s AS m WHERE m.minute >= toDateTime(%[3]d, 'UTC') AND m.minute < toDateTime(%[3]d, 'UTC') + INTERVAL 1 DAY",
				table, d, first.Unix())); err != nil {
				return fmt.Errorf("copy the minutes of %s: %w", table, err)
			}
		}
	}
	return nil
}

// suppressSome suppresses a tenth of all recipients, and lifts a few of these again.
// It goes into the table itself: how it is loaded is not measured here.
func suppressSome(ctx context.Context, conn driver.Conn) error {
	if err := conn.Exec(ctx, `
INSERT INTO suppression_events (tenant, to, channel, class, recipient_hash, action, until, reason, provider, at, status_offset, ingested_at)
WITH cityHash64(to) AS h
SELECT tenant, to, 'sms', if(h % 50 = 0, 'marketing', ''), h, if(lifted AND h % 7 = 0, 'unsuppress', 'suppress'),
    if(h % 30 = 0, first + INTERVAL 30 DAY, NULL), ['hard_bounce', 'complaint', 'stop'][h % 3 + 1], 'aliyun', first + INTERVAL lifted SECOND, rowNumberInAllBlocks(), first
FROM (SELECT tenant, to, min(accepted_at) AS first FROM messages_by_recipient WHERE cityHash64(to) % 10 = 0 GROUP BY tenant, to)
ARRAY JOIN if(h % 7 = 0, [0, 1], [0]) AS lifted
WHERE (SELECT count() FROM suppression_events) = 0`); err != nil {
		return fmt.Errorf("suppress some: %w", err)
	}
	return nil
}
