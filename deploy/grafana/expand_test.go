package grafana

import (
	"strings"
	"testing"
	"time"
)

func TestExpand(t *testing.T) {
	from := time.Unix(1_000_000, 0)
	v := view{from: from, until: from.Add(time.Hour), interval: 2 * time.Minute, vars: map[string]string{"class": "a,b", "message": `m'\ 1+2`, "one": "x.y"}}
	for _, c := range []struct {
		name      string
		src       Source
		text, out string
	}{
		{"filter", ClickHouse, "WHERE $__timeFilter(minute)", "WHERE minute >= toDateTime(1000000) AND minute <= toDateTime(1003600)"},
		{"filter of an expression", ClickHouse, "$__timeFilter(f(a, 1) + 2) AND 1", "f(a, 1) + 2 >= toDateTime(1000000) AND f(a, 1) + 2 <= toDateTime(1003600) AND 1"},
		{"filter in milliseconds", ClickHouse, "$__timeFilter_ms(at)", "at >= fromUnixTimestamp64Milli(1000000000) AND at <= fromUnixTimestamp64Milli(1003600000)"},
		{"interval", ClickHouse, "$__timeInterval(minute) $__interval_s", "toStartOfInterval(toDateTime(minute), INTERVAL 120 second) 120"},
		{"range", ClickHouse, "$__fromTime - $__toTime", "toDateTime(1000000) - toDateTime(1003600)"},
		{"chosen", ClickHouse, "$__conditionalAll(class IN (${class:singlequote}), $class)", "class IN ('a','b')"},
		{"all", ClickHouse, "$__conditionalAll(tenant IN (${tenant:singlequote}), $tenant) OR 2", "1=1 OR 2"},
		{"both", ClickHouse, "$__conditionalAll(tenant IN (${tenant:singlequote}), $tenant) AND $__conditionalAll(class IN (${class:singlequote}), $class)", "1=1 AND class IN ('a','b')"},
		{"typed", ClickHouse, "decodeURLComponent('${message:percentencode}')", "decodeURLComponent('m%27%5C%201%2B2')"},
		{"rate", Prometheus, "rate(x[$__rate_interval]) y[$__interval] z[$__range]", "rate(x[135s]) y[120s] z[3600s]"},
		{"regex", Prometheus, `{class=~"$class", tenant=~"$tenant", one=~"$one"}`, `{class=~"(a|b)", tenant=~".*", one=~"x\.y"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := expand(c.src, c.text, v)
			if err != nil || got != c.out {
				t.Errorf("%v\n%s\n%s", err, got, c.out)
			}
		})
	}
	for name, text := range map[string]string{
		"unknown macro":    "WHERE $__dateFilter(x)",
		"unclosed":         "WHERE $__timeFilter(x",
		"two arguments":    "WHERE $__timeFilter(x, y)",
		"unquoted":         "WHERE class = $class",
		"unknown format":   "WHERE class = ${class:csv}",
		"conditional of 1": "WHERE $__conditionalAll($class)",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := expand(ClickHouse, text, v); err == nil {
				t.Errorf("no error, but %s", got)
			}
		})
	}
}

func TestStep(t *testing.T) {
	until := time.Unix(1_000_000, 0)
	for d, want := range map[time.Duration]time.Duration{
		time.Hour: time.Minute, 24 * time.Hour: 2 * time.Minute, 7 * 24 * time.Hour: 15 * time.Minute, 3000 * 24 * time.Hour: 24 * time.Hour,
	} {
		if got := stepOf(until.Add(-d), until); got != want {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}

// Whatever is chosen, every query can be written, and whom it asks is a source.
func TestQueries(t *testing.T) {
	for _, vars := range []map[string]string{nil, {"tenant": "a,b", "class": "c", "provider": "p", "job": "weir", "message": "' OR 1=1 --"}} {
		all := Queries(time.Unix(0, 0), time.Unix(86400, 0), vars)
		if len(all) < 60 {
			t.Errorf("%d queries", len(all))
		}
		for _, q := range all {
			if strings.Contains(q.Text, "$") || strings.Contains(q.Text, "OR 1=1") || q.Source != ClickHouse && q.Source != Prometheus {
				t.Errorf("%s, %s: %s", q.Dashboard, q.Panel, q.Text)
			}
		}
	}
}
