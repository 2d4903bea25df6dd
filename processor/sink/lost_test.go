package sink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
)

// What ClickHouse loses while no sink runs, or long after it was loaded, is a difference for the
// sink that comes next: what was confirmed is kept in Kafka. After each case its table gets back
// what it had.
func TestLostBeforeTheStart(t *testing.T) {
	const n = 2000
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t), Check: 100 * time.Millisecond}
	stop := run(t, cfg)
	if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	until(t, 20*time.Second, "all is loaded", func() bool { return there(t, conn) == n && committed(t, seeds) })
	stop()
	for _, tt := range []struct {
		name, table, lose string
		want              float64
	}{
		{"rows of status_events", "status_events", "DELETE FROM status_events WHERE message_id < 'm-000000010' AND status IN ('sent', 'queued')", 20},
		{"one row, and another is there twice", "status_events", "DELETE FROM status_events WHERE message_id = 'm-000000010' AND status = 'sent'; INSERT INTO status_events SELECT * FROM status_events WHERE message_id = 'm-000000014' AND status = 'sent'", 2},
		{"all decisions", "decisions", "TRUNCATE TABLE decisions", n / 5},
		{"a table by minute", "status_by_minute_state", "TRUNCATE TABLE status_by_minute_state", n / 5 * 4},
		{"a list", "messages_by_time", "TRUNCATE TABLE messages_by_time", n / 5},
	} {
		if !t.Run(tt.name, func(t *testing.T) {
			exec := func(statements string) {
				t.Helper()
				for statement := range strings.SplitSeq(statements, "; ") {
					if err := conn.Exec(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
			}
			// sees starts a sink and waits until it sees a difference of so many.
			sees := func(want float64) {
				t.Helper()
				reg := prometheus.NewRegistry()
				cfg := cfg
				cfg.Logger, cfg.Metrics = logger(t), reg
				stop := run(t, cfg)
				until(t, 20*time.Second, "the difference is seen", func() bool {
					v, _ := metric(t, reg, "weir_sink_difference")
					return v == want
				})
				stop()
			}
			exec("CREATE TABLE had AS " + tt.table + "; INSERT INTO had SELECT * FROM " + tt.table)
			exec(tt.lose)
			sees(tt.want)
			// Without deduplication: status_events gets the same block twice.
			exec("TRUNCATE TABLE " + tt.table + "; INSERT INTO " + tt.table + " SELECT * FROM had SETTINGS insert_deduplicate = 0; DROP TABLE had SYNC")
		}) {
			return // the next would begin with what is left of this
		}
	}
}
