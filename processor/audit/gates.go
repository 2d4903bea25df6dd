package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// What a decision says that it was taken for.
const (
	reasonCountry = "country_not_allowed"
	reasonQuiet   = "quiet_hours"
	reasonSendAt  = "send_at"
	reasonTurn    = "turn"
)

// gate is what a class asks before any limit: where it goes, and when it does
// not.
type gate struct {
	countries []string // none is everywhere
	quiet     *quietHours
}

// quietHours are a class's, in minutes of a day: length of them from from on.
type quietHours struct {
	from, length int
	zone         *time.Location // nil is the recipient's own
	rejects      bool           // and does not wait
	asleep       map[string]span
}

const dayMinutes = 24 * 60

// gatesOf returns the gates of a policy's classes; nil when no class has one.
func gatesOf(p *schemas.Policy) (map[string]*gate, error) {
	all := make(map[string]*gate)
	gated := false
	for i := range p.Classes {
		c := &p.Classes[i]
		g := &gate{countries: c.Countries}
		if q := c.QuietHours; q != nil {
			from, err := minuteOf(q.From)
			if err != nil {
				return nil, fmt.Errorf("class %s: %w", c.Name, err)
			}
			to, err := minuteOf(q.To)
			if err != nil {
				return nil, fmt.Errorf("class %s: %w", c.Name, err)
			}
			g.quiet = &quietHours{from: from, length: (to - from + dayMinutes) % dayMinutes, rejects: q.Then == "reject", asleep: make(map[string]span)}
			if q.Timezone != "recipient" {
				if g.quiet.zone, err = schemas.Zone(q.Timezone); err != nil { // "" is UTC
					return nil, fmt.Errorf("class %s: %w", c.Name, err)
				}
			}
		}
		gated = gated || len(g.countries) > 0 || g.quiet != nil
		all[c.Name] = g
	}
	if !gated {
		return nil, nil
	}
	return all, nil
}

func minuteOf(clock string) (int, error) {
	var h, m int
	if _, err := fmt.Sscanf(clock, "%d:%d", &h, &m); err != nil || h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, fmt.Errorf("quiet hours: %q is no time of day", clock)
	}
	return h*60 + m, nil
}

// gates judges a decision by its class's countries and quiet hours, which come
// before the limits and in this order: what went past both, what they ended and
// what they let wait. What ended before them, and what waits for its time to be
// sent, or for its turn, says nothing of them.
func (p *partition) gates(in *kgo.Record, env *schemas.Envelope) {
	e, d := p.e, p.e.Decision
	switch d.Verdict {
	case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictRefuse, schemas.VerdictCharge:
	case schemas.VerdictDefer:
		if e.Reason == reasonSendAt || e.Reason == reasonTurn {
			return
		}
	case schemas.VerdictReject:
		if e.Reason != reasonCountry && e.Reason != reasonQuiet {
			return
		}
	default:
		return
	}
	if p.revision < 0 {
		p.cannotTell("countries and quiet hours under a revision that is not known")
		return
	}
	g := p.rules.gate(e.Class)
	if p.otherPhones() && (len(g.countries) > 0 || e.Reason == reasonCountry) {
		p.cannotTellPhones("countries of messages")
		return
	}
	p.country(g)
	if d.Verdict == schemas.VerdictReject && e.Reason == reasonCountry {
		return // never came to its quiet hours
	}
	if g.quiet != nil && (p.otherZones() || p.otherPhones()) {
		p.cannotTellZones("quiet hours of messages")
		return
	}
	p.quietHours(g, in, env)
}

// gate is a class's, or that of the class "default" for one that nobody declared.
func (r *rules) gate(class string) *gate {
	if g, ok := r.classes[class]; ok {
		return g
	}
	if g, ok := r.classes[schemas.DefaultClass]; ok {
		return g
	}
	return &gate{}
}

// country judges whether the class goes to the recipient's country. The log
// names none: the recipient's number tells. Who has none is in no country.
func (p *partition) country(g *gate) {
	ended := p.e.Decision.Verdict == schemas.VerdictReject && p.e.Reason == reasonCountry
	if len(g.countries) == 0 && !ended {
		return
	}
	country := ""
	if to, err := recipient.Canonical(schemas.Channel(p.e.Channel), p.e.To, ""); err == nil {
		country = to.Country
	}
	goes := len(g.countries) == 0 || country == "" || slices.Contains(g.countries, country)
	switch {
	case ended && goes:
		p.fault(KindCountry, "ended for its country %s, to which class %s goes", country, p.e.Class)
	case !ended && !goes:
		p.fault(KindCountry, "%s, and class %s does not go to %s", p.e.Decision.Verdict, p.e.Class, country)
	}
}

// quietHours judges whether a message had to wait, or end, for the hours in
// which its class is not sent, and until when.
func (p *partition) quietHours(g *gate, in *kgo.Record, env *schemas.Envelope) {
	e, t := p.e, p.e.Decision.T
	held := e.Reason == reasonQuiet && (e.Decision.Verdict == schemas.VerdictDefer || e.Decision.Verdict == schemas.VerdictReject)
	var zones []*time.Location
	if g.quiet != nil {
		zones = p.zones(g.quiet)
	}
	switch quiet := g.quiet != nil && g.quiet.holds(zones, t); {
	case !held && quiet:
		p.fault(KindQuiet, "%s, in the quiet hours of class %s", e.Decision.Verdict, e.Class)
		return
	case !held:
		return
	case !quiet:
		p.fault(KindQuiet, "%s for the quiet hours of class %s, and it is not in them", e.Decision.Verdict, e.Class)
		return
	case g.quiet.rejects != (e.Decision.Verdict == schemas.VerdictReject):
		p.fault(KindQuiet, "%s in quiet hours, where class %s does otherwise", e.Decision.Verdict, e.Class)
		return
	case g.quiet.rejects:
		return
	}
	// At its expiry it comes back in any case, to end.
	expires := p.expiry(in, env)
	wakes, ever := g.quiet.wakes(zones, t)
	switch {
	case !ever: // whenever it comes back it asks again
		if e.RetryAt <= t || expires != 0 && e.RetryAt > expires {
			p.fault(KindQuiet, "it comes back at %s; it is quiet in one zone or another all day long, and it expires at %s", e.RetryAt, or(expires, "a time that is not known"))
		}
	case e.RetryAt == wakes && (expires == 0 || wakes <= expires), e.RetryAt == expires && expires < wakes && expires != 0:
	case expires == 0 && e.RetryAt < wakes && e.RetryAt > t:
		p.cannotTell("waits that end before the quiet hours do, of messages whose expiry is not known")
	default:
		p.fault(KindQuiet, "it comes back at %s; its quiet hours end at %s, and it expires at %s", e.RetryAt, wakes, or(expires, "a time that is not known"))
	}
}

// mostZones bounds how many recipients' zones are kept.
const mostZones = 10_000

// zones are those in which a recipient may be, as its number tells, all of which
// are observed; UTC where it tells none.
func (p *partition) zones(q *quietHours) []*time.Location {
	if q.zone != nil {
		return []*time.Location{q.zone}
	}
	if known, ok := p.where[p.e.To]; ok {
		return known
	}
	known := recipient.Zones(p.e.To)
	if len(known) == 0 {
		known = []*time.Location{time.UTC}
	}
	if len(p.where) >= mostZones {
		clear(p.where)
	}
	p.where[p.e.To] = known
	return known
}

// holds reports whether clocks show a quiet minute at t, in some zone.
func (q *quietHours) holds(zones []*time.Location, t schemas.Millis) bool {
	return slices.ContainsFunc(zones, func(zone *time.Location) bool {
		clock := at(zone, t)
		return (clock.Hour()*60+clock.Minute()-q.from+dayMinutes)%dayMinutes < q.length
	})
}

// wakes returns the first moment after t, which is quiet, that is quiet in no
// zone: it looks at every minute. false is that there is none within two days,
// because the zones are quiet in turn.
func (q *quietHours) wakes(zones []*time.Location, t schemas.Millis) (schemas.Millis, bool) {
	var names strings.Builder
	for _, zone := range zones {
		names.WriteString(zone.String())
		names.WriteByte(0)
	}
	if s := q.asleep[names.String()]; s.start <= t && t < s.end { // all of it is quiet
		return s.end, true
	}
	end := t - t%60_000
	for range 2 * dayMinutes {
		if end += 60_000; !q.holds(zones, end) {
			q.asleep[names.String()] = span{t, end}
			return end, true
		}
	}
	return 0, false
}
