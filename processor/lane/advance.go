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
		s.handBack(tx, l, t, shut{since: l.breaker.opened})
		l.recall.rest()
		l.wakeAt(l.breaker.probeAt)
		return
	}
	if l.throttle.until > t {
		s.handBack(tx, l, t, shut{since: l.throttle.since, silent: l.throttle.until.Sub(l.throttle.since)})
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
	budget, given := maxPerTx, 0
	end := func(it *item) bool { return s.endUncallable(tx, l, it, t) }
	read := func(it *item) { it.read(s.rev, s.cfg.Provider) }
	v := l.situation(t, read)
	defer func() { l.recall.look(&v, t) }()
	for {
		heads := l.heads(&v, t, read, end, &budget)
		if budget <= 0 {
			l.due = due
			l.wakeAt(t)
			return
		}
		moment := max(l.even.at(l.pace.next(windows, t)), l.quiet, l.throttle.until)
		v.free = most - s.calls.flying[l.num] - given
		if l.probe != (callKey{}) {
			v.free = 0
		}
		v.able = v.free > 0 && moment <= t.Add(lead)
		v.soon = moment <= t.Add(max(l.recall.took, lookEvery))
		v.slot = l.slot
		if v.stale != (lines{}) {
			l.wakeAt(t.Add(staleAgain))
			v.pace = l.allowed(&heads, windows, t)
		}
		if p, half, ok := l.recall.next(&v); ok {
			it := heads.stale[p][half]
			it.env.Return = s.cfg.Names.Dispatch(s.cfg.Provider, queueNames[l.carrier(it.prio)])
			l.recall.sent(&v, it, t)
			s.endUncalled(tx, l, it, outcomeStale, t)
			it.env.Return = ""
			budget--
			continue
		}
		if until, ok := l.recall.hold(&v, t); ok {
			l.wakeAt(until)
			return
		}
		p, half, ok := choose(l.slot, v.ready)
		if !ok {
			l.blocked = 0
			return
		}
		if v.free <= 0 {
			return // an outcome wakes it
		}
		head := heads.fresh[p][half]
		paced := l.even.at(l.pace.next(windows, max(from, head.notBefore(t))))
		at := max(paced, l.quiet, l.throttle.until)
		if later := l.pace.ask(windows, at, t, lead, spare, v.free); later != 0 {
			if paced > t && l.blocked == 0 {
				l.blocked = t
			}
			l.due = at
			l.wakeAt(later)
			return
		}
		if head.staleAt != 0 && head.staleAt < at && !head.overdueAgain() {
			head.staleAt = t - 1 // its time is over before its moment
			if half == returned {
				v.fresh[head.prio]--
				v.old[head.prio]++
			}
			budget--
			continue
		}
		done := l.breaker.allow()
		if done == nil {
			return // the probes are under way; their outcomes wake it
		}
		if half == returned {
			v.fresh[head.prio]--
		}
		l.recall.permitted(head, t)
		s.permit(tx, l, head, at, now, done)
		budget--
		given++
	}
}

// endUncallable reads a message, and ends it when it has expired or cannot be
// rendered.
func (s *stage) endUncallable(tx *stream.Tx, l *lanePart, it *item, t schemas.Millis) bool {
	it.read(s.rev, s.cfg.Provider)
	switch {
	case it.expired(t):
		s.endUncalled(tx, l, it, outcomeExpired, t)
	case it.bad != nil:
		s.endUncalled(tx, l, it, outcomeContent, t)
	default:
		return false
	}
	return true
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
	tx.On(it.rec)
	it.state, it.key.permit, it.attempt = permitting, t, it.env.Attempt+1
	it.call.Attempt, it.call.References = it.attempt, s.cfg.References
	l.pace.add(t)
	l.even.add(t)
	l.gave = l.last
	l.slot++
	e := it.event
	e.Status, e.At, e.Attempt = schemas.StatusSending, t, it.attempt
	late := it.staleAt != 0 && it.staleAt < t
	if late {
		e.Reason = reasonLate
	}
	at := s.journal(tx, l, it, entry{Kind: kindPermit, ID: it.env.ID, Attempt: it.attempt, T: t, CallBy: it.callBy, Late: late})
	s.status(tx, it, e, at)
	if l.throttle.probing {
		l.probe = it.key
	}
	p := permitted{lane: l, item: it, from: t.Time(), expires: earlier(now, t.Time()).Add(s.cfg.PermitLife), late: late, done: done}
	if after := (it.staleAt + 1).Time(); it.staleAt != 0 && !late && after.Before(p.expires) {
		p.expires, p.callBy = after, true
	}
	s.tx.permits = append(s.tx.permits, p)
	s.calls.open = append(s.calls.open, it.key)
}
