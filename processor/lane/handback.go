package lane

import (
	"time"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// maxBack is how many messages one transaction hands back.
const maxBack = 2048

// walk names one walk over the queues: whom it looks for changes with any of
// these.
type walk struct {
	opened   schemas.Millis
	revision int64
	all      bool
	settled  bool // what was decided before admission must have known has arrived
}

// longBefore is by how much a decision must be older than the breaker's opening
// to be surely no answer to it: admission's clock and the lane's may differ.
const longBefore = 5 * time.Second

// handBack returns what waits in a lane to admission, without a call and
// without regard to the pace: with an open breaker (all is false) what no
// request pinned to this provider, and when the provider left the policy
// everything. What has expired or cannot be rendered ends as it would at its
// turn.
//
// With an open breaker, a message that was decided after admission must have
// known of it stays: admission has nowhere else to send it, and it would only
// go round. One that came after the opening may have been handed back before, so
// it waits until admission must have known, and goes back once more: else it
// would go round as fast as both can write.
func (s *stage) handBack(tx *stream.Tx, l *lanePart, t schemas.Millis, all bool) {
	known := l.breaker.opened.Add(knownWithin)
	settled := known.Add(knownWithin)
	if w := (walk{l.breaker.opened, s.rev.Revision, all, t > settled}); w != l.walk {
		for _, q := range l.queues {
			q.kept, q.keptUntil = 0, 0
			// A new revision is no new opening.
			if w.opened != l.walk.opened || w.settled != l.walk.settled {
				q.backTo = q.next
			}
		}
		l.walk = w
	}
	if !all && t <= settled {
		l.wakeAt(settled + 1)
	}
	budget := maxBack
	for _, q := range l.queues {
		if q.keptUntil != 0 && q.keptUntil <= t {
			q.kept, q.keptUntil = 0, 0
		}
		for q.kept = max(q.kept, q.scan); q.kept < len(q.items); q.kept++ {
			it := q.items[q.kept]
			if it.state != waiting {
				continue
			}
			if budget == 0 {
				l.wakeAt(t)
				return
			}
			it.read(s.rev, s.cfg.Provider)
			switch {
			case it.expired(t):
				s.endUncalled(tx, l, it, outcomeExpired, t)
			case it.bad != nil:
				s.endUncalled(tx, l, it, outcomeContent, t)
			case all, !it.pinned && it.env.DecidedAt <= known && (it.key.offset < q.backTo || it.env.DecidedAt.Add(longBefore) < l.breaker.opened):
				s.endUncalled(tx, l, it, outcomeReroute, t)
			default:
				if at := it.env.ExpiresAt; at != 0 && (q.keptUntil == 0 || at < q.keptUntil) {
					q.keptUntil = at
				}
				continue
			}
			q.seen = max(q.seen, q.kept+1)
			budget--
		}
		if q.keptUntil != 0 {
			l.wakeAt(q.keptUntil)
		}
	}
}
