package backtest

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// tally is what one partition's replay counts.
type tally struct {
	messages      int64
	then, now     Tally
	newlyRefused  int64
	newlyAdmitted int64
	byLimit       map[scopeWindow]*counts
	byClass       map[string]*counts
	byHour        map[schemas.Millis]*counts
	class         *counts // of className
	className     string
	hour          *counts // of hourAt
	hourAt        schemas.Millis
	of            map[uint64]*refusals // by the recipient's hash
	unjoined      int64                // decisions whose request is not there any more
	undated       int64                // messages sent elsewhere that took no place then
	markers       int64                // revisions that came into force in the time that is judged
	first         schemas.Millis
	last          schemas.Millis
	decisions     int64
	firstSeq      int64
}

type scopeWindow struct{ limit, window string }

type counts struct{ messages, then, now int64 }

// refusals are one recipient's counts.
type refusals struct {
	counts
	to string // only of who was refused
}

func newTally() *tally {
	return &tally{
		byLimit: map[scopeWindow]*counts{}, byClass: map[string]*counts{}, byHour: map[schemas.Millis]*counts{},
		of: map[uint64]*refusals{},
	}
}

func (y *tally) recipients() int { return len(y.of) }

// seen notes how far the log reaches.
func (y *tally) seen(s *step) {
	if s.seq == 0 {
		return
	}
	if y.decisions++; y.first == 0 {
		y.first, y.firstSeq = s.t, s.seq
	}
	y.last = s.t
}

// message counts a message's first decision.
func (y *tally) message(s *step, now *Said) {
	y.messages++
	y.then.add(&s.then)
	y.now.add(now)
	if s.then.Refused != now.Refused {
		if now.Refused {
			y.newlyRefused++
		} else {
			y.newlyAdmitted++
		}
	}
	if s.then.Limit != "" {
		entry(y.byLimit, scopeWindow{s.then.Limit, s.then.Window}).then++
	}
	if now.Limit != "" {
		entry(y.byLimit, scopeWindow{now.Limit, now.Window}).now++
	}
	if y.class == nil || y.className != s.class {
		y.class, y.className = entry(y.byClass, s.class), s.class
	}
	if at := s.t - s.t%hour; y.hour == nil || y.hourAt != at {
		y.hour, y.hourAt = entry(y.byHour, at), at
	}
	who := entry(y.of, hashOf(s.to))
	for _, c := range [...]*counts{y.class, y.hour, &who.counts} {
		c.messages++
		if s.then.Refused {
			c.then++
		}
		if now.Refused {
			c.now++
		}
	}
	if now.Refused {
		who.to = s.to
	}
}

func (t *Tally) add(said *Said) {
	if said.Refused {
		t.Refused++
		return
	}
	t.Admitted++
	if said.Observed {
		t.Observed++
	}
}

func (t *Tally) sum(o Tally) {
	t.Admitted += o.Admitted
	t.Refused += o.Refused
	t.Observed += o.Observed
	t.Held += o.Held
}

func entry[K comparable, V any](m map[K]*V, k K) *V {
	v := m[k]
	if v == nil {
		v = new(V)
		m[k] = v
	}
	return v
}

// busiest is how many recipients a result names.
const busiest = 20

// result adds up what the partitions counted.
func (x *engine) result(tried *schemas.Policy) *Result {
	r := &Result{From: x.from, Until: x.until, ByLimit: []LimitCount{}, ByClass: []ClassCount{}, ByHour: []HourCount{}, Busiest: []Recipient{}}
	byLimit, byClass, byHour := map[scopeWindow]*counts{}, map[string]*counts{}, map[schemas.Millis]*counts{}
	for i := range tried.Limits {
		if l := &tried.Limits[i]; !l.Off() {
			for _, w := range l.Allow {
				entry(byLimit, scopeWindow{l.Name, w.String()})
			}
		}
	}
	for _, p := range x.parts {
		y := p.tally
		r.Messages += y.messages
		r.Then.sum(y.then)
		r.Now.sum(y.now)
		r.NewlyRefused += y.newlyRefused
		r.NewlyAdmitted += y.newlyAdmitted
		merge(byLimit, y.byLimit)
		merge(byClass, y.byClass)
		merge(byHour, y.byHour)
		for _, who := range y.of {
			if who.now > 0 {
				r.Busiest = append(r.Busiest, Recipient{To: who.to, Messages: who.messages, Then: who.then, Now: who.now})
			}
		}
		if len(r.Busiest) > 4096 {
			r.Busiest = mostRefused(r.Busiest)
		}
	}
	r.Busiest = mostRefused(r.Busiest)
	for i := range r.Busiest {
		r.Busiest[i].To = recipient.Mask(r.Busiest[i].To)
	}
	for k, c := range byLimit {
		r.ByLimit = append(r.ByLimit, LimitCount{Limit: k.limit, Window: k.window, Mode: modeOf(tried, k.limit), Then: c.then, Now: c.now})
	}
	slices.SortFunc(r.ByLimit, func(a, b LimitCount) int {
		return cmp.Or(cmp.Compare(b.Now, a.Now), cmp.Compare(b.Then, a.Then), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Window, b.Window))
	})
	for k, c := range byClass {
		r.ByClass = append(r.ByClass, ClassCount{Class: k, Messages: c.messages, Then: c.then, Now: c.now})
	}
	slices.SortFunc(r.ByClass, func(a, b ClassCount) int {
		return cmp.Or(cmp.Compare(b.Now, a.Now), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Class, b.Class))
	})
	for k, c := range byHour {
		r.ByHour = append(r.ByHour, HourCount{Hour: k, Messages: c.messages, Then: c.then, Now: c.now})
	}
	slices.SortFunc(r.ByHour, func(a, b HourCount) int { return cmp.Compare(a.Hour, b.Hour) })
	return r
}

func merge[K comparable](into, from map[K]*counts) {
	for k, c := range from {
		m := entry(into, k)
		m.messages += c.messages
		m.then += c.then
		m.now += c.now
	}
}

// mostRefused returns the first of those that are refused most.
func mostRefused(all []Recipient) []Recipient {
	slices.SortFunc(all, func(a, b Recipient) int {
		return cmp.Or(cmp.Compare(b.Now, a.Now), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.To, b.To))
	})
	return all[:min(len(all), busiest)]
}

// modeOf is a limit's mode under a policy; "off" if it has none of that name.
func modeOf(p *schemas.Policy, name string) string {
	for i := range p.Limits {
		if l := &p.Limits[i]; l.Name == name && !l.Off() {
			return string(cmp.Or(l.Mode, schemas.ModeEnforce))
		}
	}
	return string(schemas.ModeOff)
}
