// Package quiet says when quiet hours end.
//
// It is pure. It finds no recipient's zone (recipient.Zones does) and parks
// nothing (admission does).
package quiet

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Hours are quiet hours ready to be asked. From and to are minutes after local
// midnight; the end is no longer quiet.
type Hours struct{ from, to int }

// Parse reads quiet hours as the policy has them.
func Parse(q *schemas.QuietHours) (Hours, error) {
	from, err := minutes(q.From)
	if err != nil {
		return Hours{}, err
	}
	to, err := minutes(q.To)
	return Hours{from, to}, err
}

func minutes(text string) (int, error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time of day, such as 22:00", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// maxRounds bounds how often the zones may hand on to one another: quiet hours
// that cover the day when all zones are taken together never end.
const maxRounds = 16

// Until returns the first moment from t on that is quiet in none of the zones,
// and whether t itself is quiet in one. Where there is no such moment within
// some days, the last one looked at is returned: who comes then asks again.
func (h Hours) Until(t time.Time, zones []*time.Location) (end time.Time, quiet bool) {
	end = t
	for range maxRounds {
		moved := false
		for _, zone := range zones {
			if h.inside(end.In(zone)) {
				end, moved, quiet = h.end(end.In(zone)), true, true
			}
		}
		if !moved {
			break
		}
	}
	return end, quiet
}

// inside reports whether a local time is quiet.
func (h Hours) inside(local time.Time) bool {
	m := local.Hour()*60 + local.Minute()
	if h.from <= h.to {
		return h.from <= m && m < h.to
	}
	return m >= h.from || m < h.to
}

// end returns the end of the quiet hours that local is inside of: the first
// whole minute at which the local clock does not read quiet. That is when the
// clock comes to their end, or when it is moved out of them: put back to before
// their beginning, or forward beyond their end.
func (h Hours) end(local time.Time) time.Time {
	e := local.Truncate(time.Minute)
	for {
		left := h.to - (e.Hour()*60 + e.Minute())
		if left <= 0 {
			left += 24 * 60
		}
		next := e.Add(time.Duration(left) * time.Minute)
		_, moved := e.ZoneBounds()
		if moved.IsZero() || next.Before(moved) {
			return next
		}
		if e = moved; !h.inside(e) {
			return e
		}
	}
}
