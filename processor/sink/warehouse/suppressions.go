package warehouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// Suppressions returns what stands, in the order of recipient, channel and class. It
// reads in the table's order and stops with the page, so that a page costs what is on
// it and not what there is.
func (h History) Suppressions(ctx context.Context, q history.Suppressions) ([]history.Suppressed, error) {
	where, args := []string{"tenant = ?"}, []any{q.Tenant}
	and := func(cond string, v ...any) { where, args = append(where, cond), append(args, v...) }
	if q.Channel != "" {
		and("channel = ?", q.Channel)
	}
	if q.Class != "" {
		and("class = ?", q.Class)
	}
	if a := q.After; a.To != "" {
		and("`to` >= ?", a.To)
		and("(`to`, channel, class) > (?, ?, ?)", a.To, a.Channel, a.Class)
	}
	// What was suppressed in another spelling than its key has, before keys ignored
	// letter case, is suppressed by its key as well: admission moved it.
	and("NOT (position(`to`, '@') > 0 AND position(`to`, '://') = 0 AND channel IN ('', 'email') AND lowerUTF8(`to`) != `to`)")
	stands := []string{"action = 'suppress'", "(isNull(until) OR until > " + millis + ")"}
	args = append(args, int64(q.At))
	if q.Reason != "" { // of the latest, so it is asked of that
		stands, args = append(stands, "reason = ?"), append(args, q.Reason)
	}
	// As in a search: see candidates.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"read_in_order_use_buffering": 0}))
	rows, err := h.Conn.Query(ctx, `
SELECT to, channel, class, until, reason, provider, at
FROM (
    SELECT to, channel, class, action, until, reason, provider, at
    FROM suppression_events
    WHERE `+strings.Join(where, " AND ")+`
    ORDER BY tenant, to, channel, class, at DESC, status_offset DESC
    LIMIT 1 BY to, channel, class
)
WHERE `+strings.Join(stands, " AND ")+`
LIMIT `+fmt.Sprint(q.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("list suppressions: %w", err)
	}
	defer rows.Close()
	var out []history.Suppressed
	for rows.Next() {
		var (
			s     = history.Suppressed{Suppression: schemas.Suppression{Tenant: q.Tenant}}
			until *time.Time
			at    time.Time
		)
		if err := rows.Scan(&s.To, &s.Channel, &s.Class, &until, &s.Reason, &s.Provider, &at); err != nil {
			return nil, fmt.Errorf("list suppressions: %w", err)
		}
		if s.At = schemas.MillisOf(at); until != nil {
			s.Until = schemas.MillisOf(*until)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list suppressions: %w", err)
	}
	return out, nil
}
