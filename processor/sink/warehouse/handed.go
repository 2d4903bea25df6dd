package warehouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// Ready reports whether ClickHouse answers.
func (h History) Ready(ctx context.Context) error {
	if err := h.Conn.Exec(ctx, "SELECT 1 FROM messages_by_provider_id LIMIT 1"); err != nil {
		return fmt.Errorf("ask ClickHouse: %w", err)
	}
	return nil
}

// Handed returns the messages of those asked for that it knows: of a provider's id the
// latest, of Weir's id each provider, recipient and tenant that had it, the latest last.
func (h History) Handed(ctx context.Context, asked []history.Handed) (map[history.Handed][]history.Carried, error) {
	found := make(map[history.Handed][]history.Carried, len(asked))
	var providers, theirs, ours clickhouse.ArraySet
	for _, a := range asked {
		if a.MessageID != "" {
			ours = append(ours, a.MessageID)
		} else {
			providers, theirs = append(providers, a.Provider), append(theirs, a.ProviderMessageID)
		}
	}
	if len(theirs) > 0 {
		if err := h.byProviderID(ctx, providers, theirs, found); err != nil {
			return nil, fmt.Errorf("look up what providers' ids are of: %w", err)
		}
	}
	if len(ours) > 0 {
		if err := h.byMessageID(ctx, ours, found); err != nil {
			return nil, fmt.Errorf("look up messages of receipts: %w", err)
		}
	}
	return found, nil
}

// handedRows are the statuses that a call causes, or the hand-over to a service that
// calls itself. One that is queued for a provider was not handed to it yet.
const handedRows = `
SELECT message_id, e.tenant, e.channel, e.class, e.template, e.to, e.attempt, e.provider, e.provider_message_id
FROM status_events AS e
WHERE message_id IN (?) AND e.kind = 'status' AND e.provider != '' AND e.status IN ('sending', 'retrying', 'sent', 'failed', 'unknown')`

func (h History) byProviderID(ctx context.Context, providers, theirs clickhouse.ArraySet, found map[history.Handed][]history.Carried) error {
	rows, err := h.Conn.Query(ctx, `
SELECT DISTINCT message_id, min(at) OVER (), max(at) OVER ()
FROM messages_by_provider_id
WHERE id IN (SELECT arrayJoin(arrayMap((p, i) -> cityHash64(p, i), ?, ?)))`, providers, theirs)
	if err != nil {
		return err
	}
	defer rows.Close()
	var (
		ids       []string
		from, til time.Time
	)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id, &from, &til); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return err
	}
	wanted := make(map[history.Handed]bool, len(theirs))
	for i := range theirs {
		wanted[history.Handed{Provider: providers[i].(string), ProviderMessageID: theirs[i].(string)}] = true
	}
	return h.carried(ctx, handedRows+" AND e.at >= "+millis+" AND e.at <= "+millis+" AND e.provider_message_id != '' ORDER BY e.at, e.status_offset",
		[]any{ids, from.UnixMilli(), til.UnixMilli()}, func(c history.Carried) {
			if as := (history.Handed{Provider: c.Provider, ProviderMessageID: c.ProviderMessageID}); wanted[as] {
				found[as] = []history.Carried{c} // the latest stays
			}
		})
}

func (h History) byMessageID(ctx context.Context, ours clickhouse.ArraySet, found map[history.Handed][]history.Carried) error {
	ids := make([]string, len(ours))
	for i, id := range ours {
		ids[i] = id.(string)
	}
	seen := make(map[history.Carried]bool)
	return h.carried(ctx, handedRows+" ORDER BY e.at, e.status_offset", []any{ids}, func(c history.Carried) {
		if !seen[c] {
			seen[c] = true
			as := history.Handed{MessageID: c.MessageID}
			found[as] = append(found[as], c)
		}
	})
}

func (h History) carried(ctx context.Context, query string, args []any, each func(history.Carried)) error {
	rows, err := h.Conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			c       history.Carried
			attempt uint16
		)
		if err := rows.Scan(&c.MessageID, &c.Tenant, &c.Channel, &c.Class, &c.Template, &c.To, &attempt, &c.Provider, &c.ProviderMessageID); err != nil {
			return err
		}
		if c.Tenant == "" {
			c.Tenant = schemas.DefaultTenant
		}
		c.Attempt = int(attempt)
		each(c)
	}
	return rows.Err()
}
