package backtest

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weirhq/weir/schemas"
)

// WriteText writes a result for people.
func (r *Result) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	if r.Messages == 0 {
		fmt.Fprintf(b, "No message was put to a limit between %s and %s: there is nothing to compare.\n", began(r.From), clock(r.Until))
	} else {
		fmt.Fprintf(b, "Would have refused %s of %s messages (%s); as it was, %s (%s).\n",
			grouped(r.Now.Refused), grouped(r.Messages), share(r.Now.Refused, r.Messages), grouped(r.Then.Refused), share(r.Then.Refused, r.Messages))
		fmt.Fprintf(b, "%s let through then would be refused, %s refused then would be let through.\n", grouped(r.NewlyRefused), grouped(r.NewlyAdmitted))
		if r.Then.Held+r.Now.Held > 0 {
			fmt.Fprintf(b, "Of those let through, further attempts of %s would wait for a limit; as it was, of %s.\n", grouped(r.Now.Held), grouped(r.Then.Held))
		}
		if r.Then.Observed+r.Now.Observed > 0 {
			fmt.Fprintf(b, "Limits that only observe would have marked %s; as it was, %s.\n", grouped(r.Now.Observed), grouped(r.Then.Observed))
		}
	}
	fmt.Fprintf(b, "From %s to %s", began(r.From), clock(r.Until))
	if r.Warmed < r.From {
		fmt.Fprintf(b, " (windows filled from %s)", clock(r.Warmed))
	}
	fmt.Fprintf(b, ", from %s; compared with what happened. Revision %d is in force.\n", sourceName(r.Source), r.Revision)
	if r.Messages > 0 {
		r.tables(b)
	}
	for i, note := range r.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "Note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) tables(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nLIMIT\tWINDOW\tMODE\tTHEN\tNOW\t\n")
	for _, l := range r.ByLimit {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Limit, l.Window, l.Mode, grouped(l.Then), grouped(l.Now), change(l.Then, l.Now))
	}
	fmt.Fprint(t, "\nCLASS\tMESSAGES\tTHEN\tNOW\t\n")
	for _, c := range r.ByClass {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", orDash(c.Class), grouped(c.Messages), grouped(c.Then), grouped(c.Now), change(c.Then, c.Now))
	}
	hours, left := r.ByHour, 0
	if len(hours) > hoursShown {
		hours, left = worst(hours), len(hours)-hoursShown
	}
	fmt.Fprint(t, "\nHOUR (UTC)\tMESSAGES\tTHEN\tNOW\t\n")
	for _, h := range hours {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", h.Hour.Time().UTC().Format("2006-01-02 15:04"), grouped(h.Messages), grouped(h.Then), grouped(h.Now), change(h.Then, h.Now))
	}
	if left > 0 {
		fmt.Fprintf(t, "(%d more hours; --json has all)\n", left)
	}
	if len(r.Busiest) > 0 {
		fmt.Fprint(t, "\nRECIPIENT\tMESSAGES\tTHEN\tNOW\t\n")
		for _, w := range r.Busiest {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", w.To, grouped(w.Messages), grouped(w.Then), grouped(w.Now), change(w.Then, w.Now))
		}
	}
	t.Flush() // into a Builder: it cannot fail
}

// hoursShown is how many hours the text has; the JSON has all.
const hoursShown = 24

// worst returns the hours with most refusals under the other policy, in their
// order.
func worst(all []HourCount) []HourCount {
	least := make([]int64, 0, len(all))
	for _, h := range all {
		least = append(least, h.Now)
	}
	bound := nthLargest(least, hoursShown)
	more := 0
	for _, h := range all {
		if h.Now > bound {
			more++
		}
	}
	var out []HourCount
	for _, h := range all {
		switch {
		case h.Now > bound:
		case h.Now == bound && more < hoursShown:
			more++
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

func sourceName(s string) string {
	return map[string]string{"kafka": "Kafka", "clickhouse": "ClickHouse", "both": "ClickHouse and Kafka"}[s]
}

func clock(t schemas.Millis) string { return t.Time().UTC().Format("2006-01-02 15:04:05 UTC") }

// began is when the time began that was judged.
func began(t schemas.Millis) string {
	if t == 0 {
		return "the beginning of the log"
	}
	return clock(t)
}

func share(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return strconv.FormatFloat(float64(n)*100/float64(of), 'f', 1, 64) + " %"
}

func change(then, now int64) string {
	switch {
	case now > then:
		return "+" + grouped(now-then)
	case now < then:
		return "-" + grouped(then-now)
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// grouped writes a number with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func nthLargest(v []int64, n int) int64 {
	slices.Sort(v)
	return v[len(v)-n]
}
