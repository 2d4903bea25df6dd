package lane

import (
	"errors"
	"slices"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// endAnswered writes an outcome and what follows from it.
func (s *stage) endAnswered(tx *stream.Tx, l *lanePart, it *item, t schemas.Millis) {
	poison := tx.On(it.rec)
	it.state = ending
	if it.foreign != nil {
		tx.Produce(request.Foreign(it.rec, s.cfg.Names.DLQ(), s.cfg.DLQPartitions, it.foreign))
		s.outcome(tx, l, it, outcomeForeign, "", false, t)
		s.tx.ended = append(s.tx.ended, ended{lane: l, item: it})
		return
	}
	if it.answer.uncalled {
		it.overdue = it.overdue || it.answer.overdue
		s.outcome(tx, l, it, outcomeExpiredPermit, "", false, t)
		s.tx.ended = append(s.tx.ended, ended{lane: l, item: it})
		return
	}
	o := it.answer.outcome
	it.read(s.rev, s.cfg.Provider)
	if o.RetryAfter > 0 && s.leavesNow(it, o.Kind) {
		o.RetryAfter = 0
	}
	v := settle(o, s.rev.Policy.Class(it.event.Class), it.attempt, it.env.Taint)
	if poison != nil && v.status == schemas.StatusRetrying { // it cannot wait for another attempt
		v = end(schemas.StatusFailed, poison.Reason, v.taint)
		o.Text = poison.Error()
	}
	e := it.event
	e.Status, e.At, e.Reason, e.Attempt = v.status, t, v.reason, it.attempt
	e.ProviderMessageID, e.ErrorCode, e.Error = o.ProviderMessageID, o.Code, o.Text
	switch v.status {
	case schemas.StatusRetrying:
		v.wait = within(v.wait, it.env.ExpiresAt, t)
		e.RetryAt = t.Add(v.wait)
		s.retry(tx, it, v, e.RetryAt, o.Code)
	case schemas.StatusFailed, schemas.StatusUnknown:
		s.close(tx, it, it.attempt, v, o.Code, o.Text)
	default: // sent
		if p := s.provider.Price; p != nil {
			e.Price, e.Currency = p.Of(e.Segments), p.Currency
		}
	}
	came := s.outcome(tx, l, it, string(o.Kind), o.Code, mayBeReceived(&o), t)
	s.status(tx, it, e, came...)
	if o.Suppress != "" {
		s.suppress(tx, it, o.Suppress)
	}
	s.tx.ended = append(s.tx.ended, ended{l, it, e})
}

// endUncalled ends an item without a call.
func (s *stage) endUncalled(tx *stream.Tx, l *lanePart, it *item, what string, t schemas.Millis) {
	var e schemas.Event
	if poison := tx.On(it.rec); poison != nil && it.bad == nil {
		what, it.bad = outcomeContent, poison
	}
	it.state = ending
	came := s.outcome(tx, l, it, what, "", false, t)
	switch what {
	case outcomeStale:
		s.readmit(tx, it, schemas.ReadmitStale)
	case outcomeReroute:
		s.readmit(tx, it, schemas.ReadmitReroute)
	default:
		status, reason, text := schemas.StatusExpired, reasonExpired, ""
		if what == outcomeContent {
			status, reason, text = schemas.StatusFailed, reasonContent, it.bad.Error()
			if poison, ok := errors.AsType[*stream.Poison](it.bad); ok {
				reason = poison.Reason
			}
		}
		v := end(status, reason, it.env.Taint)
		e = it.event
		e.Status, e.At, e.Reason, e.Attempt, e.Error = v.status, t, v.reason, it.env.Attempt, text
		s.close(tx, it, it.env.Attempt, v, it.env.LastError, text)
		s.status(tx, it, e, came...)
	}
	s.tx.ended = append(s.tx.ended, ended{l, it, e})
}

// leavesNow reports whether a retry need not wait as long as this provider asks for:
// it prefers another one that was not tried. A message that comes back here although
// it did not wait has found no other, and waits.
func (s *stage) leavesNow(it *item, kind provider.Kind) bool {
	if slices.ContainsFunc(it.env.Tried, func(t schemas.Tried) bool { return t.Provider == s.cfg.Provider }) {
		return false
	}
	m, err := s.routed(it)
	return err == nil && route.Untried(&s.rev.Policy, m, schemas.Try(it.env.Tried, s.cfg.Provider, schemas.RetryCause(kind)))
}
