package warehouse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink/warehouse"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role})
	os.Exit(m.Run())
}

// startEngine runs an engine until the test ends and returns its address.
func startEngine(t testing.TB) string {
	addr, _ := startEngineIn(t, t.TempDir())
	return addr
}

// startEngineIn runs an engine on a directory until stop is called or the test
// ends.
func startEngineIn(t testing.TB, dir string) (addr string, stop func()) {
	t.Helper()
	p := enginetest.Start(t, engine.Options{Dir: dir})
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return p.Addr(), stop
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
	} {
		var n uint64
		if err := conn.QueryRow(t.Context(), q).Scan(&n); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if n != 6000 {
			t.Errorf("%s: %d, want 6000: two blocks, each sent more than once", q, n)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, url, addr, user, password, database, err string }{
		{name: "short", url: "http://127.0.0.1:8123", addr: "127.0.0.1:8123", user: "default", database: "weir"},
		{name: "default port", url: "http://ch", addr: "ch:8123", user: "default", database: "weir"},
		{name: "https", url: "https://ch", addr: "ch:8443", user: "default", database: "weir"},
		{name: "all", url: "http://u:p%40ss@[::1]:9/other", addr: "[::1]:9", user: "u", password: "p@ss", database: "other"},
		{name: "as settings", url: "http://ch/?user=u&password=p&max_threads=1", addr: "ch:8123", user: "u", password: "p", database: "weir"},
		{name: "native protocol", url: "clickhouse://ch:9000", err: "HTTP interface"},
		{name: "no scheme", url: "127.0.0.1:8123", err: "ClickHouse URL"},
		{name: "no host", url: "http:///weir", err: "no host"},
		{name: "two databases", url: "http://ch/a/b", err: "one database"},
		{name: "quoted database", url: "http://ch/a`b", err: "one database"},
		{name: "unreadable", url: "http://u:secret@%zz", err: "cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := warehouse.Parse(tt.url)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if o.Addr[0] != tt.addr || o.Auth.Username != tt.user || o.Auth.Password != tt.password || o.Auth.Database != tt.database {
				t.Errorf("got %v %+v", o.Addr, o.Auth)
			}
		})
	}
}

var newest = fmt.Sprint(schema.Newest())

func TestCheck(t *testing.T) {
	addr := startEngine(t)
	for _, tt := range []struct {
		name string
		harm []string
		want []string // parts of the error; none is none
	}{
		{name: "fit"},
		{name: "a table's window", harm: []string{"ALTER TABLE status_events MODIFY SETTING non_replicated_deduplication_window = 0"},
			want: []string{"table status_events", "ALTER TABLE status_events MODIFY SETTING non_replicated_deduplication_window = 10000"}},
		{name: "a rollup's window is small", harm: []string{"ALTER TABLE status_by_minute_state MODIFY SETTING non_replicated_deduplication_window = 9999"},
			want: []string{"ALTER TABLE status_by_minute_state"}},
		{name: "a view of an operator, two steps away", harm: []string{
			"CREATE TABLE mine (class String, n UInt64) ENGINE = SummingMergeTree ORDER BY class",
			"CREATE MATERIALIZED VIEW to_mine TO mine AS SELECT class, count() AS n FROM status_events GROUP BY class"},
			want: []string{"ALTER TABLE mine "}},
		{name: "an operator's view whose target deduplicates", harm: []string{
			"CREATE TABLE mine (class String, n UInt64) ENGINE = SummingMergeTree ORDER BY class SETTINGS non_replicated_deduplication_window = 10000",
			"CREATE MATERIALIZED VIEW to_mine TO mine AS SELECT class, count() AS n FROM status_events GROUP BY class"}},
		{name: "a column is missing", harm: []string{"DROP VIEW status_log_2_to_decisions", "ALTER TABLE status_log_2 DROP COLUMN marker"},
			want: []string{"table status_log_2 has no column marker", "nothing fills table decisions: a view from status_log_2"}},
		{name: "a former sink's plans would be lost", harm: []string{"DROP VIEW status_log_to_decisions"},
			want: []string{"nothing fills table decisions: a view from status_log is"}},
		{name: "a migration half done", harm: []string{"DROP TABLE status_log"}, want: []string{"no table status_log: goose_db_version says that migration " + newest + " is done: run TRUNCATE TABLE goose_db_version"}},
		{name: "a migration without its first part", harm: []string{"ALTER TABLE decisions DROP COLUMN `carried.t`, DROP COLUMN onward"},
			want: []string{"table decisions has no column carried.t: run ALTER TABLE decisions ADD COLUMN `carried.t` Array(DateTime64(3, 'UTC'))",
				"ALTER TABLE decisions ADD COLUMN `onward` Int32 DEFAULT -1"}},
		{name: "a migration missing", harm: []string{"DROP TABLE status_log_2"}, want: []string{"no table status_log_2: goose_db_version says that migration " + newest}},
		{name: "nothing migrated", harm: []string{"TRUNCATE TABLE goose_db_version", "DROP TABLE status_log_2"}, want: []string{"no table status_log_2: migrate first"}},
		{name: "a column of another type", harm: []string{"DROP VIEW status_log_2_to_messages_by_time", "ALTER TABLE status_log_2 MODIFY COLUMN class UInt64"},
			want: []string{"column class of table status_log_2 is of type UInt64, and Weir's rows have String"}},
		{name: "a column stored otherwise", harm: []string{"ALTER TABLE status_events MODIFY COLUMN tenant String"}},
		{name: "an operator's view fills what its table has not", harm: []string{
			"CREATE TABLE mine (class String, tenant String) ENGINE = MergeTree ORDER BY class SETTINGS non_replicated_deduplication_window = 10000",
			"CREATE MATERIALIZED VIEW to_mine TO mine AS SELECT class, tenant FROM status_events", "ALTER TABLE mine DROP COLUMN tenant"},
			want: []string{"view to_mine fills column tenant, which table mine has not"}},
		{name: "a newer Weir was here", harm: []string{"INSERT INTO goose_db_version (version_id, is_applied, tstamp) VALUES (99, 1, now())"},
			want: []string{"it has migration 99, and this one knows " + newest}},
		{name: "a newer Weir was here and took it back", harm: []string{"INSERT INTO goose_db_version (version_id, is_applied, tstamp) VALUES (99, 1, now() - 5), (99, 0, now())"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := "http://" + addr + "/" + "db_" + strings.Map(func(r rune) rune {
				if r < 'a' || r > 'z' {
					return '_'
				}
				return r
			}, tt.name)
			if err := warehouse.Migrate(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			conn, err := warehouse.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, q := range tt.harm {
				if err := conn.Exec(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			err = warehouse.Check(t.Context(), conn)
			if len(tt.want) == 0 && err != nil || len(tt.want) > 0 && !errors.Is(err, warehouse.ErrUnfit) {
				t.Fatalf("check: %v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("check: %v; want %q in it", err, w)
				}
			}
		})
	}
}

func TestMigrationMendsItself(t *testing.T) {
	url := "http://" + startEngine(t) + "/weir"
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// As if it had been killed after a part of its statements: no version
	// noted, some objects missing.
	for _, q := range []string{"DROP VIEW messages", "DROP VIEW status_log_to_decisions", "DROP VIEW status_log_2_to_decisions",
		"ALTER TABLE decisions DROP COLUMN `carried.t`, DROP COLUMN onward", "TRUNCATE TABLE goose_db_version"} {
		if err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := warehouse.Check(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec(t.Context(), "SELECT * FROM messages"); err != nil {
		t.Fatal(err)
	}
}

// behind is the engine behind something that changes its calls, or answers in its
// place by returning false.
func behind(t *testing.T, addr string, meddle func(w http.ResponseWriter, q url.Values) bool) string {
	t.Helper()
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !meddle(w, q) {
			return
		}
		r.URL.RawQuery = q.Encode()
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// Weir's settings reach the server, or it does not begin.
func TestCheckOfTheServer(t *testing.T) {
	addr := startEngine(t)
	if err := warehouse.Migrate(t.Context(), "http://"+addr); err != nil {
		t.Fatal(err)
	}
	refuse := func(code int) func(http.ResponseWriter, url.Values) bool {
		return func(w http.ResponseWriter, q url.Values) bool {
			if !q.Has("insert_deduplicate") {
				return true
			}
			w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "Code: %d. DB::Exception: Setting insert_deduplicate should not be changed. (SETTING_CONSTRAINT_VIOLATION) (version 26.7.2.1)\n", code)
			return false
		}
	}
	force := func(name, value string) func(http.ResponseWriter, url.Values) bool {
		return func(_ http.ResponseWriter, q url.Values) bool { q.Set(name, value); return true }
	}
	for _, tt := range []struct {
		name   string
		meddle func(http.ResponseWriter, url.Values) bool
		want   string
	}{
		{"as it is", func(http.ResponseWriter, url.Values) bool { return true }, ""},
		{"inserts made asynchronous", force("async_insert", "1"), "Weir sets async_insert=0, and ClickHouse has async_insert=1"},
		{"views do not deduplicate", force("deduplicate_blocks_in_dependent_materialized_views", "0"), "ClickHouse has deduplicate_blocks_in_dependent_materialized_views=0"},
		{"views' errors ignored", force("materialized_views_ignore_errors", "1"), "ClickHouse has materialized_views_ignore_errors=1"},
		{"tokens taken away", func(_ http.ResponseWriter, q url.Values) bool { q.Del("insert_deduplication_token"); return true }, "ClickHouse has insert_deduplication_token="},
		{"a constraint", refuse(452), "take the constraint, or readonly, from its profile"},
		{"a user that only reads", refuse(164), "take the constraint, or readonly, from its profile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := warehouse.Open(t.Context(), behind(t, addr, tt.meddle))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			err = warehouse.Check(t.Context(), conn)
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, warehouse.ErrUnfit) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("check: %v; want %q", err, tt.want)
			}
		})
	}
}

// instead is the engine, asked something else.
type instead struct {
	driver.Conn
	old, new string
}

func (c instead) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	return c.Conn.QueryRow(ctx, strings.Replace(query, c.old, c.new, 1), args...)
}

func (c instead) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	return c.Conn.Query(ctx, strings.Replace(query, c.old, c.new, 1), args...)
}

func TestCheckOfAnOldServer(t *testing.T) {
	conn, err := warehouse.Open(t.Context(), "http://"+startEngine(t)+"/default")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, tt := range []struct{ old, new, want string }{
		{"SELECT version()", "SELECT '24.7.9.1'", "this server is ClickHouse 24.7.9.1: 24.8 or newer is needed"},
		{"FROM system.settings WHERE", "FROM system.settings WHERE name != 'materialized_views_ignore_errors' AND", "this server has no setting materialized_views_ignore_errors: ClickHouse 24.8 or newer is needed"},
	} {
		if err := warehouse.Check(t.Context(), instead{conn, tt.old, tt.new}); !errors.Is(err, warehouse.ErrUnfit) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

func TestOldServers(t *testing.T) {
	for version, want := range map[string]bool{"23.8.1.1": true, "24.7.99.1": true, "24.8.1.1": false, "25.1": false, "26.7.2.1": false, "a fork": false} {
		if warehouse.TooOld(version) != want {
			t.Errorf("%s is too old: %v, want %v", version, !want, want)
		}
	}
}
