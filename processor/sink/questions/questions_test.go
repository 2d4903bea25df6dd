package questions_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/questions"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role})
	os.Exit(m.Run())
}

// Every query of docs/sql.md is asked of a world whose answers are known, and
// every answer is worked out without it. A query without an answer fails, and an
// answer without a query.
func TestQueriesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	queries, err := questions.Parse(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if len(queries) < 15 {
		t.Errorf("%d queries, want at least 15", len(queries))
	}
	w := newWorld()
	url := load(t, w)
	asked := map[string]bool{}
	for _, q := range queries {
		t.Run(q.Title, func(t *testing.T) {
			work, ok := answers[q.Title]
			if !ok {
				t.Fatal("nobody has worked out its answer")
			}
			asked[q.Title] = true
			want := work(w)
			if len(want) == 0 {
				t.Fatal("the world has nothing to answer: any query would do")
			}
			if diff := cmp.Diff(want, ask(t, url, q.At(noon)), cmp.Comparer(same)); diff != "" {
				t.Errorf("%s\n%s", q.SQL, diff)
			}
			// As printed it must run, too.
			ask(t, url, q.SQL)
			for _, b := range breaks {
				if at := strings.Index(q.SQL, b.old); at >= 0 && !slices.Contains(b.same, q.Title) {
					broken := questions.Query{SQL: q.SQL[:at] + b.new + q.SQL[at+len(b.old):]}
					if strings.HasPrefix(b.old, "INTERVAL") { // a span that is named twice is one
						broken.SQL = strings.ReplaceAll(q.SQL, b.old, b.new)
					}
					if got, err := try(url, broken.At(noon)); err == nil && cmp.Equal(want, got, cmp.Comparer(same)) {
						t.Errorf("with %q for %q the answer is the same: it would not be seen", b.new, b.old)
					}
				}
			}
		})
	}
	for title := range answers {
		if !asked[title] {
			t.Errorf("there is an answer to %q, and no query", title)
		}
	}
}

// breaks are ways in which a query may be wrong. Each must change its answer,
// unless it is named here: where that is there but once, where its words are the
// same for all, where a scope has no name of one letter, and where what follows AND
// only says where it stands.
var breaks = []struct {
	old, new string
	same     []string
}{
	{"INTERVAL 1 DAY", "INTERVAL 2 DAY", []string{"Why one was refused", "How full such a limit is", "Messages with more than one end", "Holes in the decision log"}},
	{"INTERVAL 7 DAY", "INTERVAL 6 DAY", nil},
	{"INTERVAL 1 HOUR", "INTERVAL 2 HOUR", nil},
	{"INTERVAL 2 MONTH", "INTERVAL 0 MONTH", nil},
	{"INTERVAL 30 DAY", "INTERVAL 2 HOUR", nil},
	{"INTERVAL 3 DAY", "INTERVAL 9 DAY", nil},
	{"status = 'sent'", "status = 'failed'", nil},
	{"status IN (", "status NOT IN (", nil},
	{" AND ", " OR ", []string{"Records that could not be decoded"}},
	{"DESC", "ASC", []string{"How full such a limit is"}},
	{"LIMIT 20", "LIMIT 19", nil},
	{"LIMIT 100", "LIMIT 20", []string{"Messages with more than one end"}},
	{"count()", "count() + 1", nil},
	{"countIf(", "countIf(NOT ", nil},
	{"sumIf(events", "sumIf(1", nil},
	{"sum(", "max(", nil},
	{"min(", "max(", []string{"Which providers refuse, and why"}},
	{"max(", "min(", []string{"RetryCount >= 3"}},
	{"minIf(", "maxIf(", []string{"Time to deliver", "Receipts that never came"}},
	{"assumeNotNull(accepted_at)", "assumeNotNull(at)", nil},
	{"PARTITION BY message_id", "PARTITION BY class", nil},
	{"called = first_called", "called > first_called", nil},
	{"uniqExact(", "count(", []string{"Holes in the decision log"}},
	{"attempt > 1", "attempt > 2", nil},
	{"attempt >= 3", "attempt >= 2", nil},
	{"= 'm-1'", "= 'm-2'", nil},
	{"'p-1'", "'p-2'", nil},
	{"[2]", "[1]", nil},
	{"> 0", "> 1", []string{"Time to deliver", "Queue time", "What limits beyond one recipient refused"}},
}

// The pages' queries stand below headings of their own.
func TestParse(t *testing.T) {
	for _, c := range []struct{ name, page, err string }{
		{"one", "# Page\n\n### A\n\nText.\n\n```sql\nSELECT now()\n```\n\n## B\n", ""},
		{"two below a heading", "### A\n```sql\nSELECT 1\n```\n```sql\nSELECT 2\n```\n", `below "A" stand 2 queries, want 1`},
		{"none below it", "### A\n\n### B\n```sql\nSELECT 2\n```\n", `below "A" stand 0 queries, want 1`},
		{"no heading", "```sql\nSELECT 1\n```\n### A\n```sql\nSELECT 2\n```\n", "1 of 2 queries stand below a heading of their own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := questions.Parse(c.page)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			want := questions.Query{Title: "A", SQL: "SELECT now()"}
			if err != nil || len(got) != 1 || got[0] != want {
				t.Fatalf("%v %v", got, err)
			}
			if at := got[0].At(time.Date(2026, 11, 18, 12, 30, 0, 0, time.UTC)); at != "SELECT toDateTime('2026-11-18 12:30:00', 'UTC')" {
				t.Error(at)
			}
		})
	}
}

// same compares rows cell by cell.
func same(a, b string) bool {
	x, y := strings.Split(a, "\t"), strings.Split(b, "\t")
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !sameCell(x[i], y[i]) && !sameCell(y[i], x[i]) {
			return false
		}
	}
	return true
}

func sameCell(want, got string) bool {
	var lo, hi, v float64
	if _, err := fmt.Sscanf(want, "~%f:%f", &lo, &hi); err != nil {
		return want == got
	}
	_, err := fmt.Sscanf(got, "%f", &v)
	return err == nil && lo <= v && v <= hi
}

// load puts the world into an engine, through the sink's encoder, and returns the
// engine's URL.
func load(t *testing.T, w *world) string {
	t.Helper()
	url := "http://" + enginetest.Start(t, engine.Options{}).Addr()
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := sink.NewBlock([]byte(hashKey))
	offsets := map[int32]int64{}
	add := func(partition int32, appended schemas.Millis, value []byte) {
		b.Append(sink.Record{Partition: partition, Offset: offsets[partition], Appended: appended, Value: value})
		offsets[partition]++
	}
	for _, e := range w.events {
		add(w.parts[e], e.At, schemas.AppendEvent(nil, e))
	}
	for _, p := range w.poison {
		add(p.partition, p.appended, []byte(p.value))
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	batch, err := conn.PrepareBatch(ctx, schema.StatusLog.Insert())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range b.Columns() {
		if err := batch.Column(i).Append(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	return url
}

// ask returns a query's rows, with tabs between cells.
func ask(t *testing.T, url, query string) []string {
	t.Helper()
	rows, err := try(url, query)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func try(url, query string) ([]string, error) {
	resp, err := http.Post(url+"/?database=weir", "text/plain", strings.NewReader(query+"\nFORMAT TSVRaw"))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s\n%s %s", query, resp.Status, body)
	case len(body) == 0:
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"), nil
}
