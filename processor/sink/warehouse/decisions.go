package warehouse

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/weirhq/weir/schemas"
)

// Begins returns the time of a partition's first decision that was taken at or
// after from, and the offset of its record of weir.status; zeros when there is
// none. whole says that nothing is missing between from and it, or where there is
// none at all since from: it is the first ever, or the one before is here.
func (h History) Begins(ctx context.Context, partition int32, from schemas.Millis) (t schemas.Millis, offset int64, whole bool, err error) {
	var (
		seq int64
		at  time.Time
	)
	row := h.Conn.QueryRow(ctx, `
SELECT min(seq), if(min(seq) = 0, toDateTime64(0, 3, 'UTC'), argMin(t, seq)), argMin(status_offset, seq) FROM decisions
WHERE partition = ? AND at >= fromUnixTimestamp64Milli(toInt64(?)) AND seq > 0`, partition, int64(from))
	if err := row.Scan(&seq, &at, &offset); err != nil {
		return 0, 0, false, fmt.Errorf("query the first decision: %w", err)
	}
	if seq == 1 {
		return schemas.MillisOf(at), offset, true, nil
	}
	var before uint64
	if seq > 1 {
		row = h.Conn.QueryRow(ctx, `SELECT count() FROM decisions WHERE partition = ? AND seq = ?`, partition, seq-1)
	} else {
		row = h.Conn.QueryRow(ctx, `SELECT count() FROM decisions WHERE partition = ? AND at < fromUnixTimestamp64Milli(toInt64(?)) AND seq > 0`, partition, int64(from))
	}
	if err := row.Scan(&before); err != nil {
		return 0, 0, false, fmt.Errorf("query the decision before: %w", err)
	}
	if seq == 0 {
		return 0, 0, before > 0, nil
	}
	return schemas.MillisOf(at), offset, before > 0, nil
}

// What a decision says stands in decisions; the message that it was about, where
// it was a status of one, in status_events, and else in another event of the
// same message.
const decisionsQuery = `
SELECT d.seq, d.t, toString(d.kind), toString(d.verdict), d.revision, d.message_id, d.tenant, d.channel, d.class,
       toString(d.status), d.reason, d.limit, d.window, d.observed,
       d.charges.limit, d.charges.scope, d.charges.t, d.charges.cost,
       d.carried.limit, d.carried.scope, d.carried.t, d.carried.cost,
       d.returned, d.missing, d.passed, d.restored, d.released, d.reinstated, d.onward, d.evidence, d.marker,
       if(d.kind = 'status', e.to, m.to), if(d.kind = 'status', e.template, m.template),
       if(d.kind = 'status', e.provider, m.provider), if(d.kind = 'status', e.segments, m.segments), e.attempt
FROM (
    SELECT * FROM decisions
    WHERE partition = @partition AND at >= fromUnixTimestamp64Milli(toInt64(@from)) AND status_offset < @before AND seq > 0
) AS d
LEFT JOIN (
    SELECT decision_seq, to, template, provider, segments, attempt FROM status_events
    WHERE decision_partition = @partition AND at >= fromUnixTimestamp64Milli(toInt64(@from)) AND status_offset < @before AND decision_verdict != ''
) AS e ON d.seq = e.decision_seq
LEFT JOIN (
    SELECT message_id, recipient_hash, any(to) AS to, any(template) AS template, any(provider) AS provider, any(segments) AS segments FROM status_events
    WHERE kind = 'status' AND message_id IN (
        SELECT message_id FROM decisions
        WHERE partition = @partition AND at >= fromUnixTimestamp64Milli(toInt64(@from)) AND status_offset < @before AND kind = 'decision'
          AND verdict IN ('charge', 'refuse', 'give_back'))
    GROUP BY message_id, recipient_hash
) AS m ON d.message_id = m.message_id AND d.recipient_hash = m.recipient_hash
ORDER BY d.seq`

// Decisions calls fn with a partition's events that have a decision, in the order
// of their numbers: those of from or later whose record stood before the given
// offset of weir.status. Of the recipient of a message that was sent elsewhere it
// knows what a limit's scope says.
func (h History) Decisions(ctx context.Context, partition int32, from schemas.Millis, before int64, fn func(*schemas.Event) error) error {
	rows, err := h.Conn.Query(ctx, decisionsQuery, clickhouse.Named("partition", partition), clickhouse.Named("from", int64(from)), clickhouse.Named("before", before))
	if err != nil {
		return fmt.Errorf("query decisions: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			e                           schemas.Event
			d                           schemas.Decision
			kind, verdict, status       string
			t                           time.Time
			charges, carried            placeColumns
			returned, missing, passed   string
			restored, released, instead string
			marker                      string
			evidence                    string
			onward                      int32
			segments, attempt           uint16
		)
		if err := rows.Scan(&d.Seq, &t, &kind, &verdict, &d.Revision, &e.MessageID, &e.Tenant, &e.Channel, &e.Class,
			&status, &e.Reason, &e.Limit, &e.Window, &e.Observed,
			&charges.limit, &charges.scope, &charges.t, &charges.cost, &carried.limit, &carried.scope, &carried.t, &carried.cost,
			&returned, &missing, &passed, &restored, &released, &instead, &onward, &evidence, &marker,
			&e.To, &e.Template, &e.Provider, &segments, &attempt); err != nil {
			return fmt.Errorf("read decision: %w", err)
		}
		e.Kind, e.Status, e.At, e.Segments, e.Attempt = schemas.Kind(kind), schemas.Status(status), schemas.MillisOf(t), int(segments), int(attempt)
		d.Verdict, d.Partition, d.T, d.Charges, d.Carried = schemas.Verdict(verdict), partition, e.At, charges.places(), carried.places()
		for _, c := range []struct {
			text string
			into any
		}{{returned, &d.Returned}, {missing, &d.Missing}, {passed, &d.Passed}, {restored, &d.Restored}, {released, &d.Released}, {instead, &d.Reinstated}, {evidence, &d.Evidence}, {marker, &d.Marker}} {
			if c.text == "" {
				continue
			}
			if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
				return fmt.Errorf("read decision %d of partition %d: %w", d.Seq, partition, err)
			}
		}
		if onward >= 0 {
			d.Onward = &onward
		}
		if e.To == "" {
			e.To = recipientOf(d.Charges)
		}
		if e.Channel != "" { // an owner's step says nothing of the message
			e.Source = &schemas.Source{}
		}
		e.Decision = &d
		if err := fn(&e); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read decisions: %w", err)
	}
	return nil
}

// Count returns how many events Decisions would call fn with.
func (h History) Count(ctx context.Context, partition int32, from schemas.Millis, before int64) (int64, error) {
	var n int64
	row := h.Conn.QueryRow(ctx, `
SELECT toInt64(count()) FROM decisions
WHERE partition = ? AND at >= fromUnixTimestamp64Milli(toInt64(?)) AND status_offset < ? AND seq > 0`, partition, int64(from), before)
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("count the decisions: %w", err)
	}
	return n, nil
}

type placeColumns struct {
	limit, scope []string
	t            []time.Time
	cost         []int64
}

func (c *placeColumns) places() (out []schemas.Charge) {
	for i := range c.limit {
		out = append(out, schemas.Charge{Limit: c.limit[i], Scope: c.scope[i], T: schemas.MillisOf(c.t[i]), Cost: c.cost[i]})
	}
	return out
}

// recipientOf reads the recipient off the scope of a limit per recipient alone.
func recipientOf(charges []schemas.Charge) string {
	for _, c := range charges {
		if c.Scope != "" && !strings.ContainsAny(c.Scope, "=%") {
			return c.Scope
		}
	}
	return ""
}
