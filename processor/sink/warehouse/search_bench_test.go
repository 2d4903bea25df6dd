package warehouse_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// How long a page of 50 takes among many messages, five statuses each, the
// first 100,000 recipients having 40 or so and one having 1 % of all:
//
//	WEIR_SEARCH_MESSAGES=2000000 go test ./processor/sink/warehouse -run '^$' -bench Search -benchtime 200x
//
// Without the variable it is 20,000, which shows that it runs.
func BenchmarkSearch(b *testing.B) {
	n := 20_000
	if v, err := strconv.Atoi(os.Getenv("WEIR_SEARCH_MESSAGES")); err == nil {
		n = v
	}
	conn := open(b)
	began := time.Now()
	const step = 200_000 // rows of numbers an insert, five rows each
	for from := 0; from < n; from += step {
		if err := conn.Exec(b.Context(), fmt.Sprintf(`
INSERT INTO status_log_2 (kind, message_id, tenant, channel, class, to, status, at, provider, accepted_at, status_offset)
WITH %[1]d + number AS i, 1795248000000 - (%[3]d - i) * 100 AS ms
SELECT 'status', concat(leftPad(hex(ms), 12, '0'), '-7000-8000-', leftPad(hex(cityHash64(i)), 16, '0')), if(i %% 10 = 0, 'other', 'acme'), 'sms', if(i %% 3 = 0, 'marketing', 'verify'),
       if(i %% 100 = 7, '+8613999999999', concat('+86138', leftPad(toString(cityHash64(i, 1) %% 100000), 8, '0'))),
       if(s = 'end', multiIf(i %% 1000 = 1, 'failed', i %% 20 = 3, 'limited', 'sent'), s), fromUnixTimestamp64Milli(toInt64(ms + k * 20)), if(k > 2, 'p1', ''),
       if(s = 'delivered', fromUnixTimestamp64Milli(toInt64(0)), fromUnixTimestamp64Milli(toInt64(ms))), i * 5 + k
FROM numbers(%[2]d) ARRAY JOIN ['queued', 'sending', 'retrying', 'end', if(i %% 2 = 0, 'delivered', 'sending')] AS s, [1, 2, 3, 4, 5] AS k
SETTINGS max_partitions_per_insert_block = 0`, from, min(step, n-from), n)); err != nil {
			b.Fatal(err)
		}
	}
	for settle := time.Now(); time.Since(settle) < time.Minute; time.Sleep(time.Second) { // merges take the same processors
		var merges uint64
		if err := conn.QueryRow(b.Context(), "SELECT count() FROM system.merges").Scan(&merges); err != nil || merges == 0 {
			break
		}
	}
	var rows uint64
	if err := conn.QueryRow(b.Context(), "SELECT count() FROM status_events").Scan(&rows); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d rows in %v", rows, time.Since(began).Round(time.Second))
	h := warehouse.History{Conn: conn}
	for _, tt := range []struct {
		name string
		q    func(i int) history.Search
	}{
		{"recipient", func(i int) history.Search {
			return history.Search{To: []string{fmt.Sprintf("+86138%08d", (i*7919)%100_000)}}
		}},
		{"recipient and status", func(i int) history.Search {
			return history.Search{To: []string{fmt.Sprintf("+86138%08d", (i*7919)%100_000)}, Statuses: []schemas.Status{schemas.StatusLimited}}
		}},
		{"busiest recipient", func(int) history.Search { return history.Search{To: []string{"+8613999999999"}} }},
		{"all", func(int) history.Search { return history.Search{} }},
		{"class", func(int) history.Search { return history.Search{Class: "marketing"} }},
		{"a time long ago", func(i int) history.Search {
			return history.Search{Until: 1795248000000 - schemas.Millis(n)*50 + schemas.Millis(i)*1000}
		}},
		{"failed, 1 in 1000", func(int) history.Search { return history.Search{Statuses: []schemas.Status{schemas.StatusFailed}} }},
		{"queued, none", func(int) history.Search { return history.Search{Statuses: []schemas.Status{schemas.StatusQueued}} }},
		{"delivered", func(int) history.Search { return history.Search{Statuses: []schemas.Status{schemas.StatusDelivered}} }},
		{"undelivered, none", func(int) history.Search { return history.Search{Statuses: []schemas.Status{schemas.StatusUndelivered}} }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			var took []time.Duration
			found := 0
			for i := 0; b.Loop(); i++ {
				q := tt.q(i)
				q.Tenant, q.Limit = "acme", 51
				began := time.Now()
				got, err := h.Search(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				found += len(got.Events)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(found)/float64(len(took)), "found")
		})
	}
}
