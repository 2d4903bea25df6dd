package status_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/status"
	"github.com/weirhq/weir/schemas"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the table of states in ARCHITECTURE.md")

// The table of states stands between these lines of ARCHITECTURE.md.
const (
	architecture = "../../ARCHITECTURE.md"
	tableBegin   = "| state | what may follow |\n|---|---|\n"
	tableEnd     = "\n\n"
)

// TestArchitectureHasTheStates holds the code to the document: what readers are
// told may follow a state is what Next lets follow.
func TestArchitectureHasTheStates(t *testing.T) {
	var want strings.Builder
	for _, current := range append([]schemas.Status{status.None}, schemas.Statuses...) {
		if current == schemas.StatusAccepted {
			continue // what ingest answers before there is a record
		}
		var follow []string
		for _, next := range schemas.Statuses {
			if _, ok := status.Next(current, next); ok {
				follow = append(follow, string(next))
			}
		}
		name := string(current)
		if current == status.None {
			name = "(none yet)"
		}
		text := strings.Join(follow, ", ")
		if text == "" {
			text = "nothing: it is an end"
		}
		fmt.Fprintf(&want, "| %s | %s |\n", name, text)
	}
	b, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableBegin)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatal("ARCHITECTURE.md has no table of states")
	}
	if got+"\n" == want.String() {
		return
	}
	if !*rewrite {
		t.Fatalf("ARCHITECTURE.md says\n%s\nthe code says\n%s\nIf the code is right: go test ./processor/status -run Architecture -rewrite", got, want.String())
	}
	text := before + tableBegin + strings.TrimSuffix(want.String(), "\n") + tableEnd + after
	if err := os.WriteFile(architecture, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
