package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestBrief(t *testing.T) {
	counts := Counts{Decisions: 12, Messages: 5, Open: 1}
	v := Violation{Kind: KindOver, Topic: "weir.status", Partition: 3, Offset: 77, Seq: 9, MessageID: "m-1", To: "+86138****0000", Text: "scope +8613800000000 held 2"}
	for _, c := range []struct {
		name string
		of   Report
		want schemas.AuditReport
	}{
		{"proven", Report{Outcome: Proven, From: 1, Until: 9, Partitions: 8, Checked: counts, Took: 1500 * time.Millisecond},
			schemas.AuditReport{Outcome: schemas.AuditProven, From: 1, Until: 9, Partitions: 8, Decisions: 12, Messages: 5, Open: 1, TookMillis: 1500}},
		{"violated", Report{Outcome: Violated, Checked: counts, Faults: map[Kind]int64{KindOver: 2, KindOrder: 1}, Violations: []Violation{v}, Untold: []Untold{{"what", 3}}},
			schemas.AuditReport{Outcome: schemas.AuditViolated, Decisions: 12, Messages: 5, Open: 1, Violations: 3, First: "over: weir.status/3/77 seq 9 message m-1"}},
		{"could not tell", Report{Outcome: CouldNotTell, Untold: []Untold{{"beyond retention", 3}}},
			schemas.AuditReport{Outcome: schemas.AuditUnsure, First: "3: beyond retention"}},
		{"no single record", Report{Outcome: Violated, Faults: map[Kind]int64{KindOver: 1}, Violations: []Violation{{Kind: KindOver, Partition: 2, Topic: "weir.status", Offset: -1}}},
			schemas.AuditReport{Outcome: schemas.AuditViolated, Violations: 1, First: "over: weir.status/2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.of.Brief()
			if got != c.want {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
			if strings.Contains(got.First, "138") {
				t.Error("a recipient is told")
			}
		})
	}
}
