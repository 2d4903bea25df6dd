package grafana

import (
	"fmt"
	"time"
)

// Query is what a panel, or the choices of a variable, asks, ready to be run.
type Query struct {
	Dashboard string // its UID
	Panel     string // its title; "$name" where it is a variable's choices
	Ref       string // A, B, … within the panel
	Kind      Kind
	Source    Source
	Text      string
	Columns   []string // of ClickHouse's answer, in order
	Labels    []string // that Prometheus's series must have: the legend names them
	Step      time.Duration
}

// Queries returns all queries of all dashboards, as Grafana would send them for a
// time from from until until (seconds count) on a screen of common width. vars has what is chosen
// of each variable, several with commas between; what is not in it is All, and ""
// for `message`. ClickHouse's queries are for the database that the connection has.
// It panics only where a definition has a macro that is not known here, which the
// package's tests see.
func Queries(from, until time.Time, vars map[string]string) []Query {
	var all []Query
	v := view{from: from, until: until, interval: stepOf(from, until), vars: vars}
	for _, d := range Dashboards() {
		for _, x := range d.Vars {
			if x.Source == ClickHouse {
				all = append(all, v.query(Query{Dashboard: d.UID, Panel: "$" + x.Name, Ref: "A", Kind: Table, Source: ClickHouse, Columns: []string{x.Name}}, x.Query))
			}
		}
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				for i, a := range p.Queries {
					q := Query{Dashboard: d.UID, Panel: p.Title, Ref: ref(i), Kind: p.Kind, Source: a.Source, Columns: a.Columns}
					if a.Source == Prometheus {
						for _, m := range legendLabel.FindAllStringSubmatch(a.Legend, -1) {
							q.Labels = append(q.Labels, m[1])
						}
					}
					all = append(all, v.query(q, a.Text))
				}
			}
		}
	}
	return all
}

func (v view) query(q Query, text string) Query {
	var err error
	if q.Text, err = expand(q.Source, text, v); err != nil {
		panic(fmt.Sprintf("%s, %s: %v", q.Dashboard, q.Panel, err))
	}
	q.Step = v.interval
	return q
}

func ref(i int) string { return string(rune('A' + i)) }
