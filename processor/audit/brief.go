package audit

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Brief is the report as others are told of it (weir.reports). It names no
// recipient: of the first violation it says where it stands, and the audit itself
// has the rest.
func (r *Report) Brief() schemas.AuditReport {
	b := schemas.AuditReport{
		Outcome: schemas.AuditOutcome(r.Outcome), From: r.From, Until: r.Until, Partitions: r.Partitions,
		Decisions: r.Checked.Decisions, Messages: r.Checked.Messages, Open: r.Checked.Open, TookMillis: r.Took.Milliseconds(), Cut: r.Cut,
	}
	for _, n := range r.Faults {
		b.Violations += n
	}
	switch {
	case len(r.Violations) > 0:
		b.First = r.Violations[0].place()
	case len(r.Untold) > 0:
		b.First = fmt.Sprintf("%d: %s", r.Untold[0].Count, r.Untold[0].What)
	}
	return b
}

// place says of what kind a violation is and where it stands. Its text may name
// a scope, and a scope may be a recipient.
func (v Violation) place() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s/%d", v.Kind, v.Topic, v.Partition)
	if v.Offset >= 0 {
		fmt.Fprintf(&b, "/%d", v.Offset)
	}
	if v.Seq > 0 {
		fmt.Fprintf(&b, " seq %d", v.Seq)
	}
	if v.MessageID != "" {
		fmt.Fprintf(&b, " message %s", v.MessageID)
	}
	return b.String()
}
