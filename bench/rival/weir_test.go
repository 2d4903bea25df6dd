package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// TestStanding plays an owner's log and looks which refusals it gives a ground for.
func TestStanding(t *testing.T) {
	saved := limits
	defer func() { limits = saved }()
	limits = []limit{{"tenant", true, []window{{2, time.Second}, {3, time.Minute}}}, {"everyone", false, []window{{9, time.Second}}}}
	at := func(ms int) string {
		return time.UnixMilli(1_800_000_000_000 + int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	step := func(ms int, verdict, field string, places ...int) string {
		charges := ""
		for i, p := range places {
			if i > 0 {
				charges += ","
			}
			charges += fmt.Sprintf(`{"limit":"tenant","scope":"tenant=a","t":%q}`, at(p))
		}
		return fmt.Sprintf(`{"kind":"decision","message_id":"m","decision":{"verdict":%q,"t":%q,%q:[%s]}}`, verdict, at(ms), field, charges)
	}
	refuse := func(ms int) string {
		return fmt.Sprintf(`{"kind":"decision","message_id":"m","decision":{"verdict":"refuse","t":%q,"evidence":[{"limit":"tenant","scope":"tenant=a"}]}}`, at(ms))
	}
	owner := schemas.PartitionOf("tenant=a", partitions)
	for name, c := range map[string]struct {
		log       []string
		partition int32
		want      int
	}{
		"nothing stands":                {[]string{refuse(0)}, owner, 1},
		"full":                          {[]string{step(0, "charge", "charges", 0), step(1, "charge", "charges", 1), refuse(2)}, owner, 0},
		"one place left":                {[]string{step(0, "charge", "charges", 0), refuse(2)}, owner, 1},
		"full until now":                {[]string{step(0, "charge", "charges", 0), step(1, "charge", "charges", 1), refuse(1000)}, owner, 1},
		"full by a millisecond":         {[]string{step(0, "charge", "charges", 0), step(1, "charge", "charges", 1), refuse(999)}, owner, 0},
		"the longer window":             {[]string{step(0, "charge", "charges", 0), step(2000, "charge", "charges", 2000), step(4000, "charge", "charges", 4000), refuse(9000)}, owner, 0},
		"given back":                    {[]string{step(0, "charge", "charges", 0), step(1, "charge", "charges", 1), step(2, "give_back", "returned", 0), refuse(3)}, owner, 1},
		"given back and restored":       {[]string{step(0, "charge", "charges", 0), step(1, "charge", "charges", 1), step(2, "give_back", "returned", 0), step(3, "give_back", "restored", 0), refuse(4)}, owner, 0},
		"home says what the owner said": {[]string{refuse(0)}, (owner + 1) % partitions, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follower{tales: make(map[string]*tale), standing: make(map[shelf][]int64)}
			for _, line := range c.log {
				var e entry
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				f.stand(&e, c.partition)
			}
			if f.groundless != c.want {
				t.Errorf("%d refusals without a ground, want %d", f.groundless, c.want)
			}
		})
	}
}

// TestTold holds that a call is judged by the places of the decision that led to
// it, each attempt by its own.
func TestTold(t *testing.T) {
	f := &follower{tales: make(map[string]*tale), standing: make(map[shelf][]int64)}
	admit := func(verdict string, tenant, everyone int64) string {
		stamp := func(s int64) string { return time.Unix(s, 0).UTC().Format(time.RFC3339) }
		return fmt.Sprintf(`{"kind":"status","message_id":"m","status":"queued","decision":{"verdict":%q,"t":%q,"charges":[{"limit":"tenant","scope":"tenant=a","t":%q}],"carried":[{"limit":"everyone","scope":"","t":%q}]}}`,
			verdict, stamp(everyone), stamp(tenant), stamp(everyone))
	}
	for _, line := range []string{
		admit("admit", 100, 101), `{"kind":"status","message_id":"m","status":"sending","attempt":1}`,
		admit("move", 200, 201), `{"kind":"status","message_id":"m","status":"sending","attempt":2}`,
		`{"kind":"status","message_id":"m","status":"sent"}`, `{"kind":"status","message_id":"m","status":"delivered"}`,
	} {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if err := f.take(&e); err != nil {
			t.Fatal(err)
		}
	}
	sent, refused := f.told(map[string]string{"m": "a"}, []call{{"m", 1}, {"m", 2}, {"unknown", 1}})
	want := []sending{{"m", "a", [2]int64{100e6, 101e6}}, {"m", "a", [2]int64{200e6, 201e6}}, {"unknown", "", [2]int64{}}}
	if fmt.Sprint(sent) != fmt.Sprint(want) || len(refused) != 0 || f.ends != 1 {
		t.Errorf("sent %v, want %v; refused %v, %d ends", sent, want, refused, f.ends)
	}
	var e entry
	if err := json.Unmarshal([]byte(`{"message_id":"n","decision":{"verdict":"admit","t":"2026-11-21T00:00:00Z","charges":[{"limit":"tenant","t":"2026-11-21T00:00:00Z"}]}}`), &e); err != nil {
		t.Fatal(err)
	}
	if f.take(&e) == nil {
		t.Error("a message was let through with one place of two, and nobody said so")
	}
}
