package warehouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// Bounds of one search. What few messages have is sought in steps that grow, from
// the newest back; what a call did not reach, the next page does.
const (
	mostSteps  = 6                      // that were full of candidates
	mostInStep = 4000                   // candidates
	searchFor  = time.Second            // after which no step is begun
	quickStep  = 100 * time.Millisecond // below it the next one looks further back
	kept       = 400 * day              // the tables' TTL
)

// Search finds messages, the newest first. Where only those of a status, class or
// channel are asked for it may stop before it has as many as it may return.
func (h History) Search(ctx context.Context, q history.Search) (*history.Found, error) {
	found := &history.Found{}
	n, full := q.Limit, 0
	began := time.Now()
	for w := windowOf(q, schemas.MillisOf(began)); ; {
		in, asked := q, time.Now()
		in.From = max(q.From, w.from)
		places, err := h.candidates(ctx, in, n)
		if err != nil {
			return nil, err
		}
		names, since := make([]history.Name, len(places)), schemas.Millis(0)
		for i, c := range places {
			names[i], since = c.name(), c.At // the last is the oldest
		}
		events, err := h.Latest(ctx, q.Tenant, since, names)
		if err != nil {
			return nil, err
		}
		for _, c := range places {
			e := events[c.name()]
			if e == nil || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, e.Status) {
				continue
			}
			found.Events = append(found.Events, e)
			if len(found.Events) == q.Limit {
				found.Reached = &c.Place
				return found, nil
			}
		}
		switch {
		case len(places) == n:
			q.Before = places[n-1].Place
			n = min(n*4, mostInStep)
			full++
		case in.From == q.From:
			return found, nil
		default:
			q.Before = history.Place{At: in.From}
			w.back(time.Since(asked) < quickStep)
		}
		if full == mostSteps || time.Since(began) > searchFor {
			found.Reached = &q.Before
			return found, nil
		}
	}
}

// window is how far back a step looks for what may be rare. Without it one question
// for what nobody has would read all that is kept of a tenant.
type window struct {
	from   schemas.Millis // 0 is no bound
	span   time.Duration
	oldest schemas.Millis // behind it is next to nothing
}

// windowOf is the first of them. A recipient's messages, and a tenant's of any kind,
// stand together in a table's order: where they are asked for there is no bound.
func windowOf(q history.Search, now schemas.Millis) window {
	if len(q.To) > 0 || q.Channel == "" && q.Class == "" && len(q.Statuses) == 0 {
		return window{}
	}
	w := window{from: now, span: day, oldest: now.Add(-kept)}
	for _, t := range []schemas.Millis{q.Until, q.Before.At} {
		if t != 0 {
			w.from = min(w.from, t)
		}
	}
	w.back(false)
	return w
}

// back moves the window's beginning back, further than before if that was quick.
func (w *window) back(quick bool) {
	if quick {
		w.span *= 4
	}
	if w.from = w.from.Add(-w.span); w.from < w.oldest {
		w.from = 0
	}
}

// candidate is a message that may be sought.
type candidate struct {
	history.Place
	to string
}

func (c candidate) name() history.Name { return history.Name{ID: c.ID, To: c.to} }

// candidates returns the next n messages by place that may have one of the
// statuses. A row that is not the latest of its message may be among what it
// reads, so the status is looked up again.
func (h History) candidates(ctx context.Context, q history.Search, n int) ([]candidate, error) {
	var err error
	if q.To, err = h.spelled(ctx, q.Tenant, q.To); err != nil {
		return nil, err
	}
	table := "messages_by_time"
	where, args := []string{"tenant = ?"}, []any{q.Tenant}
	and := func(cond string, v ...any) { where, args = append(where, cond), append(args, v...) }
	if len(q.To) > 0 {
		table = "messages_by_recipient"
		and("`to` IN (?)", q.To)
	}
	if q.Channel != "" {
		and("channel = ?", q.Channel)
	}
	if q.Class != "" {
		and("class = ?", q.Class)
	}
	if q.From > 0 {
		and("accepted_at >= "+millis, int64(q.From))
	}
	if q.Until > 0 {
		and("accepted_at < "+millis, int64(q.Until))
	}
	if q.Before != (history.Place{}) {
		and("accepted_at <= "+millis, int64(q.Before.At))
		and("(accepted_at, message_id) < ("+millis+", ?)", int64(q.Before.At), q.Before.ID)
	}
	if s := rough(q.Statuses); len(s) > 0 {
		and("status IN (?)", s)
	}
	// Buffered, each part is read far ahead before the first row comes out: a
	// tenth of a second among ten million rows. The setting is of 24.7.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"read_in_order_use_buffering": 0}))
	rows, err := h.Conn.Query(ctx, `
SELECT accepted_at, message_id, `+"`to`"+`
FROM `+table+`
WHERE `+strings.Join(where, " AND ")+`
ORDER BY accepted_at DESC, message_id DESC, `+"`to`"+` DESC, ver DESC
LIMIT 1 BY accepted_at, message_id, `+"`to`"+`
LIMIT `+fmt.Sprint(n), args...)
	if err != nil {
		return nil, fmt.Errorf("search messages: %w", err)
	}
	defer rows.Close()
	var out []candidate
	for rows.Next() {
		var (
			c  candidate
			at time.Time
		)
		if err := rows.Scan(&at, &c.ID, &c.to); err != nil {
			return nil, fmt.Errorf("search messages: %w", err)
		}
		c.At = schemas.MillisOf(at)
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("search messages: %w", err)
	}
	return out, nil
}

const millis = "fromUnixTimestamp64Milli(toInt64(?), 'UTC')"

// tenants is how a tenant may be written in a status event.
func tenants(tenant string) []string {
	if tenant == schemas.DefaultTenant {
		return []string{tenant, ""}
	}
	return []string{tenant}
}

// ofTenant adds to a condition that a status event is a tenant's.
func ofTenant(cond string, args []any, tenant string) (string, []any) {
	if tenant == history.AllTenants {
		return cond, args
	}
	return cond + " AND tenant IN (?)", append(args, tenants(tenant))
}

// rough is what may stand in a row of a message that has one of the statuses
// now: a receipt is no row there, and amends any status that it finds.
func rough(want []schemas.Status) (out []string) {
	receipts := false
	for _, s := range want {
		if s == schemas.StatusDelivered || s == schemas.StatusUndelivered {
			receipts = true
		} else {
			out = append(out, string(s))
		}
	}
	if receipts {
		for _, s := range []schemas.Status{schemas.StatusSent, schemas.StatusUnknown, schemas.StatusSending, schemas.StatusRetrying, schemas.StatusQueued} {
			if !slices.Contains(out, string(s)) {
				out = append(out, string(s))
			}
		}
	}
	return out
}

const latestQuery = `
SELECT message_id, to, of, channel, class, template, attempt, segments, accepted_at, redrive_of, handled.1, handled.2,
       last.1, last.2, last.3, last.4, last.5, last.6, last.7, last.8, last.9
FROM (
    SELECT message_id, to, any(e.tenant) AS of, max(e.channel) AS channel, max(e.class) AS class, max(e.template) AS template,
           max(e.attempt) AS attempt, max(e.segments) AS segments, min(e.accepted_at) AS accepted_at, max(e.redrive_of) AS redrive_of,
           argMaxIf((e.provider, e.provider_message_id), (e.at, e.status_offset), e.provider != '') AS handled,
           argMax((toString(e.status), e.at, e.reason, e.error_code, e.error, e.limit, e.window, e.retry_at, e.duplicate_of),
               (multiIf(e.status = 'delivered', 4, e.status = 'undelivered', 3,
                   e.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1),
                   e.at, e.status_offset)) AS last
    FROM status_events AS e
    WHERE message_id IN (?) AND e.tenant IN (?) AND e.kind = 'status' AND toDate(e.at) >= toDate(` + millis + `) - 1
    GROUP BY message_id, to
)`

// Latest returns what is known of a tenant's messages: the latest status of the
// highest rank, with all that is known in the other fields. None of them was
// accepted before since. What is not in the answer is unknown.
func (h History) Latest(ctx context.Context, tenant string, since schemas.Millis, names []history.Name) (map[history.Name]*schemas.Event, error) {
	out := make(map[history.Name]*schemas.Event, len(names))
	if len(names) == 0 {
		return out, nil
	}
	ids := make([]string, len(names))
	for i, n := range names {
		ids[i] = n.ID
	}
	rows, err := h.Conn.Query(ctx, latestQuery, ids, tenants(tenant), int64(since))
	if err != nil {
		return nil, fmt.Errorf("look messages up: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			e                 = &schemas.Event{Kind: schemas.KindStatus}
			status            string
			at                time.Time
			retryAt, accepted *time.Time
			attempt, segments uint16
		)
		if err := rows.Scan(&e.MessageID, &e.To, &e.Tenant, &e.Channel, &e.Class, &e.Template, &attempt, &segments, &accepted, &e.RedriveOf,
			&e.Provider, &e.ProviderMessageID,
			&status, &at, &e.Reason, &e.ErrorCode, &e.Error, &e.Limit, &e.Window, &retryAt, &e.DuplicateOf); err != nil {
			return nil, fmt.Errorf("look messages up: %w", err)
		}
		e.Status, e.At, e.Attempt, e.Segments = schemas.Status(status), schemas.MillisOf(at), int(attempt), int(segments)
		if retryAt != nil {
			e.RetryAt = schemas.MillisOf(*retryAt)
		}
		if accepted != nil {
			e.AcceptedAt = schemas.MillisOf(*accepted)
		}
		out[history.Name{ID: e.MessageID, To: e.To}] = e
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look messages up: %w", err)
	}
	return out, nil
}
