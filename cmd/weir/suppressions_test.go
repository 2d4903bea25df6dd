package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/ingest/client"
)

// suppressionServer answers as the API does, and notes what was asked of it. An import
// refuses rows whose recipient is "nobody".
func suppressionServer(t *testing.T) (listen string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		w.Header().Set("Content-Type", "application/json")
		var v any
		switch {
		case r.Method == http.MethodGet && r.URL.Query().Get("tenant") == "other":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			v = client.Problem{Status: http.StatusForbidden, Code: "forbidden_tenant", Title: "Not your tenant"}
		case r.Method == http.MethodGet && r.URL.Query().Get("cursor") == "":
			v = client.SuppressionPage{Suppressions: []client.Suppression{{To: "a@example.com", Tenant: "acme", Channel: "email", ExpiresAt: 1798761600000, Reason: "hard_bounce", Provider: "ses", At: 1795248000000}}, NextCursor: "two"}
		case r.Method == http.MethodGet:
			v = client.SuppressionPage{Suppressions: []client.Suppression{{To: "b@example.com", At: 1795248000000}}}
		case r.Method == http.MethodPost && !strings.HasPrefix(string(body), "to"):
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			v = client.Problem{Status: http.StatusBadRequest, Code: "invalid_request", Errors: []client.FieldError{{Code: "bad_header", Detail: "is no row of such names"}}}
		case r.Method == http.MethodPost:
			all := client.Imported{DryRun: r.URL.Query().Get("dry_run") == "true"}
			for i, row := range strings.Split(strings.TrimSpace(string(body)), "\n")[1:] {
				one := client.ImportResult{Line: i + 2, Status: "accepted"}
				if all.Accepted++; strings.HasPrefix(row, "nobody") {
					all.Accepted, all.Refused = all.Accepted-1, all.Refused+1
					one.Status, one.Error = "", &client.Problem{Code: "invalid_request", Errors: []client.FieldError{{Pointer: "/to", Code: "bad_recipient", Detail: "is nobody"}}}
				}
				all.Results = append(all.Results, one)
			}
			w.WriteHeader(http.StatusAccepted)
			v = all
		default:
			w.WriteHeader(http.StatusAccepted)
			v = client.SuppressionDone{To: "+8613800000000", Channel: "sms", Status: "accepted", Outcome: map[string]string{"PUT": "suppress", "DELETE": "not_suppressed"}[r.Method]}
		}
		_ = json.NewEncoder(w).Encode(v)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), asked
}

func TestSuppressions(t *testing.T) {
	listen, asked := suppressionServer(t)
	for _, c := range []struct {
		args string
		want string // of standard output
		call string // the last
	}{
		{"list", "a@example.com  email    any    2027-01-01T00:00:00.000Z  hard_bounce  ses", "GET /v1/suppressions?cursor=two&limit=49"},
		{"list --limit 1", "There are more", "GET /v1/suppressions?limit=1"},
		{"list --channel email --reason hard_bounce --tenant acme --limit 0", "(every tenant's)", "GET /v1/suppressions?channel=email&cursor=two&limit=500&reason=hard_bounce&tenant=acme"},
		{"add --to 13800000000 --channel sms --reason asked --expires 2027-01-01T00:00:00Z", "suppressed +8613800000000, on sms and of any class\n",
			`PUT /v1/suppressions {"to":"13800000000","channel":"sms","expires_at":"2027-01-01T00:00:00.000Z","reason":"asked"}`},
		{"remove --to 13800000000 --channel sms", "nothing to lift: +8613800000000, on sms and of any class\n", "DELETE /v1/suppressions?channel=sms&to=13800000000"},
	} {
		args := append([]string{"suppressions"}, strings.Fields(c.args)...)
		code, stdout, stderr := weir(t, append(args, "--http-listen", listen, "--dir", t.TempDir())...)
		if code != exitOK || !strings.Contains(stdout, c.want) || (*asked)[len(*asked)-1] != c.call {
			t.Errorf("%s: code %d, %q %q, asked\n%s\nwant\n%s", c.args, code, stdout, stderr, (*asked)[len(*asked)-1], c.call)
		}
	}
}

// TestSuppressionsImport: a file goes in parts, and what is wrong in it is named by its
// own lines.
func TestSuppressionsImport(t *testing.T) {
	listen, asked := suppressionServer(t)
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "out.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	do := func(path string, more ...string) (int, imported, string) {
		t.Helper()
		code, stdout, stderr := weir(t, append([]string{"suppressions", "import", path, "--json", "--http-listen", listen, "--dir", t.TempDir()}, more...)...)
		var out imported
		if err := json.Unmarshal([]byte(stdout), &out); err != nil {
			t.Fatalf("%v: %q %q", err, stdout, stderr)
		}
		return code, out, stderr
	}
	code, out, stderr := do(write("\xef\xbb\xbfto,reason\na@example.com,\"two\nlines\"\nnobody,x\nb\"c,x\nd@example.com,x\n"), "--dry-run")
	var refused []string
	for _, r := range out.Refused {
		refused = append(refused, fmt.Sprint(r.Line, " ", r.Code))
	}
	if code != exitError || out.Rows != 4 || fmt.Sprint(refused) != "[5 bad_row 6 bad_recipient]" || !out.DryRun || stderr != "" {
		t.Errorf("code %d, %+v, %q", code, out, stderr)
	}
	if call := (*asked)[len(*asked)-1]; !strings.HasPrefix(call, "POST /v1/suppressions/import?dry_run=true to,reason\na@example.com,") {
		t.Error(call)
	}
	*asked = nil
	var long strings.Builder
	long.WriteString("to\n\"\"\n")
	for i := range 2*client.MaxImport + 5 {
		who := fmt.Sprintf("u%d@example.com", i)
		if i%client.MaxImport == 7 {
			who = "nobody"
		}
		long.WriteString(who + "\n")
	}
	code, out, _ = do(write(long.String()))
	if want := fmt.Sprint([]int{2, 10, 10 + client.MaxImport}); code != exitError || out.Rows != 2*client.MaxImport+6 || out.Accepted != 2*client.MaxImport+3 || len(*asked) != 3 {
		t.Errorf("code %d, %d rows, %d accepted, %d calls, want %s", code, out.Rows, out.Accepted, len(*asked), want)
	}
	var lines []int
	for _, r := range out.Refused {
		lines = append(lines, r.Line)
	}
	if got, want := fmt.Sprint(lines), fmt.Sprint([]int{2, 10, 10 + client.MaxImport}); got != want {
		t.Errorf("refused %s, want %s", got, want)
	}
	// Of another's key nothing is sent.
	*asked = nil
	if code, _, stderr := weir(t, "suppressions", "import", write("to\na@example.com\n"), "--tenant", "other", "--http-listen", listen, "--dir", t.TempDir()); code != exitError || !strings.Contains(stderr, "forbidden_tenant") && !strings.Contains(stderr, "Not your tenant") || len(*asked) != 1 {
		t.Errorf("code %d, %q, %q", code, stderr, *asked)
	}
	if code, stdout, _ := weir(t, "suppressions", "import", write("to\na@example.com\n"), "--http-listen", listen, "--dir", t.TempDir()); code != exitOK || !strings.HasPrefix(stdout, "1 of 1 rows were accepted") {
		t.Errorf("code %d, %q", code, stdout)
	}
	for text, want := range map[string]string{
		"": "is empty: the first row names the columns", "number;channel\n+8613800000000;sms\n": ":1: the first row names the columns, with commas between: to, and",
	} {
		if code, _, stderr := weir(t, "suppressions", "import", write(text), "--http-listen", listen, "--dir", t.TempDir()); code != exitError || !strings.Contains(stderr, want) || strings.Contains(stderr, "nothing is sure") {
			t.Errorf("%q: code %d, %q", text, code, stderr)
		}
	}
}

// TestDirWithoutDev: whoever names a directory means the weir dev that runs there.
func TestDirWithoutDev(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := weir(t, "suppressions", "list", "--dir", dir); code != exitUsage || !strings.Contains(stderr, "no weir dev has run there") {
		t.Errorf("code %d, %q", code, stderr)
	}
	if code, _, stderr := weir(t, "suppressions", "list", "--dir", dir, "--http-listen", "127.0.0.1:1"); code != exitError || strings.Contains(stderr, "weir dev") {
		t.Errorf("an address counts: code %d, %q", code, stderr)
	}
}

// TestDevStopped: where a weir dev has run, a command means it, and not whatever has its default ports.
func TestDevStopped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	const want = "weir dev of this directory is not running"
	for _, tt := range []struct {
		name string
		left *endpoints // by a weir dev that was killed
	}{
		{"it was stopped", nil},
		{"it was killed", &endpoints{PID: 1, HTTP: addr, Kafka: addr, Prefix: "weir.", Partitions: 8}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "broker"), 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.left != nil {
				if err := tt.left.write(dir); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				args []string
				code int
			}{
				{[]string{"suppressions", "list"}, exitError},
				{[]string{"status"}, exitError},
				{[]string{"get", "limits"}, exitError},
				{[]string{"send", "--to", "+8613800138000"}, exitError},
				{[]string{"audit"}, exitUntold},
				{[]string{"ledger", "check"}, exitUntold},
			} {
				var out, errs bytes.Buffer
				env := func(name string) string { return map[string]string{"WEIR_DIR": dir}[name] }
				if code := run(t.Context(), c.args, env, &out, &errs); code != c.code || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "--kafka-brokers") {
					t.Errorf("weir %v: code %d, %q", c.args, code, errs.String())
				}
			}
			if code, _, stderr := weir(t, "suppressions", "list", "--dir", dir, "--http-listen", "127.0.0.1:1"); code != exitError || strings.Contains(stderr, want) {
				t.Errorf("an address counts: code %d, %q", code, stderr)
			}
			if code, _, stderr := weir(t, "get", "limits", "--dir", dir, "--kafka-brokers", "127.0.0.1:1"); code != exitError || strings.Contains(stderr, want) || !strings.Contains(stderr, "127.0.0.1:1") {
				t.Errorf("brokers count: code %d, %q", code, stderr)
			}
		})
	}
}

// TestNoRepairWithDev: weir dev is one process, so nothing can be stopped for a repair while its Kafka runs.
func TestNoRepairWithDev(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	if err := (&endpoints{HTTP: b.addr, Kafka: b.addr, ClickHouse: "http://127.0.0.1:1", Prefix: "weir.", Partitions: 8}).write(dir); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"sink repair":   "weir sink check looks while it runs",
		"ledger check":  "weir audit compares the state while it runs",
		"ledger repair": "weir audit compares the state while it runs",
		"sink check":    "ClickHouse at 127.0.0.1:1 does not answer", // it is found, and tried
	} {
		if code, _, stderr := weir(t, append(strings.Fields(args), "--dir", dir)...); code != exitUntold || !strings.Contains(stderr, want) {
			t.Errorf("weir %s: code %d, %q", args, code, stderr)
		}
	}
}
