package backtest

import (
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// ask replays a decision of home in which limits took part.
func (r *replay) ask(s *step) {
	last := s.kind == stepAsk
	l := r.lives.find(s.key)
	first := l == nil
	if first {
		l = r.lives.take()
		l.counted = s.again
	}
	if l.path != pathSame {
		if last {
			r.answered(l, s)
			if s.end {
				r.forget(s.key, l)
			}
		}
		return
	}
	if !l.asking {
		l.begin(s.t)
	}
	if s.subject != nil {
		l.subject = *s.subject
	} else {
		r.describe(&l.subject, s)
	}
	ok := !l.saidNo
	if ok {
		ok = r.askHome(l, s, last)
	}
	if !last {
		if !ok {
			r.diverge(l, s)
		}
		if first {
			r.lives.keep(s.key, l)
		}
		return
	}
	l.now.Refused = !ok
	keep := !s.end
	switch {
	case ok:
		l.places, l.taken = l.taken, l.places[:0]
		r.letGo(l, s, l.unvisited, false)
		l.asking = false
		l.now.Places = l.places
		if s.then.Refused {
			l.path = pathSent
		} else {
			l.held = s.held
		}
	case !s.then.Refused:
		r.diverge(l, s)
	default:
		r.stopRound(l, s, true)
	}
	r.answered(l, s)
	l.ended = s.end
	switch {
	case keep || len(l.owed) > 0:
		if first {
			r.lives.keep(s.key, l)
		}
	case first:
		r.lives.release(l)
	default:
		r.lives.drop(s.key, l)
	}
}

// askHome puts a message to what home asks in this decision: its own limits and
// the wide ones that its partition owns, together, up to the first limit of another owner
// that was not asked; and where it is the last one all that was not asked yet, in the
// policy's order. Which window a refusal names depends on what is asked together.
func (r *replay) askHome(l *life, s *step, last bool) bool {
	x := r.x
	l.unvisited = l.unvisited[:0]
	own := !l.ownAsked && (last || s.own)
	now := own         // together with the first wide ones
	elsewhere := false // another owner comes before
	r.asks = r.asks[:0]
	r.stops = r.stops[:0]
	if x.wide {
		r.stops = x.rules.Plan(r.stops, &l.subject)
		for i := range r.stops {
			switch st := &r.stops[i]; {
			case st.Own:
				now = own && !(last && elsewhere)
			case l.hasVisited(st.Ask.Limit, st.Ask.Scope) || !x.known[st.Ask.Limit]:
			case last && r.ownerOf(st.Ask.Scope) == r && !elsewhere, slices.Contains(s.asked, scopeRef{st.Ask.Limit, st.Ask.Scope}):
				r.asks = append(r.asks, st.Ask)
			case r.ownerOf(st.Ask.Scope) != r:
				elsewhere = true
			}
		}
	}
	forced := s.t < x.from
	if forced && last && s.then.Refused {
		return false // what happened, happened
	}
	late := last && l.ownAsked && slices.ContainsFunc(r.stops, func(st limit.Stop) bool { return !st.Own }) && len(l.late(s.t)) > 0
	together := now || late || len(r.asks) > 0
	for i := range r.stops {
		st := &r.stops[i]
		switch {
		case st.Own && (now || late), !st.Own && slices.Contains(r.asks, st.Ask):
			if together && !r.put(l, &r.counter, s, now, late, r.asks, forced) {
				return false
			}
			together = false
		case st.Own && own && !l.ownAsked:
			if !r.put(l, &r.counter, s, true, false, nil, forced) {
				return false
			}
		case last && !st.Own && !l.hasVisited(st.Ask.Limit, st.Ask.Scope):
			if !r.put(l, r.counterOf(st.Ask.Limit, st.Ask.Scope), s, false, false, []schemas.Ask{st.Ask}, forced) {
				return false
			}
		}
	}
	if together && !r.put(l, &r.counter, s, now, late, r.asks, forced) {
		return false
	}
	if !last {
		return true
	}
	for _, c := range l.places {
		if wide := limit.Wide(c.Scope); wide && !l.hasVisited(c.Limit, c.Scope) || !wide && !l.ownAsked {
			l.unvisited = append(l.unvisited, c)
		}
	}
	return true
}

// put asks some limits at once, all or nothing, and keeps what they say: home's own for
// the first time (own) or at the end of a round (late), and wide ones. What happened
// before the policy is taken to be in force is not asked but repeated.
func (r *replay) put(l *life, at *counter, s *step, own, late bool, asks []schemas.Ask, forced bool) bool {
	r.old = r.old[:0]
	for _, c := range l.places {
		if wide := limit.Wide(c.Scope); !wide && own || wide && slices.ContainsFunc(asks, func(a schemas.Ask) bool { return a.Limit == c.Limit && a.Scope == c.Scope }) {
			r.old = append(r.old, c)
		}
	}
	var who *limit.Subject
	if own {
		who = &l.subject
	}
	if forced {
		moved, _ := at.table.GiveBack(at.rules, r.old, s.t)
		l.moved = append(l.moved, moved...)
		skip := func(name string) bool { return slices.Contains(s.observed, name) }
		charges, _ := at.table.Take(at.rules, who, asks, skip, s.t)
		l.taken = append(l.taken, charges...)
		if late {
			returned, missing := at.table.Unwind(at.rules, l.late(s.t), s.t)
			for _, c := range append(returned, missing...) {
				l.strike(c)
				if c.T = s.t; !skip(c.Limit) {
					l.taken = append(l.taken, at.table.Restore(at.rules, []schemas.Charge{c}, s.t)...)
				}
			}
		}
	} else {
		if late {
			at.table.DecideReturn(&r.res, at.rules, l.subject.Recipient, asks, r.old, l.late(s.t), s.t)
		} else {
			at.table.DecideStep(&r.res, at.rules, who, asks, r.old, nil, s.t)
		}
		if !r.res.OK {
			e := &r.res.Refused[0]
			l.now = Said{Refused: true, Limit: e.Limit, Window: e.Window}
			return false
		}
		if len(r.res.Observed) > 0 && !l.now.Observed {
			e := &r.res.Observed[0]
			l.now = Said{Observed: true, Limit: e.Limit, Window: e.Window}
		}
		for _, c := range r.res.Returned {
			if !l.strike(c) {
				l.moved = append(l.moved, c)
			}
		}
		for _, c := range r.res.Missing {
			l.strike(c)
		}
		l.taken = append(l.taken, r.res.Charges...)
	}
	l.ownAsked = l.ownAsked || own
	for i := range asks {
		l.visited = append(l.visited, scopeRef{asks[i].Limit, asks[i].Scope})
	}
	return true
}

// owner replays an owner's answer to a message on its round.
func (r *replay) owner(s *step) {
	if !r.x.wide {
		return
	}
	l := r.x.parts[s.home].lives.find(s.key)
	if l == nil || !l.asking || l.path != pathSame || l.saidNo {
		return
	}
	r.asks = r.asks[:0]
	r.stops = r.x.rules.Plan(r.stops[:0], &l.subject)
	for i := range r.stops {
		a := &r.stops[i].Ask
		if !r.stops[i].Own && r.x.known[a.Limit] && r.ownerOf(a.Scope) == r && slices.Contains(s.asked, scopeRef{a.Limit, a.Scope}) && !l.hasVisited(a.Limit, a.Scope) {
			r.asks = append(r.asks, *a)
		}
	}
	if len(r.asks) == 0 {
		return
	}
	forced := s.t < r.x.from
	ok := !(forced && s.then.Refused) && r.put(l, &r.counter, s, false, false, r.asks, forced)
	switch {
	case ok:
	case s.then.Refused:
		l.saidNo = true
	default:
		r.x.parts[s.home].diverge(l, s)
	}
}
