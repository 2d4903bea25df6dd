package engine

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// guard refuses statements that would read or write outside the engine's directory:
// files, addresses, programs. The engine has no user that may not (its users and
// their grants are built in), so a statement's tokens are judged before it runs.
//
// What is allowed is listed, and of what is not the engine itself is asked for the
// names, so that a function or table engine of a later version is refused until
// someone allows it. Text that this package might split into tokens in another way than
// the engine does is refused too.
type guard struct {
	functions map[string]bool // table functions that are refused, in lower case
	engines   map[string]bool // engines of tables and databases that are refused
}

// safeFunctions are table functions that make their rows themselves or read the
// engine's tables.
var safeFunctions = words(`numbers numbers_mt zeros zeros_mt generaterandom generateseries generate_series primes values sqlstandardvalues null
	view viewexplain viewifpermitted merge input format mergetreeindex mergetreeprojection mergetreetextindex loop dictionary`)

// safeEngines keep their rows in the engine's directory or in memory, beside all
// that end in MergeTree.
var safeEngines = words("memory log tinylog stripelog null view materializedview windowview set join merge buffer generaterandom alias atomic ordinary replicated")

// reading are functions that read files. They are refused as words: APPLY and others
// take a function's name without brackets.
var reading = words("file catboostevaluate")

// outsideSettings begin the names of settings that name a file or an address, or that
// hold SQL or another language in a string.
var outsideSettings = []string{
	"format_template_", "format_schema", "output_format_schema", "format_avro_schema",
	"additional_table_filters", "additional_result_filter", "parallel_replicas_custom_key", "dialect", "polyglot", "promql",
	"input_format_values_", "allow_experimental_ai_",
}

// safeStatements are the words by which a statement may begin.
var safeStatements = words(`select with from show describe desc explain exists insert create alter drop truncate rename exchange optimize set use
	kill delete update check system undrop (`)

var (
	safeCreations = words("database table view materialized")
	safeSystems   = words("flush stop start sync restart restore drop wait")
)

func words(s string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// newGuard returns the guard of an engine that has these table functions and engines.
func newGuard(functions, engines []string) *guard {
	g := &guard{functions: map[string]bool{"disk": true}, engines: map[string]bool{}}
	for _, name := range functions {
		if name = strings.ToLower(name); !safeFunctions[name] {
			g.functions[name] = true
		}
	}
	for _, name := range engines {
		if name = strings.ToLower(name); !safeEngines[name] && !strings.HasSuffix(name, "mergetree") {
			g.engines[name] = true
		}
	}
	return g
}

func denied(format string, args ...any) error {
	return raise(497, "ACCESS_DENIED", "The embedded engine reads and writes nothing outside its directory: %s", fmt.Sprintf(format, args...))
}

// settings judges the settings that a request's URL has.
func (g *guard) settings(all []setting) error {
	for _, s := range all {
		if err := outsideSetting(strings.ToLower(s.name)); err != nil {
			return err
		}
	}
	return nil
}

func outsideSetting(name string) error {
	if slices.ContainsFunc(outsideSettings, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return denied("the setting %s is refused", name)
	}
	return nil
}

// statement judges a statement. An error is an *exception.
func (g *guard) statement(sql string) error {
	var (
		n            int    // of tokens so far
		before, last string // in lower case
		lastEnd      int
		making       string // CREATE or SYSTEM, until it is known what
	)
	for t := (tokens{sql: sql}); t.next(); n++ {
		name, isName := "", false
		switch c := t.text()[0]; {
		case c == '\'':
			if (last == "x" || last == "b") && lastEnd == t.start {
				return denied("a string that begins with %s' is refused", last)
			}
		case c == '"' || c == '`':
			if strings.Contains(t.text(), `\`) {
				return denied("a quoted name with a backslash is refused")
			}
			name, isName = strings.ToLower(strings.Trim(t.text(), "\"`")), true
		case c == '/' && last == "/" && lastEnd == t.start:
			return denied("// is refused")
		case c == '$' || c < ' ' || strings.ContainsFunc(t.text(), func(r rune) bool { return r >= 0x7f }):
			return denied("the character %q outside quotes is refused", t.text())
		default:
			name, isName = strings.ToLower(t.text()), wordByte(c)
		}
		next := ""
		if rest := t; rest.next() {
			next = strings.ToLower(rest.text())
		}
		if t.odd {
			return denied("a comment within a comment is refused")
		}
		if n == 0 && !safeStatements[name] {
			return denied("a statement that begins with %s is refused", t.text())
		}
		switch {
		case n == 0 && (name == "create" || name == "system"):
			making = name
		case making == "create" && (name == "or" || name == "replace" || name == "temporary"):
		case making == "create" && !safeCreations[name], making == "system" && !safeSystems[name]:
			return denied("%s %s is refused", strings.ToUpper(making), strings.ToUpper(name))
		default:
			making = ""
		}
		if isName {
			if err := outsideSetting(name); err != nil {
				return err
			}
			engine := last == "engine" || last == "=" && before == "engine"
			switch {
			case reading[name], next == "(" && g.functions[name]:
				return denied("the function %s is refused", name)
			case engine && g.engines[name]:
				return denied("the engine %s is refused", name)
			case last == "into" && name == "outfile", last == "from" && name == "infile":
				return denied("%s %s is refused", strings.ToUpper(last), strings.ToUpper(name))
			case last == "parallel" && name == "with":
				return denied("PARALLEL WITH is refused")
			}
		}
		before, last, lastEnd = last, name, t.end
		if !isName {
			last = t.text()
		}
	}
	return nil
}

// rows judges the expressions that a file of the format Values may have, and reports
// whether the engine may evaluate them. Rows of literals are read in any case.
func (g *guard) rows(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil || len(text) > maxText {
		return false, err
	}
	return g.statement("SELECT "+string(text)) == nil, nil
}

// localOnly refuses what a web page may have caused. There are no passwords, and a
// browser lets any page send a GET to any address. So a request must be to a loopback
// name or address (a page's own name may be rebound to one), and not be said to be of
// another site. Programs such as curl say nothing of that.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
		switch {
		case !loopback(r.Host):
			http.Error(w, "this engine answers to localhost and to loopback addresses only", http.StatusForbidden)
		case site != "" && site != "none" && site != "same-origin", origin != "" && !strings.EqualFold(origin, "http://"+r.Host):
			http.Error(w, "this engine answers no other site's pages", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}
