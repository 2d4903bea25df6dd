package warehouse_test

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write schemas/clickhouse/columns.txt anew")

// columns.txt is what the migrations make.
func TestColumns(t *testing.T) {
	const file = "../../../schemas/clickhouse/columns.txt"
	conn := open(t)
	rows, err := conn.Query(t.Context(), `SELECT c.table, c.name, c.type, c.default_expression FROM system.columns AS c
		JOIN system.tables AS t ON t.database = c.database AND t.name = c.table
		WHERE c.database = currentDatabase() AND t.engine NOT IN ('View', 'MaterializedView') AND c.table != 'goose_db_version'
		ORDER BY c.table, c.position`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var table, name, kind, otherwise string
		if err := rows.Scan(&table, &name, &kind, &otherwise); err != nil {
			t.Fatal(err)
		}
		text.WriteString(table + "\t" + name + "\t" + kind + "\t" + otherwise + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stands, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(stands) != text.String() {
		t.Errorf("columns.txt is not what the migrations make: go test ./processor/sink/warehouse -run Columns -rewrite\n%s", text.String())
	}
}
