package limit

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// The oracle keeps every place that was ever taken in one list and counts it
// anew for each question. It shares no code with the table: it matches, tells
// scopes apart and finds the starts of calendar periods in its own slow way.
type oracle struct {
	places []oraclePlace
	drawn  map[string]oracleDraw // by limit and who: the latest
	starts map[string]int64
}

type oraclePlace struct {
	limit, who, scope string
	t, cost           int64
	gone              bool
}

// oracleDraw is what the last place left in a bucket.
type oracleDraw struct {
	t, full int64    // full: the millisecond in which it will be full
	left    *big.Rat // tokens; nil if that place was taken without a bucket
	every   int64
}

type oracleLimit struct {
	schemas.Limit
	zone  *time.Location
	since map[string]schemas.Millis
}

func newOracle() *oracle { return &oracle{starts: map[string]int64{}, drawn: map[string]oracleDraw{}} }

func (o *oracle) clone() *oracle {
	return &oracle{places: slices.Clone(o.places), starts: o.starts, drawn: maps.Clone(o.drawn)}
}

func oracleLimits(p *schemas.Policy, since map[string]map[string]schemas.Millis) []oracleLimit {
	var out []oracleLimit
	for _, l := range p.Limits {
		if l.Mode == schemas.ModeOff {
			continue
		}
		name := l.Timezone
		if name == "" {
			name = "UTC"
		}
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		out = append(out, oracleLimit{l, zone, since[l.Name]})
	}
	return out
}

func oracleMatches(l *oracleLimit, s *Subject) bool {
	in := func(list []string, v string) bool {
		if list == nil {
			return true
		}
		for _, x := range list {
			if x == v {
				return true
			}
		}
		return false
	}
	prefix := l.Match.Prefix == nil
	for _, p := range l.Match.Prefix {
		prefix = prefix || strings.HasPrefix(s.Recipient, "+"+p)
	}
	meta := true
	for k, v := range l.Match.Metadata {
		meta = meta && in(v, s.Metadata[k])
	}
	exempt := false
	for _, e := range l.Exempt {
		exempt = exempt || e == s.Recipient
	}
	return in(l.Match.Class, s.Class) && in(l.Match.Tenant, s.Tenant) && in(l.Match.Channel, s.Channel) && prefix && meta && !exempt
}

func oracleWho(l *oracleLimit, s *Subject) string {
	var parts []string
	for _, d := range l.Per {
		v := ""
		switch {
		case d == "recipient":
			v = s.Recipient
		case d == "tenant":
			v = s.Tenant
		case d == "class":
			v = s.Class
		case d == "prefix:3":
			v = s.Recipient[1:4]
		case d == "metadata.ip":
			v = s.Metadata["ip"]
		default:
			panic(d)
		}
		parts = append(parts, fmt.Sprintf("%s %q", d, v))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func oracleWindows(l *oracleLimit, s *Subject) []schemas.Window {
	for _, o := range l.Overrides {
		if o.To == s.Recipient {
			return o.Allow
		}
	}
	return l.Allow
}

// sees reports whether window w counts a place of time p at t.
func (o *oracle) sees(l *oracleLimit, w schemas.Window, p, t int64) bool {
	since := int64(l.since[oracleUnit(w)])
	if w.Kind == schemas.WindowBucket {
		return false
	}
	if p > t || p <= since {
		return false
	}
	if w.Kind == schemas.WindowRolling {
		return p > t-w.Length.Milliseconds()
	}
	return p >= o.start(w.Unit, l.zone, t)
}

func oracleUnit(w schemas.Window) string {
	if w.Kind == schemas.WindowCalendar {
		return "calendar-" + w.Unit
	}
	if w.Kind == schemas.WindowBucket {
		return "bucket refill " + strings.Split(w.String(), " refill ")[1]
	}
	return w.String()[strings.IndexByte(w.String(), '/')+1:]
}

// level returns the tokens in a bucket.
func (o *oracle) level(l *oracleLimit, w schemas.Window, who string, t int64) *big.Rat {
	full := big.NewRat(w.N, 1)
	d := o.drawn[l.Name+"|"+who]
	if d.left == nil || d.t <= int64(l.since[oracleUnit(w)]) || d.full <= int64(l.since["bucket"]) {
		return full
	}
	left := new(big.Rat).Set(d.left)
	if d.every != w.RefillEvery { // to whole parts of the new token
		left.Mul(left, big.NewRat(w.RefillEvery, 1))
		left = new(big.Rat).SetFrac(new(big.Int).Quo(left.Num(), left.Denom()), big.NewInt(w.RefillEvery))
	}
	left.Add(left, new(big.Rat).Mul(big.NewRat(t-d.t, 1), big.NewRat(w.RefillTokens, w.RefillEvery)))
	if left.Cmp(full) > 0 {
		return full
	}
	return left
}

// draw takes from the subject's bucket, if it has one.
func (o *oracle) draw(l *oracleLimit, s *Subject, t, now int64) {
	who := oracleWho(l, s)
	var d oracleDraw
	for _, w := range oracleWindows(l, s) {
		if w.Kind != schemas.WindowBucket {
			continue
		}
		// Of a bucket that is full nothing is known: it may have been swept.
		if o.level(l, w, who, now).Cmp(big.NewRat(w.N, 1)) == 0 {
			delete(o.drawn, l.Name+"|"+who)
		}
		// What was sent elsewhere counts as of the last place at the earliest.
		if last := o.drawn[l.Name+"|"+who]; last.left != nil && last.t > int64(l.since[oracleUnit(w)]) {
			t = max(t, last.t)
		}
		d = oracleDraw{t: t, left: o.level(l, w, who, t), every: w.RefillEvery}
		d.left = new(big.Rat).Sub(d.left, big.NewRat(oracleCost(l, s), 1))
		if d.left.Sign() < 0 { // sent elsewhere, and more than there was
			d.left = new(big.Rat)
		}
		for d.full = t; ; d.full++ { // by looking
			gained := new(big.Rat).Mul(big.NewRat(d.full-t, 1), big.NewRat(w.RefillTokens, w.RefillEvery))
			missing := new(big.Rat).Sub(big.NewRat(w.N, 1), gained.Add(gained, d.left))
			if missing.Sign() <= 0 {
				break
			}
			if f, _ := missing.Float64(); f > 1.5*float64(w.RefillTokens)/float64(w.RefillEvery) { // still far
				d.full += int64(f*float64(w.RefillEvery)/float64(w.RefillTokens)) - 1
			}
		}
	}
	o.drawn[l.Name+"|"+who] = d
}

func floorRat(r *big.Rat) int64 { return new(big.Int).Quo(r.Num(), r.Denom()).Int64() }

// start finds where a calendar period began by looking at the local clock
// minute after minute (days and months: quarter after quarter).
func (o *oracle) start(unit string, zone *time.Location, t int64) int64 {
	const minute, quarter = 60_000, 15 * 60_000
	step := int64(quarter)
	if unit == "minute" || unit == "hour" {
		step = minute
	}
	at := t - t%step
	key := fmt.Sprint(unit, zone, at)
	if s, ok := o.starts[key]; ok {
		return s
	}
	clock := func(ms int64) time.Time { return time.UnixMilli(ms).In(zone) }
	var start int64
	switch unit {
	case "minute":
		start = at
	case "hour":
		for start = at; ; start -= minute {
			now, before := clock(start), clock(start-minute)
			if now.Minute() == 0 || now.Minute() != (before.Minute()+1)%60 {
				break
			}
		}
	default:
		back, label := int64(50*60*60_000), "2006-01-02"
		if unit == "month" {
			back, label = 33*24*60*60_000, "2006-01"
		}
		latest := clock(at - back).Format(label)
		for q := at - back; q <= at; q += quarter {
			if d := clock(q).Format(label); d > latest {
				latest, start = d, q
			}
		}
	}
	o.starts[key] = start
	return start
}

// passes says whether a message of s passes at t, if the places for which
// without is true did not stand. It returns the windows that are full, and
// those of limits that only observe.
func (o *oracle) passes(limits []oracleLimit, s *Subject, without func(i int) bool, t int64) (full, observed []string, counts map[string]int64) {
	counts = map[string]int64{}
	for i := range limits {
		l := &limits[i]
		if !oracleMatches(l, s) {
			continue
		}
		who := oracleWho(l, s)
		for _, w := range oracleWindows(l, s) {
			n := int64(0)
			for j := range o.places {
				p := &o.places[j]
				if !p.gone && p.limit == l.Name && p.who == who && !without(j) && o.sees(l, w, p.t, t) {
					n += p.cost
				}
			}
			if w.Kind == schemas.WindowBucket {
				n = w.N - floorRat(o.level(l, w, who, t))
			}
			name := l.Name + " " + w.String()
			counts[name] = n
			if n+oracleCost(l, s) > w.N {
				if l.Mode == schemas.ModeObserve {
					observed = append(observed, name)
				} else {
					full = append(full, name)
				}
			}
		}
	}
	return full, observed, counts
}

func oracleCost(l *oracleLimit, s *Subject) int64 {
	if l.Count == schemas.CountSegments && s.Segments > 1 {
		return s.Segments
	}
	if l.Count == schemas.CountCost && s.Cost > 1 {
		return s.Cost
	}
	return 1
}

// find returns the places that charges name, each at most once; -1 for none.
func (o *oracle) find(charges []schemas.Charge) []int {
	var out []int
	for _, c := range charges {
		at := -1
		for j := range o.places {
			p := &o.places[j]
			if !p.gone && p.limit == c.Limit && p.scope == c.Scope && p.t == int64(c.T) && p.cost == c.Cost && !slices.Contains(out, j) {
				at = j
				break
			}
		}
		out = append(out, at)
	}
	return out
}

// seen reports whether any window of the limit, of whichever recipient, counts
// a place of time p at t.
func (o *oracle) seen(limits []oracleLimit, limit string, p, t int64) bool {
	for i := range limits {
		l := &limits[i]
		if l.Name != limit {
			continue
		}
		all := slices.Clone(l.Allow)
		for _, v := range l.Overrides {
			all = append(all, v.Allow...)
		}
		for _, w := range all {
			if o.sees(l, w, p, t) {
				return true
			}
		}
	}
	return false
}
