package providertest

import (
	"encoding/base64"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
)

var rewrite = flag.Bool("rewrite", false, "write docs/providers/NAME.txt and the adapter's row of docs/providers.md anew")

// keep compares or writes what the docs say of an adapter.
func keep(t *testing.T, a Adapter, n count) {
	t.Helper()
	docs := filepath.Join(root(t), "docs")
	page := filepath.Join(docs, "providers", a.Name+".txt")
	text := transcript(real{t}, a)
	row := a.row(n)
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeRow(filepath.Join(docs, "providers.md"), a.Name, row); err != nil {
			t.Fatal(err)
		}
		return
	}
	if kept, err := os.ReadFile(page); err != nil || string(kept) != text {
		t.Errorf("docs/providers/%s.txt is not what went over the wire (%v): run this test with -rewrite. Now it is:\n%s", a.Name, err, text)
	}
	table, err := os.ReadFile(filepath.Join(docs, "providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _, err := rowsOf(string(table))
	has := slices.DeleteFunc(rows, func(r string) bool { return !isRowOf(a.Name)(r) })
	if err != nil || len(has) != 1 || has[0] != row {
		t.Errorf("the table of docs/providers.md (%v)\n has %s\nwant %s: run this test with -rewrite", err, strings.Join(has, ""), row)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this package")
		}
		dir = filepath.Dir(dir)
	}
}

func (a *Adapter) row(n count) string {
	channels := make([]string, len(a.Channels))
	for i, c := range a.Channels {
		channels[i] = string(c)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %s | %s |\n", a.mark(), strings.Join(channels, ", "), n.passed, n.not, a.Receipts, a.Idempotency)
}

func (a *Adapter) mark() string { return rowMark(a.Name) }

func rowMark(name string) string { return fmt.Sprintf("[%s](provider-%s.md)", name, name) }

const tableHead = "| adapter | channels | cases passed | not applicable | receipts | idempotency |\n|---|---|---|---|---|---|\n"

// rowsOf takes a page apart at its table.
func rowsOf(page string) (before string, rows []string, after string, err error) {
	head, rest, ok := strings.Cut(page, tableHead)
	if !ok {
		return "", nil, "", fmt.Errorf("it has no table that begins with %q", tableHead)
	}
	for strings.HasPrefix(rest, "| ") {
		line, more, _ := strings.Cut(rest, "\n")
		rows, rest = append(rows, line+"\n"), more
	}
	return head + tableHead, rows, rest, nil
}

func isRowOf(name string) func(row string) bool {
	return func(row string) bool { return strings.HasPrefix(row, "| "+rowMark(name)+" ") }
}

// writeRow writes a row, in the order of names. Other packages' tests may be writing
// theirs.
func writeRow(page, name, row string) error {
	f, err := os.OpenFile(page, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rows, after, err := rowsOf(string(text))
	if err != nil {
		return err
	}
	rows = append(slices.DeleteFunc(rows, isRowOf(name)), row)
	slices.Sort(rows)
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(before+strings.Join(rows, "")+after), 0)
	return err
}

// refusal is one that a transcript shows: one recipient's, where there is such a code.
func (a *Adapter) refusal() (Behaviour, string) {
	best := -1
	if a.Type.Codes == nil {
		return Behaviour{Forbidden: true}, "Refused credentials"
	}
	for i, row := range a.Type.Codes.Send {
		if row.Kind == provider.Permanent && (best < 0 || row.Suppress != "" && a.Type.Codes.Send[best].Suppress == "") {
			best = i
		}
	}
	if best < 0 {
		return Behaviour{Forbidden: true}, "Refused credentials"
	}
	row := a.Type.Codes.Send[best]
	code, _ := a.sample(row)
	return Behaviour{Code: code}, "Refused: " + code + ", " + row.Means
}

// transcript is one success, one refusal and one throttled call.
func transcript(t tb, a Adapter) string {
	t.Helper()
	refusal, what := a.refusal()
	var b strings.Builder
	fmt.Fprintf(&b, "What type %s sends and is answered, from its test's own server. Secrets and what differs\nfrom run to run are replaced. Written by the adapter's test with -rewrite.\n", a.Name)
	for _, play := range []struct {
		what string
		does Behaviour
	}{{"Taken", Behaviour{}}, {what, refusal}, {"Throttled", Behaviour{Throttle: 7 * time.Second}}} {
		a.try(t, func(e *env) {
			e.server.Do(play.does)
			o := e.send(e.call(a.Channels[0], plain), ample)
			fmt.Fprintf(&b, "\n=== %s\n\n%s\n", play.what, strings.TrimSpace(a.stable(e.server.Wire())))
			fmt.Fprintf(&b, "\n→ %s", o.Kind)
			if o.Kind != provider.Accepted {
				fmt.Fprintf(&b, ", received: %s, code %s, %q", map[bool]string{true: "perhaps", false: "no"}[o.MayBeReceived], o.Code, o.Text)
			}
			if o.RetryAfter > 0 {
				fmt.Fprintf(&b, ", after %s", o.RetryAfter)
			}
			b.WriteString("\n")
		})
	}
	text := b.String()
	for k, v := range a.Env {
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); len(line) >= leastForbidden && strings.Contains(text, line) {
				t.Errorf("the transcript still has %s", k)
			}
		}
	}
	return text
}

// differing is what differs from run to run, or is made of secrets.
var differing = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?im)^(\W*(?:proxy-)?authorization: *)(\S+ +)?.+$`), "${1}${2}***"},
	{regexp.MustCompile(`(?im)^(\W*(?:C: ?)?auth +\S+).*$`), "${1} ***"},
	{regexp.MustCompile(`(?im)^(\W*[\w-]*signature[\w-]*: *).+$`), "${1}***"},
	{regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}`), "JWT"},
	{regexp.MustCompile(`(?:127\.0\.0\.1|\[::1\]|localhost):\d+`), "HOST"},
	{regexp.MustCompile(`(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})`), "DATE"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?`), "DATE"},
	{regexp.MustCompile(`\b\d{8}T\d{6}Z\b`), "DATE"},
	{regexp.MustCompile(`\b1[6-9]\d{8}(?:\d{3})?\b`), "UNIX"},
	{regexp.MustCompile(`\b[0-9a-fA-F]{32,}\b`), "HEX"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UUID"},
}

// stable replaces what is secret and what differs.
func (a *Adapter) stable(wire string) string {
	const id = "0199b2a0-5c00-7000-8000-0123456789ab" // the call's own
	text := strings.ReplaceAll(strings.ReplaceAll(wire, "\r\n", "\n"), id, "\x00")
	for _, k := range slices.Sorted(maps.Keys(a.Env)) {
		v := a.Env[k]
		for _, form := range []string{v, url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v))} {
			text = strings.ReplaceAll(text, form, "${"+k+"}")
		}
	}
	for _, d := range differing {
		text = d.what.ReplaceAllString(text, d.with)
	}
	if a.Stable != nil {
		text = a.Stable(text)
	}
	lines := strings.Split(strings.ReplaceAll(text, "\x00", id), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.Join(lines, "\n")
}
