package limit

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestDecideReturn: a message's charges are taken again at its return, and its own first
// charge does not stand in the way.
func TestDecideReturn(t *testing.T) {
	const to = "+8613800000001"
	start := at(t, "2026-11-21T09:00:00.000Z")
	for _, c := range []struct {
		name   string
		policy string
		cost   int64
		others []schemas.Millis // charges of other messages between the first and the return
		back   schemas.Millis   // the return; the first charge is of start
		full   string           // window
		retry  schemas.Millis
	}{
		{name: "its own charge is the last place", policy: "allow: [1/10s]", cost: 1, back: 9_000},
		{name: "no window sees its own charge", policy: "allow: [1/10s]", cost: 1, back: 11_000},
		{name: "another took the place", policy: "allow: [1/10s]", cost: 1, others: []schemas.Millis{10_000}, back: 11_000, full: "1/10s", retry: 20_000},
		{name: "another period", policy: "allow: [1/calendar-minute]", cost: 1, others: []schemas.Millis{60_000}, back: 61_000, full: "1/calendar-minute", retry: 120_000},
		{name: "an override", policy: "allow: [5/10s], overrides: [{to: \"+8613800000001\", allow: [1/10s]}]", cost: 1, others: []schemas.Millis{10_000}, back: 11_000, full: "1/10s", retry: 20_000},
		{name: "attempts", policy: "count: attempt, allow: [1/10s]", cost: 1, back: 9_000},
		{name: "a bucket beside a window", policy: "allow: [2/10s, bucket 1 refill 1/20s]", cost: 1, back: 9_000},
		{name: "a bucket beside a window, in parts", policy: "count: segments, allow: [4/10s, bucket 3 refill 1/20s]", cost: 2, back: 9_000},
		{name: "a bucket beside a window, by cost", policy: "count: cost, allow: [4/10s, bucket 3 refill 1/20s]", cost: 2, back: 9_000},
		{name: "a bucket beside a full window", policy: "allow: [1/10s, bucket 2 refill 1/20s]", cost: 1, others: []schemas.Millis{10_000}, back: 11_000, full: "1/10s", retry: 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, table := statesPolicy(t, "limits: [{name: verify, per: [recipient], "+c.policy+"}]"), NewTable()
			defer table.Close()
			s := &Subject{Recipient: to, Segments: c.cost, Cost: c.cost}
			first := table.Decide(r, s, nil, start)
			for _, at := range c.others {
				if res := table.Decide(r, s, nil, start+at); !res.OK {
					t.Fatalf("%+v", res)
				}
			}
			level := table.Peek(r, s, start+c.back)
			var res Result
			table.DecideReturn(&res, r, to, nil, nil, first.Charges, start+c.back)
			if c.full != "" {
				if res.OK || len(res.Refused) != 1 || res.Refused[0].Window != c.full || res.RetryAt != start+c.retry || len(res.Returned) > 0 {
					t.Fatalf("%+v", res)
				}
				return
			}
			want := schemas.Charge{Limit: "verify", Scope: to, T: start + c.back, Cost: c.cost}
			if !res.OK || len(res.Charges) != 1 || res.Charges[0] != want || len(res.Returned)+len(res.Missing) != 1 {
				t.Fatalf("%+v", res)
			}
			for i, w := range table.Peek(r, s, start+c.back) {
				if c.back < 10_000 && w.Left != level[i].Left {
					t.Errorf("%s: %d left, and %d before", w.Window, w.Left, level[i].Left)
				}
			}
		})
	}
}

// TestDecideReturnBucket: of a bucket alone there is no charge to take again.
func TestDecideReturnBucket(t *testing.T) {
	start := at(t, "2026-11-21T09:00:00.000Z")
	r, table := statesPolicy(t, "limits: [{name: verify, per: [recipient], allow: [bucket 1 refill 1/20s]}]"), NewTable()
	defer table.Close()
	first := table.Decide(r, &Subject{Recipient: "+8613800000001"}, nil, start)
	var res Result
	table.DecideReturn(&res, r, "+8613800000001", nil, nil, first.Charges, start+9_000)
	if !res.OK || len(res.Charges)+len(res.Returned)+len(res.Missing) > 0 {
		t.Errorf("%+v", res)
	}
}
