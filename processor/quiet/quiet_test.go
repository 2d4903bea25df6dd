package quiet

import (
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

// TestEndIsOver: whatever the hours, zone and moment, the end is later, is not
// quiet, and one minute before it still was.
func TestEndIsOver(t *testing.T) {
	zones := []*time.Location{zone(t, "America/Sao_Paulo"), zone(t, "Australia/Lord_Howe"), zone(t, "Europe/Berlin"), zone(t, "Africa/Casablanca")}
	for from := 0; from < 24*60; from += 145 {
		for to := 0; to < 24*60; to += 115 {
			h := Hours{from, to}
			for at := time.Date(2018, 10, 26, 0, 7, 0, 0, time.UTC); at.Month() < 11 || at.Day() < 8; at = at.Add(101 * time.Minute) {
				for _, z := range zones {
					end, quiet := h.Until(at, []*time.Location{z})
					if quiet != h.inside(at.In(z)) || quiet && (!end.After(at) || h.inside(end.In(z)) || !h.inside(end.Add(-time.Minute).In(z))) {
						t.Fatalf("%v in %v at %v: quiet %v until %v", h, z, at, quiet, end)
					}
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, q := range []schemas.QuietHours{{From: "25:00", To: "08:00"}, {From: "22:00", To: "8"}, {}} {
		if _, err := Parse(&q); err == nil {
			t.Errorf("%+v was read", q)
		}
	}
}
