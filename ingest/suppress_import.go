package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// Bounds of an import.
const (
	maxImportRows  = 10_000
	maxImportBytes = 16 << 20
	importRecords  = 500 // that wait for their acknowledgement
)

// postSuppressions takes in many suppressions. Each row has a result of its own; one
// that is wrong does not hold up the others. To import the same again changes nothing.
func (s *Server) postSuppressions(w http.ResponseWriter, r *http.Request, c *caller) {
	dry := false
	wrong, p := readQuery(r, func(name, v string) error {
		if name != "dry_run" {
			return errUnknownField
		}
		if dry = v == "true"; !dry && v != "false" {
			return errors.New("is true or false")
		}
		return nil
	})
	if p == nil {
		p = invalidParameters(wrong)
	}
	if p == nil {
		p = encoded(r.Header)
	}
	kind := mediaTypeOf(r.Header)
	lines := slices.Contains(linesTypes, kind)
	if p == nil && !lines && kind != "text/csv" {
		p = unsupportedMediaType.problem("The body is text/csv or application/x-ndjson.")
	}
	if p == nil && r.ContentLength > maxImportBytes {
		w.Header().Set("Connection", "close")
		p = tooMuch()
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	leave, p := s.batches.any.enter(c.tenant)
	if p != nil {
		refuse(w, r, p)
		return
	}
	defer leave()
	connOf(r).working()
	rc := http.NewResponseController(w)
	in := &importing{server: s, caller: c, header: r.Header, path: r.URL.EscapedPath(), dry: dry, room: make(chan struct{}, importRecords)}
	body := bufio.NewReaderSize(&steady{r: r.Body, rc: rc, until: time.Now().Add(batchWithin), left: maxImportBytes}, 64<<10)
	var err error
	if lines {
		err = in.lines(r.Context(), body)
	} else {
		p, err = in.table(r.Context(), body)
	}
	in.wg.Wait()
	leave()
	if err != nil {
		connOf(r).waiting()
		w.Header().Set("Connection", "close")
		switch {
		case errors.Is(err, errEnough), errors.Is(err, errRows):
			in.fail(tooMuch()) // what came before was taken in, and has its results
		case len(in.results) == 0:
			p = broken(w, err)
		default:
			in.fail(broken(w, err))
		}
	}
	if p == nil {
		p = in.away()
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	status := http.StatusAccepted
	if dry {
		status = http.StatusOK
	}
	answer(w, status, "application/json", in.sum())
}

// errRows says that there are more rows than may be.
var errRows = errors.New("too many rows")

func tooMuch() *client.Problem {
	return tooLarge.problem("An import has at most 10,000 rows in 16 MiB: the rest was not read.")
}

// importing is an import under way.
type importing struct {
	server *Server
	caller *caller
	header http.Header
	path   string
	dry    bool

	wg   sync.WaitGroup
	room chan struct{} // a place for each record that waits for its acknowledgement

	mu      sync.Mutex
	results []client.ImportResult
}

// table reads CSV (RFC 4180) whose first row names its columns.
func (in *importing) table(ctx context.Context, body *bufio.Reader) (*client.Problem, error) {
	if mark, err := body.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" { // as spreadsheets write it
		_, _ = body.Discard(3)
	}
	rows := csv.NewReader(body)
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	head, err := rows.Read()
	if _, torn := errors.AsType[*csv.ParseError](err); err != nil && !torn && !errors.Is(err, io.EOF) {
		return nil, err
	}
	columns := make([]string, 0, len(head))
	for _, name := range head {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(suppressionFields, name) || slices.Contains(columns, name) {
			columns = nil
			break
		}
		columns = append(columns, name)
	}
	if !slices.Contains(columns, "to") {
		return invalidRequest.problem("The first row names the columns: to, and any of channel, class, expires_at and reason, each once.",
			client.FieldError{Code: "bad_header", Detail: "is no row of such names"}), nil
	}
	for {
		row, err := rows.Read()
		bad, torn := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil && !torn:
			return nil, err
		case in.full():
			return nil, errRows
		case torn:
			in.settle(in.place(bad.StartLine), invalidRequest.problem("The row is not CSV.", client.FieldError{Code: "bad_row", Detail: "has a quote that is open or misplaced"}))
			continue
		}
		line, _ := rows.FieldPos(0)
		at := in.place(line)
		if len(row) != len(columns) {
			in.settle(at, invalidRequest.problem("The row has another number of fields than the first.", client.FieldError{Code: "bad_row", Detail: "has another number of fields than the first row"}))
			continue
		}
		values := make(map[string]string, len(row))
		text := true
		for i, v := range row {
			values[columns[i]] = strings.Clone(strings.TrimSpace(v))
			text = text && utf8.ValidString(v)
		}
		if !text {
			in.settle(at, invalidRequest.problem("errors lists what is wrong.", client.FieldError{Code: schemas.ReasonBadText, Detail: "is not UTF-8"}))
			continue
		}
		m, p := in.server.suppressionOf(values, in.caller, schemas.MillisOf(time.Now()))
		in.take(ctx, at, m, p)
	}
}

// lines reads one JSON object a line.
func (in *importing) lines(ctx context.Context, body *bufio.Reader) error {
	var line []byte
	for number := 1; ; number++ {
		var err error
		var long bool
		line, long, err = readLine(body, line[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text := bytes.TrimSpace(line); long || len(text) > 0 {
			if in.full() {
				return errRows
			}
			at := in.place(number)
			if long {
				in.settle(at, oversized())
			} else {
				m, p := in.server.suppressing(text, in.caller, schemas.MillisOf(time.Now()))
				in.take(ctx, at, m, p)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// take writes one row's request, and waits while too many are under way.
func (in *importing) take(ctx context.Context, at int, m *message, p *client.Problem) {
	if p != nil || in.dry {
		in.settle(at, p)
		return
	}
	in.room <- struct{}{}
	in.wg.Add(1)
	in.server.out.send(ctx, m.record(in.server.requests, in.server.partitions, in.header), func(p *client.Problem) {
		in.settle(at, p)
		<-in.room
		in.wg.Done()
	})
}

// place makes room for the result of the row that begins in a line.
func (in *importing) place(line int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.results = append(in.results, client.ImportResult{Line: line})
	return len(in.results) - 1
}

func (in *importing) full() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.results) >= maxImportRows
}

func (in *importing) settle(at int, p *client.Problem) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case p != nil:
		p.Instance = in.path + "#" + strconv.Itoa(in.results[at].Line)
		in.results[at].Error = p
	case in.dry:
		in.results[at].Status = "valid"
	default:
		in.results[at].Status = string(schemas.StatusAccepted)
	}
}

// fail is the result of what could not be read.
func (in *importing) fail(p *client.Problem) { in.settle(in.place(0), p) }

// away is the answer to an import of which Kafka took nothing.
func (in *importing) away() (p *client.Problem) {
	for i := range in.results {
		if in.results[i].Error == nil {
			return nil
		}
		if in.results[i].Error.Status == http.StatusServiceUnavailable {
			p = in.results[i].Error
		}
	}
	return p
}

func (in *importing) sum() *client.Imported {
	out := &client.Imported{DryRun: in.dry, Results: append([]client.ImportResult{}, in.results...)}
	for i := range in.results {
		if in.results[i].Error == nil {
			out.Accepted++
		} else {
			out.Refused++
		}
	}
	return out
}
