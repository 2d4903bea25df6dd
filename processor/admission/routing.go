package admission

import (
	"errors"
	"time"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// routing is what a worker's choices know beside the policy. It is advice, and
// no part of any partition's state: who replays a decision does not choose again.
type routing struct {
	health func() route.Health // a snapshot; nil: all providers are well
	probes route.Probes
}

func newRouting(health func() route.Health) *routing {
	return &routing{health: health, probes: make(route.Probes)}
}

// routeOnce is route, but for a message that comes round: it was charged for the
// provider that was chosen when it set out.
func (p *partition) routeOnce(m *message) (back schemas.Millis, err error) {
	if m.around && m.round.Revision == p.cur.meta.Marker.Revision {
		m.event.Provider = m.env.Provider
		return 0, nil
	}
	return p.route(m)
}

// route chooses the provider. When none is usable now, the error is temporary
// and back says when to ask again.
func (p *partition) route(m *message) (back schemas.Millis, err error) {
	var (
		t, number = p.cur.meta.T, pick(m.env.ID)
		health    route.Health
		probing   string // let through besides its share
		probeAt   schemas.Millis
		healthy   func(string) route.Share // nil: everyone is well
		share     func(string) route.Share // and lets probes through
	)
	if r := p.env.routing; r != nil && r.health != nil {
		health = r.health()
	}
	if len(health) > 0 {
		healthy = func(name string) route.Share {
			standing, known := health[name]
			if !known {
				return route.ShareFull
			}
			s := standing.Share(p.laneOf(m, name), t)
			if s == route.ShareNone {
				if at := standing.ProbeAt(t); probeAt == 0 || at < probeAt {
					probeAt = at
				}
			}
			return s
		}
		share = func(name string) route.Share {
			s := healthy(name)
			if s == route.ShareProbing && p.env.routing.probes.May(name, t) {
				probing, s = name, route.ShareFull
			}
			return s
		}
	}
	asked := route.Message{
		Tenant: m.req.Tenant, Channel: m.req.Channel, Class: m.req.Class, Template: m.req.Template,
		Key: m.to.Key, Country: m.to.Country, Metadata: m.req.Metadata, Pinned: m.req.Provider,
	}
	provider, err := route.Next(p.cur.pol, asked, number, m.env.Tried, healthy, share)
	if isTemporary(err) {
		// Who is silent for no longer than the message may wait is better than nobody.
		slack := route.Slack(m.class, m.env.ExpiresAt.Sub(t))
		provider, err = route.Choose(p.cur.pol, asked, number, func(name string) route.Share {
			standing := health[name]
			if d := standing.SilentFor(p.laneOf(m, name), t); d > 0 && d <= slack {
				return route.ShareFull
			}
			return route.ShareNone
		})
	}
	if err != nil {
		return askAgain(t, probeAt, m.env.AcceptedAt, number), err
	}
	if probing != "" && probing == provider {
		p.env.routing.probes.Went(provider, t)
	}
	m.env.Provider, m.event.Provider = provider, provider
	return 0, nil
}

// laneOf returns the lane of a provider that would have a message.
func (p *partition) laneOf(m *message, provider string) int32 {
	v, _ := p.cur.pol.Provider(provider)
	return schemas.PartitionOf(m.to.Key, v.Lanes)
}

// The bounds of how far apart messages come back that found no provider.
const (
	spreadLeast = time.Second
	spreadMost  = 30 * time.Second
)

// askAgain returns when a message that found no usable provider at t comes
// back: not before a second has passed and the first provider may be probed,
// and then spread by its number over a quarter of what it has waited already.
// So an outage costs what waits for it a few decisions each, however long it is
// and however many they are.
func askAgain(t, probeAt, accepted schemas.Millis, number uint64) schemas.Millis {
	spread := min(max(t.Sub(accepted)/4, spreadLeast), spreadMost)
	return max(t.Add(time.Second), probeAt).Add(time.Duration(number>>32%uint64(spread.Milliseconds())) * time.Millisecond)
}

// isTemporary reports whether a message that was not routed may be later.
func isTemporary(err error) bool {
	e, ok := errors.AsType[*route.Error](err)
	return ok && e.Temporary()
}
