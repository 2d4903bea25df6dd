package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// Limits without a recipient: whose place stands where. The places of each scope
// stand in the log of one partition, its owner, and are judged there like all
// others. What joins the logs is in between.go and walk.go.

// isWide reports whether a limit counts over recipients.
func isWide(l *schemas.Limit) bool { return !slices.Contains(l.Per, "recipient") }

// wide reports whether the text of a scope is one of such a limit.
func wide(scope string) bool {
	return scope == "" || strings.Contains(scope, "=") && !strings.HasPrefix(scope, "recipient=")
}

// wideShelf names the list of places in a scope without a recipient.
func wideShelf(c schemas.Charge) string { return c.Limit + shelfMark + shelfMark + c.Scope }

// partitionOf is the partition of a recipient or a scope, as Kafka's own clients
// compute it.
func (o *Oracle) partitionOf(key string) int32 {
	if o.n <= 1 {
		return 0
	}
	return int32(murmur2.Partition(&kgo.Record{Key: []byte(key)}, int(o.n)))
}

var murmur2 = Murmur2.ForTopic("")

// limit returns the limit of a revision that is not off, or nil.
func (o *Oracle) limit(revision int64, name string) *schemas.Limit {
	if pol := o.policies[revision]; pol != nil {
		for i := range pol.Limits {
			if l := &pol.Limits[i]; l.Name == name && l.Mode != schemas.ModeOff {
				return l
			}
		}
	}
	return nil
}

// dimensions are what scopes are made of, in the order in which they name it;
// after them come prefixes by length and fields of metadata by name.
var dimensions = []string{"recipient", "tenant", "channel", "class", "template", "content", "provider", "country"}

// perOf is a limit's per in the order of scopes.
func perOf(l *schemas.Limit) []string {
	per := slices.Clone(l.Per)
	rank := func(d string) string {
		if i := slices.Index(dimensions, d); i >= 0 {
			return strconv.Itoa(i)
		}
		if n, is := strings.CutPrefix(d, "prefix:"); is {
			return fmt.Sprintf("8 %9s", n)
		}
		return "9 " + d
	}
	slices.SortFunc(per, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	return slices.Compact(per)
}

// fits reports whether a scope's text is one of a wide limit: with its names in
// their order, and with the values that e shows, unless it is nil. Country,
// content and metadata are not in weir.status.
func fits(l *schemas.Limit, scope string, e *schemas.Event) bool {
	per := perOf(l)
	if len(per) == 0 {
		return scope == ""
	}
	parts := strings.Split(scope, ",")
	if len(parts) != len(per) {
		return false
	}
	for i, d := range per {
		value, is := strings.CutPrefix(parts[i], escape(d)+"=")
		if !is {
			return false
		}
		if e == nil {
			continue
		}
		if want, known := shown(d, e); known && value != escape(want) {
			return false
		}
	}
	return true
}

// scopeOf is the text of a wide limit's scope for a message; false where
// weir.status does not show what it is made of.
func scopeOf(l *schemas.Limit, e *schemas.Event) (string, bool) {
	var parts []string
	for _, d := range perOf(l) {
		v, known := shown(d, e)
		if !known {
			return "", false
		}
		parts = append(parts, escape(d)+"="+escape(v))
	}
	return strings.Join(parts, ","), true
}

// lacks reports whether a message has nothing of what a wide limit counts by, such
// as a mail address a prefix: then it is not counted.
func lacks(l *schemas.Limit, e *schemas.Event) bool {
	return slices.ContainsFunc(l.Per, func(d string) bool {
		v, known := shown(d, e)
		return known && v == ""
	})
}

// untold is a place, or that there is none, in a limit that counts by a field of
// metadata, which only the request has.
type untold struct {
	r      Record
	source schemas.Source
	field  string
	value  string // escaped, as the place's scope has it; empty for no place
}

// doubt notes what only the request can tell of a limit's scope; false if the log
// tells it all.
func (o *Oracle) doubt(r Record, l *schemas.Limit, scope string, none bool) bool {
	doubts := false
	for i, d := range perOf(l) {
		if field, is := strings.CutPrefix(d, "metadata."); is && r.Event.Source != nil {
			doubts = true
			u := untold{r: Record{Partition: r.Partition, Offset: r.Offset, Event: &schemas.Event{MessageID: r.Event.MessageID}}, source: *r.Event.Source, field: field}
			if !none {
				_, u.value, _ = strings.Cut(strings.Split(scope, ",")[i], "=")
			}
			o.untold = append(o.untold, u)
		}
	}
	return doubts
}

// Requested tells the oracle the metadata of the request at an offset, which
// weir.status does not have.
func (o *Oracle) Requested(at Offset, metadata map[string]string) {
	o.metadata[at] = metadata
}

// resolve judges what was in doubt, as far as Requested told of it.
func (o *Oracle) resolve() {
	for _, u := range o.untold {
		metadata, known := o.metadata[Offset{u.source.Partition, u.source.Offset}]
		if known && u.source.Topic == o.requests && escape(metadata[u.field]) != u.value {
			o.fault(FaultCharges, u.r, "a place, or none, in a scope of metadata.%s %q, but the request has another", u.field, u.value)
		}
	}
}

// shown is what an event shows of one dimension.
func shown(dimension string, e *schemas.Event) (string, bool) {
	switch dimension {
	case "tenant":
		return e.Tenant, true
	case "channel":
		return e.Channel, true
	case "class":
		return e.Class, true
	case "template":
		return e.Template, true
	case "provider":
		return e.Provider, true
	}
	if n, is := strings.CutPrefix(dimension, "prefix:"); is {
		length, _ := strconv.Atoi(n)
		digits, phone := strings.CutPrefix(e.To, "+")
		if !phone || digits == "" || strings.Trim(digits, "0123456789") != "" {
			return "", true
		}
		return digits[:min(length, len(digits))], true
	}
	return "", false
}

// escape writes a name or value as scopes do: %, comma, =, control bytes and
// bytes that are no UTF-8 as %XX.
func escape(v string) string {
	var b strings.Builder
	for v != "" {
		r, size := utf8.DecodeRuneInString(v)
		if r == utf8.RuneError && size == 1 || r < ' ' || r == 0x7f || strings.ContainsRune("%,=", r) {
			fmt.Fprintf(&b, "%%%02X", v[0])
		} else {
			b.WriteString(v[:size])
		}
		v = v[size:]
	}
	return b.String()
}

// excused reports whether an admission says why it took no place in a limit that
// matches: it only observes and is full, or its owner has no such limit. What
// owners said of that is judged where they said it.
func excused(l *schemas.Limit, e *schemas.Event) bool {
	if isWide(l) && slices.ContainsFunc(e.Decision.Passed, func(a schemas.Ask) bool { return a.Limit == l.Name && fits(l, a.Scope, e) && a.Cost == cost(l, e) }) {
		return true
	}
	return l.Mode == schemas.ModeObserve && slices.ContainsFunc(e.Decision.Evidence, func(v schemas.Evidence) bool { return v.Limit == l.Name })
}

// charge judges a step that takes places for a message and sends it on, or one
// for a message that was sent elsewhere.
func (o *Oracle) charge(p *logged, r Record) {
	d := r.Event.Decision
	home := o.partitionOf(r.Event.To) == r.Partition
	taken := make(map[string]bool)
	for _, c := range d.Charges {
		l := o.limit(d.Revision, c.Limit)
		switch {
		case l == nil || taken[c.Limit]:
			o.fault(FaultCharges, r, "a place in %s, which there is not, or a second one", c.Limit)
			continue
		case c.T > d.T || c.T != d.T && d.Verdict != schemas.VerdictRecord:
			o.fault(FaultCharges, r, "place in %s at %s, decided at %s", c.Limit, c.T, d.T)
		case isWide(l) != wide(c.Scope), isWide(l) && !fits(l, c.Scope, nil), isWide(l) && home && !fits(l, c.Scope, r.Event):
			o.fault(FaultCharges, r, "a place in %s in the scope %q, which is not its", c.Limit, c.Scope)
			continue
		case home && !matches(l, r.Event), !home && !isWide(l):
			o.fault(FaultCharges, r, "a place in %s, which does not match", c.Limit)
		case home && c.Cost != cost(l, r.Event), c.Cost < 1:
			o.fault(FaultCharges, r, "a place in %s for %d", c.Limit, c.Cost)
		}
		if err := told(l); err != nil {
			o.fault(FaultCannotBeTold, r, "limit %s: %v", l.Name, err)
			continue
		}
		taken[c.Limit] = true
		o.stand(p, r, l, c)
	}
	o.observed(p, r)
	if home && d.Verdict == schemas.VerdictRecord {
		for _, l := range o.matching(r) {
			if !isWide(l) && !taken[l.Name] {
				o.fault(FaultCharges, r, "no place in %s", l.Name)
			}
		}
	}
	for _, a := range d.Passed {
		l := o.limit(d.Revision, a.Limit)
		switch {
		case !home && o.partitionOf(a.Scope) != r.Partition:
			o.fault(FaultRound, r, "%s of %q passed, which partition %d owns", a.Limit, a.Scope, o.partitionOf(a.Scope))
		case home || l == nil || !isWide(l) || !fits(l, a.Scope, nil):
		case l.Mode == schemas.ModeObserve && o.full(p, r, l, schemas.Charge{Limit: a.Limit, Scope: a.Scope, Cost: a.Cost}, d.T):
		default:
			o.fault(FaultCharges, r, "%s of %q passed, which there is and which has room or refuses", a.Limit, a.Scope)
		}
	}
}

// observed judges the windows that only observe and that a step found full.
func (o *Oracle) observed(p *logged, r Record) {
	d := r.Event.Decision
	for _, e := range d.Evidence {
		l := o.limit(d.Revision, e.Limit)
		if wide(e.Scope) && o.partitionOf(e.Scope) != r.Partition {
			continue // of a step before: it was judged there
		}
		if l == nil || l.Mode != schemas.ModeObserve || isWide(l) != wide(e.Scope) {
			o.fault(FaultWronglyHeld, r, "went on though %s was full, which does not observe", e.Limit)
			continue
		}
		c := schemas.Charge{Limit: e.Limit, Scope: e.Scope, Cost: e.Cost}
		if n, w, ok := o.counted(p, r, l, c, e.Window); !ok || n != e.Count || n+e.Cost <= w.N {
			o.fault(FaultWronglyHeld, r, "observed %s %s of %q full with %d, but it counts %d", e.Limit, e.Window, e.Scope, e.Count, n)
		}
	}
}

// restore puts old places back up, each in the list from which this partition
// took it, and looks that it brings nobody over who was not before.
func (o *Oracle) restore(p *logged, r Record) {
	d := r.Event.Decision
	for _, c := range d.Restored {
		mark := movedMark(c, r.Event.MessageID)
		from := p.moved[mark]
		if len(from) == 0 {
			o.fault(FaultReturned, r, "put a place in %s of %s back that had not been taken", c.Limit, c.T)
			continue
		}
		key := from[len(from)-1]
		p.moved[mark] = from[:len(from)-1]
		l := o.limit(d.Revision, c.Limit)
		p.add(key, "", place{t: c.T, cost: c.Cost, message: r.Event.MessageID, scope: c.Scope})
		// One that observes lets messages through beyond n: what was sent elsewhere may
		// have filled it, and others may have come since.
		if l == nil || l.Mode == schemas.ModeObserve {
			continue
		}
		for _, w := range windowsFor(l, r.Event.To) {
			if w.Kind == schemas.WindowBucket {
				continue
			}
			// Under a lowered n more may stand than n without it; then the place that
			// was returned for it stood in the same windows.
			now := count(w, l, p.since, p.places[key], d.T, "")
			for _, back := range d.Returned {
				if back.Limit == c.Limit && back.Scope == c.Scope {
					now -= back.Cost
				}
			}
			if now > w.N {
				o.fault(FaultOver, r, "%d places in %s of %s at %s, with one put back", now, w, l.Name, d.T)
			}
		}
	}
}

func movedMark(c schemas.Charge, message string) string {
	return fmt.Sprintf("%s%s%s%s%d%s%d%s%s", c.Limit, shelfMark, c.Scope, shelfMark, c.T, shelfMark, c.Cost, shelfMark, message)
}

// drawsOnly reports whether a limit has nothing but buckets, from which nothing
// ever comes back.
func drawsOnly(l *schemas.Limit) bool {
	return !slices.ContainsFunc(l.Allow, func(w schemas.Window) bool { return w.Kind != schemas.WindowBucket })
}

// drawn is what a bucket had after the last place, in parts of a token, of which
// a refill is a whole number, and the window of then.
type drawn struct {
	t    schemas.Millis
	left int64
	of   schemas.Window
}

// level is what is in a bucket at t. When its numbers change, what it had goes on
// under the new ones, but one that had filled up before is full.
func (b drawn) level(w schemas.Window, since map[string]schemas.Millis, t schemas.Millis) int64 {
	full := w.N * w.RefillEvery
	if b.t == 0 || b.t <= since[w.UnitKey()] {
		return full
	}
	if missing := b.of.N*b.of.RefillEvery - b.left; b.t+schemas.Millis((missing+b.of.RefillTokens-1)/b.of.RefillTokens) <= since["bucket"] {
		return full
	}
	return min(full, b.left*w.RefillEvery/b.of.RefillEvery+int64(t-b.t)*w.RefillTokens)
}

// draw takes a place's cost from a bucket; false if it is not there. A message that
// was sent elsewhere draws at the time of its sending, but not before the last
// draw that the bucket has not made up for; it takes what is there.
func (o *Oracle) draw(p *logged, r Record, l *schemas.Limit, w schemas.Window, c schemas.Charge) bool {
	key := shelf(l, r.Event)
	if isWide(l) {
		key = wideShelf(c)
	}
	since, now := p.since[l.Name], r.Event.Decision.T
	b, full := p.drawn[key], w.N*w.RefillEvery
	if b.level(w, since, now) == full {
		b = drawn{}
	}
	t := c.T
	if b.t > since[w.UnitKey()] {
		t = max(t, b.t)
	}
	had := b.level(w, since, t)
	b = drawn{t: t, left: max(had-c.Cost*w.RefillEvery, 0), of: w}
	if b.level(w, nil, now) == full {
		b = drawn{}
	}
	p.drawn[key] = b
	return had >= c.Cost*w.RefillEvery
}
