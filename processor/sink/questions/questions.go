// Package questions reads the queries of docs/sql.md, so that the page's test and
// bench/queries run what is printed there.
//
// It asks nothing itself, and knows no answers: its test does.
package questions

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Query is one question: the heading above it, and its SQL as printed.
type Query struct {
	Title string
	SQL   string
}

var (
	heading = regexp.MustCompile(`(?m)^### (.+)$`)
	block   = regexp.MustCompile("(?s)```sql\n(.*?)```")
)

// Parse returns the page's queries in its order. Every query must stand below a
// heading (###) of its own, which names it.
func Parse(page string) ([]Query, error) {
	var out []Query
	starts := heading.FindAllStringSubmatchIndex(page, -1)
	for i, s := range starts {
		end := len(page)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		title := page[s[2]:s[3]]
		found := block.FindAllStringSubmatch(page[s[1]:end], -1)
		if len(found) != 1 {
			return nil, fmt.Errorf("below %q stand %d queries, want 1", title, len(found))
		}
		out = append(out, Query{Title: title, SQL: strings.TrimSpace(found[0][1])})
	}
	if all := len(block.FindAllString(page, -1)); all != len(out) {
		return nil, fmt.Errorf("%d of %d queries stand below a heading of their own", len(out), all)
	}
	return out, nil
}

// At returns the query as it would be asked at a moment, to the second, whatever
// the time is.
func (q Query) At(now time.Time) string {
	return strings.ReplaceAll(q.SQL, "now()", "toDateTime('"+now.UTC().Format(time.DateTime)+"', 'UTC')")
}
