package warehouse_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

// ticks is the time that a process has had processors for, in hundredths of a second;
// 0 where that is not to be read.
func ticks(pid int) (n int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	for _, field := range strings.Fields(after)[11:13] {
		i, _ := strconv.ParseInt(field, 10, 64)
		n += i
	}
	return n
}

// What it costs to compare minutes, of a day with so many messages of five rows each,
// and how much ClickHouse reads for it:
//
//	WEIR_ALIKE_MESSAGES=1000000 go test ./processor/sink/warehouse -run '^$' -bench Alike -benchtime 10x
//
// Without the variable it is 20,000, which shows that it runs.
func BenchmarkAlike(b *testing.B) {
	n := 20_000
	if v, err := strconv.Atoi(os.Getenv("WEIR_ALIKE_MESSAGES")); err == nil {
		n = v
	}
	for _, ids := range []struct{ name, of string }{
		{"ids by time", "concat(leftPad(hex(ms), 12, '0'), '-7000-8000-', leftPad(hex(cityHash64(i)), 16, '0'))"},
		{"ids by key", "concat(leftPad(hex(cityHash64(i, 3)), 16, '0'), '-8000-', leftPad(hex(cityHash64(i)), 16, '0'))"},
	} {
		b.Run(ids.name, func(b *testing.B) {
			engine := enginetest.Start(b, engine.Options{})
			url := "http://" + engine.Addr() + "/weir"
			if err := warehouse.Migrate(b.Context(), url); err != nil {
				b.Fatal(err)
			}
			conn, err := warehouse.Open(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			day := time.Now().UTC().Truncate(24*time.Hour).UnixMilli() - 24*60*60*1000
			const step = 100_000 // messages an insert
			for from := 0; from < n; from += step {
				if err := conn.Exec(b.Context(), fmt.Sprintf(`
INSERT INTO status_log_2 (kind, message_id, tenant, channel, class, to, status, at, attempt, provider, provider_message_id, accepted_at, decision_verdict, decision_seq, decision_t,
	`+"`charges.limit`, `charges.scope`, `charges.t`, `charges.cost`"+`, status_partition, status_offset)
WITH %[1]d + number AS i, %[4]d + intDiv(i * 86390000, %[3]d) AS ms, concat('+86138', leftPad(toString(cityHash64(i, 1) %% 1000000), 8, '0')) AS who
SELECT 'status', `+ids.of+`, if(i %% 10 = 0, 'other', 'acme'), 'sms', if(i %% 3 = 0, 'marketing', 'verify'), who, s, fromUnixTimestamp64Milli(toInt64(ms + k * 1000)), toUInt16(k > 1), if(k > 1, 'p1', ''),
	if(k > 2, hex(cityHash64(i, 2)), ''), fromUnixTimestamp64Milli(toInt64(if(k = 5, 0, ms))), if(k = 1, 'admit', ''), i, fromUnixTimestamp64Milli(toInt64(if(k = 1, ms, 0))),
	if(k = 1, ['verify'], []), if(k = 1, [who], []), if(k = 1, [fromUnixTimestamp64Milli(toInt64(ms))], []), if(k = 1, [toInt64(1)], []), toInt32(i %% 24), i * 5 + k
FROM numbers(%[2]d) ARRAY JOIN ['queued', 'sending', 'retrying', 'sent', 'delivered'] AS s, [1, 2, 3, 4, 5] AS k
SETTINGS max_partitions_per_insert_block = 0`, from, min(step, n-from), n, day)); err != nil {
					b.Fatal(err)
				}
			}
			for settle := time.Now(); time.Since(settle) < time.Minute; time.Sleep(time.Second) { // merges take the same processors
				var merges uint64
				if err := conn.QueryRow(b.Context(), "SELECT count() FROM system.merges").Scan(&merges); err != nil || merges == 0 {
					break
				}
			}
			for _, count := range []int64{1, 60} {
				b.Run(fmt.Sprint(count, " minutes"), func(b *testing.B) {
					var minutes []int64
					for m := range count {
						minutes = append(minutes, day/1000+(12*60+m)*60)
					}
					var took []time.Duration
					before := ticks(engine.PID())
					for b.Loop() {
						began := time.Now()
						found, err := warehouse.Alike(b.Context(), conn, "", minutes)
						if err != nil || len(found) > 0 {
							b.Fatalf("%d found, %v: %+v", len(found), err, found[:min(len(found), 3)])
						}
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
					b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "max-ms")
					b.ReportMetric(float64(ticks(engine.PID())-before)*10/float64(len(took)), "engine-cpu-ms")
				})
			}
		})
	}
}
