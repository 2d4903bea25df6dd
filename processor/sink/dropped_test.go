package sink_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// A table that somebody drops is named at once, with what to do, and the sink is not ready until it is there again.
func TestDroppedTable(t *testing.T) {
	const n = 1000
	for _, tt := range []struct{ name, drop, want string }{
		{"a list", "DROP TABLE messages_by_time", "there is no table messages_by_time: goose_db_version says that migration"},
		{"what is inserted into", "DROP TABLE " + schema.StatusLog.Table, "there is no table " + schema.StatusLog.Table},
		{"the events", "DROP TABLE status_events", "there is no table status_events"},
		{"the database", "DROP DATABASE lost", "there is no database any more: start Weir again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seeds := startKafka(t)
			url := "http://" + startEngine(t, t.TempDir(), "").Addr() + "/lost"
			var mu sync.Mutex
			var said schemas.SinkReport
			reg := prometheus.NewRegistry()
			run(t, sink.Config{
				Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Check: time.Hour, Logger: logger(t), Metrics: reg,
				Report: func(r schemas.SinkReport) {
					mu.Lock()
					defer mu.Unlock()
					said = r
				},
			})
			if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
				t.Fatal(err)
			}
			until(t, 20*time.Second, "all is loaded", func() bool { return confirmed(t, reg) == n })
			if v := shown(t, reg, "weir_sink_ready"); v != 1 {
				t.Errorf("ready: %v", v)
			}
			if err := open(t, url).Exec(t.Context(), tt.drop); err != nil {
				t.Fatal(err)
			}
			if err := produce(t.Context(), seeds, n, 2*n, 500, true); err != nil {
				t.Fatal(err)
			}
			until(t, 20*time.Second, "it is not ready, and says why", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return shown(t, reg, "weir_sink_ready") == 0 && strings.Contains(said.Failing, tt.want)
			})
			if tt.name == "the database" {
				return // it takes a start to make it
			}
			if !strings.Contains(said.Failing, "TRUNCATE TABLE goose_db_version") {
				t.Errorf("it does not say what to run: %s", said.Failing)
			}
			if err := open(t, url).Exec(t.Context(), "TRUNCATE TABLE goose_db_version"); err != nil {
				t.Fatal(err)
			}
			if err := warehouse.Migrate(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			until(t, 30*time.Second, "it is ready again, and loads", func() bool { return shown(t, reg, "weir_sink_ready") == 1 && confirmed(t, reg) == 2*n })
		})
	}
}

// Before the first comparison there is no figure: 0 would say that all is there. Nor is there one of what others have taken over.
func TestNoDifferenceBeforeTheFirstComparison(t *testing.T) {
	const n = 500
	t.Parallel()
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	reg := prometheus.NewRegistry()
	cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Check: time.Hour, Logger: logger(t), Metrics: reg}
	stop := run(t, cfg)
	if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "all is loaded", func() bool { return confirmed(t, reg) == n && committed(t, seeds) })
	if v, ok := metric(t, reg, "weir_sink_difference"); ok {
		t.Errorf("before anything was compared: %v", v)
	}
	stop()
	cfg.Check = 100 * time.Millisecond
	cfg.Metrics = prometheus.NewRegistry()
	reg = cfg.Metrics.(*prometheus.Registry)
	stop = run(t, cfg)
	until(t, 20*time.Second, "a figure", func() bool { v, ok := metric(t, reg, "weir_sink_difference"); return ok && v == 0 })
	stop()
	if v, ok := metric(t, reg, "weir_sink_difference"); ok {
		t.Errorf("of a sink that has ended: %v", v)
	}
}
