package limit

import (
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// NextSince returns the since of next's windows when it comes into force at t,
// from the rules before it. A window keeps its moment where the limit keeps its
// match, per, exempt and count and, for a calendar window, its zone: then the
// same messages took the same places. A new rolling window takes over the
// moment of one at least as long, whose places were all kept, and a bucket that
// of the one whose numbers it changes: its level stays. Beside the moment of each
// bucket, since when it has been there, "bucket" has the one since when all the
// limit's have had their numbers. Every other
// window begins at t, and so does all of a limit that was off. Limits that next
// lacks or turns off drop out.
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
		before := activeLimit(prev, l.Name)
		kept := before != nil && sameHistory(before, l)
		moments := map[string]schemas.Millis{}
		for _, w := range allWindows(l) {
			moments[w.UnitKey()] = t
			if !kept || w.Kind == schemas.WindowCalendar && zoneName(before) != zoneName(l) {
				continue
			}
			if m, ok := complete(before, prevSince[l.Name], w); ok {
				moments[w.UnitKey()] = min(m, t)
			}
		}
		if hasBucket(l) {
			moments[sinceBuckets] = t
			if m, ok := prevSince[l.Name][sinceBuckets]; ok && kept && sameBuckets(before, l) {
				moments[sinceBuckets] = min(m, t)
			}
		}
		out[l.Name] = moments
	}
	return out
}

// complete returns from when the places that w counts were all kept under l.
func complete(l *schemas.Limit, since map[string]schemas.Millis, w schemas.Window) (schemas.Millis, bool) {
	var best schemas.Millis
	found := false
	for _, o := range allWindows(l) {
		covers := o.UnitKey() == w.UnitKey() ||
			o.Kind == schemas.WindowRolling && w.Kind == schemas.WindowRolling && o.Length >= w.Length ||
			o.Kind == schemas.WindowBucket && w.Kind == schemas.WindowBucket
		m, known := since[o.UnitKey()]
		if covers && known && (!found || m < best) {
			best, found = m, true
		}
	}
	return best, found
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

// sinceBuckets is where a limit's since has the moment at which the numbers of
// its buckets last changed.
const sinceBuckets = "bucket"

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
