package warehouse_test

import (
	"testing"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

// A full block is a part of one file in the widest tables.
func TestBlocksAreCompact(t *testing.T) {
	url := "http://" + startEngine(t) + "/weir"
	for _, tt := range []struct {
		version int64
		want    string
	}{{6, "('decisions','Wide')|('status_events','Wide')"}, {7, "('decisions','Compact')|('status_events','Compact')"}} {
		if err := warehouse.MigrateTo(t.Context(), url, tt.version); err != nil {
			t.Fatal(err)
		}
		conn, err := warehouse.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.Exec(t.Context(), `INSERT INTO status_log_2 (kind, message_id, status, at, decision_verdict, evidence)
			SELECT 'status', toString(generateUUIDv4(number)), 'limited', toDateTime64('2026-11-21 10:00:00', 3, 'UTC'), 'refuse', repeat('x', 300) FROM numbers(50000)
			SETTINGS min_insert_block_size_rows = 1000000, max_insert_threads = 1, max_threads = 1`); err != nil {
			t.Fatal(err)
		}
		const newest = "SELECT table, argMax(part_type, max_block_number) FROM system.parts WHERE database = 'weir' AND active AND table IN ('status_events', 'decisions') GROUP BY table ORDER BY table"
		if got := tellOne(t, conn, newest); got != tt.want {
			t.Errorf("after migration %d a block is %s, want %s", tt.version, got, tt.want)
		}
	}
}
