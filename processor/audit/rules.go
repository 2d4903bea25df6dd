package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/schemas"
)

// rules is a revision as it stands in a partition: its limits, with the marker's
// since.
type rules struct {
	policy   *schemas.Policy
	limits   []limit
	byName   map[string]*limit
	country  bool             // some limit asks for the recipient's country
	metadata bool             // some limit asks for the request's metadata
	content  bool             // some limit counts by the content, or its parts
	classes  map[string]*gate // nil: none has countries or quiet hours
}

type limit struct {
	*schemas.Limit
	zone      *time.Location
	dims      []string
	overrides map[string][]schemas.Window
	since     map[string]schemas.Millis
	reach     schemas.Millis // how far back its windows can look
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
var order = []string{"recipient", "tenant", "channel", "class", "template", "content", "provider", "country"}

func newRules(p *schemas.Policy, since map[string]map[string]schemas.Millis) (*rules, error) {
	classes, err := gatesOf(p)
	if err != nil {
		return nil, err
	}
	r := &rules{policy: p, byName: make(map[string]*limit), classes: classes}
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Off() {
			continue
		}
		c := limit{
			Limit: l, zone: time.UTC, since: since[l.Name], spans: make(map[string]span),
			observe: l.Mode == schemas.ModeObserve, attempts: l.Count == schemas.CountAttempt,
			dims: ordered(l.Per), overrides: make(map[string][]schemas.Window),
		}
		if l.Timezone != "" {
			zone, err := time.LoadLocation(l.Timezone)
			if err != nil {
				return nil, fmt.Errorf("limit %s: %w", l.Name, err)
			}
			c.zone = zone
		}
		for _, o := range l.Overrides {
			c.overrides[o.To] = o.Allow
		}
		c.wide = !slices.Contains(l.Per, "recipient")
		c.changed = c.since["bucket"]
		for _, w := range everyWindow(l) {
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
		c.drains = !slices.ContainsFunc(everyWindow(l), func(w schemas.Window) bool { return w.Kind != schemas.WindowBucket })
		c.keeps = c.attempts || c.drains
		r.country = r.country || len(l.Match.Country) > 0 || slices.Contains(l.Per, "country")
		r.content = r.content || slices.Contains(l.Per, "content") || l.Count == schemas.CountSegments
		r.metadata = r.metadata || len(l.Match.Metadata) > 0 || slices.ContainsFunc(l.Per, func(d string) bool { return strings.HasPrefix(d, "metadata.") })
		r.limits = append(r.limits, c)
	}
	for i := range r.limits {
		r.byName[r.limits[i].Name] = &r.limits[i]
	}
	return r, nil
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
	segments                                                         int64
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
	return !slices.Contains(l.Exempt, s.to)
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
		b.WriteString(escaped(s.value(d)))
	}
	return b.String()
}

func (s *subject) value(dim string) string {
	switch dim {
	case "recipient":
		return s.to
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

// sinceOf says what a marker must give each window when next comes into force
// at t: a window's history goes on where the limit keeps its match, what it
// counts by, its exemptions and what it counts, a calendar window also its
// zone, and where the window is not longer than one that was there. What goes
// on is the moment from which the history is complete, the earliest there is.
// A bucket goes on whatever its numbers become; beside it, "bucket" says since
// when no recipient's have changed. Everything else begins at t.
func sinceOf(prev *schemas.Policy, since map[string]map[string]schemas.Millis, next *schemas.Policy, t schemas.Millis) map[string]map[string]schemas.Millis {
	before := make(map[string]*schemas.Limit)
	for i := range prev.Limits {
		if !prev.Limits[i].Off() {
			before[prev.Limits[i].Name] = &prev.Limits[i]
		}
	}
	all := make(map[string]map[string]schemas.Millis)
	for i := range next.Limits {
		l := &next.Limits[i]
		if l.Off() {
			continue
		}
		all[l.Name] = make(map[string]schemas.Millis)
		old := before[l.Name]
		for _, w := range everyWindow(l) {
			moment := t
			if old != nil && identity(old) == identity(l) {
				for _, o := range everyWindow(old) {
					goesOn := w.UnitKey() == o.UnitKey() && w.Kind != schemas.WindowCalendar ||
						w.UnitKey() == o.UnitKey() && zoneOf(old) == zoneOf(l) ||
						w.Kind == schemas.WindowRolling && o.Kind == schemas.WindowRolling && w.Length <= o.Length ||
						w.Kind == schemas.WindowBucket && o.Kind == schemas.WindowBucket
					if had, known := since[l.Name][o.UnitKey()]; goesOn && known {
						moment = min(moment, had)
					}
				}
			}
			all[l.Name][w.UnitKey()] = moment
		}
		if numbers := bucketNumbers(l); strings.Contains(numbers, "refill") {
			moment := t
			if had, known := since[l.Name]["bucket"]; known && old != nil && identity(old) == identity(l) && bucketNumbers(old) == numbers {
				moment = min(t, had)
			}
			all[l.Name]["bucket"] = moment
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

// identity is which messages take which places in a limit, as text.
func identity(l *schemas.Limit) string {
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
	set("exempt", l.Exempt)
	count := l.Count
	if count == "" {
		count = schemas.CountMessage
	}
	return b.String() + string(count)
}
