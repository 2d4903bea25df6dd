package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// rules is a revision as it stands in a partition: its limits, with the marker's
// since.
type rules struct {
	policy   *schemas.Policy
	limits   []limit
	byName   map[string]*limit
	byHash   map[uint32]*limit // of their names
	country  bool              // some limit asks for the recipient's country
	metadata bool              // some limit asks for the request's metadata
	content  bool              // some limit counts by the content, or its parts
	cost     bool              // some limit counts the request's cost
	classes  map[string]*gate  // nil: none has countries or quiet hours
	lapses   schemas.Millis    // when the first window that an earlier revision had is kept no longer; 0 is never
}

type limit struct {
	*schemas.Limit
	zone      *time.Location
	dims      []string
	boxes     map[string]box
	overrides map[string][]schemas.Window
	exempt    map[string]bool
	since     map[string]schemas.Millis
	kept      []schemas.Window // that a revision of the last day dropped
	reach     schemas.Millis   // how far back its windows can look, and those that are kept
	observe   bool
	attempts  bool
	keeps     bool           // gives no place back: it counts attempts, or drains
	drains    bool           // it has only buckets
	bucket    bool           // some recipient has a token bucket
	changed   schemas.Millis // when the numbers of its buckets last changed
	wide      bool           // it counts without recipient: its places stand with its scope's owner
	spans     map[string]span
}

// order is that in which the contract names what a limit can count by.
var order = []string{"recipient", "mailbox", "tenant", "channel", "class", "template", "content", "provider", "country"}

// newRules is what p judges by at t.
func newRules(p *schemas.Policy, since map[string]map[string]schemas.Millis, t schemas.Millis) (*rules, error) {
	classes, err := gatesOf(p)
	if err != nil {
		return nil, err
	}
	r := &rules{policy: p, byName: make(map[string]*limit), byHash: make(map[uint32]*limit), classes: classes}
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Off() {
			continue
		}
		c := limit{
			Limit: l, zone: time.UTC, since: since[l.Name], spans: make(map[string]span),
			observe: l.Mode == schemas.ModeObserve, attempts: l.Count == schemas.CountAttempt,
			dims: ordered(l.Per), boxes: boxesOf(p), overrides: make(map[string][]schemas.Window), exempt: make(map[string]bool),
		}
		for _, to := range l.Exempt {
			c.exempt[to], c.exempt[recipient.Fold(to)] = true, true
		}
		if l.Timezone != "" {
			zone, err := schemas.Zone(l.Timezone)
			if err != nil {
				return nil, fmt.Errorf("limit %s: %w", l.Name, err)
			}
			c.zone = zone
		}
		for _, o := range l.Overrides { // of a recipient by its key and by another spelling, the key's is in effect
			if key := recipient.Fold(o.To); c.overrides[key] == nil {
				c.overrides[key] = o.Allow
			}
		}
		for _, o := range l.Overrides {
			c.overrides[o.To] = o.Allow
		}
		c.wide = !slices.Contains(l.Per, "recipient")
		c.changed = c.since["bucket"]
		for _, m := range memories(l, since[l.Name], t) {
			if m.left == 0 {
				continue
			}
			c.kept = append(c.kept, m.window)
			if end := m.left + keptFor; r.lapses == 0 || end < r.lapses {
				r.lapses = end
			}
		}
		for _, w := range c.every() {
			switch w.Kind {
			case schemas.WindowRolling:
				c.reach = max(c.reach, schemas.Millis(w.Length.Milliseconds()))
			case schemas.WindowCalendar:
				c.reach = max(c.reach, map[string]schemas.Millis{"minute": 60_000, "hour": 2 * 3_600_000, "day": 26 * 3_600_000}[w.Unit])
				if w.Unit == "month" {
					c.reach = schemas.Millis(32 * 24 * 3_600_000)
				}
			case schemas.WindowBucket:
				c.bucket = true
			}
		}
		c.drains = !slices.ContainsFunc(c.every(), func(w schemas.Window) bool { return w.Kind != schemas.WindowBucket })
		c.keeps = c.attempts || c.drains
		r.country = r.country || len(l.Match.Country) > 0 || slices.Contains(l.Per, "country")
		r.content = r.content || slices.Contains(l.Per, "content") || l.Count == schemas.CountSegments
		r.cost = r.cost || l.Count == schemas.CountCost
		r.metadata = r.metadata || len(l.Match.Metadata) > 0 || slices.ContainsFunc(l.Per, func(d string) bool { return strings.HasPrefix(d, "metadata.") })
		r.limits = append(r.limits, c)
	}
	for i := range r.limits {
		l := &r.limits[i]
		r.byName[l.Name], r.byHash[limitHash(l.Name)] = l, l
	}
	return r, nil
}

// every returns the limit's windows and those that are kept.
func (l *limit) every() []schemas.Window { return append(everyWindow(l.Limit), l.kept...) }

// until returns the moment from which none of its windows counts a place of at.
func (l *limit) until(at schemas.Millis) (end schemas.Millis) {
	for _, w := range l.every() {
		switch w.Kind {
		case schemas.WindowRolling:
			end = max(end, at+schemas.Millis(w.Length.Milliseconds()))
		case schemas.WindowCalendar:
			_, over := l.from(&w, at)
			end = max(end, over)
		case schemas.WindowBucket:
		}
	}
	return end
}

func everyWindow(l *schemas.Limit) []schemas.Window {
	all := slices.Clone(l.Allow)
	for _, o := range l.Overrides {
		all = append(all, o.Allow...)
	}
	return all
}

// ordered sorts what a limit counts by: as the contract lists it, prefixes by
// length, metadata by name.
func ordered(per []string) []string {
	rank := func(d string) string {
		if i := slices.Index(order, d); i >= 0 {
			return string(rune('a' + i))
		}
		if n, ok := strings.CutPrefix(d, "prefix:"); ok {
			v, _ := strconv.Atoi(n)
			return fmt.Sprintf("x%03d", v)
		}
		return "z" + d
	}
	out := slices.Clone(per)
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	return slices.Compact(out)
}

// subject is what limits match and count by.
type subject struct {
	to, tenant, channel, class, template, content, provider, country string
	metadata                                                         map[string]string
	segments, cost                                                   int64
}

func digitsOf(to string) string {
	d, ok := strings.CutPrefix(to, "+")
	if !ok || strings.ContainsFunc(d, func(r rune) bool { return r < '0' || r > '9' }) {
		return ""
	}
	return d
}

// matches reports whether a message takes a place in the limit.
func (l *limit) matches(s *subject) bool {
	m := &l.Match
	for _, want := range []struct {
		any  []string
		have string
	}{{m.Tenant, s.tenant}, {m.Channel, s.channel}, {m.Class, s.class}, {m.Template, s.template}, {m.Provider, s.provider}, {m.Country, s.country}} {
		if len(want.any) > 0 && !slices.Contains(want.any, want.have) {
			return false
		}
	}
	if len(m.Prefix) > 0 {
		d := digitsOf(s.to)
		if d == "" || !slices.ContainsFunc(m.Prefix, func(p string) bool { return strings.HasPrefix(d, p) }) {
			return false
		}
	}
	for field, values := range m.Metadata {
		if v, ok := s.metadata[field]; !ok || len(values) > 0 && !slices.Contains(values, v) {
			return false
		}
	}
	return !l.exempt[s.to]
}

func (l *limit) windows(to string) []schemas.Window {
	if o, ok := l.overrides[to]; ok {
		return o
	}
	return l.Allow
}

func (l *limit) cost(s *subject) int64 {
	if l.Count == schemas.CountSegments {
		return max(s.segments, 1)
	}
	if l.Count == schemas.CountCost {
		return max(s.cost, 1)
	}
	return 1
}

// scope is the text by which the log names what is counted together: the
// recipient itself where a limit counts by nothing else; otherwise name=value,
// with commas.
func (l *limit) scope(s *subject) string {
	if len(l.dims) == 1 && l.dims[0] == "recipient" {
		return escaped(s.to)
	}
	var b strings.Builder
	for i, d := range l.dims {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(escaped(d))
		b.WriteByte('=')
		b.WriteString(escaped(l.value(s, d)))
	}
	return b.String()
}

// value is what a message has of one thing that the limit counts by.
func (l *limit) value(s *subject, dim string) string {
	switch dim {
	case "recipient":
		return s.to
	case "mailbox":
		return mailboxOf(l.boxes, s)
	case "tenant":
		return s.tenant
	case "channel":
		return s.channel
	case "class":
		return s.class
	case "template":
		return s.template
	case "content":
		return s.content
	case "provider":
		return s.provider
	case "country":
		return s.country
	}
	if n, ok := strings.CutPrefix(dim, "prefix:"); ok {
		v, _ := strconv.Atoi(n)
		d := digitsOf(s.to)
		return d[:min(v, len(d))]
	}
	return s.metadata[strings.TrimPrefix(dim, "metadata.")]
}

// escaped writes %, comma, =, control bytes and what is no UTF-8 as %XX.
func escaped(v string) string {
	clean := utf8.ValidString(v)
	for i := 0; clean && i < len(v); i++ {
		clean = v[i] >= 0x20 && v[i] != 0x7f && v[i] != '%' && v[i] != ',' && v[i] != '='
	}
	if clean {
		return v
	}
	var b strings.Builder
	for i, r := range v {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(v[i:], "\uFFFD"):
			fmt.Fprintf(&b, "%%%02X", v[i])
		case r < 0x20 || r == 0x7f || r == '%' || r == ',' || r == '=':
			fmt.Fprintf(&b, "%%%02X", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// from returns the moment after which, for a rolling window, or at and after
// which, for a calendar one, places count, without regard to since; and until
// when a calendar window lasts.
func (l *limit) from(w *schemas.Window, t schemas.Millis) (from, end schemas.Millis) {
	if w.Kind == schemas.WindowRolling {
		return t - schemas.Millis(w.Length.Milliseconds()) + 1, 0
	}
	s := l.spans[w.Unit]
	if t < s.start || t >= s.end {
		s = spanOf(w.Unit, l.zone, t)
		l.spans[w.Unit] = s
	}
	return s.start, s.end
}

// keptFor is how long the history of a window goes on after a revision that
// dropped the window.
const keptFor = schemas.Millis(24 * time.Hour / time.Millisecond)

// memory is what a partition knows of one window's past.
type memory struct {
	window schemas.Window
	from   schemas.Millis // the history is complete after it
	left   schemas.Millis // when a revision dropped the window; 0 while it is in force
	listed bool           // of a calendar window: n is at most 100 somewhere, so each place is known by its time
}

// memories are the windows whose past is known at t, under l.
func memories(l *schemas.Limit, since map[string]schemas.Millis, t schemas.Millis) (all []memory) {
	inForce := make(map[string]bool)
	for _, w := range everyWindow(l) {
		inForce[w.UnitKey()] = true
		if from, known := since[w.UnitKey()]; known {
			all = append(all, memory{window: w, from: from, listed: listed(l, w)})
		}
	}
	for key, left := range since {
		unit, is := strings.CutPrefix(key, "left ")
		if !is {
			continue
		}
		unit, counted := strings.CutPrefix(unit, "count ")
		w, err := schemas.ParseWindow("1/" + unit)
		if err == nil && !inForce[unit] && t-left < keptFor {
			all = append(all, memory{window: w, from: since[unit], left: left, listed: w.Kind == schemas.WindowCalendar && !counted})
		}
	}
	return all
}

// listed reports whether each place of a calendar window's unit is known by its
// time in a limit, and not only their number.
func listed(l *schemas.Limit, w schemas.Window) bool {
	return w.Kind == schemas.WindowCalendar && slices.ContainsFunc(everyWindow(l), func(o schemas.Window) bool {
		return o.UnitKey() == w.UnitKey() && o.N <= 100
	})
}

// sinceOf says what a marker must give each window when next comes into force
// at t: a window's history goes on where the limit keeps its match, what it
// counts by (per mailbox: the rules of all domains), its exemptions and what it counts, a calendar window also its
// zone. What goes on is the moment from which the history is complete, the
// earliest there is: of the window itself, also when it was dropped within a
// day; of a rolling window that is as long; as far back as a shorter one goes;
// and back to the beginning of a calendar period whose places are known by
// their times. "times" is from when they are, where that is later. "left" is when
// a window was dropped. A bucket goes on whatever its numbers become; beside it,
// "bucket" says since when no recipient's have changed. Everything else begins at t.
func sinceOf(prev *schemas.Policy, since map[string]map[string]schemas.Millis, next *schemas.Policy, t schemas.Millis) map[string]map[string]schemas.Millis {
	all := make(map[string]map[string]schemas.Millis)
	for i := range next.Limits {
		l := &next.Limits[i]
		if l.Off() {
			continue
		}
		said := make(map[string]schemas.Millis)
		all[l.Name] = said
		k := slices.IndexFunc(prev.Limits, func(o schemas.Limit) bool {
			return o.Name == l.Name && !o.Off() && identity(prev, &o) == identity(next, l)
		})
		var past []memory
		sameZone := k >= 0 && zoneOf(&prev.Limits[k]) == zoneOf(l)
		if k >= 0 {
			past = memories(&prev.Limits[k], since[l.Name], t)
		}
		for _, w := range everyWindow(l) {
			moment := t
			for _, m := range past {
				switch o := m.window; {
				case o.Kind == schemas.WindowBucket && w.Kind == schemas.WindowBucket,
					o.UnitKey() == w.UnitKey() && (sameZone || w.Kind == schemas.WindowRolling),
					o.Kind == schemas.WindowRolling && w.Kind == schemas.WindowRolling && w.Length <= o.Length:
					moment = min(moment, m.from)
				case o.Kind == schemas.WindowRolling && w.Kind == schemas.WindowRolling:
					moment = min(moment, max(m.from, t-schemas.Millis(o.Length.Milliseconds())))
				case m.listed && w.Kind == schemas.WindowRolling:
					if zone, err := schemas.Zone(zoneOf(&prev.Limits[k])); err == nil {
						moment = min(moment, max(m.from, since[l.Name]["times "+o.UnitKey()], spanOf(o.Unit, zone, t).start-1))
					}
				}
			}
			said[w.UnitKey()] = moment
		}
		for _, m := range past {
			unit := m.window.UnitKey()
			if _, stays := said[unit]; stays || m.window.Kind == schemas.WindowBucket || m.window.Kind == schemas.WindowCalendar && !sameZone {
				continue
			}
			word := "left "
			if m.window.Kind == schemas.WindowCalendar && !m.listed {
				word = "left count "
			}
			said[unit], said[word+unit] = m.from, t
			if m.left != 0 {
				said[word+unit] = m.left
			}
		}
		for _, name := range schemas.CalendarUnits {
			unit := "calendar-" + name
			from, counts := said[unit]
			_, dropped := said["left "+unit]
			if !counts || !dropped && !listed(l, schemas.Window{Kind: schemas.WindowCalendar, Unit: name}) {
				continue
			}
			if was := slices.IndexFunc(past, func(m memory) bool { return m.window.UnitKey() == unit && m.listed }); was < 0 {
				if from < t {
					said["times "+unit] = t
				}
			} else if times := since[l.Name]["times "+unit]; times > past[was].from {
				said["times "+unit] = times
			}
		}
		if numbers := bucketNumbers(l); strings.Contains(numbers, "refill") {
			said["bucket"] = t
			if had, known := since[l.Name]["bucket"]; known && k >= 0 && bucketNumbers(&prev.Limits[k]) == numbers {
				said["bucket"] = min(t, had)
			}
		}
	}
	return all
}

// bucketNumbers is every recipient's bucket in a limit, as text.
func bucketNumbers(l *schemas.Limit) string {
	lines := []string{bucketOf("", l.Allow)}
	for _, o := range l.Overrides {
		lines = append(lines, bucketOf(o.To, o.Allow))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func bucketOf(to string, allow []schemas.Window) string {
	for _, w := range allow {
		if w.Kind == schemas.WindowBucket {
			to += " " + w.String()
		}
	}
	return to
}

func zoneOf(l *schemas.Limit) string {
	if l.Timezone == "" {
		return schemas.DefaultTimezone
	}
	return l.Timezone
}

// identity is which messages take which places in a limit of p, as text.
func identity(p *schemas.Policy, l *schemas.Limit) string {
	var b strings.Builder
	set := func(name string, values []string) {
		v := slices.Clone(values)
		slices.Sort(v)
		fmt.Fprintf(&b, "%s%q;", name, slices.Compact(v))
	}
	m := &l.Match
	set("tenant", m.Tenant)
	set("channel", m.Channel)
	set("class", m.Class)
	set("template", m.Template)
	set("provider", m.Provider)
	set("country", m.Country)
	set("prefix", m.Prefix)
	fields := make([]string, 0, len(m.Metadata))
	for k := range m.Metadata {
		fields = append(fields, k)
	}
	slices.Sort(fields)
	for _, k := range fields {
		set(fmt.Sprintf("%q", k), m.Metadata[k])
	}
	set("per", l.Per)
	if slices.Contains(l.Per, "mailbox") {
		fmt.Fprintf(&b, "%v;", boxesOf(p)) // a map is printed in its keys' order
	}
	set("exempt", l.Exempt)
	count := l.Count
	if count == "" {
		count = schemas.CountMessage
	}
	return b.String() + string(count)
}
