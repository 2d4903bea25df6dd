package engine

import "strings"

// insert is an INSERT statement that expects data after it, taken apart.
type insert struct {
	into     string // "INSERT INTO t (a, b) "
	settings string // "SETTINGS x = 1 ", or nothing
	format   string // of the data: "Native", "Values", …
	data     string // what of the data stood in the text itself
}

// fromFile is the same insert with its data in a file.
func (i insert) fromFile(path string) string {
	return i.into + " FROM INFILE " + quote(path) + " COMPRESSION 'none' " + i.settings + " FORMAT " + i.format
}

// quote makes a string literal of ClickHouse's SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// quoteName makes an identifier of ClickHouse's SQL.
func quoteName(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}

// splitInsert takes an insert apart. It returns false for all that the engine
// runs as it stands: other statements, INSERT … SELECT, INSERT … FROM INFILE,
// and what is no SQL at all, on which the engine has the better words.
func splitInsert(sql string) (insert, bool) {
	t := tokens{sql: sql}
	if !t.next() || !t.is("INSERT") || !t.next() {
		return insert{}, false
	}
	if t.is("INTO") && !t.next() {
		return insert{}, false
	}
	if (t.is("TABLE") || t.is("FUNCTION")) && !t.next() {
		return insert{}, false
	}
	if t.is("FUNCTION") && !t.next() {
		return insert{}, false
	}
	// The current token is the first of the table's name, whatever it spells.
	settings := -1
	afterDot := false
	for t.next() {
		if t.depth > 0 {
			continue
		}
		if afterDot || t.text() == "." {
			afterDot = t.text() == "."
			continue
		}
		switch {
		case t.is("SELECT"), t.is("WITH"), t.is("FROM"), t.is("WATCH"):
			return insert{}, false
		case t.is("SETTINGS"):
			settings = t.start
		case t.is("VALUES"):
			return cutInsert(sql, t.start, settings, "Values", sql[t.end:]), true
		case t.is("FORMAT"):
			start := t.start
			if !t.next() || !t.word() {
				return insert{}, false
			}
			return cutInsert(sql, start, settings, t.text(), afterFormat(sql[t.end:])), true
		}
	}
	return insert{}, false
}

func cutInsert(sql string, format, settings int, name, data string) insert {
	i := insert{into: sql[:format], format: name, data: data}
	if settings >= 0 {
		i.into, i.settings = sql[:settings], sql[settings:format]
	}
	return i
}

// afterFormat drops what the grammar skips between a format's name and the
// data: blanks, and one line end. Not more: the data may be binary.
func afterFormat(s string) string {
	s = strings.TrimLeft(s, " \t\f")
	s = strings.TrimPrefix(s, "\r")
	return strings.TrimPrefix(s, "\n")
}

// formatClause returns the format that a statement itself asks for, or "".
func formatClause(sql string) string {
	found := ""
	for t := (tokens{sql: sql}); t.next(); {
		if t.depth > 0 || !t.is("FORMAT") {
			continue
		}
		if rest := t; rest.next() && rest.word() {
			found = rest.text()
		}
	}
	return found
}

// tokens walks over SQL: words, quoted things whole, and single characters.
// It skips blanks and comments.
type tokens struct {
	sql        string
	start, end int  // of the current token
	depth      int  // of brackets around it
	odd        bool // a comment was passed whose end the engine may see elsewhere
}

func (t *tokens) text() string { return t.sql[t.start:t.end] }

func (t *tokens) is(keyword string) bool { return strings.EqualFold(t.text(), keyword) }

func (t *tokens) word() bool { return t.end > t.start && wordByte(t.sql[t.start]) }

func wordByte(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (t *tokens) next() bool {
	if t.start < t.end && strings.Contains("([{", t.text()) {
		t.depth++
	}
	t.start = t.skip(t.end)
	if t.start >= len(t.sql) {
		t.start, t.end = len(t.sql), len(t.sql)
		return false
	}
	switch c := t.sql[t.start]; {
	case wordByte(c):
		t.end = t.start + 1
		for t.end < len(t.sql) && wordByte(t.sql[t.end]) {
			t.end++
		}
	case c == '\'' || c == '"' || c == '`':
		t.end = quotedEnd(t.sql, t.start)
	default:
		t.end = t.start + 1
		if strings.IndexByte(")]}", c) >= 0 && t.depth > 0 {
			t.depth--
		}
	}
	return true
}

// skip returns the first place from i on that is neither blank nor comment.
func (t *tokens) skip(i int) int {
	for i < len(t.sql) {
		rest := t.sql[i:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			i++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "# "), strings.HasPrefix(rest, "#!"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return len(t.sql)
			}
			i += end + 1
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				t.odd = true
				return len(t.sql)
			}
			t.odd = t.odd || strings.Contains(rest[2:2+end], "/*")
			i += end + 4
		default:
			return i
		}
	}
	return i
}

// quotedEnd returns where the quoted thing that begins at i ends. A doubled
// quote reads as two quoted things side by side, which serves as well here.
func quotedEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case s[i]:
			return j + 1
		}
	}
	return len(s)
}
