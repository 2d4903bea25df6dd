// Package prometheus is where Weir's alerting rules and an example of a scrape
// configuration are (rules.yaml, prometheus.yaml), and the tests that hold them,
// docs/runbook.md, docs/metrics.md and the dashboards' PromQL to what a running
// Weir exposes. It has no code of its own.
package prometheus
