package limit

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestTake takes places beyond n, and none where it is told to skip.
func TestTake(t *testing.T) {
	doc, err := schemas.ParsePolicy("test.yaml", []byte("limits:\n  - {name: a, per: [recipient], allow: [1/60s]}\n  - {name: b, per: [recipient], allow: [9/60s]}\n  - {name: w, per: [tenant], allow: [1/60s]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(&doc.Policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable()
	defer table.Close()
	s := &Subject{Recipient: "+8613800000001", Tenant: "acme"}
	asks := []schemas.Ask{{Limit: "w", Scope: "tenant=acme", Cost: 1}}
	for i := range schemas.Millis(2) {
		charges, passed := table.Take(r, s, asks, nil, 1000+i)
		if len(charges) != 3 || len(passed) != 0 || charges[0].T != 1000+i {
			t.Errorf("it took %v and passed by %v", charges, passed)
		}
	}
	charges, passed := table.Take(r, s, asks, func(l string) bool { return l != "b" }, 1002)
	if len(charges) != 1 || charges[0].Limit != "b" || len(passed) != 1 || passed[0] != asks[0] {
		t.Errorf("with two skipped it took %v and passed by %v", charges, passed)
	}
	left := map[string]int64{}
	for _, m := range table.Peek(r, s, 1003) {
		left[m.Limit] = m.Left
	}
	if left["a"] != 0 || left["b"] != 6 {
		t.Errorf("left: %v", left)
	}
	// Two places are there of one: giving one back leaves it full.
	table.GiveBack(r, []schemas.Charge{{Limit: "a", Scope: s.Recipient, T: 1000, Cost: 1}}, 1003)
	if d := table.Decide(r, s, nil, 1003); d.OK || d.Refused[0].Count != 1 {
		t.Errorf("%+v", d)
	}
}
