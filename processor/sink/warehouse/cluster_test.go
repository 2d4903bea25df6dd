package warehouse_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink/warehouse"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// The engine has no Keeper, so a cluster's statements cannot run here. It reads each
// of them.
func TestClusterStatementsAreRead(t *testing.T) {
	conn, err := warehouse.Open(t.Context(), "http://"+startEngine(t)+"/default")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rendered, err := schema.Render("{cluster}")
	if err != nil {
		t.Fatal(err)
	}
	all := warehouse.Preparation("weir", " ON CLUSTER '{cluster}'")
	files, err := fs.Glob(rendered, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := fs.ReadFile(rendered, f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, schema.Statements(string(text))...)
	}
	replicated := 0
	for _, s := range all {
		tree := explained(t, conn, s)
		if tree == "" {
			t.Errorf("nothing is said of %s", s)
		}
		if strings.Contains(tree, "Replicated") {
			replicated++
		}
	}
	if len(all) < 50 || replicated < 8 {
		t.Errorf("%d statements, %d of them of replicated tables", len(all), replicated)
	}
	// It must be able to say no.
	if err := conn.Exec(t.Context(), "EXPLAIN AST CREATE TABLE t ON CLUSTER (a String) ENGINE = ReplicatedMergeTree"); err == nil {
		t.Error("a torn statement is read")
	}
}

func explained(t *testing.T, conn driver.Conn, statement string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN AST "+statement)
	if err != nil {
		t.Errorf("%s: %v", statement, err)
		return ""
	}
	defer rows.Close()
	var tree strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		tree.WriteString(line + "\n")
	}
	return tree.String()
}

func TestCheckOfACluster(t *testing.T) {
	url := "http://" + startEngine(t)
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := warehouse.CheckOn(t.Context(), conn, "nowhere"); !errors.Is(err, warehouse.ErrUnfit) || !strings.Contains(err.Error(), "knows no cluster nowhere") {
		t.Errorf("%v", err)
	}
	if err := warehouse.MigrateOn(t.Context(), url, "a'b"); !errors.Is(err, schema.ErrClusterName) {
		t.Errorf("%v", err)
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct{ name, engine, full, want string }{
		{"replicated, as Weir makes it", "ReplicatedMergeTree", "ReplicatedMergeTree ORDER BY a SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800", ""},
		{"replicated, by default", "ReplicatedMergeTree", "ReplicatedMergeTree ORDER BY a", ""},
		{"replicated, told the wrong one", "ReplicatedMergeTree", "ReplicatedMergeTree ORDER BY a SETTINGS replicated_deduplication_window = 100, non_replicated_deduplication_window = 10000",
			"MODIFY SETTING replicated_deduplication_window = 10000"},
		{"replicated, forgets soon", "ReplicatedMergeTree", "ReplicatedMergeTree ORDER BY a SETTINGS replicated_deduplication_window_seconds = 60",
			"MODIFY SETTING replicated_deduplication_window_seconds = 604800"},
		{"of one node, told the wrong one", "MergeTree", "MergeTree ORDER BY a SETTINGS replicated_deduplication_window = 10000", "MODIFY SETTING non_replicated_deduplication_window = 10000"},
		{"keeps nothing", "Null", "Null", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := warehouse.Fit("t", tt.engine, tt.full)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
