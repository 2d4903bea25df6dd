package warehouse_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

var _ receipt.Store = warehouse.History{}

// TestHanded: a provider's id finds the message that had it last, in whichever of the
// logs it was written; an id of Weir's finds its recipient, if there is one.
func TestHanded(t *testing.T) {
	conn := open(t)
	now := schemas.MillisOf(time.Now())
	offset := 0
	row := func(log, id, to, status, provider, theirs string, at schemas.Millis) {
		offset++
		if err := conn.Exec(t.Context(), "INSERT INTO "+log+" (kind, message_id, tenant, channel, class, template, `to`, status, at, attempt, provider, provider_message_id, status_offset) VALUES "+
			fmt.Sprintf("('status', '%s', 'acme', 'sms', 'verify', 'code', '%s', '%s', fromUnixTimestamp64Milli(toInt64(%d)), 2, '%s', '%s', %d)", id, to, status, at, provider, theirs, offset)); err != nil {
			t.Fatal(err)
		}
	}
	day := schemas.Millis(86_400_000)
	row("status_log_2", "m1", "+1", "queued", "", "", now)
	row("status_log_2", "m1", "+1", "sent", "p", "x1", now)
	row("status_log_2", "m1", "+1", "delivered", "p", "x1", now+5)
	row("status_log", "m2", "+2", "sent", "p", "x2", now-day)
	row("status_log_2", "m3", "+3", "sent", "q", "x1", now) // another provider's
	row("status_log_2", "old", "+4", "sent", "p", "again", now-2*day)
	row("status_log_2", "new", "+5", "sent", "p", "again", now-day)
	row("status_log_2", "two", "+6", "sent", "p", "t6", now)
	row("status_log_2", "two", "+7", "sent", "p", "t7", now)
	row("status_log_2", "never", "+8", "limited", "", "", now)
	row("status_log_2", "early", "+9", "delivered", "p", "x9", now) // its receipt alone
	row("status_log_2", "moved", "+1", "failed", "p", "", now)      // then with another provider
	row("status_log_2", "moved", "+1", "sent", "q", "y", now+1)
	row("status_log_2", "waits", "+1", "queued", "p", "", now) // for a provider that was not given it
	h := warehouse.History{Conn: conn}
	if err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	by := func(p, id string) history.Handed { return history.Handed{Provider: p, ProviderMessageID: id} }
	of := func(id string) history.Handed { return history.Handed{MessageID: id} }
	is := func(p, theirs, id, to string) history.Carried {
		return history.Carried{Provider: p, ProviderMessageID: theirs, MessageID: id, To: to, Tenant: "acme", Channel: "sms", Class: "verify", Template: "code", Attempt: 2}
	}
	want := map[history.Handed][]history.Carried{
		by("p", "x1"): {is("p", "x1", "m1", "+1")}, by("p", "x2"): {is("p", "x2", "m2", "+2")}, by("q", "x1"): {is("q", "x1", "m3", "+3")},
		by("p", "again"): {is("p", "again", "new", "+5")}, by("p", "t7"): {is("p", "t7", "two", "+7")},
		of("m1"): {is("p", "x1", "m1", "+1")}, of("two"): {is("p", "t6", "two", "+6"), is("p", "t7", "two", "+7")},
		of("moved"): {is("p", "", "moved", "+1"), is("q", "y", "moved", "+1")},
	}
	asked := append(slices.Collect(maps.Keys(want)), by("q", "x2"), by("p", "none'\\"), by("p", "x9"), of("none"), of("never"), of("waits"))
	got, err := h.Handed(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// How long a question for 1,000 receipts takes among many messages:
//
//	WEIR_HANDED_MESSAGES=5000000 go test ./processor/sink/warehouse -run '^$' -bench Handed
func BenchmarkHanded(b *testing.B) {
	n := 20_000
	if v, err := strconv.Atoi(os.Getenv("WEIR_HANDED_MESSAGES")); err == nil {
		n = v
	}
	conn := open(b)
	const step = 500_000
	for from := 0; from < n; from += step {
		if err := conn.Exec(b.Context(), fmt.Sprintf(`
INSERT INTO status_log_2 (kind, message_id, tenant, channel, class, to, status, at, provider, provider_message_id, accepted_at, status_offset)
WITH %[1]d + number AS i, toUnixTimestamp64Milli(now64(3)) - (%[3]d - i) * 100 AS ms
SELECT 'status', concat(leftPad(hex(ms), 12, '0'), '-7000-8000-', leftPad(hex(cityHash64(i)), 16, '0')), 'acme', 'sms', 'verify',
       concat('+86138', leftPad(toString(cityHash64(i, 1) %% 100000), 8, '0')), s, fromUnixTimestamp64Milli(toInt64(ms + k * 20)), if(k > 1, 'p1', ''),
       if(s = 'sent', concat('SM', lower(hex(sipHash128(i)))), ''), fromUnixTimestamp64Milli(toInt64(ms)), i * 3 + k
FROM numbers(%[2]d) ARRAY JOIN ['queued', 'sending', 'sent'] AS s, [1, 2, 3] AS k
SETTINGS max_partitions_per_insert_block = 0`, from, min(step, n-from), n)); err != nil {
			b.Fatal(err)
		}
	}
	rows, err := conn.Query(b.Context(), "SELECT table, sum(rows), sum(data_compressed_bytes) FROM system.parts WHERE active AND database = currentDatabase() AND table IN ('messages_by_provider_id', 'status_events') GROUP BY table ORDER BY table")
	if err != nil {
		b.Fatal(err)
	}
	for rows.Next() {
		var table string
		var count, size uint64
		if err := rows.Scan(&table, &count, &size); err != nil {
			b.Fatal(err)
		}
		b.Logf("%s: %d rows, %.1f B a row", table, count, float64(size)/float64(count))
	}
	h := warehouse.History{Conn: conn}
	var ids []string
	some, err := conn.Query(b.Context(), "SELECT provider_message_id FROM status_events WHERE provider_message_id != '' ORDER BY cityHash64(provider_message_id) LIMIT 1000")
	if err != nil {
		b.Fatal(err)
	}
	for some.Next() {
		var id string
		if err := some.Scan(&id); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, tt := range []struct {
		name string
		want int
	}{{"all known", 1}, {"none known", 0}} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				var asked []history.Handed
				for _, id := range ids {
					if tt.want == 0 {
						id += "x"
					}
					asked = append(asked, history.Handed{Provider: "p1", ProviderMessageID: id})
				}
				got, err := h.Handed(b.Context(), asked)
				if err != nil || len(got) != tt.want*len(ids) {
					b.Fatalf("%d of %d found: %v", len(got), len(ids), err)
				}
			}
		})
	}
}
