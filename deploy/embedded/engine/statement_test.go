package engine

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitInsert(t *testing.T) {
	for _, tt := range []struct {
		name, sql string
		want      *insert // nil: the engine runs it as it stands
	}{
		{"native", "INSERT INTO weir.t (a, b) FORMAT Native", &insert{into: "INSERT INTO weir.t (a, b) ", format: "Native"}},
		{"values", "insert into t values (1), (2)", &insert{into: "insert into t ", format: "Values", data: " (1), (2)"}},
		{"binary data keeps its first bytes", "INSERT INTO t FORMAT RowBinary \r\n\n x", &insert{into: "INSERT INTO t ", format: "RowBinary", data: "\n x"}},
		{"blank lines in data", "INSERT INTO t FORMAT JSONEachRow\n{}\n\n{}", &insert{into: "INSERT INTO t ", format: "JSONEachRow", data: "{}\n\n{}"}},
		{"settings go after the file", "INSERT INTO t SETTINGS async_insert = 0 VALUES (1)", &insert{into: "INSERT INTO t ", settings: "SETTINGS async_insert = 0 ", format: "Values", data: " (1)"}},
		{"a table called format", "INSERT INTO format FORMAT CSV\n1", &insert{into: "INSERT INTO format ", format: "CSV", data: "1"}},
		{"a table called db.values", "INSERT INTO db.values VALUES (1)", &insert{into: "INSERT INTO db.values ", format: "Values", data: " (1)"}},
		{"a quoted table", "INSERT INTO `a VALUES` VALUES (1)", &insert{into: "INSERT INTO `a VALUES` ", format: "Values", data: " (1)"}},
		{"a column called values", "INSERT INTO t (values, `format`) VALUES (1)", &insert{into: "INSERT INTO t (values, `format`) ", format: "Values", data: " (1)"}},
		{"comments", "-- VALUES\n/* FORMAT x */ INSERT INTO t -- y\nVALUES (1)", &insert{into: "-- VALUES\n/* FORMAT x */ INSERT INTO t -- y\n", format: "Values", data: " (1)"}},
		{"table keyword", "INSERT INTO TABLE t VALUES (1)", &insert{into: "INSERT INTO TABLE t ", format: "Values", data: " (1)"}},
		{"function", "INSERT INTO FUNCTION null('a Int8') VALUES (1)", &insert{into: "INSERT INTO FUNCTION null('a Int8') ", format: "Values", data: " (1)"}},
		{"select", "INSERT INTO t SELECT 1 FORMAT Native", nil},
		{"with select", "INSERT INTO t WITH 1 AS x SELECT x", nil},
		{"from a file", "INSERT INTO t FROM INFILE 'x' FORMAT CSV", nil},
		{"not an insert", "SELECT 1 FORMAT JSON", nil},
		{"nothing", "", nil},
		{"only INSERT", "INSERT", nil},
		{"no format's name", "INSERT INTO t FORMAT", nil},
		{"an open string", "INSERT INTO t ('x", nil},
		{"an open comment", "INSERT /* INTO t VALUES (1)", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := splitInsert(tt.sql)
			if ok != (tt.want != nil) {
				t.Fatalf("taken apart: %v, %+v", ok, got)
			}
			if ok {
				if diff := cmp.Diff(*tt.want, got, cmp.AllowUnexported(insert{})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestFromFile(t *testing.T) {
	i, _ := splitInsert("INSERT INTO t (a) SETTINGS x = 1 FORMAT Native")
	want := `INSERT INTO t (a)  FROM INFILE '/a\'b\\c' COMPRESSION 'none' SETTINGS x = 1  FORMAT Native`
	if got := i.fromFile(`/a'b\c`); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFormatClause(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1":                                "",
		"SELECT 1 FORMAT JSON":                    "JSON",
		"SELECT 1 format CSV;":                    "CSV",
		"SELECT 'FORMAT x' -- FORMAT y":           "",
		"SELECT * FROM (SELECT 1 FORMAT x)":       "",
		"SELECT 1 FORMAT JSON SETTINGS limit = 1": "JSON",
		"SELECT format('{}', 1)":                  "",
	} {
		if got := formatClause(sql); got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
}

func TestReadStatement(t *testing.T) {
	for _, tt := range []struct {
		name, query, body string
		sql, data         string
		isInsert          bool
	}{
		{"statement in the body", "", "SELECT 1", "SELECT 1", "", false},
		{"statement in the URL", "SELECT 1", "", "SELECT 1\n", "", false},
		{"both", "SELECT", "1", "SELECT\n1", "", false},
		{"insert in the URL, data in the body", "INSERT INTO t FORMAT Native", "\n\x00x", "", "\n\x00x", true},
		{"insert and data in the body", "", "INSERT INTO t FORMAT CSV\n1\n\n2", "", "1\n\n2", true},
		{"insert begun in the URL", "INSERT INTO t", "VALUES (1)", "", " (1)", true},
		{"more data in the body", "INSERT INTO t VALUES (1),", "(2)", "", " (1),\n(2)", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sql, _, data, err := readStatement(tt.query, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if (data != nil) != tt.isInsert {
				t.Fatalf("insert: %v", data != nil)
			}
			if data == nil {
				if sql != tt.sql {
					t.Errorf("got %q, want %q", sql, tt.sql)
				}
				return
			}
			if raw, err := io.ReadAll(data); err != nil || string(raw) != tt.data {
				t.Errorf("data %q, %v, want %q", raw, err, tt.data)
			}
		})
	}
}

func TestReadStatementTooLong(t *testing.T) {
	long := "SELECT " + strings.Repeat("1", maxText)
	if _, _, _, err := readStatement("", strings.NewReader(long)); err == nil || err.(*exception).httpStatus() != 413 {
		t.Errorf("got %v", err)
	}
	_, _, data, err := readStatement("", strings.NewReader("INSERT INTO t FORMAT CSV\n"+long))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, data); err != nil || n != int64(len(long)) {
		t.Errorf("an insert's data was cut: %d of %d, %v", n, len(long), err)
	}
}

func FuzzSplitInsert(f *testing.F) {
	f.Add("INSERT INTO t (a) SETTINGS x = 1 FORMAT Native\nx")
	f.Add("insert into `t VALUES ('\\")
	f.Fuzz(func(t *testing.T, sql string) {
		_ = formatClause(sql)
		i, ok := splitInsert(sql)
		if !ok {
			return
		}
		if !strings.HasPrefix(sql, i.into+i.settings) || !strings.HasSuffix(sql, i.data) || i.format == "" {
			t.Errorf("%q came apart as %+v", sql, i)
		}
	})
}
