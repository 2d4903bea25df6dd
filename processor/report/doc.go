// Package report reads and writes weir.reports: what sinks and audits say of
// their own work, for the console, alerts and weir status.
//
// Watch keeps the latest record of each key and gives out an immutable snapshot;
// Write adds one.
//
// Reports are advice. A topic that is missing or cannot be read, and a record that
// is torn, are logged; meanwhile what was known last counts. Who writes and cannot
// says so and goes on.
//
// It concludes nothing: whether a report is too old to count is its reader's to
// say, by Report.Written, or Report.At. It measures nothing: the sink (processor/sink) and the audit
// (processor/audit, by cmd/weir) say what they found.
package report
