package limit

import (
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Warming is a window whose history begins with a new policy, because what it
// counts was not kept before.
type Warming struct {
	Limit  string         `json:"limit"`
	Window schemas.Window `json:"window"`
	Since  schemas.Millis `json:"since"`
	// Complete is from when the window counts as if it had always been there: a
	// rolling window's length after Since, the start of a calendar window's next
	// period, the time that a bucket takes to fill.
	Complete schemas.Millis `json:"complete"`
}

// NewWindows returns the windows of next that begin at t when next replaces
// prev then, by limit in next's order. It takes the windows of prev for
// complete; those that still warm up from an earlier change are not named
// again. Each partition begins them with its own marker, within about a second
// after a revision.
func NewWindows(prev, next *schemas.Policy, t schemas.Millis) []Warming {
	before := map[string]map[string]schemas.Millis{}
	for i := range prev.Limits {
		l := &prev.Limits[i]
		before[l.Name] = map[string]schemas.Millis{}
		for _, w := range allWindows(l) {
			before[l.Name][w.UnitKey()] = 0
		}
	}
	since := NextSince(prev, before, next, t)
	var out []Warming
	for i := range next.Limits {
		l := &next.Limits[i]
		told := map[string]bool{}
		for _, w := range allWindows(l) {
			key := w.UnitKey()
			if m, ok := since[l.Name][key]; !ok || m < t || told[key] {
				continue // off, or kept, or an override of the same window
			}
			told[key] = true
			out = append(out, Warming{Limit: l.Name, Window: w, Since: t, Complete: completeAt(l, w, t)})
		}
	}
	return out
}

// completeAt returns when a window that begins at t has a whole history.
func completeAt(l *schemas.Limit, w schemas.Window, t schemas.Millis) schemas.Millis {
	switch w.Kind {
	case schemas.WindowRolling:
		return t + schemas.Millis(w.Length.Milliseconds())
	case schemas.WindowBucket:
		return t + schemas.Millis((w.N*w.RefillEvery+w.RefillTokens-1)/w.RefillTokens)
	case schemas.WindowCalendar:
		zone, err := time.LoadLocation(zoneName(l))
		unit := slices.Index(unitNames[:], w.Unit)
		if err != nil || unit < 0 {
			return t // Validate refuses what does not exist
		}
		_, end := period(uint8(unit), zone, t)
		return end
	}
	return t
}
