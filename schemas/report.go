package schemas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Report is a record of weir.reports: what a process says of its own work, for
// the console, alerts and weir status. The latest of a ReportKey counts. It is
// advice: no decision and no proof rests on it.
type Report struct {
	At    Millis       `json:"at"`
	By    string       `json:"by"` // which process: its slot, or the host and user of a command
	Sink  *SinkReport  `json:"sink,omitempty"`
	Audit *AuditReport `json:"audit,omitempty"`
	Clock *ClockReport `json:"clock,omitempty"`
	Stuck *StuckReport `json:"stuck,omitempty"`
	// Unknown is what a process says of fields that Weir does not know.
	Unknown *UnknownReport `json:"unknown,omitempty"`

	// Written is when the broker took the record, by its clock. Who reads it fills it
	// in; 0 is not known.
	Written Millis `json:"-"`
}

// ClockReport is what a worker of admission says when its clock stalls it, every
// ten seconds while it does, and when it decides again. Its Report.At is by the
// broker's clock, since its own is what is wrong.
type ClockReport struct {
	AheadMillis int64 `json:"ahead_ms"` // of the broker's clock; 0: it decides
}

// StuckReport is what a process says of its stages that have had work for a minute and
// have committed nothing: every ten seconds while there is one, and once when there is
// none any more.
type StuckReport struct {
	Stages []StuckStage `json:"stages"` // none: all are well
}

// StuckStage is a stage of a StuckReport.
type StuckStage struct {
	Stage string `json:"stage"`
	Since Millis `json:"since"`
	Why   string `json:"why"` // the latest failure, without recipients
}

// stuckAge is how old a StuckReport may be and still count.
const stuckAge = 45 * time.Second

// StuckAt returns the stages that a report says are stuck, while it counts.
func (r *Report) StuckAt(now Millis) []StuckStage {
	if r.Stuck == nil || now.Sub(cmp.Or(r.Written, r.At)) > stuckAge {
		return nil
	}
	return r.Stuck.Stages
}

// UnknownReport is what a process says of the fields that Weir does not know in requests
// over Kafka: at most every ten seconds, when one more was met.
type UnknownReport struct {
	Since  Millis         `json:"since"` // when the process started to count
	Fields []UnknownField `json:"fields"`
}

// MaxUnknownReported is how many fields an UnknownReport has at most, those of the most
// requests.
const MaxUnknownReported = 20

// UnknownField is a field of an UnknownReport. Producers choose the names: escape them.
type UnknownField struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Nearest  string `json:"nearest,omitempty"` // the field of a request that it may be a misspelling of
}

// unknownAge is how old an UnknownReport may be and still count.
const unknownAge = 24 * time.Hour

// UnknownAt returns the fields of a report, while it counts.
func (r *Report) UnknownAt(now Millis) []UnknownField {
	if r.Unknown == nil || now.Sub(cmp.Or(r.Written, r.At)) > unknownAge {
		return nil
	}
	return r.Unknown.Fields
}

// SinkReport is what a sink says about once a minute, and when it begins to
// fail or is well again.
type SinkReport struct {
	Partitions []int32 `json:"partitions"`          // of weir.status, that it loads
	Rows       int64   `json:"rows"`                // loaded since it started
	LagMillis  int64   `json:"lag_ms"`              // age of the oldest record that is not loaded; 0 when there is none
	Difference int64   `json:"difference"`          // records without a row, and rows too many, at CheckedAt: must be 0
	CheckedAt  Millis  `json:"checked_at,omitzero"` // 0: not compared yet
	Failing    string  `json:"failing,omitempty"`   // why inserts fail now; empty: they do not
}

// AuditOutcome is what an audit came to.
type AuditOutcome string

const (
	AuditProven   AuditOutcome = "proven"
	AuditViolated AuditOutcome = "violated"
	AuditUnsure   AuditOutcome = "could_not_tell"
)

// AuditReport is the result of the last weir audit, whoever ran it.
type AuditReport struct {
	Outcome    AuditOutcome `json:"outcome"`
	From       Millis       `json:"from"`
	Until      Millis       `json:"until"`
	Partitions int32        `json:"partitions"`
	Decisions  int64        `json:"decisions"`
	Messages   int64        `json:"messages"`
	Open       int64        `json:"open"` // of them, not ended yet
	Violations int64        `json:"violations"`
	First      string       `json:"first,omitempty"` // the first violation or doubt, in one line without recipients
	TookMillis int64        `json:"took_ms"`
	Cut        Millis       `json:"cut,omitzero"`        // all that was decided before is judged; 0 in reports of earlier versions
	Following  bool         `json:"following,omitempty"` // the audit goes on (weir audit --follow)
}

// Keys of the reports of audits: of the last one that was run once, and of the one that
// follows or followed. Neither takes back what the other found.
const (
	ReportKeyAudit    = "audit"
	ReportKeyFollowed = "audit/follow"
)

// LastAudit returns the report of the audit that says most: one with a violation, else the later
// one. One that goes on is the later one within seconds, unless it was killed. ok is false where
// none has been run.
func LastAudit(reports map[string]Report) (last Report, ok bool) {
	for _, key := range []string{ReportKeyAudit, ReportKeyFollowed} {
		r := reports[key]
		if r.Audit == nil {
			continue
		}
		violated, was := r.Audit.Violations > 0, ok && last.Audit.Violations > 0
		if !ok || violated && !was || violated == was && cmp.Or(r.Written, r.At) > cmp.Or(last.Written, last.At) {
			last, ok = r, true
		}
	}
	return last, ok
}

// ReportKeySink is the key of a sink's reports.
func ReportKeySink(slot string) string { return "sink/" + slot }

// ReportKeyClock is the key of a worker's reports of its clock.
func ReportKeyClock(slot string) string { return "clock/" + slot }

// ReportKeyStuck is the key of a process's reports of its stages.
func ReportKeyStuck(slot string) string { return "stuck/" + slot }

// ReportKeyUnknown is the key of a process's reports of unknown fields.
func ReportKeyUnknown(slot string) string { return "unknown/" + slot }

// Encode returns the record's value.
func (r *Report) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("report cannot be encoded: %v", err)) // strings and numbers only
	}
	return b
}

// DecodeReport reads a record's value. Fields of a newer version are ignored.
func DecodeReport(b []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return Report{}, fmt.Errorf("report is torn or foreign: %w", err)
	}
	return r, nil
}
