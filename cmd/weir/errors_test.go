package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unlisted are exported errors that no operator ever reads, and why.
var unlisted = map[string]string{
	"limit.ErrInTx":       "a mistake in the program",
	"child.ErrStopped":    "between a process and its child",
	"child.ErrParentGone": "likewise",
	"child.ErrSignal":     "likewise",
	"schemas.RequestError": "the answer to one request, and the error of a rejected message; " +
		"the HTTP API describes it",
	"client.FieldError":  "likewise",
	"history.ErrTooMany": "likewise: to one question for stats",
	"route.Error":        "the reason of a rejected or deferred message",
	"recipient.Error":    "likewise",
	"content.Error":      "likewise",
}

// namedErrors returns every exported error of the product as package.Name, with
// the text where it is a plain one.
func namedErrors(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "bench"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "e2e"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for i, name := range s.Names {
						if g.Tok == token.VAR && strings.HasPrefix(name.Name, "Err") && name.IsExported() && i < len(s.Values) {
							found[file.Name.Name+"."+name.Name] = plainText(s.Values[i])
						}
					}
				case *ast.TypeSpec:
					if _, isStruct := s.Type.(*ast.StructType); isStruct && s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
						found[file.Name.Name+"."+s.Name.Name] = ""
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// plainText is the text of errors.New("…").
func plainText(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return ""
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

// TestErrorsAreDocumented: every error that can end a process, or be read in its
// log, has a row in docs/errors.md with the words that it begins with.
func TestErrorsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := namedErrors(t)
	if len(found) < 30 {
		t.Fatalf("only %d errors were found: the search is broken", len(found))
	}
	for name, text := range found {
		if unlisted[name] != "" {
			continue
		}
		words, _, _ := strings.Cut(text, ":")
		words, _, _ = strings.Cut(words, ",")
		words, _, _ = strings.Cut(words, " (")
		words = words[:min(len(words), 40)]
		row := ""
		for line := range strings.Lines(string(page)) {
			if strings.Contains(line, "`"+name+"`") {
				row = line
			}
		}
		switch {
		case row == "":
			t.Errorf("docs/errors.md lacks %s: %q", name, text)
		case !strings.Contains(row, words):
			t.Errorf("docs/errors.md: the row of %s lacks the words that a user reads: %q", name, words)
		}
	}
	for name := range unlisted {
		if _, ok := found[name]; !ok {
			t.Errorf("%s is gone: take it off the list", name)
		}
	}
	for _, row := range firstCell.FindAllString(string(page), -1) {
		for _, m := range errorName.FindAllStringSubmatch(row, -1) {
			if _, known := found[m[1]]; !known {
				t.Errorf("docs/errors.md has a row for %s, which is no error any more", m[1])
			}
		}
	}
}

var (
	firstCell = regexp.MustCompile(`(?m)^\|[^|]*\|`)
	errorName = regexp.MustCompile("`([a-z]+\\.[A-Z][A-Za-z]+)`")
)
