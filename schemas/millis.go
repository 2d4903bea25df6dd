package schemas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Millis is a point in time in Unix milliseconds, UTC. All of Weir's decisions
// are taken in whole milliseconds; in JSON it is RFC 3339 with exactly three
// decimals. Zero means absent.
type Millis int64

// millisLayout always prints three decimals, so that text sorts as time does.
const millisLayout = "2006-01-02T15:04:05.000Z"

// MillisOf truncates t to the millisecond.
func MillisOf(t time.Time) Millis {
	if t.IsZero() {
		return 0
	}
	return Millis(t.UnixMilli())
}

// Time returns m as a UTC time; the zero time when m is absent.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// Add returns m moved by d, truncated to the millisecond, but at most to the last time that
// RFC 3339 can write: no one could read a later one.
func (m Millis) Add(d time.Duration) Millis { return min(m+Millis(d.Milliseconds()), maxWireTime) }

// Sub returns m-o, and the longest duration where it is longer: moments that
// others write may lie thousands of years apart.
func (m Millis) Sub(o Millis) time.Duration {
	d := m - o
	if d > maxSpan || d < -maxSpan {
		return time.Duration(math.MaxInt64) * time.Duration(cmp.Compare(d, 0))
	}
	return time.Duration(d) * time.Millisecond
}

const maxSpan = Millis(math.MaxInt64 / int64(time.Millisecond))

// IsZero reports whether m is absent; encoding/json's omitzero uses it.
func (m Millis) IsZero() bool { return m == 0 }

func (m Millis) String() string {
	if m == 0 {
		return ""
	}
	return time.UnixMilli(int64(m)).UTC().Format(millisLayout)
}

// MarshalJSON writes RFC 3339 with milliseconds, or null when absent.
func (m Millis) MarshalJSON() ([]byte, error) {
	if m == 0 {
		return []byte("null"), nil
	}
	b := make([]byte, 0, len(millisLayout)+2)
	b = append(b, '"')
	b = time.UnixMilli(int64(m)).UTC().AppendFormat(b, millisLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON reads RFC 3339 in any zone and any precision.
func (m *Millis) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*m = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("time must be a string in RFC 3339: %w", err)
	}
	v, err := ParseMillis(s)
	if err != nil {
		return err
	}
	*m = v
	return nil
}

// ParseMillis reads RFC 3339, up to the end of 9999 in UTC. The empty string is the absent time.
func ParseMillis(s string) (Millis, error) {
	if s == "" {
		return 0, nil
	}
	t, ok := parseTime(s)
	if !ok {
		return 0, fmt.Errorf("time %q is not RFC 3339, such as 2026-11-22T01:00:00Z", s)
	}
	m := Millis(t.UnixMilli())
	if m > maxWireTime {
		return 0, fmt.Errorf("time %q is after the year 9999 in UTC", s)
	}
	return m, nil
}

// parseTime reads RFC 3339. time.Parse alone also takes an hour of one digit, a comma before
// the fraction, and offsets of 24 hours and of 60 minutes.
func parseTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || s[13] != ':' || s[19] == ',' {
		return time.Time{}, false
	}
	zone := s[len(s)-6:]
	return t, s[len(s)-1] == 'Z' || zone[1:3] < "24" && zone[4:] < "60"
}
