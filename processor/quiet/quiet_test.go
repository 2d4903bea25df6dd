package quiet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/weirhq/weir/schemas"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestUntil(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		zones          []string
		at, end        string // RFC 3339; an empty end is not quiet
	}{
		{"by night, before midnight", "22:00", "08:00", []string{"Asia/Shanghai"}, "2026-11-21T23:30:00+08:00", "2026-11-22T08:00:00+08:00"},
		{"by night, after midnight", "22:00", "08:00", []string{"Asia/Shanghai"}, "2026-11-22T07:59:59.999+08:00", "2026-11-22T08:00:00+08:00"},
		{"the end is no longer quiet", "22:00", "08:00", []string{"Asia/Shanghai"}, "2026-11-22T08:00:00+08:00", ""},
		{"the beginning is quiet", "22:00", "08:00", []string{"Asia/Shanghai"}, "2026-11-21T22:00:00+08:00", "2026-11-22T08:00:00+08:00"},
		{"by day", "12:00", "13:30", []string{"UTC"}, "2026-11-21T12:10:00Z", "2026-11-21T13:30:00Z"},
		{"not by day", "12:00", "13:30", []string{"UTC"}, "2026-11-21T11:59:59Z", ""},
		{"an empty span is never", "09:00", "09:00", []string{"UTC"}, "2026-11-21T09:00:00Z", ""},
		{"the strictest of several zones", "22:00", "08:00", []string{"America/New_York", "America/Los_Angeles"}, "2026-11-21T23:00:00-05:00", "2026-11-22T08:00:00-08:00"},
		{"the month's last night", "22:00", "08:00", []string{"UTC"}, "2026-12-31T22:30:00Z", "2027-01-01T08:00:00Z"},
		// Berlin lacks 02:00 to 03:00 on 29 March 2026, and has it twice on 25 October.
		{"an end that the day lacks", "22:00", "02:30", []string{"Europe/Berlin"}, "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"an end that comes twice", "22:00", "02:30", []string{"Europe/Berlin"}, "2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"a beginning that comes twice", "01:13", "22:49", []string{"America/New_York"}, "2026-11-01T01:20:12-04:00", "2026-11-01T01:00:00-05:00"},
		{"clocks put back within them", "00:30", "22:49", []string{"America/New_York"}, "2026-11-01T01:20:12-04:00", "2026-11-01T22:49:00-05:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := Parse(&schemas.QuietHours{From: c.from, To: c.to})
			if err != nil {
				t.Fatal(err)
			}
			var zones []*time.Location
			for _, z := range c.zones {
				zones = append(zones, zone(t, z))
			}
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			end, quiet := h.Until(at, zones)
			if quiet != (c.end != "") {
				t.Fatalf("quiet %v, until %v", quiet, end)
			}
			if c.end == "" {
				return
			}
			want, err := time.Parse(time.RFC3339Nano, c.end)
			if err != nil {
				t.Fatal(err)
			}
			if !end.Equal(want) {
				t.Errorf("until %v, want %v", end, want)
			}
		})
	}
}

// TestUntilIsTheFirstMoment goes through the minutes one by one, over the days
// on which clocks change in either direction: until then every minute is quiet
// in some zone, and at the end none is.
func TestUntilIsTheFirstMoment(t *testing.T) {
	names := []string{"America/Sao_Paulo", "Australia/Lord_Howe", "Europe/Berlin", "Africa/Casablanca", "Asia/Shanghai", "America/Havana"}
	rng := rand.New(rand.NewPCG(1, 2))
	// quiet reads the clock on the wall.
	quiet := func(from, to string, at time.Time, zones []*time.Location) bool {
		for _, z := range zones {
			now := at.In(z).Format("15:04")
			if from <= to && from <= now && now < to || from > to && (now >= from || now < to) {
				return true
			}
		}
		return false
	}
	clock := func() string { return fmt.Sprintf("%02d:%02d", rng.IntN(24), rng.IntN(4)*15) }
	quiets, several := 0, 0
	for _, day := range []string{
		"2018-02-17", "2018-11-03", // São Paulo
		"2018-03-31", "2018-10-06", // Lord Howe
		"2018-03-24", "2018-10-27", // Berlin
		"2018-05-12", "2018-06-16", // Casablanca
		"2018-03-10", "2018-11-03", // Havana
		"2018-07-01",
	} {
		begin, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			from, to := clock(), clock()
			h, err := Parse(&schemas.QuietHours{From: from, To: to})
			if err != nil {
				t.Fatal(err)
			}
			var zones []*time.Location
			for range 1 + rng.IntN(3) {
				zones = append(zones, zone(t, names[rng.IntN(len(names))]))
			}
			at := begin.Add(time.Duration(rng.IntN(3*24*3600)) * time.Second)
			want := at
			for i := 0; quiet(from, to, want, zones); i++ {
				if want = want.Truncate(time.Minute).Add(time.Minute); i > 3*24*60 {
					break
				}
			}
			end, is := h.Until(at, zones)
			if is != quiet(from, to, at, zones) {
				t.Fatalf("%s to %s in %v at %v: quiet %v", from, to, zones, at, is)
			}
			if want.Sub(at) > 2*24*time.Hour {
				continue // quiet all day somewhere: who comes then asks again
			}
			if !end.Equal(want) {
				t.Fatalf("%s to %s in %v at %v: until %v, the first minute is %v", from, to, zones, at, end, want)
			}
			if is {
				quiets++
				if len(zones) > 1 {
					several++
				}
			}
		}
	}
	if quiets < 500 || several < 300 {
		t.Errorf("%d were quiet, %d of them in several zones: the test shows little", quiets, several)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, q := range []schemas.QuietHours{{From: "25:00", To: "08:00"}, {From: "22:00", To: "8"}, {}} {
		if _, err := Parse(&q); err == nil {
			t.Errorf("%+v was read", q)
		}
	}
}
