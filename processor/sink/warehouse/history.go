package warehouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/schemas"
)

// History answers what ClickHouse has of a message; the HTTP API asks it for
// what its own memory no longer holds.
type History struct {
	Conn driver.Conn
}

const messageQuery = `
SELECT message_id, tenant, channel, class, template, to, toString(status), at, reason, attempt, provider,
       provider_message_id, error_code, error, limit, window, retry_at, accepted_at, segments, currency,
       if(price = 0, '', toString(price)), duplicate_of, redrive_of, source_topic, source_partition, source_offset
FROM status_events
WHERE message_id = ? AND kind = 'status'
ORDER BY at, status_partition, status_offset
LIMIT 1000`

// Message returns the statuses of a message in the order of the log, without
// their decisions; none when it is not known.
func (h History) Message(ctx context.Context, id string) ([]*schemas.Event, error) {
	rows, err := h.Conn.Query(ctx, messageQuery, id)
	if err != nil {
		return nil, fmt.Errorf("query message: %w", err)
	}
	defer rows.Close()
	var events []*schemas.Event
	for rows.Next() {
		var (
			e                 = &schemas.Event{Kind: schemas.KindStatus}
			source            schemas.Source
			status            string
			at                time.Time
			retryAt, accepted *time.Time
			attempt, segments uint16
		)
		if err := rows.Scan(&e.MessageID, &e.Tenant, &e.Channel, &e.Class, &e.Template, &e.To, &status, &at, &e.Reason, &attempt, &e.Provider,
			&e.ProviderMessageID, &e.ErrorCode, &e.Error, &e.Limit, &e.Window, &retryAt, &accepted, &segments, &e.Currency,
			&e.Price, &e.DuplicateOf, &e.RedriveOf, &source.Topic, &source.Partition, &source.Offset); err != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
		e.Status, e.At, e.Attempt, e.Segments = schemas.Status(status), schemas.MillisOf(at), int(attempt), int(segments)
		if retryAt != nil {
			e.RetryAt = schemas.MillisOf(*retryAt)
		}
		if accepted != nil {
			e.AcceptedAt = schemas.MillisOf(*accepted)
		}
		if source.Topic != "" {
			e.Source = &source
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	return events, nil
}
