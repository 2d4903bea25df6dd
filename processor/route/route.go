package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Reason is why no provider was chosen: stable text for status events.
type Reason string

const (
	ReasonNoRoute          Reason = "no_route"               // no route matches, or no provider serves the channel
	ReasonUnknownProvider  Reason = "unknown_provider"       // the pinned provider is not in the policy
	ReasonWrongChannel     Reason = "provider_wrong_channel" // the pinned provider does not serve the channel
	ReasonNoUsableProvider Reason = "no_usable_provider"     // there are providers, and none is usable now: wait
)

// Error says that no provider was chosen.
type Error struct {
	Reason Reason
	Detail string // for people; names no recipient
}

func (e *Error) Error() string { return e.Detail }

// Code returns the reason as it stands in a status event.
func (e *Error) Code() string { return string(e.Reason) }

// Temporary reports whether the same message may find a provider later, with
// the same policy.
func (e *Error) Temporary() bool { return e.Reason == ReasonNoUsableProvider }

// Message is what routes look at.
type Message struct {
	Tenant   string
	Channel  schemas.Channel
	Class    string
	Template string
	Key      string // the canonical recipient
	Country  string // ISO 3166-1 alpha-2, empty when not known
	Metadata map[string]string
	Pinned   string // the provider that the request names, or empty
}

// Choose returns the provider that a message goes to.
//
// A pinned provider is taken if it exists and serves the channel, whatever its
// health: the message waits for it in its queue. Otherwise the first route that
// matches, and names a provider of the channel, decides: one of its targets by
// weight and share; when none of them is usable, the first usable of its failover;
// and when all that is left is on probation, one of that. What no route takes is
// spread over every provider of the channel with equal weight, unless the policy
// says routes_only. Providers that do not serve the channel are never chosen.
//
// pick must be a hash of the message's id with all 64 bits used, so that a
// message stays with its provider as long as that is usable, and the loss of one
// provider, or of a part of its share, moves only messages of that provider.
// share says how much of its weight a provider gets now and is asked once for
// each; nil is all of it for everybody. Where several are not well it is their
// shares beside one another that count: two that are degraded alike share as
// two that are well.
//
// The error is always an [*Error].
func Choose(p *schemas.Policy, m Message, pick uint64, share func(provider string) Share) (string, error) {
	if m.Pinned != "" {
		pr, ok := find(p, m.Pinned)
		switch {
		case !ok:
			return "", fail(ReasonUnknownProvider, "provider %q is not in the policy", m.Pinned)
		case !slices.Contains(pr.Channels, m.Channel):
			return "", fail(ReasonWrongChannel, "provider %q does not serve %s", m.Pinned, m.Channel)
		}
		return m.Pinned, nil
	}
	if share == nil {
		share = func(string) Share { return ShareFull }
	}

	targets, failover, route := candidates(p, m)
	if len(targets) == 0 && len(failover) == 0 {
		if route == "" {
			return "", fail(ReasonNoRoute, "no route matches, or no provider serves %s", m.Channel)
		}
		return "", fail(ReasonNoRoute, "route %q names no provider that serves %s", route, m.Channel)
	}
	shares := make([]Share, len(targets))
	best := ShareNone
	for i, t := range targets {
		shares[i] = share(t.Provider)
		best = max(best, shares[i])
	}
	if best > ShareProbing {
		name, _ := weigh(targets, shares, best, pick)
		return name, nil
	}
	if best == ShareProbing { // a few go, the others look further
		if name, ok := weigh(slices.Clone(targets), slices.Clone(shares), ShareFull, pick); ok {
			return name, nil
		}
	}
	probing := ""
	for _, name := range failover {
		switch s := share(name); {
		case s > ShareProbing:
			return name, nil
		case s == ShareProbing && probing == "":
			probing = name
		}
	}
	switch {
	case best == ShareProbing:
		name, _ := weigh(targets, shares, 0, pick)
		return name, nil
	case probing != "":
		return probing, nil
	}
	return "", fail(ReasonNoUsableProvider, "no provider for %s is usable now", m.Channel)
}

// candidates returns the providers that may serve m: those with a share, and
// those for when none of the former is usable.
func candidates(p *schemas.Policy, m Message) (targets []schemas.Target, failover []string, route string) {
	if r := routeOf(p, m); r != nil {
		for _, t := range r.To {
			if t.Weight > 0 && serves(p, t.Provider, m.Channel) {
				targets = append(targets, t)
			}
		}
		for _, name := range r.Failover {
			if serves(p, name, m.Channel) {
				failover = append(failover, name)
			}
		}
		return targets, failover, r.Name
	}
	if routesOnly(p) {
		return nil, nil, ""
	}
	for i := range p.Providers {
		if slices.Contains(p.Providers[i].Channels, m.Channel) {
			targets = append(targets, schemas.Target{Provider: p.Providers[i].Name, Weight: 1})
		}
	}
	return targets, nil, ""
}

// routeOf returns the route that takes m: the first that matches it and names a
// provider of its channel, with a share or without one; nil when none does.
func routeOf(p *schemas.Policy, m Message) *schemas.Route {
	for i := range p.Routes {
		if r := &p.Routes[i]; matches(&r.Match, m) && carries(p, r, m.Channel) {
			return r
		}
	}
	return nil
}

// carries reports whether a route names a provider of a channel.
func carries(p *schemas.Policy, r *schemas.Route, c schemas.Channel) bool {
	return slices.ContainsFunc(r.To, func(t schemas.Target) bool { return serves(p, t.Provider, c) }) ||
		slices.ContainsFunc(r.Failover, func(name string) bool { return serves(p, name, c) })
}

func routesOnly(p *schemas.Policy) bool { return p.RoutesOnly != nil && *p.RoutesOnly }

// Unroutable returns the channels of which next can send no message, though a
// provider of it carries them or have could.
func Unroutable(have, next *schemas.Policy) []schemas.Channel {
	var out []schemas.Channel
	for _, c := range schemas.Channels {
		carried := slices.ContainsFunc(next.Providers, func(v schemas.Provider) bool { return slices.Contains(v.Channels, c) })
		if (carried || routable(have, c)) && !routable(next, c) {
			out = append(out, c)
		}
	}
	return out
}

// routable reports whether some message of a channel finds a provider.
func routable(p *schemas.Policy, c schemas.Channel) bool {
	for i := range p.Routes {
		r := &p.Routes[i]
		if !in(r.Match.Channel, string(c)) || !carries(p, r, c) {
			continue
		}
		weighs := func(t schemas.Target) bool { return t.Weight > 0 && serves(p, t.Provider, c) }
		if slices.ContainsFunc(r.To, weighs) || slices.ContainsFunc(r.Failover, func(name string) bool { return serves(p, name, c) }) {
			return true
		}
		rest := r.Match
		if rest.Channel = nil; matchesAll(&rest) {
			return false // it takes the whole channel, and gives it to nobody
		}
	}
	return !routesOnly(p) && slices.ContainsFunc(p.Providers, func(v schemas.Provider) bool { return slices.Contains(v.Channels, c) })
}

func matchesAll(m *schemas.Match) bool {
	return len(m.Tenant)+len(m.Channel)+len(m.Class)+len(m.Template)+len(m.Provider)+len(m.Country)+len(m.Prefix)+len(m.Metadata) == 0
}

// weigh picks among targets by weight, then by share of best. A pick that falls
// on a target without a share for it is drawn again among the others, with a
// pick derived from the first, so that only messages of that one move. A smaller
// share keeps a part of what a larger one had. Who is on probation gets no more
// than its share, unless best says that there is nobody else (0). It writes to
// targets and shares.
func weigh(targets []schemas.Target, shares []Share, best Share, pick uint64) (string, bool) {
	for len(targets) > 0 {
		var total uint64
		for _, t := range targets {
			total += uint64(t.Weight)
		}
		at, i := pick%total, 0
		for at >= uint64(targets[i].Weight) {
			at -= uint64(targets[i].Weight)
			i++
		}
		pick = mix(pick)
		// Whole percents: the remainder of the scaling is nobody's business.
		s := shares[i]
		switch {
		case s > ShareProbing:
			s = s * 100 / max(best, 1)
		case s == ShareProbing && best == 0:
			s = ShareFull
		}
		if pick>>32%100 < uint64(s) {
			return targets[i].Provider, true
		}
		targets = slices.Delete(targets, i, i+1)
		shares = slices.Delete(shares, i, i+1)
	}
	return "", false
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection
// that makes the next draw independent of the remainder of the first.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// matches reports whether a route's match selects m. A field that is absent
// matches everything. A match by provider selects only messages pinned to one
// of those: before routing there is no other provider.
func matches(match *schemas.Match, m Message) bool {
	if !in(match.Tenant, m.Tenant) || !in(match.Channel, string(m.Channel)) || !in(match.Class, m.Class) ||
		!in(match.Template, m.Template) || !in(match.Provider, m.Pinned) || !in(match.Country, m.Country) {
		return false
	}
	if len(match.Prefix) > 0 {
		number, phone := strings.CutPrefix(m.Key, "+")
		if !phone || !slices.ContainsFunc(match.Prefix, func(p string) bool { return strings.HasPrefix(number, p) }) {
			return false
		}
	}
	for field, values := range match.Metadata {
		if v, ok := m.Metadata[field]; len(values) > 0 && (!ok || !slices.Contains(values, v)) {
			return false
		}
	}
	return true
}

func in(values []string, v string) bool { return len(values) == 0 || slices.Contains(values, v) }

// find returns a provider without a copy of it.
func find(p *schemas.Policy, name string) (*schemas.Provider, bool) {
	for i := range p.Providers {
		if p.Providers[i].Name == name {
			return &p.Providers[i], true
		}
	}
	return nil, false
}

func serves(p *schemas.Policy, name string, c schemas.Channel) bool {
	pr, ok := find(p, name)
	return ok && slices.Contains(pr.Channels, c)
}

func fail(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}
