package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTable: whoever changes code that the table breaks hears of it here, and not
// first from an hour of make chaos.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutations {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 || m.old == m.new || names[m.name] {
			t.Errorf("%s: %s has its text %d times, not once: the code has changed, so change the table\n%s", m.name, m.file, n, m.old)
		}
		names[m.name] = true
	}
}

// TestWriteTable: a run of some mutations leaves the rows of the others as they are.
func TestWriteTable(t *testing.T) {
	row := func(m mutation, by string) string {
		return "| " + m.what + " (`" + m.file + "`) | " + m.harm + " | " + by + " |\n"
	}
	path := filepath.Join(t.TempDir(), "page.md")
	head := "| the code is broken so | what would happen | caught by |\n|---|---|---|\n"
	page := func(rows ...string) string {
		return "before\n" + beginMark + "\n\n" + head + strings.Join(rows, "") + "\n" + endMark + "\nafter\n"
	}
	first, second, third := mutations[0], mutations[1], mutations[2]
	if err := os.WriteFile(path, []byte(page(row(third, "`c`"), row(first, "`a`"), "| something that is gone (`x.go`) | harm | `d` |\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(path, []result{{mutation: second, by: "b"}, {mutation: third}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := page(row(first, "`a`"), row(second, "`b`"), row(third, "**nothing**")); string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(path, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(path, nil); err == nil {
		t.Error("a page without marks was written")
	}
}
