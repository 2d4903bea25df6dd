package warehouse_test

import (
	"slices"
	"testing"

	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink/warehouse"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// TestUnsynced: a table is named until it waits for the disk, with both settings.
func TestUnsynced(t *testing.T) {
	url := "http://" + enginetest.Start(t, engine.Options{}).Addr()
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, step := range []struct {
		statement string
		want      []string
	}{
		{"SELECT 1", schema.Filled},
		{"ALTER TABLE status_events MODIFY SETTING fsync_after_insert = 1", schema.Filled},
		{"ALTER TABLE status_events MODIFY SETTING fsync_part_directory = 1", schema.Filled[1:]},
	} {
		if err := conn.Exec(t.Context(), step.statement); err != nil {
			t.Fatal(err)
		}
		got, err := warehouse.Unsynced(t.Context(), conn, "")
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("after %s: %v, %v; want %v", step.statement, got, err, step.want)
		}
	}
	if got, err := warehouse.Unsynced(t.Context(), conn, "c"); err != nil || got != nil {
		t.Errorf("on a cluster %v, %v", got, err)
	}
}
