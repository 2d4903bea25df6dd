package schemas_test

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// Of an audit that was run once and one that follows, the one that found a violation is
// shown, then the later one: one that follows may have been killed.
func TestLastAudit(t *testing.T) {
	once := func(at schemas.Millis, violations int64) schemas.Report {
		return schemas.Report{At: at, By: "once", Audit: &schemas.AuditReport{Violations: violations}}
	}
	followed := func(at schemas.Millis, violations int64, goesOn bool) schemas.Report {
		return schemas.Report{At: at, By: "followed", Audit: &schemas.AuditReport{Violations: violations, Following: goesOn}}
	}
	none := schemas.Report{}
	for _, c := range []struct {
		name           string
		once, followed schemas.Report
		want           string
	}{
		{"none", none, none, ""},
		{"once only", once(1, 0), none, "once"},
		{"followed only", none, followed(1, 0, true), "followed"},
		{"one that goes on, and an earlier one", once(1, 0), followed(2, 0, true), "followed"},
		{"one that goes on, or was killed, and a later one", once(2, 0), followed(1, 0, true), "once"},
		{"later by the broker's clock", schemas.Report{At: 9, Written: 1, By: "once", Audit: &schemas.AuditReport{}}, schemas.Report{At: 1, Written: 2, By: "followed", Audit: &schemas.AuditReport{Following: true}}, "followed"},
		{"one that ended, and a later one", once(2, 0), followed(1, 0, false), "once"},
		{"one that ended later", once(1, 0), followed(2, 0, false), "followed"},
		{"a violation, and one that goes on without", once(1, 3), followed(2, 0, true), "once"},
		{"a violation of the one that ended, and a later one without", once(2, 0), followed(1, 3, false), "followed"},
		{"two with violations", once(1, 3), followed(2, 1, true), "followed"},
	} {
		got, ok := schemas.LastAudit(map[string]schemas.Report{
			schemas.ReportKeyAudit: c.once, schemas.ReportKeyFollowed: c.followed, schemas.ReportKeySink("1"): {At: 9},
		})
		if got.By != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, want %q", c.name, got.By, c.want)
		}
	}
}
