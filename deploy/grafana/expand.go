package grafana

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// view is what Grafana knows when it sends a query.
type view struct {
	from, until time.Time
	interval    time.Duration // of one point
	vars        map[string]string
}

// scrapeInterval is what $__rate_interval assumes of Prometheus, and what
// deploy/prometheus/prometheus.yaml says.
const scrapeInterval = 15 * time.Second

// Steps that Grafana rounds a point's time to, as far as panels here use them.
var steps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// pointsOf is how many points a panel of common width has.
const pointsOf = 800

func stepOf(from, until time.Time) time.Duration {
	for _, s := range steps {
		if until.Sub(from) <= s*pointsOf {
			return s
		}
	}
	return steps[len(steps)-1]
}

// choice is what a variable has: nothing chosen is All.
func (v view) choice(name string) []string {
	if v.vars[name] == "" {
		return nil
	}
	return strings.Split(v.vars[name], ",")
}

// expand puts macros and variables into a query as Grafana and its ClickHouse and
// Prometheus data sources do. What it does not know is an error: it would
// otherwise reach the database as it stands.
func expand(src Source, text string, v view) (string, error) {
	if src == Prometheus {
		rate := max(v.interval+scrapeInterval, 4*scrapeInterval)
		for name, d := range map[string]time.Duration{"$__rate_interval": rate, "$__interval": v.interval, "$__range": v.until.Sub(v.from)} {
			text = strings.ReplaceAll(text, name, strconv.FormatInt(int64(d/time.Second), 10)+"s")
		}
	} else {
		for {
			args, begin, end, err := lastCall(text, "$__conditionalAll")
			if err != nil {
				return "", err
			}
			if args == nil {
				break
			}
			name := strings.TrimPrefix(strings.TrimSpace(args[len(args)-1]), "$")
			if len(args) != 2 {
				return "", fmt.Errorf("$__conditionalAll has %d arguments, not 2", len(args))
			}
			phrase := args[0]
			if v.choice(name) == nil {
				phrase = "1=1"
			}
			text = text[:begin] + phrase + text[end:]
		}
	}
	text, err := variables(src, text, v)
	if err != nil || src == Prometheus {
		return text, err
	}
	return macros(text, v)
}

var variable = regexp.MustCompile(`\$\{([a-z_]+)(?::([a-z]+))?\}|\$([a-z][a-z_]*)`)

// variables puts in what was chosen.
func variables(src Source, text string, v view) (string, error) {
	var failed error
	text = variable.ReplaceAllStringFunc(text, func(m string) string {
		groups := variable.FindStringSubmatch(m)
		name, format := groups[1]+groups[3], groups[2]
		chosen := v.choice(name)
		switch {
		case format == "percentencode":
			return strings.ReplaceAll(url.QueryEscape(v.vars[name]), "+", "%20")
		case format == "singlequote":
			quoted := make([]string, len(chosen))
			for i, c := range chosen {
				quoted[i] = "'" + strings.ReplaceAll(c, "'", `\'`) + "'"
			}
			return strings.Join(quoted, ",")
		case format == "" && src == Prometheus && chosen == nil:
			return ".*"
		case format == "" && src == Prometheus && len(chosen) == 1:
			return regexp.QuoteMeta(chosen[0])
		case format == "" && src == Prometheus:
			for i := range chosen {
				chosen[i] = regexp.QuoteMeta(chosen[i])
			}
			return "(" + strings.Join(chosen, "|") + ")"
		}
		failed = fmt.Errorf("%s: unquoted, or in a format that is not known here", m)
		return m
	})
	return text, failed
}

// macros are those of grafana-clickhouse-datasource, pkg/macros.
func macros(text string, v view) (string, error) {
	seconds := int64(math.Max(v.interval.Seconds(), 1))
	unix := func(t time.Time) string { return fmt.Sprintf("toDateTime(%d)", t.Unix()) }
	milli := func(t time.Time) string { return fmt.Sprintf("fromUnixTimestamp64Milli(%d)", t.UnixMilli()) }
	calls := map[string]func(string) string{
		"$__timeFilter": func(c string) string {
			return fmt.Sprintf("%s >= %s AND %s <= %s", c, unix(v.from), c, unix(v.until))
		},
		"$__timeFilter_ms": func(c string) string {
			return fmt.Sprintf("%s >= %s AND %s <= %s", c, milli(v.from), c, milli(v.until))
		},
		"$__timeInterval": func(c string) string {
			return fmt.Sprintf("toStartOfInterval(toDateTime(%s), INTERVAL %d second)", c, seconds)
		},
	}
	for name, of := range calls {
		for {
			args, begin, end, err := lastCall(text, name)
			if err != nil {
				return "", err
			}
			if args == nil {
				break
			}
			if len(args) != 1 {
				return "", fmt.Errorf("%s has %d arguments, not 1", name, len(args))
			}
			text = text[:begin] + of(args[0]) + text[end:]
		}
	}
	text = strings.NewReplacer("$__fromTime", unix(v.from), "$__toTime", unix(v.until), "$__interval_s", strconv.FormatInt(seconds, 10)).Replace(text)
	if i := strings.Index(text, "$"); i >= 0 {
		return "", fmt.Errorf("a macro or variable is not known here: %.30s", text[i:])
	}
	return text, nil
}

// lastCall finds the last name( … ) in a text: its arguments, and where it begins
// and ends. No call is no arguments.
func lastCall(text, name string) (args []string, begin, end int, err error) {
	begin = strings.LastIndex(text, name+"(")
	if begin < 0 {
		return nil, 0, 0, nil
	}
	depth, from := 0, begin+len(name)+1
	for i := from - 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
			if depth == 0 {
				return append(args, text[from:i]), begin, i + 1, nil
			}
		case c == ',' && depth == 1:
			args, from = append(args, text[from:i]), i+1
		}
	}
	return nil, 0, 0, fmt.Errorf("%s( is not closed", name)
}
