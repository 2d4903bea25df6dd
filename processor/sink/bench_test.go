//go:build e2e

package sink_test

import (
	"testing"
	"time"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

// How fast a backlog is loaded, from joining the group to the last row. Kafka is
// kfake in the same process, so it takes a share of the machine.
func TestBacklogRate(t *testing.T) {
	const n = 500_000
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	if err := produce(t.Context(), seeds, 0, n, 10_000, false); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	run(t, sink.Config{Brokers: seeds, URL: url, Logger: logger(t)})
	until(t, time.Minute, "all rows arrive", func() bool {
		return ask[uint64](t, conn, "SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')") >= n
	})
	d := time.Since(start)
	t.Logf("%d rows in %v: %.0f rows/s", n, d.Round(time.Millisecond), n/d.Seconds())
	holds(t, conn, n)
}
