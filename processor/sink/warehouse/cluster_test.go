package warehouse_test

import (
	"context"
	"errors"
	"fmt"
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
	for _, tt := range []struct {
		shards  int
		cluster string
		want    string
		asked   string
	}{
		{0, "ours", "this server knows no cluster ours", "cluster = 'ours'"},
		{1, "ours", "table status_events is on this node only (engine MergeTree)", "cluster = 'ours'"},
		{2, "ours", "the cluster ours has 2 shards", "cluster = 'ours'"},
		{2, "{mine}", "the cluster {mine} has 2 shards", "cluster = getMacro('mine')"},
	} {
		c := &clustered{Conn: conn, shards: tt.shards}
		if err := warehouse.CheckOn(t.Context(), c, tt.cluster); !errors.Is(err, warehouse.ErrUnfit) || !strings.Contains(err.Error(), tt.want) || !strings.HasSuffix(c.asked, tt.asked) {
			t.Errorf("%s of %d shards: %v, want %q; asked %q", tt.cluster, tt.shards, err, tt.want, c.asked)
		}
	}
	if err := warehouse.MigrateOn(t.Context(), url, "a'b"); !errors.Is(err, schema.ErrClusterName) {
		t.Errorf("%v", err)
	}
}

// clustered is the engine, which is in no cluster, as one of so many shards.
type clustered struct {
	driver.Conn
	shards int
	asked  string
}

func (c *clustered) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	if strings.Contains(query, "system.clusters") {
		c.asked, query = query, fmt.Sprintf("SELECT toUInt64(%d)", c.shards)
	}
	return c.Conn.QueryRow(ctx, query, args...)
}

// TestReplicated: on a cluster, what keeps rows keeps them on every node.
func TestReplicated(t *testing.T) {
	for engine, fit := range map[string]bool{
		"MergeTree": false, "SummingMergeTree": false, "AggregatingMergeTree": false,
		"ReplicatedMergeTree": true, "ReplicatedAggregatingMergeTree": true, "SharedMergeTree": true, "Null": true, "View": true,
	} {
		if err := warehouse.Replicated("t", engine); (err == nil) != fit {
			t.Errorf("%s: %v", engine, err)
		}
	}
}

// TestTarget: where a view writes, however its statement is written.
func TestTarget(t *testing.T) {
	for create, want := range map[string]string{
		"CREATE MATERIALIZED VIEW weir.v TO weir.t (`a` String) AS SELECT a FROM weir.log":       "t",
		"CREATE MATERIALIZED VIEW weir.`v 1` TO weir.`t-1` (`a` String) AS SELECT a":             "t-1",
		"CREATE MATERIALIZED VIEW v TO t AS SELECT a FROM log":                                   "t",
		"CREATE MATERIALIZED VIEW v TO `t 1`\n(`a` String) AS SELECT a FROM log":                 "t 1",
		"CREATE MATERIALIZED VIEW weir.v (`a` String) ENGINE = MergeTree ORDER BY a AS SELECT a": "",
		"CREATE TABLE weir.t (`a` String) ENGINE = MergeTree ORDER BY a":                         "",
	} {
		if got := warehouse.Target(create); got != want {
			t.Errorf("%s: %q, want %q", create, got, want)
		}
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
		{"shared, by default", "SharedMergeTree", "SharedMergeTree ORDER BY a", ""},
		{"just enough", "MergeTree", "MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10000", ""},
		{"one too few, quoted", "MergeTree", "MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = '9999'", "remembers the last 9999 blocks"},
		{"quoted", "MergeTree", "MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = '10000'", ""},
		{"for just long enough", "ReplicatedMergeTree", "ReplicatedMergeTree ORDER BY a SETTINGS replicated_deduplication_window_seconds = '86400'", ""},
		{"for a second less", "ReplicatedMergeTree", "ReplicatedMergeTree ORDER BY a SETTINGS replicated_deduplication_window_seconds = '86399'", "for 86399 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := warehouse.Fit("t", tt.engine, tt.full)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
