package limit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/schemas"
)

// TestTouchDecidesNothing runs the same decisions on a table that is told what
// comes, in part wrongly, and on one that is not.
func TestTouchDecidesNothing(t *testing.T) {
	alone, several := perRecipient(t, "a", "2/60s", "5/calendar-day"), perRecipient(t, "b", "3/1h")
	several.Per = []string{"recipient", "class"}
	r := rulesOf(t, alone, several)
	told, untold := NewTable(), NewTable()
	defer told.Close()
	defer untold.Close()
	rng := rand.New(rand.NewPCG(4, 4))
	forms := []string{"+8613800%05d", "a,b=%%%d@example.org", "é%d", "%2C%d", ",%d", strings.Repeat("long", 20) + "%d"}
	subject := func() Subject {
		to := fmt.Sprintf(forms[rng.IntN(len(forms))], rng.IntN(400))
		return Subject{Recipient: to, Class: []string{"code", "news", "a=b"}[rng.IntN(3)]}
	}
	now := schemas.Millis(1_790_000_000_000)
	for range 400 {
		batch := make([]Subject, rng.IntN(60))
		for i := range batch {
			batch[i] = subject()
		}
		told.Touch(r, batch)
		for i := range batch {
			switch rng.IntN(6) {
			case 0: // it was not decided after all
				continue
			case 1: // another came between
				batch[i] = subject()
			case 2: // its bytes changed since
				batch[i].Recipient += "0"
			case 3: // the order is another
				j := rng.IntN(len(batch))
				batch[i], batch[j] = batch[j], batch[i]
			}
			now += schemas.Millis(rng.IntN(2000))
			if diff := cmp.Diff(untold.Decide(r, &batch[i], nil, now), told.Decide(r, &batch[i], nil, now)); diff != "" {
				t.Fatalf("%+v (-untold +told):\n%s", batch[i], diff)
			}
			if rng.IntN(50) == 0 { // slots move while asked for
				told.Sweep(r, now, 1000)
				untold.Sweep(r, now, 1000)
				told.Commit()
				untold.Commit()
			}
		}
		if rng.IntN(8) == 0 {
			told.Rollback()
			untold.Rollback()
		}
	}
	dump := func(table *Table) map[string]string {
		out := map[string]string{}
		table.Dirty(func(key, value []byte) { out[string(key)] = string(value) })
		return out
	}
	if diff := cmp.Diff(dump(untold), dump(told)); diff != "" || told.Len() != untold.Len() || told.Len() == 0 {
		t.Errorf("%d and %d slots (-untold +told):\n%s", untold.Len(), told.Len(), diff)
	}
}
