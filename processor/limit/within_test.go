package limit

import (
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestCallWithin(t *testing.T) {
	rules := func(limits string) *Rules {
		doc, err := schemas.ParsePolicy("test.yaml", []byte("limits:\n"+limits))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Compile(&doc.Policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, tt := range []struct {
		name, limits string
		want         time.Duration
	}{
		{"a tenth", `  - {name: l, per: [recipient], allow: [1/20s]}`, 2 * time.Second},
		{"whatever n is", `  - {name: l, per: [recipient], allow: [7/20s]}`, 2 * time.Second},
		{"in whole milliseconds", `  - {name: l, per: [recipient], allow: [1/12345ms]}`, 1234 * time.Millisecond},
		{"a second at least", `  - {name: l, per: [recipient], allow: [1/500ms]}`, time.Second},
		{"a minute at most", `  - {name: l, per: [recipient], allow: [1/1h]}`, time.Minute},
		{"the smallest window", `  - {name: l, per: [recipient], allow: [9/1h, 1/30s, 5/5m]}`, 3 * time.Second},
		{"of all limits", "  - {name: l, per: [recipient], allow: [9/1h]}\n  - {name: m, per: [recipient, class], allow: [1/40s]}", 4 * time.Second},
		{"a calendar minute", `  - {name: l, per: [recipient], allow: [5/calendar-minute]}`, 6 * time.Second},
		{"a calendar hour", `  - {name: l, per: [recipient], allow: [5/calendar-hour]}`, time.Minute},
		{"a calendar month", `  - {name: l, per: [recipient], allow: [5/calendar-month]}`, time.Minute},
		{"a bucket", `  - {name: l, per: [recipient], allow: ["bucket 9 refill 1/25s"]}`, 2500 * time.Millisecond},
		{"a bucket of several a time", `  - {name: l, per: [recipient], allow: ["bucket 9 refill 2/1m"]}`, 3 * time.Second},
		{"who has an override", `  - {name: l, per: [recipient], allow: [1/20s], overrides: [{to: "+8613800000001", allow: [1/30s]}]}`, 3 * time.Second},
		{"another's override", `  - {name: l, per: [recipient], allow: [1/20s], overrides: [{to: "+8613800000002", allow: [1/15s]}]}`, 2 * time.Second},
		{"a wide limit does not count", `  - {name: l, per: [tenant], allow: [1/20s]}`, time.Minute},
		{"nor one per mailbox", `  - {name: l, per: [mailbox], allow: [1/20s]}`, time.Minute},
		{"nor one that only observes", `  - {name: l, per: [recipient], allow: [1/20s], mode: observe}`, time.Minute},
		{"nor one in which it has no place", `  - {name: other, per: [recipient], allow: [1/20s]}`, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			places := []schemas.Charge{{Limit: "l"}, {Limit: "m"}, {Limit: "gone"}}
			if got := rules(tt.limits).CallWithin("+8613800000001", places); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if got := rules(`  - {name: l, per: [recipient], allow: [1/20s]}`).CallWithin("+8613800000001", nil); got != time.Minute {
		t.Errorf("charged nothing: %v", got)
	}
}
