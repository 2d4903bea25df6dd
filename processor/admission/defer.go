package admission

import (
	"slices"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/quiet"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// permitted tells whether the class may go to the recipient's country. A
// recipient without one, such as a mail address, is of no country.
func (m *message) permitted() error {
	if len(m.class.Countries) == 0 || m.to.Country == "" || slices.Contains(m.class.Countries, m.to.Country) {
		return nil
	}
	return &refusal{"country_not_allowed", "the class " + m.class.Name + " is not sent to " + m.to.Country}
}

// errQuiet ends a message whose class rejects in quiet hours.
var errQuiet = &refusal{"quiet_hours", "the class is not sent in quiet hours"}

// quietUntil returns when the quiet hours end that t is in; zero when t is not
// quiet. In the recipient's zone, several zones are all observed; a recipient
// whose zone is not known is taken to be in UTC.
func (m *message) quietUntil(t schemas.Millis) (schemas.Millis, error) {
	q := m.class.QuietHours
	if q == nil {
		return 0, nil
	}
	hours, err := quiet.Parse(q)
	if err != nil {
		return 0, err
	}
	zones := []*time.Location{time.UTC}
	switch q.Timezone {
	case "":
	case "recipient":
		if known := recipient.Zones(m.to.Key); len(known) > 0 {
			zones = known
		}
	default:
		zone, err := schemas.Zone(q.Timezone)
		if err != nil {
			return 0, err
		}
		zones[0] = zone
	}
	until, is := hours.Until(t.Time(), zones)
	switch {
	case !is:
		return 0, nil
	case q.Then == "reject":
		return 0, errQuiet
	}
	return schemas.MillisOf(until), nil
}

// cursor hands out the times at which the messages that one limit and scope
// defers come back, so that they do not all come at once. It is a courtesy and
// no state: whoever comes back is judged anew, and after a restart it begins
// again.
type cursor struct {
	at   schemas.Millis
	used int64 // handed out at this time
}

type cursorKey struct{ limit, scope string }

// maxCursors is when those that are past are dropped.
const maxCursors = 4096

// follow is how long after the turn of the message before it a message comes
// back early: by then that one has come back, if it still waits.
const follow = 2 * time.Second

// deferral returns the turn of a refused message, which is when it comes back, and
// when it comes back before that to look whether it can move up; false when it must
// end, because a limit that refused it rejects, or because it will never pass.
//
// A cancel cannot reach the messages behind the cancelled one: they are in the
// delay topics. So each comes back early, at the turn of the message before it. If
// that one was cancelled, the limits let it pass then or soon after; else it waits
// for its turn. With 1/60s, where b is cancelled:
//
//	   turn   comes back
//	b   60 s  cancelled
//	c  120 s  62.0 s: admitted
//	d  180 s  122.0 s: admitted. If c was late, admitted at 62.4 s: refused until
//	          122.4 s, and admitted at 123.4 s
func (p *partition) deferral(m *message, r *limit.Result) (turn, early schemas.Millis, ok bool) {
	if r.RetryAt == 0 {
		return 0, 0, false
	}
	for _, e := range r.Refused {
		if !p.defers(e.Limit) {
			return 0, 0, false
		}
	}
	turn = max(r.RetryAt, m.round.Due)
	if m.round.Refused {
		return turn, turn, true // its turn is the owner's to give
	}
	if _, gap := spacing(r.Refused[0].Window); m.turn != 0 && r.RetryAt < m.turn.Add(gap) {
		return turn, turn, true // it is its turn still
	}
	m.turn = 0
	before := turn
	for _, e := range r.Refused {
		at, free := p.handOut(e, r.RetryAt)
		if limit.Wide(e.Scope) {
			free = at // these are many, and their turns close to one another
		}
		turn, before = max(turn, at), max(before, free)
	}
	if early = before.Add(follow); early.Add(topics.Tiers[0].Wait) >= min(turn, m.env.ExpiresAt) {
		early = turn // not worth a decision
	}
	return turn, early, true
}

// isEarly reports whether a message came back before its turn. It goes on, if it
// may; whatever forbids that may be over in its turn, so it waits for that, as if
// it had not come.
func (p *partition) isEarly(m *message) bool { return p.cur.meta.T < m.turn }

// awaitTurn lets a message wait that came back early: for its turn, or for opens,
// when it may go on, if that is before it or little later. Its last status is true
// as it is, so this is a decision in the log and no status.
func (p *partition) awaitTurn(m *message, opens schemas.Millis) outcome {
	due := m.turn
	switch {
	case opens == 0 || opens > m.turn.Add(follow):
	case opens < m.turn: // the message before it may wait for the same moment, and goes first
		due = min(m.turn, opens.Add(topics.Tiers[0].Wait))
	default:
		due = opens
	}
	o := p.park(m, schemas.StatusDeferred, schemas.ReadmitDue, due, reasonTurn)
	o.event.Kind, o.event.Status, o.event.RetryAt = schemas.KindDecision, "", min(max(due, m.turn), m.env.ExpiresAt)
	o.send[0].env.Turn = m.turn
	return o
}

// defers reports whether a limit lets those wait that it refuses.
func (p *partition) defers(limit string) bool {
	i := slices.IndexFunc(p.cur.pol.Limits, func(l schemas.Limit) bool { return l.Name == limit })
	return i >= 0 && p.cur.pol.Limits[i].OnRefusal == schemas.RefusalDefer
}

// handOut returns the next time of one limit and scope, not before earliest, and
// the one before it, which other messages have; the same where none has.
func (p *partition) handOut(e schemas.Evidence, earliest schemas.Millis) (at, before schemas.Millis) {
	if len(p.cursors) > maxCursors {
		for k, c := range p.cursors {
			if c.at < p.cur.meta.T {
				delete(p.cursors, k)
			}
		}
	}
	key := cursorKey{e.Limit, e.Scope}
	c := p.cursors[key]
	if c.at < earliest {
		c = cursor{at: earliest}
	}
	batch, gap := spacing(e.Window)
	if c.used == batch {
		c.at, c.used = c.at.Add(gap), 0
	}
	c.used++
	p.cursors[key] = c
	if before = c.at.Add(-gap); before < earliest {
		before = c.at
	}
	return c.at, before
}

// spacing returns how many messages come back at once, and how long after them
// the next: a rolling window frees its places one by one, a calendar window all
// at its start.
func spacing(window string) (batch int64, gap time.Duration) {
	w, err := schemas.ParseWindow(window)
	if err != nil {
		return 1, time.Second
	}
	switch w.Kind {
	case schemas.WindowRolling:
		return 1, max(w.Length/time.Duration(w.N), time.Millisecond)
	case schemas.WindowCalendar:
		switch w.Unit {
		case "minute":
			return w.N, time.Minute
		case "hour":
			return w.N, time.Hour
		case "day":
			return w.N, 24 * time.Hour
		}
		return w.N, 31 * 24 * time.Hour
	case schemas.WindowBucket:
		return 1, max(time.Duration(w.RefillEvery/max(w.RefillTokens, 1))*time.Millisecond, time.Millisecond)
	}
	return 1, time.Second
}
