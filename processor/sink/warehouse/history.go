package warehouse

import (
	"context"
	"encoding/json"
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
       if(price = 0 AND currency = '', '', toString(price)), duplicate_of, redrive_of, observed, source_topic, source_partition, source_offset,
       decision_verdict, decision_partition, decision_seq, decision_t, revision,
       charges.limit, charges.scope, charges.t, charges.cost, evidence
FROM status_events
PREWHERE message_id = ? AND kind = 'status'
ORDER BY at, status_partition, status_offset
LIMIT 1000`

// Message returns the statuses of a message in the order of the log; none when it
// is not known. Of their decisions it has what says why: verdict, place in the log,
// revision, the places taken and the evidence. Table decisions has the rest.
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
			d                 schemas.Decision
			verdict, evidence string
			decided           *time.Time
			taken             charges
		)
		if err := rows.Scan(&e.MessageID, &e.Tenant, &e.Channel, &e.Class, &e.Template, &e.To, &status, &at, &e.Reason, &attempt, &e.Provider,
			&e.ProviderMessageID, &e.ErrorCode, &e.Error, &e.Limit, &e.Window, &retryAt, &accepted, &segments, &e.Currency,
			&e.Price, &e.DuplicateOf, &e.RedriveOf, &e.Observed, &source.Topic, &source.Partition, &source.Offset,
			&verdict, &d.Partition, &d.Seq, &decided, &d.Revision,
			&taken.limit, &taken.scope, &taken.t, &taken.cost, &evidence); err != nil {
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
		if verdict != "" {
			d.Verdict, d.Charges = schemas.Verdict(verdict), taken.list()
			if decided != nil {
				d.T = schemas.MillisOf(*decided)
			}
			if evidence != "" {
				if err := json.Unmarshal([]byte(evidence), &d.Evidence); err != nil {
					return nil, fmt.Errorf("read a decision's evidence: %w", err)
				}
			}
			e.Decision = &d
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	return events, nil
}

// charges are places as the columns of a Nested.
type charges struct {
	limit, scope []string
	t            []time.Time
	cost         []int64
}

func (c *charges) list() (out []schemas.Charge) {
	for i := range c.limit { // a Nested's columns are of one length
		out = append(out, schemas.Charge{Limit: c.limit[i], Scope: c.scope[i], T: schemas.MillisOf(c.t[i]), Cost: c.cost[i]})
	}
	return out
}
