package limit

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Retain is how long the history of a window is kept after a revision that drops
// the window: a policy that takes a change back within a day finds what every
// revision of that day counted.
const Retain = schemas.Millis(24 * 60 * 60 * 1000)

// Keys of a limit's since beside those of its windows. A key of a window that
// the policy lacks is a window whose history is retained.
const (
	// sinceBuckets is when the numbers of the limit's buckets last changed.
	sinceBuckets = "bucket"
	// sinceLeft and a window's key is when a revision dropped the window, and
	// sinceLeftCount the same of a calendar window whose places are only counted.
	sinceLeft      = "left "
	sinceLeftCount = "left count "
	// sinceTimes and a calendar window's key is from when the times of its places
	// are kept, where that is later than from when they are counted.
	sinceTimes = "times "
)

// NextSince returns the since of next's windows when it comes into force at t,
// from the rules before it. A window keeps its moment where the limit keeps its
// match, per, exempt and count, per mailbox the policy its mailboxes, and, for a
// calendar window, its zone: then the
// same messages took the same places. So does a window that an earlier revision
// dropped less than a day ago: its history is retained. A new rolling window
// takes over the moment of one at least as long, whose places were all kept; of
// a shorter one, and of a calendar window whose places are kept with their times,
// it counts what was kept. A bucket takes over the moment of the one whose numbers
// it changes: its level stays. Beside the moment of each bucket, since when it has
// been there, "bucket" has the one since when all the limit's have had their
// numbers. Every other window begins at t, and so does all of a limit that was
// off. Limits that next lacks or turns off drop out.
//
// Windows count places after since, so a place taken in the same millisecond as
// the marker is not counted by a window that begins there: the first decision
// under a new revision should be later than its marker.
func NextSince(prev *schemas.Policy, prevSince map[string]map[string]schemas.Millis, next *schemas.Policy, t schemas.Millis) map[string]map[string]schemas.Millis {
	out := map[string]map[string]schemas.Millis{}
	for i := range next.Limits {
		l := &next.Limits[i]
		if l.Off() {
			continue
		}
		before, since := activeLimit(prev, l.Name), prevSince[l.Name]
		same := before != nil && sameHistory(before, l) && SameMailboxes(l, prev, next)
		var past []kept
		if same {
			past = pastOf(before, since, t)
			if zoneName(before) != zoneName(l) {
				past = otherZone(past)
			}
		}
		moments := map[string]schemas.Millis{}
		for _, w := range allWindows(l) {
			key := w.UnitKey()
			moments[key] = t
			for i := range past {
				if m, ok := past[i].covers(w, t); ok {
					moments[key] = min(moments[key], m)
				}
			}
		}
		for i := range past {
			p := &past[i]
			key := p.window.UnitKey()
			if _, stays := moments[key]; !stays && p.window.Kind != schemas.WindowBucket && !p.zoned {
				moments[key] = p.since
				moments[leftKey(p)] = min(p.left, t)
			}
			// The places of a calendar window have their times from when some n of
			// it is small, until none is.
			if m := since[sinceTimes+key]; p.named && m > p.since {
				moments[sinceTimes+key] = m
			}
		}
		named := namedUnits(l)
		for u, name := range unitNames {
			key := "calendar-" + name
			had := slices.ContainsFunc(past, func(p kept) bool { return p.named && p.window.UnitKey() == key })
			m, counts := moments[key]
			switch _, dropped := moments[sinceLeft+key]; {
			case !counts || !dropped && named&(1<<u) == 0:
				delete(moments, sinceTimes+key)
			case !had && m < t:
				moments[sinceTimes+key] = t
			}
		}
		if hasBucket(l) {
			moments[sinceBuckets] = t
			if m, ok := since[sinceBuckets]; ok && same && sameBuckets(before, l) {
				moments[sinceBuckets] = min(m, t)
			}
		}
		out[l.Name] = moments
	}
	return out
}

// Inherited is NextSince for a policy that is only tried: it has the windows of
// next whose whole history prev's windows have kept, and no other.
func Inherited(prev *schemas.Policy, prevSince map[string]map[string]schemas.Millis, next *schemas.Policy) map[string]map[string]schemas.Millis {
	out := NextSince(prev, prevSince, next, maxTime)
	for _, moments := range out {
		maps.DeleteFunc(moments, func(_ string, m schemas.Millis) bool { return m >= maxTime-keep })
	}
	return out
}

// kept is a window whose history a limit has kept.
type kept struct {
	window schemas.Window
	since  schemas.Millis
	left   schemas.Millis // when a revision dropped it; never while it is in force
	named  bool           // of a calendar window: its places are kept with their times
	times  schemas.Millis // and from when on that was so; never if not
	zoned  bool           // of a calendar window: next counts in another zone
}

// pastOf returns what is kept at t of a limit under l.
func pastOf(l *schemas.Limit, since map[string]schemas.Millis, t schemas.Millis) []kept {
	var all []kept
	zone, err := schemas.Zone(zoneName(l))
	if err != nil {
		return nil // Validate refuses what does not exist
	}
	for _, w := range allWindows(l) {
		if m, known := since[w.UnitKey()]; known {
			all = append(all, kept{window: w, since: m, left: never, times: never, named: w.Kind == schemas.WindowCalendar && namedUnits(l)&unitBit(w) != 0})
		}
	}
	for _, r := range retained(l, since) {
		if t < r.left+Retain {
			all = append(all, r)
		}
	}
	for i := range all {
		if p := &all[i]; p.named {
			begin, _ := period(uint8(slices.Index(unitNames[:], p.window.Unit)), zone, t)
			p.times = max(p.since, since[sinceTimes+p.window.UnitKey()], begin-1)
		}
	}
	return all
}

func leftKey(p *kept) string {
	if p.window.Kind == schemas.WindowCalendar && !p.named {
		return sinceLeftCount + p.window.UnitKey()
	}
	return sinceLeft + p.window.UnitKey()
}

// leftUnit returns the key of the window that a key of since says was dropped.
func leftUnit(key string) (unit string, named, ok bool) {
	if unit, ok = strings.CutPrefix(key, sinceLeftCount); ok {
		return unit, false, true
	}
	unit, ok = strings.CutPrefix(key, sinceLeft)
	return unit, ok, ok
}

// otherZone leaves of a past what does not depend on the limit's zone.
func otherZone(all []kept) []kept {
	for i := range all {
		all[i].zoned = all[i].window.Kind == schemas.WindowCalendar
	}
	return all
}

// retained returns the windows of since that l lacks, by key.
func retained(l *schemas.Limit, since map[string]schemas.Millis) []kept {
	var all []kept
	for key, left := range since {
		unit, named, dropped := leftUnit(key)
		if !dropped || slices.ContainsFunc(allWindows(l), func(w schemas.Window) bool { return w.UnitKey() == unit }) {
			continue
		}
		if w, err := schemas.ParseWindow("1/" + unit); err == nil {
			all = append(all, kept{window: w, since: since[unit], left: left, times: never, named: named && w.Kind == schemas.WindowCalendar})
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return strings.Compare(a.window.UnitKey(), b.window.UnitKey()) })
	return all
}

// Retained returns since without the windows that were dropped a day or longer
// before t.
func Retained(since map[string]map[string]schemas.Millis, t schemas.Millis) map[string]map[string]schemas.Millis {
	out := map[string]map[string]schemas.Millis{}
	for name, moments := range since {
		out[name] = maps.Clone(moments)
		for key, left := range moments {
			if unit, _, dropped := leftUnit(key); dropped && t >= left+Retain {
				delete(out[name], key)
				delete(out[name], unit)
				delete(out[name], sinceTimes+unit)
			}
		}
	}
	return out
}

// covers returns from when on w counts everything, as far as p has kept it.
func (p *kept) covers(w schemas.Window, t schemas.Millis) (schemas.Millis, bool) {
	o := &p.window
	switch {
	case o.Kind == schemas.WindowBucket:
		return p.since, w.Kind == schemas.WindowBucket
	case o.UnitKey() == w.UnitKey():
		return p.since, !p.zoned
	case w.Kind != schemas.WindowRolling:
		return 0, false
	case o.Kind == schemas.WindowCalendar:
		return p.times, p.times < t
	case o.Length >= w.Length:
		return p.since, true
	}
	return max(p.since, t-schemas.Millis(o.Length.Milliseconds())), true
}

// namedUnits has a bit for each calendar unit of which places are kept with
// their times.
func namedUnits(l *schemas.Limit) (units uint8) {
	for _, w := range allWindows(l) {
		if w.N <= maxNamed {
			units |= unitBit(w)
		}
	}
	return units
}

// unitBit is that of a calendar window's unit; 0 for any other window.
func unitBit(w schemas.Window) uint8 {
	if unit := slices.Index(unitNames[:], w.Unit); w.Kind == schemas.WindowCalendar && unit >= 0 {
		return 1 << unit
	}
	return 0
}

func activeLimit(p *schemas.Policy, name string) *schemas.Limit {
	if p == nil {
		return nil
	}
	for i := range p.Limits {
		if l := &p.Limits[i]; l.Name == name && !l.Off() {
			return l
		}
	}
	return nil
}

func allWindows(l *schemas.Limit) []schemas.Window {
	all := slices.Clone(l.Allow)
	for _, o := range l.Overrides {
		all = append(all, o.Allow...)
	}
	return all
}

// sameHistory reports whether a and b take the same places from the same
// messages.
func sameHistory(a, b *schemas.Limit) bool {
	return sameMatch(&a.Match, &b.Match) && sameSet(a.Per, b.Per) && sameSet(a.Exempt, b.Exempt) && countOf(a) == countOf(b)
}

// SameMailboxes reports whether a limit counts addresses together in b as in a, which
// differs only per mailbox. Another rule for one domain makes it another history for
// all: which places would have to move is not known.
func SameMailboxes(l *schemas.Limit, a, b *schemas.Policy) bool {
	return !slices.Contains(l.Per, "mailbox") || recipient.MailboxesOf(a).Equal(recipient.MailboxesOf(b))
}

func sameMatch(a, b *schemas.Match) bool {
	if !sameSet(a.Tenant, b.Tenant) || !sameSet(a.Channel, b.Channel) || !sameSet(a.Class, b.Class) ||
		!sameSet(a.Template, b.Template) || !sameSet(a.Provider, b.Provider) || !sameSet(a.Country, b.Country) ||
		!sameSet(a.Prefix, b.Prefix) || len(a.Metadata) != len(b.Metadata) {
		return false
	}
	for k, v := range a.Metadata {
		w, ok := b.Metadata[k]
		if !ok || !sameSet(v, w) {
			return false
		}
	}
	return true
}

func sameSet(a, b []string) bool {
	set := func(v []string) []string {
		v = slices.Clone(v)
		slices.Sort(v)
		return slices.Compact(v)
	}
	return slices.Equal(set(a), set(b))
}

func countOf(l *schemas.Limit) schemas.Count {
	if l.Count == "" {
		return schemas.CountMessage
	}
	return l.Count
}

func zoneName(l *schemas.Limit) string {
	if l.Timezone == "" {
		return time.UTC.String()
	}
	return l.Timezone
}

func hasBucket(l *schemas.Limit) bool {
	return slices.ContainsFunc(allWindows(l), func(w schemas.Window) bool { return w.Kind == schemas.WindowBucket })
}

// sameBuckets reports whether every recipient has the same bucket in a and b.
func sameBuckets(a, b *schemas.Limit) bool {
	buckets := func(l *schemas.Limit) map[string]schemas.Window {
		all := map[string]schemas.Window{}
		own := func(to string, list []schemas.Window) {
			all[to] = schemas.Window{} // an override without a bucket is something else than no override
			for _, w := range list {
				if w.Kind == schemas.WindowBucket {
					all[to] = w
				}
			}
		}
		own("", l.Allow)
		for _, o := range l.Overrides {
			own(o.To, o.Allow)
		}
		return all
	}
	return maps.Equal(buckets(a), buckets(b))
}
