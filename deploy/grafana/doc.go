// Package grafana holds Weir's dashboards as definitions in Go, from which
// dashboards/*.json is written (go test ./deploy/grafana -run TestFiles -rewrite),
// and can say every panel's query with Grafana's macros and variables put in, so
// that tests and benchmarks run exactly what Grafana would ask.
//
// It connects to nothing and knows no Grafana: dashboards/ and provisioning/ are
// mounted into one, as README.md says.
//
// Counts by minute are read from status_by_minute_state and not from the view of the
// shorter name: rows that have not merged yet add up to the same, and the view would
// group them all before the panel does, which is two to four times the work.
package grafana
