package limit

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// Warming is a window whose history is not complete when a new policy comes into
// force, because not all that it counts was kept before.
type Warming struct {
	Limit  string         `json:"limit"`
	Window schemas.Window `json:"window"`
	Since  schemas.Millis `json:"since"` // it counts what came after
	// Complete is from when the window counts as if it had always been there: a
	// rolling window's length after Since, the start of a calendar window's next
	// period, the time that a bucket takes to fill.
	Complete schemas.Millis `json:"complete"`
}

// Loss is history of a limit that a window of a new policy would not count,
// though the window looks back that far and the limit counts it now, or did
// until it was turned off or removed within the last day.
type Loss struct {
	Limit  string         `json:"limit"`
	Window schemas.Window `json:"window"`
	From   schemas.Millis `json:"from"`  // what was sent after this
	Until  schemas.Millis `json:"until"` // and up to this would not count
}

// Course is what the revisions so far say about the history of every window: the
// since of a partition that takes up each revision when it is made. Partitions do
// within about a second. The zero value has no revision.
type Course struct {
	policy *schemas.Policy
	since  map[string]map[string]schemas.Millis
	gone   map[string]gone // limits that were turned off or removed
}

type gone struct {
	limit schemas.Limit
	since map[string]schemas.Millis
	at    schemas.Millis
}

// Take takes up a revision that was made at t.
func (c *Course) Take(next *schemas.Policy, t schemas.Millis) {
	if c.gone == nil {
		c.gone, c.policy = map[string]gone{}, &schemas.Policy{}
	}
	for _, l := range c.policy.Limits {
		if l.Off() {
			continue
		}
		if activeLimit(next, l.Name) == nil {
			c.gone[l.Name] = gone{l, c.since[l.Name], t}
		}
	}
	c.policy, c.since = next, NextSince(c.policy, c.since, next, t)
	for name := range c.since {
		delete(c.gone, name)
	}
}

// Clone returns a course that goes on by itself.
func (c *Course) Clone() Course {
	return Course{policy: c.policy, since: c.since, gone: maps.Clone(c.gone)} // Take replaces since and never writes to it
}

// MarkerBytes is how large the marker is with which next comes into force at t: it says
// since when each window counts.
func (c *Course) MarkerBytes(next *schemas.Policy, t schemas.Millis) int {
	b, err := json.Marshal(schemas.Marker{Since: NextSince(c.policy, c.since, next, t)})
	if err != nil {
		return math.MaxInt // it has numbers and text only
	}
	return len(b)
}

// Warming returns the windows that begin to warm up when next comes into force at
// t, by limit in next's order. Those that still warm up from an earlier change
// are not named again.
func (c *Course) Warming(next *schemas.Policy, t schemas.Millis) []Warming {
	since := NextSince(c.policy, c.since, next, t)
	var out []Warming
	c.each(next, func(l *schemas.Limit, w schemas.Window) {
		m := since[l.Name][w.UnitKey()]
		if had, ok := c.inForce(l.Name, w); ok && had == m || m <= reaches(l, w, t) {
			return
		}
		out = append(out, Warming{Limit: l.Name, Window: w, Since: m, Complete: completeAt(l, w, m)})
	})
	return out
}

// Lost returns the history that is lost when next comes into force at t, by limit
// in next's order. A window that is new beside others which go on loses nothing:
// it only warms up. Nor does a limit that only observes.
func (c *Course) Lost(next *schemas.Policy, t schemas.Millis) []Loss {
	since := NextSince(c.policy, c.since, next, t)
	type span struct{ kept, until, counted schemas.Millis }
	spans := map[string]span{}
	c.each(next, func(l *schemas.Limit, w schemas.Window) {
		s, known := spans[l.Name]
		if !known {
			s = span{kept: never, until: t, counted: never}
			before, moments := activeLimit(c.policy, l.Name), c.since[l.Name]
			if g, is := c.gone[l.Name]; is && before == nil && t < g.at+Retain {
				before, moments, s.until = &g.limit, g.since, g.at
			}
			if before != nil {
				for _, p := range pastOf(before, moments, s.until) {
					s.kept = min(s.kept, max(p.since, reaches(before, p.window, s.until)))
				}
			}
		}
		s.counted = min(s.counted, max(since[l.Name][w.UnitKey()], reaches(l, w, t)))
		spans[l.Name] = s
	})
	var out []Loss
	c.each(next, func(l *schemas.Limit, w schemas.Window) {
		s, m := spans[l.Name], since[l.Name][w.UnitKey()]
		from := max(s.kept, reaches(l, w, t))
		had, ok := c.inForce(l.Name, w)
		if l.Mode != schemas.ModeObserve && from < min(m, s.until) && s.counted > from && (!ok || had != m) {
			out = append(out, Loss{Limit: l.Name, Window: w, From: from, Until: min(m, s.until)})
		}
	})
	return out
}

// each calls fn with each window of the limits that are not off, once.
func (c *Course) each(p *schemas.Policy, fn func(*schemas.Limit, schemas.Window)) {
	for i := range p.Limits {
		l := &p.Limits[i]
		seen := map[string]bool{}
		for _, w := range allWindows(l) {
			if key := w.UnitKey(); !l.Off() && !seen[key] {
				seen[key] = true
				fn(l, w)
			}
		}
	}
}

// inForce returns from when a window counts that the latest revision has.
func (c *Course) inForce(name string, w schemas.Window) (schemas.Millis, bool) {
	l := activeLimit(c.policy, name)
	if l == nil || !slices.ContainsFunc(allWindows(l), func(o schemas.Window) bool { return o.UnitKey() == w.UnitKey() }) {
		return 0, false
	}
	m, ok := c.since[name][w.UnitKey()]
	return m, ok
}

// reaches returns the moment after which a window counts at t, whatever its since.
func reaches(l *schemas.Limit, w schemas.Window, t schemas.Millis) schemas.Millis {
	if w.Kind == schemas.WindowCalendar {
		zone, err := schemas.Zone(zoneName(l))
		unit := slices.Index(unitNames[:], w.Unit)
		if err != nil || unit < 0 {
			return t // Validate refuses what does not exist
		}
		start, _ := period(uint8(unit), zone, t)
		return start - 1
	}
	return t - (completeAt(l, w, t) - t)
}

// completeAt returns when a window that begins at t has a whole history.
func completeAt(l *schemas.Limit, w schemas.Window, t schemas.Millis) schemas.Millis {
	switch w.Kind {
	case schemas.WindowRolling:
		return t + schemas.Millis(w.Length.Milliseconds())
	case schemas.WindowBucket:
		return t + schemas.Millis((w.N*w.RefillEvery+w.RefillTokens-1)/w.RefillTokens)
	case schemas.WindowCalendar:
		zone, err := schemas.Zone(zoneName(l))
		unit := slices.Index(unitNames[:], w.Unit)
		if err != nil || unit < 0 {
			return t // Validate refuses what does not exist
		}
		_, end := period(uint8(unit), zone, t)
		return end
	}
	return t
}
