package limit

import (
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// A place that is given back at the last moment before Until frees room, and
// from then on there is nothing that it could free.
func TestUntil(t *testing.T) {
	at := schemas.MillisOf(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC))
	hour := at - at%3_600_000
	for _, tt := range []struct {
		name, limit string
		want        schemas.Millis
	}{
		{"rolling", `allow: [1/60s]`, at + 60_000},
		{"the longest", `allow: [1/60s, 3/1h, 2/5m]`, at + 3_600_000},
		{"calendar", `allow: [1/calendar-hour]`, hour + 3_600_000},
		{"calendar, of many", `allow: [5000/calendar-day], timezone: Asia/Shanghai`, schemas.MillisOf(time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC))},
		{"both", `allow: [1/calendar-hour, 2/2h]`, at + 7_200_000},
		{"an override's", `allow: [1/60s], overrides: [{to: "+8613800000001", allow: [9/1h]}]`, at + 3_600_000},
		{"a bucket beside it", `allow: ["bucket 3 refill 1/s", 1/60s]`, at + 60_000},
		{"a bucket alone gives nothing back", `allow: ["bucket 3 refill 1/s"]`, 0},
		{"every attempt keeps its place", `allow: [1/60s], count: attempt`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rulesOfText(t, `{name: l, per: [recipient], `+tt.limit+`}`)
			if got := r.Until(schemas.Charge{Limit: "l", Scope: "a", T: at, Cost: 1}); got != tt.want {
				t.Fatalf("%s, want %s", got, tt.want)
			}
			if tt.want == 0 {
				return
			}
			for _, early := range []schemas.Millis{1, 0} {
				table := NewTable()
				defer table.Close()
				d := table.Decide(r, &Subject{Recipient: "a"}, nil, at)
				table.Sweep(r, tt.want-early, 1<<20)
				if returned, _ := table.GiveBack(r, d.Charges, tt.want-early); len(returned) != int(early) {
					t.Errorf("%d ms before: %d returned", early, len(returned))
				}
			}
		})
	}
	if got := rulesOfText(t, `{name: l, per: [recipient], allow: [1/60s]}`).Until(schemas.Charge{Limit: "gone", T: at}); got != 0 {
		t.Errorf("of a limit that is gone: %s", got)
	}
}

func rulesOfText(t *testing.T, limit string) *Rules {
	t.Helper()
	doc, err := schemas.ParsePolicy("test.yaml", []byte("limits: ["+limit+"]"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(&doc.Policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
