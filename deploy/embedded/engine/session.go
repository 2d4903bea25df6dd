package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stats is what ClickHouse counts a statement by. Seconds are wall time.
type stats struct {
	readRows, readBytes, writtenRows, writtenBytes, resultRows, resultBytes uint64
	seconds                                                                 float64
}

// setting is one of ClickHouse's settings, for one request.
type setting struct{ name, value string }

// work is one statement to run, with all that its request said about it.
type work struct {
	sql      string
	format   string // of the output, where the statement does not say
	database string // "" is default
	settings []setting
	params   []param
	readonly bool // refuse whatever changes anything
	checked  bool // the statement is known to be one
	evaluate bool // expressions in rows of the format Values, which the guard has judged
}

// The settings by which the engine evaluates expressions in rows of the format Values.
const (
	interpretExpressions = "input_format_values_interpret_expressions"
	deduceTemplates      = "input_format_values_deduce_templates_of_expressions"
)

// sessions opens engine sessions on one data directory, a limited number at once.
type sessions struct {
	lib    *library
	args   []string
	anchor *connection   // open throughout: closing the last one ends the engine
	slots  chan struct{} // holds one element a session in use
}

// openSessions starts the engine on a directory.
func openSessions(lib *library, path string, limit int) (*sessions, error) {
	s := &sessions{
		lib: lib,
		args: []string{
			"--path=" + path,
			"--session_timezone=UTC",
			// The profiler interrupts threads with signals, which the Go
			// runtime would have to sort out.
			"--query_profiler_real_time_period_ns=0",
			"--query_profiler_cpu_time_period_ns=0",
			// Rows of the format Values may have expressions, and these are part of
			// no statement that the guard judges.
			"--" + interpretExpressions + "=0",
			"--" + deduceTemplates + "=0",
			// Machine code for an expression is made when it comes a third time. That takes
			// longer than the few rows of such an engine save: 14 % of the processor's time in
			// the sink's tests.
			"--compile_expressions=0",
			"--compile_aggregate_expressions=0",
			"--compile_sort_description=0",
			"--compile_regular_expressions=0",
		},
		slots: make(chan struct{}, limit),
	}
	err := keepSignalHandlers(func() (err error) {
		s.anchor, err = lib.connect(s.args)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.plainDefault(path); err != nil {
		s.anchor.close()
		return nil, err
	}
	return s, nil
}

// plainDefault makes the database default one of tables only, under the directory
// path. The engine's own, which it puts there at each start, looks for a table that it
// does not have among the machine's files, whatever they are.
func (s *sessions) plainDefault(path string) error {
	step := func(sql string) error {
		r, err := s.anchor.query(sql, "Null", nil)
		if err != nil {
			return fmt.Errorf("replace the engine's database default: %w", err)
		}
		r.close()
		return nil
	}
	if err := step("DETACH DATABASE default"); err != nil {
		return err
	}
	if step("ATTACH DATABASE default") == nil {
		return nil // an earlier start made it, and it has tables
	}
	// One that an earlier start made and that is empty cannot be attached.
	made := filepath.Join(path, "metadata", "default.sql")
	if err := os.Rename(made, made+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return step("CREATE DATABASE default ENGINE = Atomic")
}

// run executes a statement in a session of its own. ctx bounds the wait for a
// free session, not the statement: the engine cannot be interrupted from here.
func (s *sessions) run(ctx context.Context, w work) (*result, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.slots }()
	c, err := s.lib.connect(s.args)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if !w.checked {
		if err := check(c, w); err != nil {
			return nil, err
		}
	}
	for _, sql := range preparation(w) {
		r, err := c.query(sql, "Null", nil)
		if err != nil {
			return nil, err
		}
		r.close()
	}
	return c.query(w.sql, w.format, w.params)
}

// check refuses what a server would refuse and the engine would not.
func check(c *connection, w work) error {
	class, statements := c.classify(w.sql)
	switch {
	case statements == 0 && !(&tokens{sql: w.sql}).next():
		return raise(codeSyntaxError, "SYNTAX_ERROR", "Syntax error: the query is empty")
	case statements > 1 && strings.Contains(w.sql, ";"):
		return raise(codeSyntaxError, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed)")
	case w.readonly && statements > 0 && class != classReadOnly:
		return raise(codeReadonly, "READONLY", "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. You should use method POST for modifying queries")
	}
	return nil
}

// preparation is what a session runs before the statement itself.
func preparation(w work) []string {
	sql := []string{"USE " + quoteName(cmp.Or(w.database, "default"))}
	if w.evaluate {
		sql = append(sql, "SET "+interpretExpressions+" = 1, "+deduceTemplates+" = 1")
	}
	if len(w.settings) > 0 {
		set := make([]string, len(w.settings))
		for i, s := range w.settings {
			set[i] = s.name + " = " + quote(s.value)
		}
		sql = append(sql, "SET "+strings.Join(set, ", "))
	}
	return sql
}

// close ends the engine. It refuses while statements run: the engine would be
// torn down under them.
func (s *sessions) close() error {
	for range cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
		default:
			return errors.New("close the engine: statements are still running")
		}
	}
	s.anchor.close()
	return nil
}

// interrupt asks the engine to end all running statements.
func (s *sessions) interrupt() {
	if r, err := s.anchor.query("KILL QUERY WHERE 1", "Null", nil); err == nil {
		r.close()
	}
}

// outside returns the names of all table functions, and of all engines of tables and
// databases.
func (s *sessions) outside() (functions, engines []string, err error) {
	for into, sql := range map[*[]string]string{
		&functions: "SELECT name FROM system.table_functions",
		&engines:   "SELECT name FROM system.table_engines UNION ALL SELECT name FROM system.database_engines",
	} {
		r, err := s.anchor.query(sql, "TabSeparated", nil)
		if err != nil {
			return nil, nil, err
		}
		*into = strings.Fields(string(r.bytes()))
		r.close()
		if len(*into) == 0 {
			return nil, nil, fmt.Errorf("the engine names none: %s", sql)
		}
	}
	return functions, engines, nil
}

// identity asks the engine for its version and time zone.
func (s *sessions) identity() (version, zone string, err error) {
	r, err := s.anchor.query("SELECT version(), timezone()", "TabSeparated", nil)
	if err != nil {
		return "", "", err
	}
	defer r.close()
	version, zone, ok := strings.Cut(strings.TrimSpace(string(r.bytes())), "\t")
	if !ok {
		return "", "", fmt.Errorf("the engine does not say what it is: %q", r.bytes())
	}
	return version, zone, nil
}
