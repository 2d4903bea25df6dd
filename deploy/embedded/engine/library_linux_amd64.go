package engine

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is libchdb's C interface (chdb.h of 26.7.3), loaded once a process.
type library struct {
	connectFn func(argc int32, argv **byte) *uintptr
	closeFn   func(conn *uintptr)
	queryFn   func(conn uintptr, sql *byte, sqlLen uintptr, format *byte, formatLen uintptr,
		names **byte, nameLens *uintptr, values **byte, valueLens *uintptr, params uintptr) uintptr
	classifyFn func(conn uintptr, sql *byte, sqlLen uintptr, database *byte, databaseLen uintptr, out *analysis) int32
	destroyFn  func(result uintptr)
	bufferFn   func(result uintptr) *byte
	lengthFn   func(result uintptr) uintptr
	errorFn    func(result uintptr) string
	elapsedFn  func(result uintptr) float64
	counterFns [6]func(result uintptr) uint64 // in the order of counterNames
}

// counterNames name what library.counterFns read.
var counterNames = [6]string{
	"chdb_result_rows_read", "chdb_result_bytes_read",
	"chdb_result_storage_rows_read", "chdb_result_storage_bytes_read",
	"chdb_result_rows_written", "chdb_result_bytes_written",
}

// analysis is chdb_query_analysis_v1: what a statement would do.
type analysis struct {
	size       uint32
	statements uint32
	_          uint32 // flags
	class      uint32
}

// classReadOnly is CHDB_QUERY_READ_ONLY: SELECT, SHOW, DESCRIBE, EXPLAIN, …
const classReadOnly = 0

// loadLibrary loads the library at path into this process. It cannot be
// unloaded again.
func loadLibrary(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	l := &library{}
	functions := map[string]any{
		"chdb_connect":              &l.connectFn,
		"chdb_close_conn":           &l.closeFn,
		"chdb_query_with_params_n":  &l.queryFn,
		"chdb_classify_query_n":     &l.classifyFn,
		"chdb_destroy_query_result": &l.destroyFn,
		"chdb_result_buffer":        &l.bufferFn,
		"chdb_result_length":        &l.lengthFn,
		"chdb_result_error":         &l.errorFn,
		"chdb_result_elapsed":       &l.elapsedFn,
	}
	for i, name := range counterNames {
		functions[name] = &l.counterFns[i]
	}
	for name, fn := range functions {
		at, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
		purego.RegisterFunc(fn, at)
	}
	return l, nil
}

// connection is one engine session. It runs one statement at a time.
type connection struct {
	lib    *library
	handle *uintptr
}

// connect opens a session, and the engine with it if it is the first. The
// engine writes its reasons for refusing to stderr.
func (l *library) connect(args []string) (*connection, error) {
	argv := make([]*byte, 0, len(args)+2)
	for _, arg := range append([]string{"weir"}, args...) {
		c := append([]byte(arg), 0)
		argv = append(argv, &c[0])
	}
	count := int32(len(argv))
	argv = append(argv, nil)
	handle := l.connectFn(count, &argv[0])
	runtime.KeepAlive(argv)
	if handle == nil {
		return nil, fmt.Errorf("the engine refused a connection with %q", args)
	}
	return &connection{lib: l, handle: handle}, nil
}

func (c *connection) close() { c.lib.closeFn(c.handle) }

// classify says what a statement would do, without running it. The count of
// statements is 0 for what does not parse.
func (c *connection) classify(sql string) (class, statements uint32) {
	out := &analysis{size: uint32(unsafe.Sizeof(analysis{}))}
	c.lib.classifyFn(*c.handle, unsafe.StringData(sql), uintptr(len(sql)), nil, 0, out)
	return out.class, out.statements
}

// param is a query parameter: {name:Type} in the statement. Its value is in the
// escaped form of TabSeparated, as in ClickHouse's own HTTP interface.
type param struct{ name, value string }

// query runs one statement. The result must be closed, before the last
// connection is. An error is an *exception.
func (c *connection) query(sql, format string, params []param) (*result, error) {
	names, nameLens := cStrings(params, func(p param) string { return p.name })
	values, valueLens := cStrings(params, func(p param) string { return p.value })
	handle := c.lib.queryFn(*c.handle,
		unsafe.StringData(sql), uintptr(len(sql)), unsafe.StringData(format), uintptr(len(format)),
		&names[0], &nameLens[0], &values[0], &valueLens[0], uintptr(len(params)))
	runtime.KeepAlive(names)
	runtime.KeepAlive(values)
	if handle == 0 {
		return nil, raise(codeEngine, "UNKNOWN_EXCEPTION", "the engine gave no result")
	}
	r := &result{lib: c.lib, handle: handle}
	if text := c.lib.errorFn(handle); text != "" {
		r.close()
		return nil, parseException(text)
	}
	return r, nil
}

// cStrings lays strings out for C: pointers and lengths, with one more element
// than params so that there is always a first.
func cStrings(params []param, of func(param) string) ([]*byte, []uintptr) {
	pointers, lengths := make([]*byte, len(params)+1), make([]uintptr, len(params)+1)
	for i, p := range params {
		pointers[i], lengths[i] = unsafe.StringData(of(p)), uintptr(len(of(p)))
	}
	return pointers, lengths
}

// result holds a statement's whole output in the engine's memory.
type result struct {
	lib    *library
	handle uintptr
}

// bytes is the output. It is gone after close.
func (r *result) bytes() []byte {
	n := r.lib.lengthFn(r.handle)
	if n == 0 {
		return nil
	}
	return unsafe.Slice(r.lib.bufferFn(r.handle), n)
}

func (r *result) stats() stats {
	var n [len(counterNames)]uint64
	for i, fn := range r.lib.counterFns {
		n[i] = fn(r.handle)
	}
	return stats{
		resultRows: n[0], resultBytes: n[1], readRows: n[2], readBytes: n[3],
		writtenRows: n[4], writtenBytes: n[5], seconds: r.lib.elapsedFn(r.handle),
	}
}

func (r *result) close() { r.lib.destroyFn(r.handle) }
