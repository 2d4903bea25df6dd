package engine

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// handler is ClickHouse's HTTP interface in front of the sessions.
type handler struct {
	sessions *sessions
	guard    *guard
	inbox    string // where inserts' data waits to be read
	version  string
	zone     string
}

// routes is the handler with what guards it. There are no passwords, so pages
// of other sites must not reach it through the user's browser.
func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Ok.\n") }
	mux.HandleFunc("GET /ping", ok)
	mux.HandleFunc("GET /replicas_status", ok)
	mux.HandleFunc("/{$}", h.query)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "There is no handle "+r.URL.Path, http.StatusNotFound)
	})
	return localOnly(mux)
}

func (h *handler) query(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "use GET or POST", http.StatusMethodNotAllowed)
		return
	}
	req, err := parseRequest(r)
	if err == nil && r.Method != http.MethodPost && req.query == "" {
		io.WriteString(w, "Ok.\n")
		return
	}
	id := cmp.Or(req.queryID, uuid.NewString())
	w.Header().Set("X-ClickHouse-Query-Id", id)
	w.Header().Set("X-ClickHouse-Server-Display-Name", displayName)
	w.Header().Set("X-ClickHouse-Timezone", h.zone)
	if err == nil {
		err = h.answer(w, r, req)
	}
	if err != nil {
		h.fail(w, req, err)
	}
}

// answer runs the statement. It returns an error only before the first byte.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, req request) error {
	if kind := r.Header.Get("Content-Type"); strings.HasPrefix(kind, "multipart/form-data") {
		return raise(codeNotImplemented, "NOT_IMPLEMENTED", "The embedded engine takes no external tables")
	}
	body, err := requestBody(r, req.unframe)
	if err != nil {
		return err
	}
	sql, into, data, err := readStatement(req.query, body)
	if err != nil {
		return err
	}
	judged := sql
	if data != nil {
		judged = into.into + " " + into.settings
	}
	if err := cmp.Or(h.guard.settings(req.settings), h.guard.statement(judged)); err != nil {
		return err
	}
	job := work{
		sql: sql, format: req.format, database: req.database,
		settings: req.settings, params: req.params, readonly: r.Method != http.MethodPost,
	}
	if data != nil {
		if job.readonly {
			return raise(codeReadonly, "READONLY", "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. You should use method POST for modifying queries")
		}
		path, err := h.store(data)
		if path != "" {
			defer os.Remove(path)
		}
		if err != nil {
			return err
		}
		if strings.EqualFold(into.format, "Values") {
			if job.evaluate, err = h.guard.rows(path); err != nil {
				return err
			}
		}
		job.sql, job.checked = into.fromFile(path), true
	} else if req.revision && req.format == "Native" && isHandshake(sql) {
		return h.reply(w, r, req, "Native", handshake(h.version, h.zone), stats{resultRows: 1})
	}
	out, err := h.sessions.run(r.Context(), job)
	if err != nil {
		return err
	}
	defer out.close()
	format := req.format
	if data == nil {
		format = cmp.Or(formatClause(sql), format)
	}
	return h.reply(w, r, req, format, out.bytes(), out.stats())
}

// store writes an insert's data to a file, whole before the insert begins: a
// client that goes away in the middle inserts nothing.
func (h *handler) store(data io.Reader) (path string, err error) {
	f, err := os.CreateTemp(h.inbox, "insert-")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, data)
	return f.Name(), errors.Join(err, f.Close())
}

func (h *handler) reply(w http.ResponseWriter, r *http.Request, req request, format string, out []byte, s stats) error {
	header := w.Header()
	header.Set("Content-Type", contentType(format))
	header.Set("X-ClickHouse-Format", format)
	header.Set("X-ClickHouse-Summary", fmt.Sprintf(
		`{"read_rows":"%d","read_bytes":"%d","written_rows":"%d","written_bytes":"%d","total_rows_to_read":"0","result_rows":"%d","result_bytes":"%d","elapsed_ns":"%d"}`,
		s.readRows, s.readBytes, s.writtenRows, s.writtenBytes, s.resultRows, s.resultBytes, int64(s.seconds*1e9)))
	// From here on an error can only be the client's going away.
	switch {
	case len(out) == 0:
		header.Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	case req.framed:
		_ = writeFrames(w, req.method, out)
	case req.zip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		header.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(out)
		_ = z.Close()
	default:
		header.Set("Content-Length", strconv.Itoa(len(out)))
		_, _ = w.Write(out)
	}
	return nil
}

// fail answers with ClickHouse's error text, number and HTTP status.
func (h *handler) fail(w http.ResponseWriter, req request, err error) {
	e, ok := errors.AsType[*exception](err)
	switch {
	case ok:
	case errors.Is(err, context.Canceled): // nobody is there to read it
		e = raise(394, "QUERY_WAS_CANCELLED", "The client has gone away")
	case errors.Is(err, io.ErrUnexpectedEOF):
		e = raise(32, "ATTEMPT_TO_READ_AFTER_EOF", "The request's body is cut short")
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		e = raise(76, "CANNOT_OPEN_FILE", "%v", err)
	default:
		e = raise(codeCannotDecompress, "CANNOT_DECOMPRESS", "The request's body cannot be read: %v", err)
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=UTF-8")
	header.Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.code))
	text := fmt.Sprintf("%s (version %s)\n", e.text, h.version)
	var out bytes.Buffer
	if req.framed {
		_ = writeFrames(&out, req.method, []byte(text))
	} else {
		out.WriteString(text)
	}
	header.Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(e.httpStatus())
	_, _ = w.Write(out.Bytes())
}
