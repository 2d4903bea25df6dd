package lane

import (
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// advance gives the permits that pace and concurrency allow, and ends at the
// heads of the queues what needs no call.
func (s *stage) advance(tx *stream.Tx, l *lanePart, t schemas.Millis, now time.Time) {
	due := l.due // when it could have gone on, had it been asked then
	l.due = 0
	if l.breaker.look() == schemas.BreakerOpen {
		s.handBack(tx, l, t, false)
		l.wakeAt(l.breaker.probeAt)
		return
	}
	windows := share(s.provider.Pace, l.lanes, l.num)
	most := int(part(int64(s.provider.Concurrency), l.lanes, l.num))
	var lead time.Duration
	if len(windows) > 0 {
		lead = s.took.ahead()
	}
	spare, from := 0, t
	if s.provider.Smooth {
		l.even.follow(windows, l.pace.newest())
		l.evenWas = l.even.clone()
	} else {
		l.even, l.evenWas = even{}, even{}
		spare, from = unplanned(windows, most), overdue(due, t)
	}
	// A window that was shortened may be lengthened again.
	s.retain = max(s.retain, longest(windows))
	l.pace.trim(s.retain, t)
	l.back.trim(s.retain, t)
	budget, given := maxPerTx, 0
	for {
		var ready [queues]bool
		for i, q := range l.queues {
			ready[i] = s.callable(tx, l, i, q, windows, t, &budget)
		}
		if budget <= 0 {
			l.due = due
			l.wakeAt(t)
			return
		}
		i := choose(l.slot, ready)
		if i < 0 {
			l.blocked = 0
			return
		}
		if s.calls.flying[l.num]+given >= most {
			return // an outcome wakes it
		}
		head := l.queues[i].head()
		paced := l.even.at(l.pace.next(windows, max(from, min(head.env.DecidedAt, t))))
		at := max(paced, l.quiet, l.hold)
		free := most - s.calls.flying[l.num] - given
		if later := l.pace.ask(windows, at, t, lead, spare, free); later != 0 {
			if paced > t && l.blocked == 0 {
				l.blocked = t
			}
			l.due = at
			l.wakeAt(later)
			return
		}
		done := l.breaker.allow()
		if done == nil {
			return // the probes are under way; their outcomes wake it
		}
		s.permit(tx, l, head, at, now, done)
		budget--
		given++
	}
}

// callable reports whether the head of a queue may be called, after ending
// before it what need not be: what expired, what cannot be rendered, and, no
// faster than the pace, what went stale.
func (s *stage) callable(tx *stream.Tx, l *lanePart, i int, q *queue, windows []schemas.Window, t schemas.Millis, budget *int) bool {
	for *budget > 0 {
		it := q.head()
		if it == nil {
			return false
		}
		it.read(s.rev, s.cfg.Provider)
		switch {
		case it.expired(t):
			s.endUncalled(tx, l, it, outcomeExpired, t)
		case it.bad != nil:
			s.endUncalled(tx, l, it, outcomeContent, t)
		case it.env.DecidedAt != 0 && t.Sub(it.env.DecidedAt) > time.Duration(s.rev.Policy.Class(it.event.Class).StaleAfter):
			// As long as enough are on their way back, or have come back, more
			// would only grow stale again where they wait.
			if i != again {
				expected, concurrency := l.returns.expected(t), int(part(int64(s.provider.Concurrency), l.lanes, l.num))
				if enoughBack(l.queues[again].waits(), expected, concurrency, l.able.look(t), time.Duration(s.rev.Policy.Class(it.event.Class).StaleAfter), l.returns.took) {
					l.wakeAt(t.Add(staleAgain))
					return false
				}
			}
			if at := l.back.next(windows, t); at > t {
				l.wakeAt(at)
				return false
			}
			l.back.add(t)
			if s.tx.back == nil {
				s.tx.back = make(map[*lanePart]int)
			}
			s.tx.back[l]++
			l.returns.add(it.env.ID, t)
			s.endUncalled(tx, l, it, outcomeStale, t)
		default:
			return true
		}
		*budget--
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// permit journals that an item may be called at t. The call starts then, once
// the transaction has committed.
func (s *stage) permit(tx *stream.Tx, l *lanePart, it *item, t schemas.Millis, now time.Time, done func(error)) {
	if l.blocked > 0 {
		s.metrics.paceWait.WithLabelValues(s.cfg.Provider).Observe(t.Sub(l.blocked).Seconds())
		l.blocked = 0
	} else if len(s.provider.Pace) > 0 {
		s.metrics.paceWait.WithLabelValues(s.cfg.Provider).Observe(0)
	}
	it.state, it.key.permit, it.attempt = permitting, t, it.env.Attempt+1
	it.call.Attempt = it.attempt
	l.pace.add(t)
	l.even.add(t)
	l.able.add(l.last, 1)
	l.slot++
	e := it.event
	e.Status, e.At, e.Attempt = schemas.StatusSending, t, it.attempt
	s.status(tx, it, e)
	s.journal(tx, l, it, entry{Kind: kindPermit, ID: it.env.ID, Attempt: it.attempt, T: t})
	s.tx.permits = append(s.tx.permits, permitted{lane: l, item: it, from: t.Time(), expires: earlier(now, t.Time()).Add(s.cfg.PermitLife), done: done})
	s.calls.open = append(s.calls.open, it.key)
}
