package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// MaxRolling bounds n of a rolling window, since the time of each place is kept:
// 400 kB of memory for 100,000, in every scope that is full, and a few
// hundred segments to add up. No record grows with n, so that it might be larger
// for a scope or two; for a limit per recipient it is already far too much. A
// calendar window is only counted and has the policy's bound.
const MaxRolling = schemas.MaxRolling

// maxNamed is the n up to which a calendar window's places are kept beside its
// count, so that a give-back must name one of them. Of a larger one only the
// count is kept.
const maxNamed = 100

// Errors of Compile, for errors.Is.
var (
	ErrOverride = errors.New("an override is for one recipient, and the limit does not count by recipient")                                                                                      // of a wide limit
	ErrTooLarge = errors.New("the n of a rolling window is at most 100000, since the time of every place is kept: use a calendar window, which only counts, or a smaller n in a shorter window") // n beyond MaxRolling
	ErrBuckets  = errors.New("a limit has one bucket: write another limit for the second")
	ErrZone     = errors.New("no such time zone: write an IANA name, such as Asia/Shanghai")
)

// Rules is one policy revision compiled for decisions. It does not change, and
// any number of tables may use it at once.
type Rules struct {
	limits []rule
	wide   bool           // some of them are
	lapses schemas.Millis // when the first retained window has been retained for long enough; 0 is never
	byHash map[uint32]*rule
	byName map[string]*rule
}

type rule struct {
	name      string
	prefix    []byte   // of the text of its keys
	start     [64]byte // prefix and zeros, if it is so short
	alone     bool     // per recipient alone
	wide      bool     // per no recipient: its places stand with the owners of its scopes
	hash      uint32
	index     int
	match     schemas.Match
	all       bool // it applies to every message: nothing to match, nobody exempt
	dims      []dimension
	exempt    map[string]struct{}
	windows   []window
	overrides map[string][]window
	zone      *time.Location
	observe   bool // refuses nobody
	attempts  bool // every attempt keeps its place
	segments  bool // a place for each SMS part
	costs     bool // as many places as the request says

	// Of the windows, every override and what is retained of an earlier revision
	// together: an override may end at the next revision, and its recipient then
	// has the limit's own windows; and the next revision may have again what this
	// one dropped.
	rolling  []window
	longest  schemas.Millis // of rolling
	begun    bool           // all of rolling count from ever
	buckets  []window
	changed  schemas.Millis // when the numbers of a bucket last changed
	rolls    bool           // it has rolling windows only
	units    uint8          // calendar units, a bit each
	named    uint8          // those of them whose places are kept: n is at most maxNamed
	calSince [unitCount]schemas.Millis
}

type window struct {
	calendar bool
	unit     uint8 // calendar
	n        int64
	length   schemas.Millis // rolling; of a bucket, until it is full from empty
	parts    int64          // bucket: of a token; 0 is no bucket
	refill   int64          // bucket: parts every millisecond
	since    schemas.Millis
	text     string
}

// Compile prepares p for decisions. since is the marker's: limit, then unit
// key, then the moment from which that window's history is complete; what it
// does not name counts all of it. Limits that are off are left out: they take no
// places.
func Compile(p *schemas.Policy, since map[string]map[string]schemas.Millis) (*Rules, error) {
	r := &Rules{byHash: map[uint32]*rule{}, byName: map[string]*rule{}}
	boxes := recipient.MailboxesOf(p)
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Off() {
			continue
		}
		c, err := compile(l, since[l.Name], boxes)
		if err != nil {
			return nil, fmt.Errorf("limit %s: %w", l.Name, err)
		}
		c.index = len(r.limits)
		r.wide = r.wide || c.wide
		for _, p := range retained(l, since[l.Name]) {
			c.retain(&p)
			if at := p.left + Retain; r.lapses == 0 || at < r.lapses {
				r.lapses = at
			}
		}
		c.rolls = c.units == 0 && len(c.buckets) == 0
		r.limits = append(r.limits, c)
	}
	for i := range r.limits {
		l := &r.limits[i]
		if o := r.byHash[l.hash]; o != nil {
			return nil, fmt.Errorf("limit %s: its name clashes with %s: give one of them another", l.name, o.name)
		}
		r.byHash[l.hash], r.byName[l.name] = l, l
	}
	return r, nil
}

func compile(l *schemas.Limit, since map[string]schemas.Millis, boxes *recipient.Mailboxes) (rule, error) {
	c := rule{name: l.Name, prefix: append([]byte(l.Name), 0), hash: nameHash(l.Name), match: l.Match, zone: time.UTC, begun: true, changed: since[sinceBuckets]}
	copy(c.start[:], c.prefix)
	switch l.Mode {
	case "", schemas.ModeEnforce:
	case schemas.ModeObserve:
		c.observe = true
	default:
		return c, fmt.Errorf("mode %q: no such mode", l.Mode)
	}
	switch l.Count {
	case "", schemas.CountMessage:
	case schemas.CountAttempt:
		c.attempts = true
	case schemas.CountSegments:
		c.segments = true
	case schemas.CountCost:
		c.costs = true
	default:
		return c, fmt.Errorf("count %q: no such count", l.Count)
	}
	if l.Timezone != "" {
		zone, err := schemas.Zone(l.Timezone)
		if err != nil {
			return c, fmt.Errorf("timezone %q: %w", l.Timezone, ErrZone)
		}
		c.zone = zone
	}
	var err error
	if c.dims, err = parsePer(l.Per, boxes); err != nil {
		return c, err
	}
	c.alone = len(c.dims) == 1
	c.wide = len(c.dims) == 0 || c.dims[0].order != dimRecipient
	if c.windows, err = c.compileWindows(l.Allow, since); err != nil {
		return c, err
	}
	for _, o := range l.Overrides {
		if c.wide {
			return c, ErrOverride
		}
		if c.overrides == nil {
			c.overrides = map[string][]window{}
		}
		if c.overrides[o.To], err = c.compileWindows(o.Allow, since); err != nil {
			return c, fmt.Errorf("override for one recipient: %w", err)
		}
		if key := recipient.Fold(o.To); key != o.To && !named(l.Overrides, key) {
			c.overrides[key] = c.overrides[o.To]
		}
	}
	for _, to := range l.Exempt {
		if c.exempt == nil {
			c.exempt = map[string]struct{}{}
		}
		c.exempt[to], c.exempt[recipient.Fold(to)] = struct{}{}, struct{}{}
	}
	c.all = c.exempt == nil && matchesAll(&c.match)
	return c, nil
}

// retain keeps the places of a window that an earlier revision had. It judges
// nothing.
func (c *rule) retain(p *kept) {
	switch p.window.Kind {
	case schemas.WindowRolling:
		w := window{length: schemas.Millis(p.window.Length.Milliseconds()), since: p.since}
		c.rolling = append(c.rolling, w)
		c.longest, c.begun = max(c.longest, w.length), c.begun && w.since == 0
	case schemas.WindowCalendar:
		unit := slices.Index(unitNames[:], p.window.Unit)
		c.units |= 1 << unit
		c.calSince[unit] = p.since
		if p.named {
			c.named |= 1 << unit
		}
	case schemas.WindowBucket: // of a bucket nothing is retained
	}
}

// Lapses returns when the rules retain more than they need: compile them again
// then, with what Retained leaves. 0 is never.
func (r *Rules) Lapses() schemas.Millis { return r.lapses }

// named reports whether one of the overrides names a recipient by its key. Policies
// from before keys ignored letter case may have another spelling of it as well.
func named(all []schemas.Override, key string) bool {
	return slices.ContainsFunc(all, func(o schemas.Override) bool { return o.To == key })
}

func matchesAll(m *schemas.Match) bool {
	return len(m.Class)+len(m.Channel)+len(m.Tenant)+len(m.Template)+len(m.Provider)+len(m.Country)+len(m.Prefix)+len(m.Metadata) == 0
}

func (c *rule) compileWindows(allow []schemas.Window, since map[string]schemas.Millis) ([]window, error) {
	if len(allow) == 0 {
		return nil, errors.New("allow is empty")
	}
	var out []window
	for _, a := range allow {
		w := window{n: a.N, text: a.String(), since: since[a.UnitKey()]}
		if a.N < 1 {
			return nil, fmt.Errorf("%s: n is at least 1", w.text)
		}
		switch a.Kind {
		case schemas.WindowRolling:
			if a.Length < time.Millisecond || a.Length > schemas.MaxWindow || a.Length%time.Millisecond != 0 {
				return nil, fmt.Errorf("%s: a window lasts 1ms to 31d", w.text)
			}
			if a.N > MaxRolling {
				return nil, fmt.Errorf("%s: %w", w.text, ErrTooLarge)
			}
			w.length = schemas.Millis(a.Length.Milliseconds())
			c.rolling = append(c.rolling, w)
			c.longest, c.begun = max(c.longest, w.length), c.begun && w.since == 0
		case schemas.WindowCalendar:
			unit := slices.Index(unitNames[:], a.Unit)
			if unit < 0 {
				return nil, fmt.Errorf("%s: no such calendar unit", w.text)
			}
			if a.N > maxCount {
				return nil, fmt.Errorf("%s: n is at most %d", w.text, maxCount)
			}
			w.calendar, w.unit = true, uint8(unit)
			c.units |= 1 << unit
			if a.N <= maxNamed {
				c.named |= 1 << unit
			}
			c.calSince[unit] = w.since
		case schemas.WindowBucket:
			if a.RefillTokens < 1 || a.RefillEvery < 1 || a.RefillEvery >= maxParts || a.N > maxLevel/max(a.RefillEvery, a.RefillTokens) {
				return nil, fmt.Errorf("%s: a bucket cannot be counted so finely", w.text)
			}
			w.parts, w.refill = a.RefillEvery, a.RefillTokens
			w.length = w.wait(w.n * w.parts)
			if w.length > schemas.Millis(schemas.MaxWindow.Milliseconds()) {
				return nil, fmt.Errorf("%s: a bucket is full after 31d at most", w.text)
			}
			if bucketOf(out) != nil {
				return nil, fmt.Errorf("%s: %w", w.text, ErrBuckets)
			}
			c.buckets = append(c.buckets, w)
		default:
			return nil, fmt.Errorf("%s: no such window", w.text)
		}
		out = append(out, w)
	}
	return out, nil
}

// Returnable reports whether a place can be given back, or moved by a retry:
// not in a limit that counts attempts, nor in one that has only buckets, of
// which nothing ever comes back.
func (r *Rules) Returnable(c schemas.Charge) bool {
	l := r.byName[c.Limit]
	return l == nil || !l.attempts && r.kept(c)
}

// text appends the text of s's key: the limit and the scope.
func (c *rule) text(b []byte, s *Subject) []byte {
	return appendScope(append(b, c.prefix...), c.dims, s)
}

// applies reports whether a message counts in the limit.
func (c *rule) applies(s *Subject) bool { return c.all || c.matches(s) }

func (c *rule) matches(s *Subject) bool {
	m := &c.match
	if !has(m.Class, s.Class) || !has(m.Channel, s.Channel) || !has(m.Tenant, s.Tenant) ||
		!has(m.Template, s.Template) || !has(m.Provider, s.Provider) || !has(m.Country, s.Country) {
		return false
	}
	if len(m.Prefix) > 0 {
		digits := phoneDigits(s.Recipient)
		if digits == "" || !slices.ContainsFunc(m.Prefix, func(p string) bool { return strings.HasPrefix(digits, p) }) {
			return false
		}
	}
	for field, values := range m.Metadata {
		v, ok := s.Metadata[field]
		if !ok || !has(values, v) {
			return false
		}
	}
	if c.exempt != nil {
		if _, ok := c.exempt[s.Recipient]; ok {
			return false
		}
	}
	return true
}

func has(values []string, v string) bool { return len(values) == 0 || slices.Contains(values, v) }

func (c *rule) windowsFor(recipient string) []window {
	if c.overrides != nil {
		if w, ok := c.overrides[recipient]; ok {
			return w
		}
	}
	return c.windows
}

// cost returns how many places a message takes in the limit.
func (c *rule) cost(s *Subject) int64 {
	switch {
	case c.segments:
		return max(s.Segments, 1)
	case c.costs:
		return max(s.Cost, 1)
	}
	return 1
}

// opens returns the moment after which a rolling window counts places.
func (w *window) opens(now schemas.Millis) schemas.Millis { return max(now-w.length, w.since) }
