package engine_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/pressly/goose/v3"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role, signalsRole: checkSignals})
	os.Exit(m.Run())
}

// start runs an engine on dir until the test ends.
func start(t *testing.T, dir string) *child.Process {
	t.Helper()
	began := time.Now()
	p, err := engine.Start(t.Context(), engine.Options{Dir: dir, LibPath: enginetest.Library(t), Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready in %v", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := p.Stop(ctx); err != nil && !t.Failed() && !strings.Contains(err.Error(), "killed") {
			t.Errorf("stop: %v", err)
		}
	})
	return p
}

// ask sends a statement as curl would and returns the status and the body.
func ask(t *testing.T, p *child.Process, params, body string) (*http.Response, string) {
	t.Helper()
	return send(t, p, http.MethodPost, params, strings.NewReader(body), nil)
}

func send(t *testing.T, p *child.Process, method, params string, body io.Reader, header http.Header) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // rather than with all the package's tests
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addr()+"/?"+params, body)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl --data says
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

// must is ask for statements that have to work.
func must(t *testing.T, p *child.Process, body string) string {
	t.Helper()
	resp, out := ask(t, p, "", body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", body, resp.StatusCode, out)
	}
	return out
}

func open(t *testing.T, p *child.Process, method clickhouse.CompressionMethod) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{p.Addr()}, Protocol: clickhouse.HTTP,
		Auth:        clickhouse.Auth{Database: "default", Username: "weir", Password: "ignored"},
		Compression: &clickhouse.Compression{Method: method},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestHTTP(t *testing.T) {
	p := start(t, t.TempDir())
	must(t, p, "CREATE DATABASE weir")
	must(t, p, "CREATE TABLE weir.t (a Int32, b String) ENGINE = MergeTree ORDER BY a")

	for _, tt := range []struct {
		name, method, params, body string
		status                     int
		want                       string // the whole answer, or for errors a part of it
		format                     string
		code                       string
	}{
		{name: "tab separated by default", body: "SELECT 1, 'x\ty'", want: "1\tx\\ty\n", format: "TabSeparated"},
		{name: "semicolon", body: "SELECT 1;", want: "1\n"},
		{name: "format clause", body: "SELECT 1 AS a FORMAT JSONEachRow", want: "{\"a\":1}\n", format: "JSONEachRow"},
		{name: "default_format", params: "default_format=CSV", body: "SELECT 1, 'x'", want: "1,\"x\"\n", format: "CSV"},
		{name: "query in the URL", method: "GET", params: "query=SELECT+1;", want: "1\n"},
		{name: "no query", method: "GET", want: "Ok.\n"},
		{name: "query over both", params: "query=SELECT", body: "2", want: "2\n"},
		{name: "database", params: "database=weir", body: "SHOW TABLES", want: "t\n"},
		{name: "a database with a quote", params: "database=no`pe", body: "SELECT 1", status: 404, want: "UNKNOWN_DATABASE", code: "81"},
		{name: "parameters", params: "param_n=7&param_s=" + url.QueryEscape("it's 'x\\ty"), body: "SELECT {n:UInt8} + 1, {s:String}", want: "8\tit\\'s \\'x\\ty\n"},
		{name: "a parameter as identifier", params: "param_t=t&database=weir", body: "SELECT count() FROM {t:Identifier}", want: "0\n"},
		{name: "settings", params: "max_block_size=7&max_threads=1", body: "SELECT getSetting('max_block_size')", want: "7\n"},
		{name: "a setting with a quote", params: "log_comment=" + url.QueryEscape(`it's \`), body: "SELECT length(getSetting('log_comment'))", want: "6\n"},
		{name: "UTC", body: "SELECT timezone(), serverTimezone()", want: "UTC\tUTC\n"},
		{name: "nothing inserted", body: "INSERT INTO weir.t VALUES", want: ""},
		{name: "values with a blank line", body: "INSERT INTO weir.t VALUES (1, 'x\n\ny'),\n\n(2, 'z')", want: ""},
		{name: "values with a parameter", params: "param_v=4", body: "INSERT INTO weir.t VALUES ({v:Int32}, concat('a', 'b'))", want: ""},
		{name: "json with a blank line", params: "query=" + url.QueryEscape("INSERT INTO weir.t FORMAT JSONEachRow"), body: "{\"a\":5}\n\n{\"a\":6}", want: ""},
		{name: "settings in the insert", body: "INSERT INTO weir.t (a) SETTINGS async_insert = 0 VALUES (7)", want: ""},
		{name: "insert select", body: "INSERT INTO weir.t SELECT 8, 'q'", want: ""},
		{name: "all are there", body: "SELECT groupArray(a), count(DISTINCT b) FROM (SELECT * FROM weir.t ORDER BY a)", want: "[1,2,4,5,6,7,8]\t5\n"},

		{name: "unknown table", body: "SELECT * FROM nope", status: 404, want: "Code: 60. DB::Exception: ", code: "60"},
		{name: "syntax error", body: "SELECT FROM WHERE", status: 400, want: "SYNTAX_ERROR", code: "62"},
		{name: "two statements", body: "SELECT 1; SELECT 2", status: 400, want: "Multi-statements", code: "62"},
		{name: "no statement", body: "", status: 400, want: "SYNTAX_ERROR", code: "62"},
		{name: "unknown setting", params: "nonsense=1", body: "SELECT 1", status: 404, want: "nonsense", code: "115"},
		{name: "a setting that is SQL", params: url.QueryEscape("a=1,b") + "=1", body: "SELECT 1", status: 404, want: "UNKNOWN_SETTING", code: "115"},
		{name: "a parameter is missing", body: "SELECT {x:Int8}", status: 500, want: "x", code: "456"},
		{name: "error while it runs", body: "SELECT throwIf(number = 100000) FROM numbers(200000)", status: 500, want: "throwIf", code: "395"},
		{name: "bad data", body: "INSERT INTO weir.t FORMAT JSONEachRow\n{\"a\": \"x\"}", status: 400, want: "Code: 27", code: "27"},
		{name: "GET changes nothing", method: "GET", params: "query=DROP+TABLE+weir.t", status: 500, want: "READONLY", code: "164"},
		{name: "GET inserts nothing", method: "GET", params: "query=" + url.QueryEscape("INSERT INTO weir.t VALUES (9, '')"), status: 500, want: "READONLY", code: "164"},
		{name: "SET does not stay", body: "SET max_block_size = 9", want: ""},
		{name: "nor does USE", body: "USE weir", want: ""},
		{name: "it did not", body: "SELECT getSetting('max_block_size') = 9, currentDatabase()", want: "0\tdefault\n"},
		{name: "temporary tables end", body: "CREATE TEMPORARY TABLE x (a Int8)", want: ""},
		{name: "they did", body: "SELECT * FROM x", status: 404, want: "UNKNOWN_TABLE", code: "60"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodPost
			}
			resp, out := send(t, p, method, tt.params, strings.NewReader(tt.body), nil)
			if tt.status == 0 {
				if resp.StatusCode != 200 || out != tt.want {
					t.Errorf("%d %q, want %q", resp.StatusCode, out, tt.want)
				}
			} else if resp.StatusCode != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("%d %q, want %d with %q", resp.StatusCode, out, tt.status, tt.want)
			}
			if got := resp.Header.Get("X-ClickHouse-Exception-Code"); got != tt.code {
				t.Errorf("exception code %q, want %q", got, tt.code)
			}
			if got := resp.Header.Get("X-ClickHouse-Format"); tt.format != "" && got != tt.format {
				t.Errorf("format %q, want %q", got, tt.format)
			}
		})
	}

	t.Run("ping", func(t *testing.T) {
		resp, err := http.Get("http://" + p.Addr() + "/ping")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(raw) != "Ok.\n" {
			t.Errorf("%d %q", resp.StatusCode, raw)
		}
	})
	t.Run("headers", func(t *testing.T) {
		resp, _ := send(t, p, "POST", "query_id=mine", strings.NewReader("SELECT number FROM numbers(10)"), nil)
		if got := resp.Header.Get("X-ClickHouse-Query-Id"); got != "mine" {
			t.Errorf("query id %q", got)
		}
		if got := resp.Header.Get("X-ClickHouse-Summary"); !strings.Contains(got, `"read_rows":"10"`) || !strings.Contains(got, `"result_rows":"10"`) {
			t.Errorf("summary %q", got)
		}
		resp, out := send(t, p, "POST", "", strings.NewReader("SELECT 1"), http.Header{"X-Clickhouse-Format": {"JSONCompactEachRow"}, "X-Clickhouse-Database": {"weir"}, "X-Clickhouse-User": {"any"}, "X-Clickhouse-Key": {"any"}})
		if out != "[1]\n" {
			t.Errorf("X-ClickHouse-Format: %d %q", resp.StatusCode, out)
		}
	})
}

func TestRequestCompression(t *testing.T) {
	p := start(t, t.TempDir())
	must(t, p, "CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
	var z, l, s bytes.Buffer
	gz := gzip.NewWriter(&z)
	lw := lz4.NewWriter(&l)
	zw, err := zstd.NewWriter(&s)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range []io.WriteCloser{gz, lw, zw} {
		if _, err := fmt.Fprintf(w, "INSERT INTO t VALUES (%d)", i+1); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range map[string][]byte{"gzip": z.Bytes(), "lz4": l.Bytes(), "zstd": s.Bytes()} {
		resp, out := send(t, p, "POST", "", bytes.NewReader(body), http.Header{"Content-Encoding": {name}})
		if resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, out)
		}
		resp, out = send(t, p, "POST", "query=INSERT+INTO+t+FORMAT+CSV", bytes.NewReader(body[:len(body)-6]), http.Header{"Content-Encoding": {name}})
		if resp.StatusCode == 200 {
			t.Errorf("%s: a body that is cut short was taken: %s", name, out)
		}
	}
	if got := must(t, p, "SELECT sum(a), count() FROM t"); got != "6\t3\n" {
		t.Errorf("inserted: %q", got)
	}
	resp, out := send(t, p, "POST", "", strings.NewReader("SELECT 1"), http.Header{"Content-Encoding": {"rot13"}})
	if resp.StatusCode == 200 || resp.Header.Get("X-ClickHouse-Exception-Code") == "" {
		t.Errorf("unknown encoding: %d %s", resp.StatusCode, out)
	}
	resp, out = send(t, p, "POST", "enable_http_compression=1", strings.NewReader("SELECT 1"), http.Header{"Accept-Encoding": {"gzip"}})
	if r, err := gzip.NewReader(strings.NewReader(out)); resp.Header.Get("Content-Encoding") != "gzip" || err != nil {
		t.Errorf("answer not compressed: %v", err)
	} else if raw, _ := io.ReadAll(r); string(raw) != "1\n" {
		t.Errorf("answer: %q", raw)
	}
	// Framed bodies, cut at every kind of place.
	whole := "SELECT 42"
	framed := frame(t, p, whole)
	if resp, out := send(t, p, "POST", "decompress=1", bytes.NewReader(framed), nil); out != "42\n" {
		t.Errorf("framed: %d %q", resp.StatusCode, out)
	}
	// 25 bytes are a block's header: what is cut there looks like an end.
	framed = frame(t, p, "7\n8\n")
	for _, n := range []int{5, 25, len(framed) - 1} {
		if resp, out := send(t, p, "POST", "decompress=1&query=INSERT+INTO+t+FORMAT+CSV", bytes.NewReader(framed[:n]), nil); resp.StatusCode == 200 {
			t.Errorf("framed, cut at %d: %q", n, out)
		}
	}
}

// frame lets the engine compress: compress=1 gives what decompress=1 takes.
func frame(t *testing.T, p *child.Process, s string) []byte {
	t.Helper()
	_, out := send(t, p, "POST", "compress=1&default_format=RawBLOB&param_s="+url.QueryEscape(s), strings.NewReader("SELECT {s:String}"), nil)
	return []byte(out)
}

var methods = map[string]clickhouse.CompressionMethod{
	"none": clickhouse.CompressionNone, "lz4": clickhouse.CompressionLZ4, "zstd": clickhouse.CompressionZSTD,
	"gzip": clickhouse.CompressionGZIP, "deflate": clickhouse.CompressionDeflate, "br": clickhouse.CompressionBrotli,
}

func TestClickHouseGo(t *testing.T) {
	p := start(t, t.TempDir())
	for name, method := range methods {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			conn := open(t, p, method)
			table := "t_" + name
			if err := conn.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			if v, err := conn.ServerVersion(); err != nil || v.Version.Major != 26 || v.Revision != 0 {
				t.Errorf("version %+v, %v", v, err)
			}
			if err := conn.Exec(ctx, "CREATE TABLE "+table+" (id UUID, n UInt32, s LowCardinality(String), o Nullable(String), at DateTime64(3, 'UTC'), m Map(String, String), e Enum8('a' = 1, 'b' = 2), x Array(Tuple(k String, v Int64))) ENGINE = MergeTree ORDER BY n"); err != nil {
				t.Fatal(err)
			}
			at := time.Date(2026, 11, 21, 8, 0, 0, 123e6, time.UTC)
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+table)
			if err != nil {
				t.Fatal(err)
			}
			word := "\n\n验证码"
			for i := range 1000 {
				var o *string
				if i%2 == 0 {
					o = &word
				}
				if err := batch.Append("0192f0c0-0000-7000-8000-000000000001", uint32(i), "s"+strconv.Itoa(i%7), o, at, map[string]string{"k": "v"}, "b", [][]any{{"k", int64(i)}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Fatal(err)
			}
			var n uint64
			var s string
			var o *string
			var got time.Time
			ctxp := clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"below": "4", "word": "x"}))
			if err := conn.QueryRow(ctxp, "SELECT count(), any(s), any(o), any(at) FROM "+table+" WHERE n < {below:UInt32} AND {word:String} = 'x'").Scan(&n, &s, &o, &got); err != nil {
				t.Fatal(err)
			}
			if n != 4 || s != "s0" || o == nil || *o != word || !got.Equal(at) {
				t.Errorf("got %d %q %v %v", n, s, o, got)
			}
			if err := conn.QueryRow(ctx, "SELECT count() FROM "+table+" WHERE n >= ? AND s = ?", 10, "s3").Scan(&n); err != nil || n != 142 {
				t.Errorf("positional parameters: %d, %v", n, err)
			}
			rows, err := conn.Query(ctx, "SELECT number, toString(number) FROM numbers(200000)")
			if err != nil {
				t.Fatal(err)
			}
			var count, sum uint64
			for rows.Next() {
				if err := rows.Scan(&n, &s); err != nil {
					t.Fatal(err)
				}
				count++
				sum += n
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil || count != 200000 || sum != 19999900000 {
				t.Errorf("rows: %d, sum %d, %v", count, sum, err)
			}
			err = conn.Exec(ctx, "SELECT * FROM nope")
			if e, ok := errors.AsType[*clickhouse.Exception](err); !ok || e.Code != 60 || e.CodeName != "UNKNOWN_TABLE" {
				t.Errorf("error of Exec: %v", err)
			}
			_, err = conn.Query(ctx, "SELECT nope")
			if e, ok := errors.AsType[*clickhouse.Exception](err); !ok || e.Code != 47 {
				t.Errorf("error of Query: %v", err)
			}
			empty, err := conn.Query(ctx, "SELECT * FROM "+table+" WHERE n > 100000")
			if err != nil || empty.Next() || empty.Err() != nil {
				t.Errorf("an empty answer: %v", err)
			}
		})
	}
}

// withToken is how the sink inserts.
func withToken(ctx context.Context, token string) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"async_insert": 0, "insert_deduplicate": 1, "deduplicate_blocks_in_dependent_materialized_views": 1,
		"insert_deduplication_token": token,
	}))
}

func createDeduplicated(t *testing.T, p *child.Process) {
	t.Helper()
	must(t, p, "CREATE DATABASE weir")
	must(t, p, "CREATE TABLE weir.events (id UInt64, class LowCardinality(String), at DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000")
	must(t, p, "CREATE TABLE weir.by_class (class LowCardinality(String), n UInt64) ENGINE = SummingMergeTree ORDER BY class SETTINGS non_replicated_deduplication_window = 10000")
	must(t, p, "CREATE MATERIALIZED VIEW weir.by_class_mv TO weir.by_class AS SELECT class, count() AS n FROM weir.events GROUP BY class")
}

func insertEvents(ctx context.Context, conn driver.Conn, from, rows int) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO weir.events (id, class, at)")
	if err != nil {
		return err
	}
	at := time.UnixMilli(1795248000000)
	for i := range rows {
		if err := batch.Append(uint64(from+i), "class-"+strconv.Itoa(i%5), at); err != nil {
			return err
		}
	}
	return batch.Send()
}

func TestDeduplication(t *testing.T) {
	p := start(t, t.TempDir())
	createDeduplicated(t, p)
	conn := open(t, p, clickhouse.CompressionLZ4)
	const rows = 100_000
	for _, token := range []string{"topic/0/0-100000", "topic/0/0-100000", "topic/0/100000-200000", "topic/0/0-100000"} {
		began := time.Now()
		if err := insertEvents(withToken(t.Context(), token), conn, 0, rows); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d rows in %v, encoding included", token, rows, time.Since(began).Round(time.Millisecond))
	}
	if got := must(t, p, "SELECT count() FROM weir.events"); got != "200000\n" {
		t.Errorf("rows: %q", got)
	}
	if got := must(t, p, "SELECT sum(n) FROM weir.by_class"); got != "200000\n" {
		t.Errorf("rows in the view: %q", got)
	}
	if got := must(t, p, "SELECT class, count() FROM weir.events GROUP BY ALL ORDER BY class LIMIT 1"); got != "class-0\t40000\n" {
		t.Errorf("by class: %q", got)
	}
}

func TestConcurrentStatements(t *testing.T) {
	p := start(t, t.TempDir())
	createDeduplicated(t, p)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5 {
				_, out := ask(t, p, fmt.Sprintf("max_block_size=%d&param_g=%d", 1000+g, g), "SELECT {g:UInt8}, getSetting('max_block_size'), sum(number) FROM numbers(1000000)")
				if want := fmt.Sprintf("%d\t%d\t499999500000\n", g, 1000+g); out != want {
					t.Errorf("got %q, want %q", out, want)
				}
				resp, out := ask(t, p, "", fmt.Sprintf("INSERT INTO weir.events (id, class) VALUES (%d, 'x')", g*100+i))
				if resp.StatusCode != 200 {
					t.Errorf("%d %s", resp.StatusCode, out)
				}
			}
		})
	}
	wg.Wait()
	if got := must(t, p, "SELECT count(), count(DISTINCT id) FROM weir.events"); got != "40\t40\n" {
		t.Errorf("inserted: %q", got)
	}
}

func TestSurvives(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*testing.T, *child.Process)
	}{
		{"a restart", func(t *testing.T, p *child.Process) {
			if err := p.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"kill -9", func(t *testing.T, p *child.Process) {
			p.Kill()
			<-p.Done()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, dir)
			createDeduplicated(t, p)
			must(t, p, "CREATE TABLE in_default (a Int8) ENGINE = MergeTree ORDER BY a")
			must(t, p, "INSERT INTO in_default VALUES (1)")
			conn := open(t, p, clickhouse.CompressionLZ4)
			if err := insertEvents(withToken(t.Context(), "a"), conn, 0, 1000); err != nil {
				t.Fatal(err)
			}
			tt.end(t, p)

			p = start(t, dir)
			conn = open(t, p, clickhouse.CompressionLZ4)
			for _, token := range []string{"a", "b"} {
				if err := insertEvents(withToken(t.Context(), token), conn, 0, 1000); err != nil {
					t.Fatal(err)
				}
			}
			if got := must(t, p, "SELECT count(), (SELECT sum(n) FROM weir.by_class), (SELECT count() FROM in_default) FROM weir.events"); got != "2000\t2000\t1\n" {
				t.Errorf("after it: %q", got)
			}
		})
	}
}

// TestKilledWhileInserting does what the sink does when the engine dies under
// it: send the same range with the same token until it is answered.
func TestKilledWhileInserting(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir)
	createDeduplicated(t, p)
	const batches, rows, kills = 12, 5000, 3
	killed := 0
	for b := range batches {
		if b%4 == 1 && killed < kills {
			killed++
			doomed := p
			time.AfterFunc(time.Duration(5+10*killed)*time.Millisecond, doomed.Kill)
		}
		for {
			conn := open(t, p, clickhouse.CompressionLZ4)
			err := insertEvents(withToken(t.Context(), strconv.Itoa(b)), conn, b*rows, rows)
			if err == nil {
				break
			}
			if _, ok := errors.AsType[*clickhouse.Exception](err); ok {
				t.Fatal(err)
			}
			<-p.Done()
			p = start(t, dir)
		}
	}
	want := fmt.Sprintf("%d\t%d\t%d\n", batches*rows, batches*rows, batches*rows)
	if got := must(t, p, "SELECT count(), count(DISTINCT id), (SELECT sum(n) FROM weir.by_class) FROM weir.events"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSuccessorWaits(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	must(t, first, "CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a")
	var stopping atomic.Bool
	stopped := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		stopping.Store(true)
		stopped <- first.Stop(context.Background())
	})
	second := start(t, dir)
	if !stopping.Load() {
		t.Error("two engines served one directory")
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if got := must(t, second, "SHOW TABLES"); got != "t\n" {
		t.Errorf("tables: %q", got)
	}
}

func TestStopEndsStatements(t *testing.T) {
	p := start(t, t.TempDir())
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	run := func() {
		resp, err := http.Post("http://"+p.Addr(), "", strings.NewReader("SELECT sum(sleepEachRow(0.03)) FROM numbers(100) SETTINGS max_block_size = 1"))
		if err != nil {
			answers <- answer{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		answers <- answer{resp.StatusCode, string(raw)}
	}
	go run()
	for must(t, p, "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow%' AND query NOT LIKE '%system.processes%'") != "1\n" {
		select {
		case <-answers: // it was over before it was seen
			go run()
		default:
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-answers; got.status != 200 || got.body != "0\n" {
		t.Errorf("the running statement was answered %d %q", got.status, got.body)
	}
}

func TestGoose(t *testing.T) {
	p := start(t, t.TempDir())
	files := fstest.MapFS{
		"00001_events.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nCREATE DATABASE IF NOT EXISTS weir;\nCREATE TABLE IF NOT EXISTS weir.a (x Int8) ENGINE = MergeTree ORDER BY x;\n-- +goose Down\nDROP TABLE weir.a;\n")},
		"00002_more.sql":   {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nALTER TABLE weir.a ADD COLUMN IF NOT EXISTS y String;\n-- +goose Down\nALTER TABLE weir.a DROP COLUMN y;\n")},
	}
	db := clickhouse.OpenDB(&clickhouse.Options{Addr: []string{p.Addr()}, Protocol: clickhouse.HTTP, Auth: clickhouse.Auth{Database: "default"}})
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectClickHouse, db, files)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := provider.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := provider.GetDBVersion(t.Context()); err != nil || v != 2 {
		t.Errorf("version %d, %v", v, err)
	}
	if got := must(t, p, "SELECT name FROM system.columns WHERE database = 'weir' AND table = 'a' ORDER BY name"); got != "x\ny\n" {
		t.Errorf("columns: %q", got)
	}
	if _, err := provider.Down(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  engine.Config
		want string
	}{
		{"no library", engine.Config{Dir: "x", Addr: "127.0.0.1:0"}, "library"},
		{"no directory", engine.Config{LibPath: "x", Addr: "127.0.0.1:0"}, "directory"},
		{"an address of the network", engine.Config{LibPath: "x", Dir: "x", Addr: "0.0.0.0:0"}, "loopback"},
		{"all addresses", engine.Config{LibPath: "x", Dir: "x", Addr: ":0"}, "loopback"},
		{"no port", engine.Config{LibPath: "x", Dir: "x", Addr: "127.0.0.1"}, "port"},
		{"a negative grace", engine.Config{LibPath: "x", Dir: "x", Addr: "127.0.0.1:0", Grace: -1}, "negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := engine.Serve(t.Context(), tt.cfg, func(string) { t.Error("it was ready") })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a file that is no library", func(t *testing.T) {
		enginetest.Library(t)
		dir := t.TempDir()
		fake := filepath.Join(dir, "lib.so")
		if err := os.WriteFile(fake, []byte("no"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := engine.Start(t.Context(), engine.Options{Dir: dir, LibPath: fake})
		if err == nil || !strings.Contains(err.Error(), "lib.so") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a directory in use", func(t *testing.T) {
		dir := t.TempDir()
		start(t, dir)
		err := engine.Serve(t.Context(), engine.Config{LibPath: enginetest.Library(t), Dir: dir, Addr: "127.0.0.1:0", LockWait: 100 * time.Millisecond}, func(string) {})
		if e, ok := errors.AsType[*engine.LockedError](err); !ok || e.Dir != dir {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an address in use", func(t *testing.T) {
		p := start(t, t.TempDir())
		_, err := engine.Start(t.Context(), engine.Options{Dir: t.TempDir(), LibPath: enginetest.Library(t), Addr: p.Addr()})
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("got %v", err)
		}
	})
}

func TestEnsureIsInstantTheSecondTime(t *testing.T) {
	enginetest.Library(t)
	took := time.Hour
	for range 10 { // the machine may be busy with something else
		began := time.Now()
		enginetest.Library(t)
		took = min(took, time.Since(began))
	}
	t.Logf("%v", took)
	if took > 300*time.Millisecond { // a hash of the library takes longer, each time
		t.Errorf("it took %v", took)
	}
}

// signalsRole checks in a child that the engine leaves Go's handler of SIGSEGV
// in place: without it a nil dereference ends the process.
const signalsRole = "signals"

func checkSignals(ctx context.Context, args []string, ready func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return engine.Serve(ctx, engine.Config{LibPath: args[0], Dir: args[1], Addr: "127.0.0.1:0"}, func(addr string) {
		defer cancel()
		for range 20 {
			resp, err := http.Post("http://"+addr, "", strings.NewReader("SELECT sum(number) FROM numbers(100000)"))
			if err != nil {
				return
			}
			resp.Body.Close()
			if !panics() {
				return
			}
		}
		ready("handlers kept")
	})
}

func panics() (did bool) {
	defer func() { did = recover() != nil }()
	var p *int
	*p = 1
	return false
}

func TestGoKeepsItsSignalHandlers(t *testing.T) {
	// With the engine's handler in place a nil dereference never returns.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := child.Start(ctx, child.Spec{Role: signalsRole, Args: []string{enginetest.Library(t), t.TempDir()}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if p.Addr() != "handlers kept" {
		t.Errorf("got %q", p.Addr())
	}
	<-p.Done()
	if err := p.Err(); err != nil {
		t.Error(err)
	}
}
