package warehouse_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// open migrates a new engine and returns a connection to it.
func open(t testing.TB) driver.Conn {
	t.Helper()
	url := "http://" + startEngine(t) + "/weir"
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const t0 = schemas.Millis(1795248000000) // 2026-11-21 08:00 UTC

// told is a message of a story, as it should be found.
type told struct {
	history.Place
	tenant, to, channel, class string
	status                     schemas.Status
	at                         schemas.Millis
	provider                   string
}

// story makes messages and the rows of their statuses, in the order of a log.
// Some have one id and two tenants, or two recipients; many the same time.
func story(n int) (messages []told, rows []string) {
	rnd := rand.New(rand.NewPCG(7, 7))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	offset := 0
	for i := range n {
		m := told{
			Place:  history.Place{At: t0 + schemas.Millis(rnd.IntN(n/4)*1000), ID: fmt.Sprintf("%08x-0000-4000-8000-%012d", rnd.Uint32(), i)},
			tenant: pick("acme", "acme", "acme", "default", "other"), to: fmt.Sprintf("+86138000000%02d", rnd.IntN(20)),
			channel: pick("sms", "sms", "voice"), class: pick("verify", "marketing"),
		}
		if i%10 == 5 { // some from before keys ignored letter case
			m.channel, m.to = "email", pick("ann@example.com", "Ann@example.com", "aNN@example.com", "joann@example.com")
		}
		if i%10 == 1 { // its id is another's too
			last := messages[len(messages)-1]
			if m.ID = last.ID; last.tenant == m.tenant && last.to == m.to {
				m.to = "+8613900000000"
			}
		}
		steps := [][]schemas.Status{
			{schemas.StatusQueued, schemas.StatusSending, schemas.StatusSent, schemas.StatusDelivered},
			{schemas.StatusQueued, schemas.StatusSending, schemas.StatusSent},
			{schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying},
			{schemas.StatusLimited}, {schemas.StatusQueued},
			{schemas.StatusQueued, schemas.StatusSending, schemas.StatusUndelivered, schemas.StatusSent}, // a receipt that was early
		}[rnd.IntN(6)]
		for k, s := range steps {
			offset++
			at, accepted, provider := m.At+schemas.Millis(k*5), fmt.Sprintf("fromUnixTimestamp64Milli(%d)", m.At), ""
			if s == schemas.StatusDelivered || s == schemas.StatusUndelivered {
				accepted = "0"
			}
			if k > 0 {
				provider = "p1"
			}
			if s.Rank() >= m.status.Rank() {
				m.status, m.at = s, at
			}
			m.provider = cmp.Or(provider, m.provider)
			tenant := m.tenant
			if tenant == "default" && i%2 == 0 {
				tenant = ""
			}
			rows = append(rows, fmt.Sprintf("('status', '%s', '%s', '%s', '%s', '%s', '%s', fromUnixTimestamp64Milli(%d), '%s', %s, %d)",
				m.ID, tenant, m.channel, m.class, m.to, s, at, provider, accepted, offset))
		}
		messages = append(messages, m)
	}
	slices.SortFunc(messages, func(a, b told) int { return cmp.Or(b.Place.Compare(a.Place), cmp.Compare(b.to, a.to)) })
	return messages, rows
}

const storyColumns = "kind, message_id, tenant, channel, class, to, status, at, provider, accepted_at, status_offset"

func TestSearch(t *testing.T) {
	conn := open(t)
	messages, rows := story(400)
	for i, block := range slices.Collect(slices.Chunk(rows, 170)) {
		log := []string{"status_log", "status_log_2"}[i%2]
		if err := insertOnce(t.Context(), conn, fmt.Sprint(i), log, storyColumns, strings.Join(block, ", ")); err != nil {
			t.Fatal(err)
		}
	}
	h := warehouse.History{Conn: conn}
	questions := []struct {
		name string
		q    history.Search
	}{
		{"all", history.Search{Tenant: "acme"}},
		{"of the tenant that rows need not name", history.Search{Tenant: "default"}},
		{"a recipient", history.Search{Tenant: "acme", To: []string{"+8613800000003"}}},
		{"any of several", history.Search{Tenant: "acme", To: []string{"+8613800000003", "nobody@example.com", "+8613800000004"}}},
		{"a status", history.Search{Tenant: "acme", Statuses: []schemas.Status{schemas.StatusQueued}}},
		{"sent, and no receipt", history.Search{Tenant: "acme", Statuses: []schemas.Status{schemas.StatusSent}}},
		{"by receipts", history.Search{Tenant: "acme", Statuses: []schemas.Status{schemas.StatusDelivered, schemas.StatusUndelivered}}},
		{"a recipient's of a status", history.Search{Tenant: "acme", To: []string{"+8613800000003"}, Statuses: []schemas.Status{schemas.StatusLimited, schemas.StatusRetrying}}},
		{"class and channel", history.Search{Tenant: "other", Class: "verify", Channel: "sms"}},
		{"a span", history.Search{Tenant: "acme", From: t0 + 20_000, Until: t0 + 40_000}},
		{"nobody's", history.Search{Tenant: "nobody"}},
		{"an address in any spelling", history.Search{Tenant: "acme", To: []string{"ann@example.com"}}},
	}
	ask := func(t *testing.T) {
		for _, tt := range questions {
			var want []told
			for _, m := range messages {
				q := tt.q
				if m.tenant == q.Tenant && (len(q.To) == 0 || slices.Contains(q.To, recipient.Fold(m.to))) && (q.Class == "" || q.Class == m.class) && (q.Channel == "" || q.Channel == m.channel) &&
					(len(q.Statuses) == 0 || slices.Contains(q.Statuses, m.status)) && m.At >= q.From && (q.Until == 0 || m.At < q.Until) {
					want = append(want, m)
				}
			}
			if len(want) == 0 && tt.name != "nobody's" || len(want) == len(messages) {
				t.Fatalf("%s: the story has %d", tt.name, len(want))
			}
			for _, limit := range []int{7, 1000} {
				var got []told
				q := tt.q
				q.Limit = limit
				for pages := 0; ; pages++ {
					found, err := h.Search(t.Context(), q)
					if err != nil {
						t.Fatalf("%s: %v", tt.name, err)
					}
					for _, e := range found.Events {
						got = append(got, told{history.Place{At: e.AcceptedAt, ID: e.MessageID}, cmp.Or(e.Tenant, "default"), e.To, e.Channel, e.Class, e.Status, e.At, e.Provider})
					}
					if found.Reached == nil {
						break
					}
					if q.Before = *found.Reached; pages > len(messages) {
						t.Fatal("the pages do not end")
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, by %d: %d messages, want %d:\n%v\n%v", tt.name, limit, len(got), len(want), got[:min(4, len(got))], want[:min(4, len(want))])
				}
			}
		}
	}
	t.Run("as it came in", ask)
	for _, table := range []string{"messages_by_time", "messages_by_recipient"} {
		if err := conn.Exec(t.Context(), "OPTIMIZE TABLE "+table+" FINAL"); err != nil {
			t.Fatal(err)
		}
		var n, ids uint64
		if err := conn.QueryRow(t.Context(), "SELECT count(), uniqExact(tenant, to, message_id) FROM "+table).Scan(&n, &ids); err != nil || n != ids {
			t.Errorf("%s: %d rows of %d messages are left after a merge, %v", table, n, ids, err)
		}
	}
	t.Run("merged", ask)
}

// What few messages have is sought in steps, from the newest back: quick ones look
// further each time, and behind what is kept there is no bound.
func TestSearchLooksBackStepByStep(t *testing.T) {
	const day = schemas.Millis(86_400_000)
	for _, tt := range []struct {
		name  string
		q     history.Search
		quick []bool
		want  []schemas.Millis
	}{
		{"a class", history.Search{Class: "c"}, []bool{true, true, false, false, true, true}, []schemas.Millis{t0 - day, t0 - 5*day, t0 - 21*day, t0 - 37*day, t0 - 53*day, t0 - 117*day}},
		{"a status", history.Search{Statuses: []schemas.Status{schemas.StatusFailed}}, []bool{true, true, true, true, true}, []schemas.Millis{t0 - day, t0 - 5*day, t0 - 21*day, t0 - 85*day, t0 - 341*day}},
		{"to the end", history.Search{Channel: "sms", Before: history.Place{At: t0 - 340*day}}, []bool{true, true, true}, []schemas.Millis{t0 - 341*day, t0 - 345*day, t0 - 361*day}},
		{"and behind it", history.Search{Channel: "sms", Until: t0 - 390*day}, []bool{true, true}, []schemas.Millis{t0 - 391*day, t0 - 395*day}},
		{"the next page", history.Search{Class: "c", Until: t0 - day, Before: history.Place{At: t0 - 3*day, ID: "x"}}, []bool{true}, []schemas.Millis{t0 - 4*day}},
		{"until tomorrow", history.Search{Class: "c", Until: t0 + day}, []bool{true}, []schemas.Millis{t0 - day}},
		{"of long ago", history.Search{Class: "c", Until: t0 - 401*day}, []bool{true}, []schemas.Millis{0}},
		{"in order of time", history.Search{}, []bool{true}, []schemas.Millis{0}},
		{"a recipient's", history.Search{To: []string{"a"}, Class: "c"}, []bool{true}, []schemas.Millis{0}},
	} {
		if got := warehouse.Windows(tt.q, t0, tt.quick...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := warehouse.Windows(history.Search{Class: "c", Until: t0 - 396*day}, t0, true, true); got[1] != 0 {
		t.Errorf("behind what is kept: %v", got)
	}
	// Each is found, however far apart they are.
	conn := open(t)
	now := schemas.MillisOf(time.Now())
	var rows []string
	var want []string
	for i, ago := range []schemas.Millis{0, 2 * day, 30 * day, 31 * day, 200 * day, 390 * day} {
		id := fmt.Sprintf("rare-%d", i)
		want = append(want, id)
		at := now - ago - 60_000
		for _, m := range [][2]string{{id, "rare"}, {"common-" + id, "common"}} {
			rows = append(rows, fmt.Sprintf("('status', '%s', 'acme', 'sms', '%s', '+8613800000000', 'queued', fromUnixTimestamp64Milli(%d), '', fromUnixTimestamp64Milli(%d), %d)", m[0], m[1], at, at, len(rows)))
		}
	}
	until := now - 9*day
	for i, at := range []schemas.Millis{until, until - 1, until - day, until - day - 1, until - 5*day, until - 5*day - 1} { // at the edges of windows
		rows = append(rows, fmt.Sprintf("('status', 'edge-%d', 'acme', 'sms', 'edge', '+8613800000000', 'queued', fromUnixTimestamp64Milli(%d), '', fromUnixTimestamp64Milli(%d), %d)", i, at, at, len(rows)))
	}
	if err := insertOnce(t.Context(), conn, "a", "status_log_2", storyColumns, strings.Join(rows, ", ")); err != nil {
		t.Fatal(err)
	}
	h := warehouse.History{Conn: conn}
	found, err := h.Search(t.Context(), history.Search{Tenant: "acme", Class: "edge", Limit: 100, Until: until})
	if err != nil || len(found.Events) != 5 || found.Events[0].MessageID != "edge-1" || found.Events[4].MessageID != "edge-5" {
		t.Errorf("at the edges: %d messages, %v", len(found.Events), err)
	}
	for _, limit := range []int{1, 2, 100} {
		for _, from := range []schemas.Millis{0, now - 100*day} {
			var got []string
			q := history.Search{Tenant: "acme", Class: "rare", Limit: limit, From: from}
			for pages := 0; ; pages++ {
				found, err := h.Search(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range found.Events {
					got = append(got, e.MessageID)
				}
				if found.Reached == nil {
					break
				}
				if q.Before = *found.Reached; pages > 20 {
					t.Fatal("the pages do not end")
				}
			}
			expected := want
			if from != 0 {
				expected = want[:4]
			}
			if !slices.Equal(got, expected) {
				t.Errorf("by %d, from %d: %v, want %v", limit, from, got, expected)
			}
		}
	}
}

// What stood there before the tables is found too, and a copy made twice changes
// nothing.
func TestSearchFindsWhatWasThereBefore(t *testing.T) {
	url := "http://" + startEngine(t) + "/weir"
	if err := warehouse.MigrateTo(t.Context(), url, 2); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	messages, rows := story(100)
	if err := insertOnce(t.Context(), conn, "a", "status_log_2", storyColumns, strings.Join(rows, ", ")); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{3, 2, 3, schema.Newest()} {
		if err := warehouse.MigrateTo(t.Context(), url, version); err != nil {
			t.Fatal(err)
		}
	}
	if err := warehouse.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
	want := 0
	for _, m := range messages {
		if m.tenant == "acme" {
			want++
		}
	}
	found, err := warehouse.History{Conn: conn}.Search(t.Context(), history.Search{Tenant: "acme", Limit: 1000})
	if err != nil || len(found.Events) != want || want == 0 {
		t.Errorf("%d messages, want %d, %v", len(found.Events), want, err)
	}
}
