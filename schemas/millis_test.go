package schemas

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMillisText(t *testing.T) {
	tests := []struct {
		name, text string
		want       Millis
		printed    string // "" is text
	}{
		{"milliseconds", "2026-11-22T01:00:00.123Z", 1795309200123, ""},
		{"none", "2026-11-22T01:00:00Z", 1795309200000, "2026-11-22T01:00:00.000Z"},
		{"truncated", "2026-11-22T01:00:00.123999999Z", 1795309200123, "2026-11-22T01:00:00.123Z"},
		{"another zone", "2026-11-22T09:00:00.120+08:00", 1795309200120, "2026-11-22T01:00:00.120Z"},
		{"before 1970", "1969-12-31T23:59:59.999Z", -1, ""},
		{"before 1970, truncated downwards", "1969-12-31T23:59:59.9985Z", -2, "1969-12-31T23:59:59.998Z"},
		{"leap day", "2028-02-29T23:59:59.001Z", 1835481599001, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseMillis(tt.text)
			if err != nil || got != tt.want {
				t.Fatalf("%d, %v; want %d", got, err, tt.want)
			}
			printed := tt.printed
			if printed == "" {
				printed = tt.text
			}
			if got.String() != printed {
				t.Errorf("prints %s, want %s", got, printed)
			}
		})
	}
	for _, bad := range []string{"now", "2026-11-22", "2026-11-22T01:00:00", "2026-02-30T00:00:00Z", "1700000000", "2026-11-22 01:00:00Z",
		"2026-11-22T9:00:00Z", "2026-11-22T09:00:00,5Z", "2026-11-22T09:00:00+24:00", "2026-11-22T09:00:00-08:60"} {
		if m, err := ParseMillis(bad); err == nil {
			t.Errorf("%q is %s", bad, m)
		}
	}
}

func TestAbsentMillis(t *testing.T) {
	if m, err := ParseMillis(""); m != 0 || err != nil {
		t.Error(m, err)
	}
	if m := MillisOf(time.Time{}); m != 0 || !m.IsZero() || !m.Time().IsZero() || m.String() != "" {
		t.Error("the zero time is not the absent one")
	}
	b, err := json.Marshal(struct {
		A Millis `json:"a"`
		B Millis `json:"b,omitzero"`
	}{})
	if string(b) != `{"a":null}` || err != nil {
		t.Errorf("%s, %v", b, err)
	}
	m := Millis(7)
	if err := json.Unmarshal([]byte("null"), &m); m != 0 || err != nil {
		t.Error(m, err)
	}
	if err := json.Unmarshal([]byte("7"), &m); err == nil {
		t.Error("a number is a time")
	}
}

func TestMillisArithmetic(t *testing.T) {
	m := Millis(1000)
	if got := m.Add(1500*time.Millisecond + 999*time.Microsecond); got != 2500 {
		t.Errorf("Add: %d", got)
	}
	if got := m.Add(-time.Second); got != 0 {
		t.Errorf("Add: %d", got)
	}
	if got := Millis(2500).Sub(m); got != 1500*time.Millisecond {
		t.Errorf("Sub: %s", got)
	}
}

// A difference that no Duration has does not turn round.
func TestMillisFarApart(t *testing.T) {
	last, first := Millis(253402300799999), Millis(-62135596800000) // the years 9999 and 1
	if d := last.Sub(1_780_000_000_000); d != math.MaxInt64 {
		t.Errorf("to the year 9999: %v", d)
	}
	if d := first.Sub(last); d != -math.MaxInt64 {
		t.Errorf("back to the year 1: %v", d)
	}
}

func TestMillisRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMillis().Draw(t, "m")
		back, err := ParseMillis(m.String())
		if err != nil || back != m || MillisOf(m.Time()) != m {
			t.Fatalf("%d became %d, %v", m, back, err)
		}
		b, err := m.MarshalJSON()
		if err != nil || string(b) != string(appendMillis(nil, m)) {
			t.Fatalf("%s, %s, %v", b, appendMillis(nil, m), err)
		}
	})
	// Years that RFC 3339 cannot write still print as encoding/json does.
	for _, m := range []Millis{maxWireTime + 1, -1, -62135596800001} {
		if b, _ := m.MarshalJSON(); string(b) != string(appendMillis(nil, m)) {
			t.Errorf("%s, %s", b, appendMillis(nil, m))
		}
	}
}

// TestInstant holds the writer's own arithmetic to package time: each day of its
// centuries, and what is beyond them.
func TestInstant(t *testing.T) {
	for day := Millis(-40_000); day < 60_000; day++ {
		for _, ms := range []Millis{0, 1, 43_200_123, 86_399_999} {
			if m := day*86_400_000 + ms; m != 0 {
				if got := string(appendInstant(nil, m)); got != m.String() {
					t.Fatalf("%d is written %s and is %s", m, got, m)
				}
			}
		}
	}
}
