package route

import (
	"errors"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// Next chooses like Choose, for a message that was tried before: tried are the
// providers and how each attempt ended, the last one last.
//
// After an outcome that the policy's next_provider_on has (the class's, else the
// route's) it prefers a healthy provider of the route that was not tried so, then
// one other than the last; when there is none it chooses as if nothing had been
// tried. After an unknown outcome, which only a class may have there, it prefers
// that very provider as long as it is healthy, whatever came after: it may have the
// message, and no other knows the idempotency key.
//
// healthy is share for these preferences, where nothing is let through as a probe.
func Next(p *schemas.Policy, m Message, pick uint64, tried []schemas.Tried, healthy, share func(provider string) Share) (string, error) {
	if len(tried) == 0 || m.Pinned != "" {
		return Choose(p, m, pick, share)
	}
	if healthy == nil {
		healthy = func(string) Share { return ShareFull }
	}
	on := nextOn(p, m)
	among := func(may func(name string) bool) (string, error) {
		return Choose(p, m, pick, func(name string) Share {
			if s := healthy(name); s > ShareProbing && may(name) {
				return s
			}
			return ShareNone
		})
	}
	var preferences []func(name string) bool
	if !slices.Contains(on, schemas.RetryUnknown) {
		for _, t := range slices.Backward(tried) {
			if t.Outcome == schemas.RetryUnknown {
				preferences = append(preferences, func(name string) bool { return name == t.Provider })
			}
		}
	}
	if len(preferences) == 0 {
		left := func(tried []schemas.Tried) func(string) bool {
			return func(name string) bool {
				return !slices.ContainsFunc(tried, func(t schemas.Tried) bool { return t.Provider == name && slices.Contains(on, t.Outcome) })
			}
		}
		preferences = append(preferences, left(tried), left(tried[len(tried)-1:]))
	}
	for _, may := range preferences {
		name, err := among(may)
		if e, failed := errors.AsType[*Error](err); !failed || !e.Temporary() {
			return name, err
		}
	}
	return Choose(p, m, pick, share)
}

// nextOn returns after which outcomes a message prefers another provider.
func nextOn(p *schemas.Policy, m Message) []schemas.RetryCause {
	if on := p.Class(m.Class).NextProviderOn; on != nil {
		return on
	}
	if r := routeOf(p, m); r != nil && r.NextProviderOn != nil {
		return r.NextProviderOn
	}
	return schemas.DefaultNextProviderOn
}
