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
