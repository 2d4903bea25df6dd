package lane

import (
	"time"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// maxBack is how many messages one transaction hands back.
const maxBack = 2048

// walk names one walk over the queues: whom it looks for changes with any of
// these.
type walk struct {
	shut
	revision int64
	settled  bool // what was decided before admission must have known has arrived
}

// shut says why and since when a lane hands back what waits.
type shut struct {
	since  schemas.Millis // the breaker's opening, or the beginning of a silence
	silent time.Duration  // a silence, of this length
	all    bool           // the provider left the policy
}

// longBefore is by how much a decision must be older than the breaker's opening
// to be surely no answer to it: admission's clock and the lane's may differ.
const longBefore = 5 * time.Second

// handBack returns what waits in a lane to admission, without a call and
// without regard to the pace: with an open breaker what no request pinned to this
// provider and another provider may send; while the provider throttles everyone, of
// that what would wait longer than its slack; and when the provider left the policy
// everything. What has expired or cannot be rendered ends as it would at
// its turn.
//
// With an open breaker or a silence, a message that was decided after admission must have
// known of it stays: admission has nowhere else to send it, and it would only
// go round. One that came after the opening may have been handed back before, so
// it waits until admission must have known, and goes back once more: else it
// would go round as fast as both can write.
func (s *stage) handBack(tx *stream.Tx, l *lanePart, t schemas.Millis, why shut) {
	known := why.since.Add(knownWithin)
	settled := known.Add(knownWithin)
	if w := (walk{why, s.rev.Revision, t > settled}); w != l.walk {
		for _, q := range l.queues {
			q.kept, q.keptUntil = 0, 0
			// A new revision is no new opening.
			if w.since != l.walk.since || w.settled != l.walk.settled {
				q.backTo = q.next
			}
		}
		l.walk = w
	}
	if !why.all && t <= settled {
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
			case why.all, !it.pinned && it.env.DecidedAt <= known && (it.key.offset < q.backTo || it.env.DecidedAt.Add(longBefore) < why.since) && s.leaves(it, why):
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

// leaves reports whether a message that names no provider goes back: where the policy has
// another provider for it, and from a silence only what would wait longer than its slack.
func (s *stage) leaves(it *item, why shut) bool {
	if why.silent != 0 {
		left := time.Duration(0)
		if it.env.ExpiresAt != 0 {
			left = it.env.ExpiresAt.Sub(it.env.DecidedAt)
		}
		if why.silent <= route.Slack(s.rev.Policy.Class(it.event.Class), left) {
			return false
		}
	}
	m, err := s.routed(it)
	return err != nil || route.Elsewhere(&s.rev.Policy, m, s.cfg.Provider)
}

// routed is a message as routing sees it.
func (s *stage) routed(it *item) (route.Message, error) {
	to, err := recipient.Canonical(it.call.Channel, it.env.Key, "")
	m := route.Message{
		Tenant: it.event.Tenant, Channel: it.call.Channel, Class: it.event.Class, Template: it.event.Template,
		Key: it.env.Key, Country: to.Country, Metadata: it.call.Metadata,
	}
	if it.pinned {
		m.Pinned = s.cfg.Provider
	}
	return m, err
}
