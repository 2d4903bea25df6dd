package warehouse

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

const span = "at >= " + millis + " AND at < " + millis

// Errors counts what providers answered, from the events themselves: no rollup
// has error codes. The days of the span bound what is read.
func (h History) Errors(ctx context.Context, q history.Errors) ([]history.ErrorCount, error) {
	text := `
SELECT provider, error_code, argMax(error, (error != '', at)) AS example, toInt64(count()) AS events
FROM status_events
PREWHERE ` + span + ` AND (error_code != '' OR status IN ('failed', 'retrying', 'unknown', 'undelivered'))
WHERE kind = 'status' AND provider != ''`
	text, args := ofTenant(text, []any{int64(q.From), int64(q.Until)}, q.Tenant)
	for _, f := range []struct{ column, value string }{{"provider", q.Provider}, {"class", q.Class}} {
		if f.value != "" {
			text, args = text+" AND "+f.column+" = ?", append(args, f.value)
		}
	}
	rows, err := h.Conn.Query(ctx, text+`
GROUP BY provider, error_code
ORDER BY events DESC, provider, error_code
LIMIT `+fmt.Sprint(q.Most), args...)
	if err != nil {
		return nil, fmt.Errorf("count errors: %w", err)
	}
	defer rows.Close()
	var out []history.ErrorCount
	for rows.Next() {
		var c history.ErrorCount
		if err := rows.Scan(&c.Provider, &c.Code, &c.Example, &c.Events); err != nil {
			return nil, fmt.Errorf("count errors: %w", err)
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count errors: %w", err)
	}
	return out, nil
}

// Refused counts whose messages limits refused, from the events themselves. A
// message that is deferred again and again counts each time.
func (h History) Refused(ctx context.Context, q history.Refused) ([]history.RefusedCount, error) {
	text := `
SELECT to, toInt64(count()) AS refused, max(at) AS last_at, argMax(limit, (at, status_offset)) AS last_limit
FROM status_events
PREWHERE ` + span + ` AND limit != ''
WHERE kind = 'status' AND status IN ('limited', 'deferred') AND NOT observed AND to != ''`
	text, args := ofTenant(text, []any{int64(q.From), int64(q.Until)}, q.Tenant)
	if q.Class != "" {
		text, args = text+" AND class = ?", append(args, q.Class)
	}
	rows, err := h.Conn.Query(ctx, text+`
GROUP BY to
ORDER BY refused DESC, last_at DESC, to
LIMIT `+fmt.Sprint(q.Most), args...)
	if err != nil {
		return nil, fmt.Errorf("count the refused: %w", err)
	}
	defer rows.Close()
	var out []history.RefusedCount
	for rows.Next() {
		var (
			c  history.RefusedCount
			at time.Time
		)
		if err := rows.Scan(&c.To, &c.Refused, &at, &c.Limit); err != nil {
			return nil, fmt.Errorf("count the refused: %w", err)
		}
		c.LastAt = schemas.MillisOf(at)
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count the refused: %w", err)
	}
	return out, nil
}
