// Package docs has the pages that the program itself shows parts of, so that a
// provider's settings are written once.
package docs

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"
)

//go:embed provider-*.md
var pages embed.FS

// ProviderSettings is what the page of a provider's type says of its settings, as
// text, and the names that it says something of. A page has a table that begins
// with "| setting |", or else an indented block that begins with "settings:". Both
// are empty where the type has no page, or its page neither.
func ProviderSettings(typ string) (text string, names []string) {
	page, err := pages.ReadFile("provider-" + typ + ".md")
	if err != nil {
		return "", nil
	}
	if _, rest, ok := strings.Cut(string(page), "\n| setting |"); ok {
		return ofTable(rest)
	}
	if _, rest, ok := strings.Cut(string(page), "\n    settings:\n"); ok {
		return ofBlock(rest)
	}
	return "", nil
}

func ofBlock(rest string) (string, []string) {
	var names []string
	b := &strings.Builder{}
	b.WriteString("settings:\n")
	for line := range strings.Lines(rest) {
		inside, ok := strings.CutPrefix(line, "      ")
		if !ok {
			break
		}
		b.WriteString("  " + inside)
		if name, _, ok := strings.Cut(inside, ":"); ok && !strings.ContainsAny(name, " #") {
			names = append(names, name)
		}
	}
	return b.String(), names
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

func ofTable(rest string) (string, []string) {
	var names []string
	b := &strings.Builder{}
	b.WriteString("settings:\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, line := range strings.Split(rest, "\n") {
		if i < 2 { // the rest of the head, and the line under it
			continue
		}
		inside, ok := strings.CutPrefix(line, "| ")
		cells := strings.SplitN(strings.TrimSuffix(inside, "|"), "|", 3)
		if !ok || len(cells) < 3 {
			break
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(link.ReplaceAllString(strings.TrimSpace(cells[i]), "$1"), "`", "")
		}
		names = append(names, strings.Split(cells[0], ", ")...)
		fmt.Fprintf(w, "  %s\t%s\t%s\n", cells[0], cells[1], cells[2])
	}
	_ = w.Flush() // a Builder does not fail
	return b.String(), names
}
