package engine_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestHostilePage: what a page of another site makes a browser send is refused,
// whatever its method; what a person's own programs send is answered.
func TestHostilePage(t *testing.T) {
	p := start(t, t.TempDir())
	_, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, host, headers, query, body string) int {
		t.Helper()
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s /?query=%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s", method, url.QueryEscape(query), host, len(body), headers, body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	local := "127.0.0.1:" + port
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		for name, c := range map[string]struct{ host, headers string }{
			"an image, a script or a link": {local, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"},
			"another port of this machine": {local, "Sec-Fetch-Site: same-site\r\n"},
			"a fetch":                      {local, "Origin: https://evil.example\r\n"},
			"a sandboxed frame":            {local, "Origin: null\r\n"},
			"a rebound name":               {"evil.example:" + port, ""},
			"a rebound name like ours":     {"localhost.evil.example:" + port, "Sec-Fetch-Site: same-origin\r\n"},
			"an address of the network":    {"192.168.1.10:" + port, ""},
			"no name":                      {"", ""},
		} {
			if got := ask(method, c.host, c.headers, "SELECT 1", ""); got != http.StatusForbidden {
				t.Errorf("%s by %s: %d", name, method, got)
			}
		}
	}
	for name, c := range map[string]struct{ method, host, headers, query, body string }{
		"curl --data":       {"POST", "localhost:" + port, "Content-Type: application/x-www-form-urlencoded\r\n", "", "SELECT 1"},
		"curl -G":           {"GET", local, "", "SELECT 1", ""},
		"the address bar":   {"GET", local, "Sec-Fetch-Site: none\r\n", "SELECT 1", ""},
		"a tool's own page": {"POST", local, "Sec-Fetch-Site: same-origin\r\nOrigin: http://" + local + "\r\n", "SELECT 1", ""},
		"another loopback":  {"GET", "[::1]:" + port, "", "SELECT 1", ""},
	} {
		if got := ask(c.method, c.host, c.headers, c.query, c.body); got != http.StatusOK {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestNothingOutside: no statement reads or writes what is not the engine's own,
// whoever sends it and however it is spelled.
func TestNothingOutside(t *testing.T) {
	p := start(t, t.TempDir())
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret.tsv")
	if err := os.WriteFile(secret, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer site.Close()
	for _, sql := range []string{"CREATE DATABASE w", "CREATE TABLE w.t (a String) ENGINE = MergeTree ORDER BY a", "INSERT INTO w.t VALUES ('1')"} {
		if resp, out := ask(t, p, "", sql); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", sql, out)
		}
	}
	fill := strings.NewReplacer("SECRET", secret, "OUT", filepath.Join(outside, "out"), "SITE", site.URL, "DIR", outside)
	for _, sql := range []string{
		"SELECT * FROM file('SECRET', 'LineAsString')", "SELECT file('SECRET')", "SELECT FiLe('SECRET')",
		"SELECT * FROM `file`('SECRET', 'LineAsString')", `SELECT * FROM "file"('SECRET', 'LineAsString')`, `SELECT * FROM "f\x69le"('SECRET', 'LineAsString')`,
		"SELECT * FROM file/* */('SECRET', 'LineAsString')", "SELECT * FROM file -- x\n('SECRET', 'LineAsString')", "SELECT * FROM file\u00a0('SECRET', 'LineAsString')",
		"SELECT 1 /* /* */ , ' */ , file('SECRET') --'", "SELECT $a$ ' $a$, file('SECRET') --'", "SELECT x'\\', file('SECRET') --'", "SELECT 1 // '\n, file('SECRET') --'",
		"SELECT * FROM `SECRET`", "SELECT * FROM 'SECRET'", `SELECT * FROM "SECRET"`, "SELECT * FROM default.`SECRET`", "DESCRIBE TABLE `SECRET`",
		"SELECT * APPLY(file) FROM (SELECT 'SECRET' AS p)", "FROM file('SECRET', 'LineAsString') SELECT *",
		"SELECT 1 WHERE 'x' IN (SELECT * FROM file('SECRET', 'LineAsString'))", "SELECT 1 WHERE 'x' IN file('SECRET', 'LineAsString')",
		"SELECT 1 AS a FORMAT Template SETTINGS format_template_resultset = 'SECRET'", "SET format_template_row = 'SECRET'",
		`SELECT 1 FROM system.one SETTINGS additional_table_filters = {'system.one': 'throwIf(1, file(\'SECRET\'))'}`,
		"SELECT * FROM view(SELECT * FROM file('SECRET', 'LineAsString'))", "SELECT * FROM eval('SELECT file(\\'SECRET\\')')", "EXPLAIN SELECT file('SECRET')",
		"SET dialect = 'kusto'", "EXECUTE AS default SELECT file('SECRET')",
		"SELECT * FROM url('SITE', 'LineAsString')", "SELECT * FROM s3('SITE/x', 'LineAsString')", "SELECT * FROM remote('127.0.0.1:9', system.one)", "SELECT * FROM cluster('default', system.one)",
		"SELECT * FROM mysql('127.0.0.1:9', 'a', 'b', 'c', 'd')", "SELECT * FROM executable('id', 'TSV', 'a String')", "SELECT * FROM sqlite('SECRET', 't')", "SELECT * FROM filesystem('DIR')",
		"SELECT * FROM w.t INTO OUTFILE 'OUT'", "SELECT * FROM w.t INTO/**/OUTFILE 'OUT'",
		"INSERT INTO FUNCTION file('OUT', 'TSV', 'a String') SELECT 'x'", "INSERT INTO FUNCTION file('OUT', 'TSV', 'a String') VALUES ('x')", "INSERT INTO TABLE FUNCTION url('SITE', 'TSV', 'a String') SELECT 'x'",
		"INSERT INTO w.t FROM INFILE 'SECRET' FORMAT LineAsString", "INSERT INTO w.t (a) from infile 'SECRET' FORMAT LineAsString",
		"CREATE TABLE w.f (a String) ENGINE = File(LineAsString, 'SECRET')", "CREATE TABLE w.f (a String) ENGINE File(LineAsString, 'SECRET')", "CREATE TABLE w.f (a String) ENGINE=`File`(LineAsString, 'SECRET')",
		"CREATE TABLE w.u (a String) ENGINE = URL('SITE', 'TSV')", "CREATE TABLE w.k (a String) ENGINE = Kafka('127.0.0.1:9', 't', 'g', 'JSONEachRow')",
		"CREATE TABLE w.g AS file('SECRET', 'LineAsString')", "CREATE VIEW w.v AS SELECT * FROM file('SECRET', 'LineAsString')", "CREATE DATABASE fs ENGINE = Filesystem('DIR')",
		"CREATE TABLE w.d (a String) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = 'OUT/')",
		"CREATE DICTIONARY w.d (a String, b String) PRIMARY KEY a SOURCE(FILE(path 'SECRET' format 'TSV')) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0)", "CREATE OR REPLACE DICTIONARY w.d (a String) PRIMARY KEY a SOURCE(HTTP(url 'SITE' format 'TSV')) LAYOUT(FLAT()) LIFETIME(0)",
		"BACKUP TABLE w.t TO File('OUT')", "RESTORE TABLE w.t FROM File('SECRET')", "ATTACH TABLE w.a FROM 'DIR' (a String) ENGINE = MergeTree ORDER BY a",
		"SELECT * FROM format(Values, 'a String', '(file(''SECRET''))')", "SELECT * FROM format(Values, 'a String', '((SELECT * FROM url(''SITE'', ''LineAsString'')))')",
		"SELECT * FROM format(Values, 'a String', '(file(''SECRET''))') SETTINGS input_format_values_interpret_expressions = 1",
		"INSERT INTO w.t VALUES (file('SECRET'))", "INSERT INTO w.t FORMAT Values ('a'), (concat('b', FILE/**/('SECRET')))", "INSERT INTO w.t VALUES ('a' /* /* */ || ' */ || file('SECRET') --')",
		"INSERT INTO w.t VALUES ((SELECT * FROM url('SITE', 'LineAsString')))", "SELECT aiGenerate('c', 'x') SETTINGS allow_experimental_ai_functions = 1",
		"CREATE TABLE w.p (a Int8) ENGINE = Memory PARALLEL WITH CREATE TABLE w.q (a String) ENGINE = File(TSV, 'SECRET')", "SYSTEM SHUTDOWN", "CREATE NAMED COLLECTION c AS url = 'SITE'",
	} {
		sql = fill.Replace(sql)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			resp, out := send(t, p, method, "query="+url.QueryEscape(sql), nil, nil)
			if resp.StatusCode == http.StatusOK || strings.Contains(out, "hunter2") {
				t.Errorf("%s %s: %d %.200s", method, sql, resp.StatusCode, out)
			}
		}
	}
	for _, more := range []string{"", "&compatibility=20.1", "&input_format_values_interpret_expressions=1"} {
		for _, into := range []string{"INSERT INTO w.t VALUES", "INSERT INTO w.t FORMAT vaLues", "INSERT INTO w.t SELECT * FROM input('a String') FORMAT Values"} {
			if resp, out := ask(t, p, "query="+url.QueryEscape(into)+more, fill.Replace("(file('SECRET'))")); resp.StatusCode == http.StatusOK {
				t.Errorf("%s%s, and the rows in the body: %s", into, more, out)
			}
		}
		if _, out := ask(t, p, strings.TrimPrefix(more, "&"), fill.Replace("SELECT * FROM format(Values, 'a String', '(file(''SECRET''))')")); strings.Contains(out, "hunter2") {
			t.Errorf("format%s: %s", more, out)
		}
	}
	if _, out := ask(t, p, "", "SELECT count() FROM w.t WHERE a LIKE '%hunter2%'"); out != "0\n" {
		t.Errorf("rows with the secret: %s", out)
	}
	for _, params := range []string{"format_template_resultset=" + url.QueryEscape(secret) + "&default_format=Template", "dialect=kusto", "format_schema=" + url.QueryEscape(secret)} {
		if resp, out := ask(t, p, params, "SELECT 1"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %.200s", params, resp.StatusCode, out)
		}
	}
	if resp, out := ask(t, p, "param_t="+url.QueryEscape(secret), "SELECT * FROM {t:Identifier}"); resp.StatusCode == http.StatusOK {
		t.Errorf("a file by a parameter: %s", out)
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 1 || calls.Load() != 0 {
		t.Errorf("%d files beside the secret, %d calls, %v", len(left)-1, calls.Load(), err)
	}
	for _, sql := range []string{
		"SELECT 'file(''x'')' AS a, \"a\" FROM numbers(2) SETTINGS max_threads = 1 -- file(",
		"WITH 1 AS x SELECT * FROM w.t", "SELECT name, engine FROM system.tables WHERE engine = 'File'", "SELECT 'ü', 'into outfile'", "SHOW TABLES FROM w", "SELECT format('{}', a), url FROM (SELECT a, a AS url FROM w.t)",
		"/* a /  * comment: é */ INSERT INTO w.t VALUES ('file(1)')", "CREATE OR REPLACE VIEW w.v AS SELECT * FROM w.t",
		"INSERT INTO w.t VALUES (upper('x')), (toString(now())), ('it''s // file(1) /* ü')", "SELECT * FROM format(Values, 'a String', '(''file(1)'')')",
	} {
		if resp, out := ask(t, p, "", sql); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", sql, resp.StatusCode, out)
		}
	}
}

// TestDefaultStays: tables in the database default outlive a restart.
func TestDefaultStays(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		p := start(t, dir)
		for _, sql := range []string{"CREATE TABLE IF NOT EXISTS mine (a UInt8) ENGINE = MergeTree ORDER BY a", "INSERT INTO mine VALUES (1)"} {
			if resp, out := ask(t, p, "", sql); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", sql, out)
			}
		}
		if _, out := ask(t, p, "", "SELECT count() FROM mine"); out != fmt.Sprintln(i+1) {
			t.Errorf("after %d restarts: %s", i, out)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
