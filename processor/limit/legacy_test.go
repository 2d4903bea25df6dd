package limit

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A limit of the legacy API without a number takes no place, and one that gets
// its numbers back begins anew.
func TestALimitWithoutNumbers(t *testing.T) {
	of := func(allow string) *schemas.Policy {
		doc, err := schemas.ParsePolicy("test.yaml", []byte("limits: [{name: legacy-1, per: [], allow: "+allow+", legacy_id: 1}]"))
		if err != nil {
			t.Fatal(err)
		}
		return &doc.Policy
	}
	one, none := of("[1/1h]"), of("[]")
	rules, err := Compile(none, nil)
	if err != nil {
		t.Fatal(err)
	}
	if stops := rules.Plan(nil, &Subject{Recipient: "a"}); len(stops) > 0 {
		t.Errorf("it is asked: %+v", stops)
	}
	since := NextSince(&schemas.Policy{}, nil, one, 10)
	if since["legacy-1"]["1h"] != 10 {
		t.Fatalf("%v", since)
	}
	off := NextSince(one, since, none, 20)
	if len(off) > 0 {
		t.Errorf("without numbers it has a history: %v", off)
	}
	if again := NextSince(none, off, one, 30); again["legacy-1"]["1h"] != 30 {
		t.Errorf("%v", again)
	}
}
