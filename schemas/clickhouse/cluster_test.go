package clickhouse_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas/clickhouse"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestOnCluster(t *testing.T) {
	for _, tt := range []struct{ name, sql, want string }{
		{"a table", "CREATE TABLE IF NOT EXISTS t (\n    a String\n) ENGINE = MergeTree\nORDER BY a\nSETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;\n",
			"CREATE TABLE IF NOT EXISTS t ON CLUSTER 'c' (\n    a String\n) ENGINE = ReplicatedMergeTree\nORDER BY a\nSETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800, ttl_only_drop_parts = 1;\n"},
		{"an engine with a column", ") ENGINE = ReplacingMergeTree(ver)\n", ""},
		{"a table that keeps nothing", "CREATE TABLE IF NOT EXISTS l (a String\n) ENGINE = Null;\n", "CREATE TABLE IF NOT EXISTS l ON CLUSTER 'c' (a String\n) ENGINE = Null;\n"},
		{"a view that fills", "CREATE MATERIALIZED VIEW IF NOT EXISTS v TO t AS\nSELECT a FROM l;\n", "CREATE MATERIALIZED VIEW IF NOT EXISTS v ON CLUSTER 'c' TO t AS\nSELECT a FROM l;\n"},
		{"a view", "CREATE VIEW IF NOT EXISTS v AS SELECT a FROM t;\n", "CREATE VIEW IF NOT EXISTS v ON CLUSTER 'c' AS SELECT a FROM t;\n"},
		{"a view made anew", "CREATE OR REPLACE VIEW v AS SELECT a FROM t;\n", "CREATE OR REPLACE VIEW v ON CLUSTER 'c' AS SELECT a FROM t;\n"},
		{"a change", "ALTER TABLE t\n    ADD COLUMN IF NOT EXISTS b String;\n", "ALTER TABLE t ON CLUSTER 'c'\n    ADD COLUMN IF NOT EXISTS b String;\n"},
		{"dropped", "DROP VIEW IF EXISTS v;\nDROP TABLE IF EXISTS t;\n", "DROP VIEW IF EXISTS v ON CLUSTER 'c';\nDROP TABLE IF EXISTS t ON CLUSTER 'c';\n"},
		{"copied", "INSERT INTO t SELECT a FROM u;\n", "INSERT INTO t SELECT a FROM u;\n"},
		{"a comment", "-- CREATE TABLE IF NOT EXISTS t\nSELECT 1;\n", "-- CREATE TABLE IF NOT EXISTS t\nSELECT 1;\n"},
		{"what nobody thought of", "RENAME TABLE t TO u;\n", ""},
		{"made without looking", "CREATE TABLE t (a String) ENGINE = Null;\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := clickhouse.OnCluster(tt.sql, "c")
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%v\n%s\nwant\n%s", err, got, tt.want)
			}
		})
	}
	for _, name := range []string{"", "a'b", "a b", `a\`, strings.Repeat("x", 129)} {
		if _, err := clickhouse.OnCluster("SELECT 1;\n", name); !errors.Is(err, clickhouse.ErrClusterName) {
			t.Errorf("%q is taken for a name: %v", name, err)
		}
	}
}

// Every migration as it runs on a cluster, to be read: testdata/cluster.
func TestMigrationsOnACluster(t *testing.T) {
	rendered, err := clickhouse.Render("{cluster}")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = fs.WalkDir(rendered, "migrations", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen++
		text, err := fs.ReadFile(rendered, path)
		if err != nil {
			return err
		}
		if n := strings.Count(string(text), "ENGINE = MergeTree") + strings.Count(string(text), "non_replicated"); n > 0 {
			t.Errorf("%s: %d of one node only", path, n)
		}
		golden := filepath.Join("testdata", "cluster", filepath.Base(path))
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(golden, text, 0o644); err != nil {
				return err
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			return err
		}
		if string(text) != string(want) {
			t.Errorf("%s is rendered otherwise: go test ./schemas/clickhouse -rewrite, and read the difference", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 3 {
		t.Errorf("%d migrations", seen)
	}
	if plain, err := clickhouse.Render(""); err != nil {
		t.Error(err)
	} else if a, err := fs.ReadFile(plain, "migrations/00001_status.sql"); err != nil || strings.Contains(string(a), "CLUSTER") {
		t.Errorf("without a cluster: %v", err)
	}
}
