package sink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
)

// What ClickHouse loses while no sink runs, or long after it was loaded, is a difference for the
// sink that comes next: what was confirmed is kept in Kafka.
func TestLostBeforeTheStart(t *testing.T) {
	const n = 2000
	for _, tt := range []struct {
		name, lose string
		want       float64
	}{
		{"rows of status_events", "DELETE FROM status_events WHERE message_id < 'm-000000010' AND status IN ('sent', 'queued')", 20},
		{"one row, and another is there twice", "DELETE FROM status_events WHERE message_id = 'm-000000010' AND status = 'sent'; INSERT INTO status_events SELECT * FROM status_events WHERE message_id = 'm-000000014' AND status = 'sent'", 2},
		{"all decisions", "TRUNCATE TABLE decisions", n / 5},
		{"a table by minute", "TRUNCATE TABLE status_by_minute_state", n / 5 * 4},
		{"a list", "TRUNCATE TABLE messages_by_time", n / 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seeds := startKafka(t)
			url := "http://" + startEngine(t, t.TempDir(), "").Addr()
			reg := prometheus.NewRegistry()
			cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t), Metrics: reg, Check: 100 * time.Millisecond}
			stop := run(t, cfg)
			if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
				t.Fatal(err)
			}
			conn := open(t, url)
			until(t, 20*time.Second, "all is loaded", func() bool { return there(t, conn) == n && committed(t, seeds) })
			stop()
			for statement := range strings.SplitSeq(tt.lose, "; ") {
				if err := conn.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			cfg.Metrics = prometheus.NewRegistry()
			run(t, cfg)
			until(t, 20*time.Second, "the difference is seen", func() bool {
				v, _ := metric(t, cfg.Metrics.(*prometheus.Registry), "weir_sink_difference")
				return v == tt.want
			})
		})
	}
}
