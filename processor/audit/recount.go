package audit

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// room is one window of a limit, recounted.
type room struct {
	l      *limit
	w      *schemas.Window
	scope  string
	cost   int64
	count  int64
	from   schemas.Millis // places count from here
	oldest schemas.Millis
	end    schemas.Millis // of a calendar period
	start  schemas.Millis
	since  schemas.Millis
	short  int64 // of a bucket: the parts that are missing
	whole  bool  // nothing that it counts lies before the log that was read
}

func (r *room) full() bool { return r.count+r.cost > r.w.N }

// without is what the message in hand holds, as far as a limit decides as if it did
// not: of its earlier attempts, unless the limit counts these, and of this one. A
// refusal puts the charges back that its round moved: they did not count either.
func (p *partition) without(l *limit) []schemas.Charge {
	if l.attempts {
		return p.trip.round.Taken
	}
	return joinCharges(p.trip.old, p.trip.round.Moved, p.trip.round.Taken)
}

// recount counts every window of a limit at t, without some of a message's
// places.
func (p *partition) recount(l *limit, scope string, cost int64, t schemas.Millis, without []schemas.Charge) []room {
	key := scopeKey(l.Name, scope)
	windows := l.windows(p.to)
	rooms := make([]room, 0, len(windows))
	for i := range windows {
		w := &windows[i]
		r := room{l: l, w: w, scope: scope, cost: cost, since: l.since[w.UnitKey()]}
		if w.Kind == schemas.WindowBucket {
			if p.again && !l.wide {
				continue
			}
			level, known := p.tanks.level(key, l, w, t)
			r.count, r.short, r.whole = w.N-level/w.RefillEvery, r.cost*w.RefillEvery-level, known
			rooms = append(rooms, r)
			continue
		}
		r.start, r.end = l.from(w, t)
		if p.unknownPeriod(l, w, r.start) {
			rooms = append(rooms, r) // not whole
			continue
		}
		r.from = max(r.start, r.since+1)
		if w.Kind == schemas.WindowRolling {
			r.start = 0
		}
		r.count, r.oldest = p.places.count(key, r.from, t, without, p.key[0])
		// A place may have been taken before the first decision that was read,
		// in its millisecond too.
		r.whole = !p.cut || r.from > p.begin
		rooms = append(rooms, r)
	}
	p.counts.Windows += int64(len(rooms)) * p.one()
	return rooms
}

// unknownPeriod reports whether it is not known what a calendar window counts: in this
// period, which began at start, decisions were made with other time zones, and their
// periods began at other moments. A worker that takes over counts from its own period's
// beginning. UTC has no others.
func (p *partition) unknownPeriod(l *limit, w *schemas.Window, start schemas.Millis) bool {
	return w.Kind == schemas.WindowCalendar && l.zone != time.UTC && p.zonesUntil > 0 && (p.otherZones() || start <= p.zonesUntil)
}

// seen reports whether some window of the charge's limit counts it now.
func (p *partition) seen(c *schemas.Charge) bool {
	l := p.rules.byName[c.Limit]
	if l == nil {
		return false
	}
	for _, w := range everyWindow(l.Limit) {
		if w.Kind == schemas.WindowBucket {
			continue
		}
		from, _ := l.from(&w, p.e.Decision.T)
		if !p.unknownPeriod(l, &w, from) && c.T >= max(from, l.since[w.UnitKey()]+1) {
			return true
		}
	}
	return false
}
