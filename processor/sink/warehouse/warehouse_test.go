package warehouse_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/processor/sink/warehouse"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role})
	os.Exit(m.Run())
}

// startEngine runs an engine until the test ends and returns its address.
func startEngine(t *testing.T) string {
	t.Helper()
	lib, err := engine.Ensure(t.Context(), "", os.Stderr)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, NOT TESTED: the ClickHouse engine cannot be had: %v", err)
	}
	p, err := engine.Start(t.Context(), engine.Options{Dir: t.TempDir(), LibPath: lib, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return p.Addr()
}

func TestTokensReachEveryTable(t *testing.T) {
	url := "http://" + startEngine(t) + "/weir"
	for range 2 {
		if err := warehouse.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	insert := func(token string) {
		ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{
			"async_insert": 0, "insert_deduplicate": 1, "deduplicate_blocks_in_dependent_materialized_views": 1, "insert_deduplication_token": token,
		}))
		err := conn.Exec(ctx, `INSERT INTO status_log (kind, message_id, status, at, status_offset, decision_verdict, "charges.limit", "charges.cost", "charges.t", "charges.scope")
			SELECT 'status', toString(number), 'sent', toDateTime64('2026-11-21 10:00:00', 3) + number*60, number, 'admit', ['a'], [1], [now64(3)], ['x'] FROM numbers(3000)`)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{"one", "one", "two", "one", "two"} {
		insert(token)
	}
	for _, q := range []string{
		"SELECT count() FROM status_events", "SELECT count() FROM decisions", "SELECT sum(events) FROM status_by_minute", "SELECT sum(places) FROM limits_by_minute",
		"SELECT countMerge(c) FROM (SELECT countState() AS c FROM status_events)",
	} {
		var n uint64
		if err := conn.QueryRow(t.Context(), q).Scan(&n); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if n != 6000 {
			t.Errorf("%s: %d, want 6000: two blocks, each sent more than once", q, n)
		}
	}
	if t.Failed() {
		_ = fmt.Sprint(slices.Clone(schema.Columns), strings.ToLower(""))
	}
}
