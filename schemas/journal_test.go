package schemas

import (
	"math"
	"testing"
)

func TestJournalRecord(t *testing.T) {
	for _, j := range []JournalRecord{{0, 1}, {127, math.MaxInt64}} {
		if got, ok := ParseJournalRecord(j.String()); !ok || got != j {
			t.Errorf("%s was read as %+v", j, got)
		}
	}
	for _, text := range []string{"", "7", "0/", "/7", "0/0", "0/-1", "-1/1", "0/1/2", "x/1", "0/x"} {
		if got, ok := ParseJournalRecord(text); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
