package warehouse

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

const day = 24 * time.Hour

// Tally counts what happened, from what the minutes add up to.
func (h History) Tally(ctx context.Context, q history.Tally) (*history.Counted, error) {
	out := &history.Counted{}
	var err error
	if out.Counts, err = h.counts(ctx, q, 0); err != nil {
		return nil, err
	}
	if out.Limits, err = h.limits(ctx, q); err != nil {
		return nil, err
	}
	if q.Days > 0 {
		q.By, q.Latency = nil, q.LatencyBefore
		out.Before, err = h.counts(ctx, q, q.Days)
	}
	return out, err
}

// columnOf is what a dimension is in a table of minutes, or a stand-in of its type.
func columnOf(by []history.Dimension, d history.Dimension) string {
	if slices.Contains(by, d) {
		return string(d)
	}
	return "''"
}

func startOf(by []history.Dimension) string {
	for d, f := range map[history.Dimension]string{history.ByMinute: "minute", history.ByHour: "toStartOfHour(minute)", history.ByDay: "toDateTime(toStartOfDay(minute), 'UTC')"} {
		if slices.Contains(by, d) {
			return f
		}
	}
	return "toDateTime(0, 'UTC')"
}

// where says which minutes are asked for: those of the span, or of days before.
func where(q history.Tally, days int) (string, []any) {
	var spans []string
	var args []any
	for d := range days + 1 {
		if d == 0 && days > 0 {
			continue
		}
		back := -time.Duration(d) * day
		spans = append(spans, "minute >= toDateTime(?, 'UTC') AND minute < toDateTime(?, 'UTC')")
		args = append(args, int64(q.From.Add(back))/1000, int64(q.Until.Add(back))/1000)
	}
	text, args := ofTenant("("+strings.Join(spans, " OR ")+")", args, q.Tenant)
	for _, f := range []struct{ column, value string }{{"channel", q.Channel}, {"class", q.Class}} {
		if f.value != "" {
			text, args = text+" AND "+f.column+" = ?", append(args, f.value)
		}
	}
	return text, args
}

func (h History) counts(ctx context.Context, q history.Tally, days int) (out []history.Count, err error) {
	cond, args := where(q, days)
	if q.Provider != "" {
		cond, args = cond+" AND provider = ?", append(args, q.Provider)
	}
	latency := "CAST([], 'Array(Float64)')"
	if q.Latency {
		latency = "arrayMap(x -> toFloat64(x), quantilesTDigestMerge(0.5, 0.95, 0.99)(latency))"
	}
	rows, err := h.Conn.Query(ctx, fmt.Sprintf(`
SELECT toInt64(intDiv(%d - 1 - toUnixTimestamp(minute), 86400)) * %d AS back, %s AS start, %s AS by_channel, %s AS by_class, %s AS by_provider, toString(status) AS name,
       toInt64(sum(events)), %s
FROM status_by_minute_state
WHERE %s
GROUP BY back, start, by_channel, by_class, by_provider, name
ORDER BY ALL
LIMIT %d`, int64(q.Until)/1000, min(days, 1), startOf(q.By), columnOf(q.By, history.ByChannel), columnOf(q.By, history.ByClass), columnOf(q.By, history.ByProvider), latency, cond, q.Most+1), args...)
	if err != nil {
		return nil, fmt.Errorf("count statuses: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			c      history.Count
			back   int64
			at     time.Time
			status string
			q      []float64
		)
		if err := rows.Scan(&back, &at, &c.Channel, &c.Class, &c.Provider, &status, &c.Events, &q); err != nil {
			return nil, fmt.Errorf("count statuses: %w", err)
		}
		c.Day, c.At, c.Status = int(back), schemas.MillisOf(at), schemas.Status(status)
		for i, into := range []*float64{&c.P50, &c.P95, &c.P99} {
			if i < len(q) && !math.IsNaN(q[i]) {
				*into = q[i]
			}
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count statuses: %w", err)
	}
	if len(out) > q.Most {
		return nil, fmt.Errorf("count statuses: %w", history.ErrTooMany)
	}
	return out, nil
}

func (h History) limits(ctx context.Context, q history.Tally) (out []history.LimitCount, err error) {
	cond, args := where(q, 0)
	rows, err := h.Conn.Query(ctx, fmt.Sprintf(`
SELECT %s AS start, %s AS by_channel, %s AS by_class, limit AS name, window AS size, toInt64(sum(refusals)) AS refused, toInt64(sum(observed)) AS seen
FROM limits_by_minute_state
WHERE %s AND window != ''
GROUP BY start, by_channel, by_class, name, size
HAVING refused + seen > 0
ORDER BY ALL
LIMIT %d`, startOf(q.By), columnOf(q.By, history.ByChannel), columnOf(q.By, history.ByClass), cond, q.Most+1), args...)
	if err != nil {
		return nil, fmt.Errorf("count refusals: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			c  history.LimitCount
			at time.Time
		)
		if err := rows.Scan(&at, &c.Channel, &c.Class, &c.Limit, &c.Window, &c.Refused, &c.Observed); err != nil {
			return nil, fmt.Errorf("count refusals: %w", err)
		}
		c.At = schemas.MillisOf(at)
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count refusals: %w", err)
	}
	if len(out) > q.Most {
		return nil, fmt.Errorf("count refusals: %w", history.ErrTooMany)
	}
	return out, nil
}
