package e2e

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/schemas"
)

// shelfMark parts the limit, the recipient and the rest of a scope in the name
// of a list of places. No policy's name and no recipient has it.
const shelfMark = "\x00"

// matching returns the limits that count the message of a decision. What the
// oracle cannot see in the log (country, metadata, content) it does not guess.
func (o *Oracle) matching(r Record) []*schemas.Limit {
	pol := o.policies[r.Event.Decision.Revision]
	if pol == nil {
		o.fault(FaultCannotBeTold, r, "revision %d is not known", r.Event.Decision.Revision)
		return nil
	}
	var out []*schemas.Limit
	for i := range pol.Limits {
		l := &pol.Limits[i]
		if err := told(l); err != nil {
			o.fault(FaultCannotBeTold, r, "limit %s: %v", l.Name, err)
			continue
		}
		if !l.Off() && matches(l, r.Event) && !(isWide(l) && lacks(l, r.Event)) {
			out = append(out, l)
		}
	}
	return out
}

// told reports what the oracle cannot judge by weir.status alone.
func told(l *schemas.Limit) error {
	if len(l.Match.Country) > 0 || len(l.Match.Metadata) > 0 {
		return fmt.Errorf("match by country and metadata are not in this oracle")
	}
	if isWide(l) {
		return nil
	}
	for _, d := range l.Per {
		switch d {
		case "recipient", "tenant", "channel", "class", "template", "provider":
		default:
			return fmt.Errorf("per %s is not in this oracle", d)
		}
	}
	return nil
}

func matches(l *schemas.Limit, e *schemas.Event) bool {
	in := func(values []string, v string) bool { return len(values) == 0 || slices.Contains(values, v) }
	m := &l.Match
	prefix := len(m.Prefix) == 0
	for _, p := range m.Prefix {
		prefix = prefix || strings.HasPrefix(e.To, "+"+p)
	}
	return prefix && in(m.Tenant, e.Tenant) && in(m.Channel, e.Channel) && in(m.Class, e.Class) &&
		in(m.Template, e.Template) && in(m.Provider, e.Provider) && !slices.Contains(l.Exempt, e.To)
}

func windowsFor(l *schemas.Limit, to string) []schemas.Window {
	for _, o := range l.Overrides {
		if o.To == to {
			return o.Allow
		}
	}
	return l.Allow
}

// shelf names the list of places that a message's place in a limit belongs to.
func shelf(l *schemas.Limit, e *schemas.Event) string {
	key := l.Name + shelfMark + e.To + shelfMark
	for _, d := range l.Per {
		switch d {
		case "tenant":
			key += "t=" + e.Tenant + shelfMark
		case "channel":
			key += "h=" + e.Channel + shelfMark
		case "class":
			key += "c=" + e.Class + shelfMark
		case "template":
			key += "m=" + e.Template + shelfMark
		case "provider":
			key += "p=" + e.Provider + shelfMark
		}
	}
	return key
}

func cost(l *schemas.Limit, e *schemas.Event) int64 {
	if l.Count == schemas.CountSegments {
		return int64(max(e.Segments, 1))
	}
	if l.Count == schemas.CountCost {
		return int64(max(e.Cost, 1))
	}
	return 1
}

// count adds up the places that a window holds at t, but those of one message.
// A rolling window of length w holds what stands in (t-w, t]; a calendar window
// holds what stands at the same date of the zone, as far as its unit tells
// dates apart. Neither looks beyond the window's since.
func count(w schemas.Window, l *schemas.Limit, since map[string]map[string]schemas.Millis, places *list, t schemas.Millis, without string) int64 {
	var inside func(at schemas.Millis) bool
	switch w.Kind {
	case schemas.WindowRolling:
		inside = func(at schemas.Millis) bool { return t-at < schemas.Millis(w.Length/time.Millisecond) }
	case schemas.WindowCalendar:
		zone := zoneOf(l)
		today := date(t, zone, w.Unit)
		inside = func(at schemas.Millis) bool { return date(at, zone, w.Unit) == today }
	case schemas.WindowBucket:
		return 0 // see drawn
	}
	from := since[l.Name][w.UnitKey()]
	// They stand in the order of time, so what is inside is the end of the list.
	all := places.all()
	first := sort.Search(len(all), func(i int) bool { return all[i].t > from && inside(all[i].t) })
	if first == len(all) {
		return 0
	}
	return places.sum(all[first].t, t, without)
}

var zones sync.Map // name → *time.Location: loading one reads a file

func zoneOf(l *schemas.Limit) *time.Location {
	if z, ok := zones.Load(l.Timezone); ok {
		return z.(*time.Location)
	}
	zone, err := schemas.Zone(l.Timezone) // "" is UTC
	if err != nil {
		panic("the policy was checked: " + err.Error())
	}
	zones.Store(l.Timezone, zone)
	return zone
}

// localTime is a date and time. The offset from UTC tells the hours apart that a
// clock shows twice.
type localTime struct {
	year                      int
	month                     time.Month
	day, hour, minute, offset int
}

// date is the local date and time of t, cut to the unit.
func date(t schemas.Millis, zone *time.Location, unit string) (d localTime) {
	at := t.Time().In(zone)
	d.year, d.month, d.day = at.Date()
	switch unit {
	case "month":
		d.day = 0
	case "hour", "minute":
		d.hour, d.minute, _ = at.Clock()
		_, d.offset = at.Zone()
		if unit == "hour" {
			d.minute = 0
		}
	}
	return d
}

// Moved says that workers disagree about a time zone. Calendar windows in it are not
// judged; all others are.
func (o *Oracle) Moved(zone string) { o.moved = zone }

func (o *Oracle) unknownPeriod(l *schemas.Limit, w schemas.Window) bool {
	return w.Kind == schemas.WindowCalendar && o.moved != "" && l.Timezone == o.moved
}

func limitOf(shelf string) string {
	limit, _, _ := strings.Cut(shelf, shelfMark)
	return limit
}
