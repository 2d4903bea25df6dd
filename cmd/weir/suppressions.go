package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

var suppressionsCommand = command{
	name:    "suppressions",
	args:    "list | add --to RECIPIENT | remove --to RECIPIENT | import FILE.csv [--channel C] [--class C] [flags]",
	summary: "Who is not to be sent to, until when and why.",
	details: `list     what your tenant suppresses, in the order of recipients, as of a second or two ago; with --to what is
         suppressed of one, exactly and now
add      suppresses a recipient: on --channel and of --class, or on any and of any; said again it changes until when and why
remove   lifts the suppression of exactly that recipient, channel and class
import   takes in a table whose first row names its columns: to, and any of channel, class, expires_at and reason. FILE
         may be - for standard input. Rows that are wrong are named by their lines and hold up none of the others. To import the same again changes nothing. Progress is on stderr

It speaks HTTP: an API key stands in ` + apiKeyEnv + `; weir dev needs none. The tenant is the key's; --tenant only makes sure of it.`,
	exits: []string{
		"0 done",
		"1 not done: the error says why; import also: a row was refused, and the others were accepted",
		"2 wrong usage",
	},
	resume: "What was accepted stays so. To import the same file again is safe.",
	example: `weir suppressions list --reason hard_bounce
  weir suppressions add --to +8613800000000 --channel sms --expires 2027-01-01T00:00:00Z --reason "asked by phone"
  weir suppressions remove --to +8613800000000 --channel sms
  weir suppressions import opt-outs.csv --dry-run`,
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("list", "add", "remove", "import")
		words := c.leading(len(c.args))
		fs := flag.NewFlagSet("suppressions", flag.ContinueOnError)
		to := fs.String("to", "", "the recipient; list: of this one only")
		channel := fs.String("channel", "", "sms, voice, email, push or webhook (default any)")
		class := fs.String("class", "", "class (default any)")
		reason := fs.String("reason", "", "add: why; list: only those for this reason")
		tenant := fs.String("tenant", "", "your tenant; if the key is another's, nothing is done")
		var expires schemas.Millis
		fs.Func("expires", "add: when it ends: a time in RFC 3339, or how long from now (90m, 30d) (default never)", func(v string) (err error) {
			expires, err = ending(v, time.Now())
			return err
		})
		limit := fs.Int("limit", 50, "list: how many at most; 0 is all")
		dryRun := fs.Bool("dry-run", false, "import: judge the rows, and write nothing")
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		switch {
		case verb == "":
			return usagef("say list, add, remove or import")
		case verb != "import" && len(words) > 0:
			return usagef("%s takes no argument; --to names a recipient", verb)
		case (verb == "add" || verb == "remove") && *to == "":
			return usagef("%s needs --to, the recipient", verb)
		case verb == "import" && (len(words) != 1 || *to != ""):
			return usagef("import takes one file; - is standard input")
		case *limit < 0:
			return usagef("--limit is 0 or more")
		}
		s, err := load()
		if err != nil {
			return err
		}
		cl := client.New("http://"+s.HTTP, c.getenv(apiKeyEnv), client.WithRetry(client.Retry{Total: importPatience}))
		q := client.SuppressionQuery{To: *to, Channel: schemas.Channel(*channel), Class: *class, Reason: *reason, Tenant: *tenant}
		switch verb {
		case "list":
			return c.listSuppressions(ctx, cl, q, *limit, *asJSON)
		case "import":
			return c.importSuppressions(ctx, cl, words[0], *tenant, *dryRun, *asJSON)
		}
		var done *client.SuppressionDone
		if verb == "add" {
			done, err = cl.Suppress(ctx, client.SuppressRequest{To: q.To, Tenant: q.Tenant, Channel: q.Channel, Class: q.Class, ExpiresAt: expires, Reason: *reason})
		} else {
			done, err = cl.Unsuppress(ctx, q)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return c.printJSON(done)
		}
		_, err = fmt.Fprintf(c.stdout, "%s %s%s\n", changes[done.Outcome], done.To, covering(done.Channel, done.Class))
		return err
	},
}

// importPatience is how long one call is tried again: the API's own pace lets ten
// imports through and then one a minute.
const importPatience = 5 * time.Minute

// changes says in words what was decided.
var changes = map[string]string{
	"suppress": "suppressed", "repeated": "suppressed so already:", "unsuppress": "lifted:", "not_suppressed": "nothing to lift:", "": "asked for, and not decided yet:",
}

// covering says what a suppression covers, behind its recipient.
func covering(channel, class string) string {
	if channel == "" && class == "" {
		return ", on any channel and of any class"
	}
	return ", on " + cmp.Or(channel, "any channel") + " and of " + cmp.Or(class, "any class")
}

// ending reads when something ends.
func ending(v string, now time.Time) (schemas.Millis, error) {
	if d, err := schemas.ParseDuration(v); err == nil && d > 0 {
		return schemas.MillisOf(now.Add(time.Duration(d))), nil
	}
	m, err := schemas.ParseMillis(v)
	if err != nil || m == 0 {
		return 0, fmt.Errorf("%q is neither a time, such as 2027-01-01T00:00:00Z, nor a duration, such as 30d", v)
	}
	return m, nil
}

func (c *call) listSuppressions(ctx context.Context, cl *client.Client, q client.SuppressionQuery, limit int, asJSON bool) error {
	const most = 500 // on a page
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "TO\tCHANNEL\tCLASS\tUNTIL\tREASON\tBY\tSINCE")
	}
	listed := 0
	for {
		if q.To == "" {
			if q.Limit = most; limit > 0 {
				q.Limit = min(most, limit-listed)
			}
		}
		page, err := cl.Suppressions(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Suppressions {
			s := &page.Suppressions[i]
			if listed++; asJSON {
				if err := c.printLine(s); err != nil {
					return err
				}
				continue
			}
			until := "-"
			if s.ExpiresAt != 0 {
				until = s.ExpiresAt.String()
			}
			by := s.Provider
			if s.Tenant == "" {
				by += " (every tenant's)"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.To, cmp.Or(s.Channel, "any"), cmp.Or(s.Class, "any"), until, cmp.Or(s.Reason, "-"), cmp.Or(strings.TrimSpace(by), "-"), s.At)
		}
		if err := table.Flush(); err != nil {
			return err
		}
		q.Cursor = page.NextCursor
		if q.Cursor == "" || limit > 0 && listed >= limit {
			break
		}
	}
	switch {
	case asJSON:
	case listed == 0:
		fmt.Fprintln(c.stdout, "Nobody.")
	case q.Cursor != "":
		fmt.Fprintln(c.stdout, "There are more: --limit 0 lists all.")
	}
	return nil
}

// refusedRow is a row of the file that was not taken in.
type refusedRow struct {
	Line  int    `json:"line"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

// imported is what came of a file.
type imported struct {
	Rows     int          `json:"rows"`
	Accepted int          `json:"accepted"`
	Refused  []refusedRow `json:"refused"`
	DryRun   bool         `json:"dry_run"`
}

// importSuppressions takes a file in, part by part. What a part's answer does not tell
// is the file's end: then what came before stands, and to begin anew is safe.
func (c *call) importSuppressions(ctx context.Context, cl *client.Client, path, tenant string, dryRun, asJSON bool) error {
	if tenant != "" { // a table has no tenant, so that is asked of the key first
		if _, err := cl.Suppressions(ctx, client.SuppressionQuery{Tenant: tenant, To: "nobody@example.com"}); err != nil {
			return err
		}
	}
	in, size := io.Reader(os.Stdin), int64(0)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		in = f
	}
	buffered := bufio.NewReaderSize(in, 64<<10)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" { // as spreadsheets write it
		_, _ = buffered.Discard(3)
	}
	rows := csv.NewReader(buffered)
	rows.FieldsPerRecord = -1
	head, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is empty: %s", path, headRule)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", path, headRule, err)
	}
	out := &imported{DryRun: dryRun, Refused: []refusedRow{}}
	part := newImportPart(head)
	began := time.Now()
	send := func() error {
		if len(part.lines) == 0 {
			return nil
		}
		got, err := cl.ImportSuppressions(ctx, part.text(), dryRun)
		if p, ok := errors.AsType[*client.Problem](err); ok && len(p.Errors) > 0 && p.Errors[0].Code == "bad_header" {
			return fmt.Errorf("%s:1: %s; nothing was taken in", path, headRule)
		}
		if err != nil {
			return fmt.Errorf("from line %d of %s on nothing is sure; to import it again is safe: %w", part.lines[0], path, err)
		}
		out.Accepted += got.Accepted
		for i := range got.Results {
			if p := got.Results[i].Error; p != nil && i < len(part.lines) {
				out.Refused = append(out.Refused, refusal(part.lines[i], p))
			}
		}
		part = newImportPart(head)
		c.progress.at(rows.InputOffset(), size, "bytes", fmt.Sprintf(": %d rows, %d accepted, %d refused", out.Rows, out.Accepted, len(out.Refused)))
		return nil
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if bad, torn := errors.AsType[*csv.ParseError](err); torn {
			out.Rows++
			out.Refused = append(out.Refused, refusedRow{bad.StartLine, "bad_row", "is no CSV: " + bad.Err.Error()})
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		out.Rows++
		line, _ := rows.FieldPos(0)
		if len(row) == 1 && row[0] == "" { // written again it would be an empty line, which is no row
			out.Refused = append(out.Refused, refusedRow{line, schemas.ReasonRequired, "to is required"})
			continue
		}
		part.add(line, row)
		if part.full() {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if err := send(); err != nil {
		return err
	}
	slices.SortStableFunc(out.Refused, func(a, b refusedRow) int { return cmp.Compare(a.Line, b.Line) })
	if asJSON {
		err = c.printJSON(out)
	} else {
		err = c.printImported(out, path, time.Since(began))
	}
	if err == nil && len(out.Refused) > 0 {
		err = &exitStatus{code: exitError}
	}
	return err
}

// headRule says what the API wants of a file's first row.
const headRule = "the first row names the columns, with commas between: to, and any of channel, class, expires_at and reason, each once"

func (c *call) printImported(out *imported, path string, took time.Duration) error {
	did := "were accepted"
	if out.DryRun {
		did = "would be accepted (dry run: nothing was written)"
	}
	const most = 20
	for _, r := range out.Refused[:min(len(out.Refused), most)] {
		fmt.Fprintf(c.stdout, "%s:%d: %s: %s\n", path, r.Line, r.Code, r.Error)
	}
	if more := len(out.Refused) - most; more > 0 {
		fmt.Fprintf(c.stdout, "and %d more; --json names them all\n", more)
	}
	_, err := fmt.Fprintf(c.stdout, "%d of %d rows %s, in %s.\n", out.Accepted, out.Rows, did, took.Round(time.Millisecond))
	return err
}

func refusal(line int, p *client.Problem) refusedRow {
	if len(p.Errors) > 0 {
		e := p.Errors[0]
		return refusedRow{line, e.Code, strings.TrimSpace(strings.TrimPrefix(e.Pointer, "/") + " " + e.Detail)}
	}
	return refusedRow{line, p.Code, p.Title}
}

// importPart is what one call takes in, and where its rows stand in the file.
type importPart struct {
	lines []int
	buf   bytes.Buffer
	w     *csv.Writer
}

func newImportPart(head []string) *importPart {
	p := &importPart{}
	p.w = csv.NewWriter(&p.buf)
	_ = p.w.Write(head) // into memory
	return p
}

func (p *importPart) add(line int, row []string) {
	p.lines = append(p.lines, line)
	_ = p.w.Write(row)
}

// full leaves room for a row as long as may be.
func (p *importPart) full() bool {
	p.w.Flush()
	return len(p.lines) >= client.MaxImport || p.buf.Len() > 8<<20
}

func (p *importPart) text() []byte {
	p.w.Flush()
	return p.buf.Bytes()
}
