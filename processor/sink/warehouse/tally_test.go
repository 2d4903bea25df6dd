package warehouse_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

func TestTally(t *testing.T) {
	conn := open(t)
	const columns = "kind, message_id, tenant, channel, class, to, status, at, provider, accepted_at, status_offset, decision_verdict, limit, window, observed"
	rows, n := "", 0
	add := func(minute, took int, tenant, class, provider, status, rest string) {
		n++
		at := int64(t0) + int64(minute)*60_000 + 30_000
		accepted := "0"
		if took > 0 {
			accepted = fmt.Sprintf("fromUnixTimestamp64Milli(%d)", at-int64(took))
		}
		if rows != "" {
			rows += ", "
		}
		rows += fmt.Sprintf("('status', 'm-%d', '%s', 'sms', '%s', '+86', '%s', fromUnixTimestamp64Milli(%d), '%s', %s, %d, %s)", n, tenant, class, status, at, provider, accepted, n, rest)
	}
	const none = "'', '', '', false"
	add(0, 100, "acme", "verify", "p1", "sent", none)
	add(0, 100, "acme", "verify", "p1", "sent", none)
	add(1, 300, "acme", "marketing", "p2", "sent", none)
	add(61, 0, "acme", "verify", "p1", "delivered", none)
	add(0, 10, "acme", "verify", "", "limited", "'refuse', 'l', '1/60s', false")
	add(1, 10, "acme", "marketing", "", "queued", "'admit', 'o', '5/1h', true")
	add(0, 10, "other", "verify", "p1", "failed", "'refuse', 'l', '1/60s', false")
	add(0, 10, "", "verify", "p1", "expired", none)
	add(-1440, 70, "acme", "verify", "p1", "sent", none) // a day before
	add(-1441, 70, "acme", "verify", "p1", "sent", none) // and a minute
	add(-2880, 90, "acme", "verify", "p1", "failed", none)
	if err := insertOnce(t.Context(), conn, "a", "status_log_2", columns, rows); err != nil {
		t.Fatal(err)
	}
	h := warehouse.History{Conn: conn}
	hour := history.Tally{Tenant: "acme", From: t0, Until: t0 + 3_600_000, Most: 100, Latency: true, LatencyBefore: true}
	for _, tt := range []struct {
		name string
		q    func(history.Tally) history.Tally
		want history.Counted
	}{
		{"by status, and the days before", func(q history.Tally) history.Tally { q.Days = 7; return q }, history.Counted{
			Counts: []history.Count{{Status: "limited", Events: 1, P50: 10, P95: 10, P99: 10}, {Status: "queued", Events: 1, P50: 10, P95: 10, P99: 10}, {Status: "sent", Events: 3, P50: 100, P95: 300, P99: 300}},
			Limits: []history.LimitCount{{Limit: "l", Window: "1/60s", Refused: 1}, {Limit: "o", Window: "5/1h", Observed: 1}},
			Before: []history.Count{{Day: 1, Status: "sent", Events: 1, P50: 70, P95: 70, P99: 70}, {Day: 2, Status: "failed", Events: 1, P50: 90, P95: 90, P99: 90}},
		}},
		{"without how long the days before took", func(q history.Tally) history.Tally { q.Days, q.Class, q.LatencyBefore = 7, "verify", false; return q }, history.Counted{
			Counts: []history.Count{{Status: "limited", Events: 1, P50: 10, P95: 10, P99: 10}, {Status: "sent", Events: 2, P50: 100, P95: 100, P99: 100}},
			Limits: []history.LimitCount{{Limit: "l", Window: "1/60s", Refused: 1}},
			Before: []history.Count{{Day: 1, Status: "sent", Events: 1}, {Day: 2, Status: "failed", Events: 1}},
		}},
		{"without how long it took", func(q history.Tally) history.Tally { q.Days, q.Class, q.Latency = 7, "verify", false; return q }, history.Counted{
			Counts: []history.Count{{Status: "limited", Events: 1}, {Status: "sent", Events: 2}},
			Limits: []history.LimitCount{{Limit: "l", Window: "1/60s", Refused: 1}},
			Before: []history.Count{{Day: 1, Status: "sent", Events: 1, P50: 70, P95: 70, P99: 70}, {Day: 2, Status: "failed", Events: 1, P50: 90, P95: 90, P99: 90}},
		}},
		{"by minute and class", func(q history.Tally) history.Tally {
			q.By = []history.Dimension{history.ByMinute, history.ByClass}
			return q
		}, history.Counted{
			Counts: []history.Count{
				{At: t0, Class: "verify", Status: "limited", Events: 1, P50: 10, P95: 10, P99: 10}, {At: t0, Class: "verify", Status: "sent", Events: 2, P50: 100, P95: 100, P99: 100},
				{At: t0 + 60_000, Class: "marketing", Status: "queued", Events: 1, P50: 10, P95: 10, P99: 10}, {At: t0 + 60_000, Class: "marketing", Status: "sent", Events: 1, P50: 300, P95: 300, P99: 300},
			},
			Limits: []history.LimitCount{{At: t0, Class: "verify", Limit: "l", Window: "1/60s", Refused: 1}, {At: t0 + 60_000, Class: "marketing", Limit: "o", Window: "5/1h", Observed: 1}},
		}},
		{"a provider by hour and channel", func(q history.Tally) history.Tally {
			q.By, q.Provider, q.Until = []history.Dimension{history.ByHour, history.ByChannel, history.ByProvider}, "p1", t0+2*3_600_000
			q.Class = "verify"
			return q
		}, history.Counted{
			Counts: []history.Count{{At: t0, Channel: "sms", Provider: "p1", Status: "sent", Events: 2, P50: 100, P95: 100, P99: 100}, {At: t0 + 3_600_000, Channel: "sms", Provider: "p1", Status: "delivered", Events: 1}},
			Limits: []history.LimitCount{{At: t0, Channel: "sms", Limit: "l", Window: "1/60s", Refused: 1}},
		}},
		{"days", func(q history.Tally) history.Tally {
			q.By, q.From, q.Class = []history.Dimension{history.ByDay}, q.From-2*86_400_000, "marketing"
			return q
		}, history.Counted{
			Counts: []history.Count{{At: t0 - 8*3_600_000, Status: "queued", Events: 1, P50: 10, P95: 10, P99: 10}, {At: t0 - 8*3_600_000, Status: "sent", Events: 1, P50: 300, P95: 300, P99: 300}},
			Limits: []history.LimitCount{{At: t0 - 8*3_600_000, Limit: "o", Window: "5/1h", Observed: 1}},
		}},
		{"the tenant that rows need not name", func(q history.Tally) history.Tally { q.Tenant = "default"; return q }, history.Counted{
			Counts: []history.Count{{Status: "expired", Events: 1, P50: 10, P95: 10, P99: 10}},
		}},
		{"every tenant's", func(q history.Tally) history.Tally { q.Tenant, q.Class = history.AllTenants, "verify"; return q }, history.Counted{
			Counts: []history.Count{
				{Status: "expired", Events: 1, P50: 10, P95: 10, P99: 10}, {Status: "failed", Events: 1, P50: 10, P95: 10, P99: 10}, {Status: "limited", Events: 1, P50: 10, P95: 10, P99: 10},
				{Status: "sent", Events: 2, P50: 100, P95: 100, P99: 100},
			},
			Limits: []history.LimitCount{{Limit: "l", Window: "1/60s", Refused: 2}},
		}},
		{"nobody's", func(q history.Tally) history.Tally { q.Tenant = "nobody"; return q }, history.Counted{}},
	} {
		got, err := h.Tally(t.Context(), tt.q(hour))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", tt.name, *got, tt.want)
		}
	}
	hour.Most = 2
	if _, err := h.Tally(t.Context(), hour); !errors.Is(err, history.ErrTooMany) {
		t.Errorf("more than may be: %v", err)
	}
}
