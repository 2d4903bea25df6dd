package throttle

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Limiter holds the state of all callers of one process. Its methods may be
// called from many goroutines. Times are since any fixed point, by a clock that
// does not go back.
type Limiter struct {
	mu    sync.Mutex // of SetPolicy
	rules atomic.Pointer[rules]
	table *table
	login *Rate
}

// rules are the callers and rates of one policy.
type rules struct {
	of        *schemas.Policy
	keys      map[string]*key
	addresses [kinds]*Rate
	declared  [kinds]bool // the policy says it of tenant default, which callers without a key are
}

// key is one API key's callers' state.
type key struct {
	name  string
	lanes [kinds]*lane
}

// lane is one key's calls of one kind.
type lane struct {
	rate *Rate
	mu   sync.Mutex
	state
	// Calls decided, refused ones too, of the minute and the one before it. What
	// the policy bounds needs no sketch: each key counts its own.
	minute    int64
	now, last int64
}

const minute = int64(time.Minute / time.Microsecond)

// Config is what no policy says. Zero values are the defaults.
type Config struct {
	// Addresses bounds how many addresses are remembered, over all kinds; it is
	// rounded up to whole sets of 64. The default takes some 10 MB when all are there.
	Addresses int
	Login     schemas.Window
}

// DefaultAddresses is how many addresses are remembered.
const DefaultAddresses = 65_536

// New returns a Limiter that knows no keys yet.
func New(cfg Config) *Limiter {
	login := cfg.Login
	if login.Kind == "" {
		login = Defaults[Login]
	}
	l := &Limiter{table: newTable(cmp.Or(cfg.Addresses, DefaultAddresses)), login: NewRate(Login, login, false)}
	l.SetPolicy(&schemas.Policy{})
	return l
}

// SetPolicy takes over the keys and rates of a policy, which must not change
// afterwards. Who keeps his rate keeps his state; one whose rate changed begins
// with a full one. To set the same pointer again costs next to nothing.
func (l *Limiter) SetPolicy(p *schemas.Policy) {
	if before := l.rules.Load(); before != nil && before.of == p {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.rules.Load()
	switch {
	case before == nil:
		before = &rules{}
	case before.of == p:
		return
	}
	tenants := make(map[string]*schemas.Tenant, len(p.Tenants))
	for i := range p.Tenants {
		tenants[p.Tenants[i].Name] = &p.Tenants[i]
	}
	now := &rules{of: p, keys: make(map[string]*key, len(p.Keys))}
	for i := range p.Keys {
		spec := &p.Keys[i]
		k := &key{name: spec.Name}
		old := before.keys[spec.Name]
		for j, kind := range Kinds {
			r, _ := rateOf(kind, spec, tenants[spec.Tenant])
			if old != nil && *old.lanes[j].rate == *r {
				k.lanes[j] = old.lanes[j]
				continue
			}
			k.lanes[j] = &lane{rate: r}
		}
		now.keys[spec.Name] = k
	}
	for j, kind := range Kinds {
		r, declared := rateOf(kind, &schemas.Key{}, tenants[schemas.DefaultTenant])
		if kind == Login { // before it is known whose
			r, declared = l.login, true
		}
		if old := before.addresses[j]; old != nil && *old == *r {
			r = old
		}
		now.addresses[j], now.declared[j] = r, declared
	}
	l.rules.Store(now)
}

// rateOf is the rate of a key's calls: its own, else its tenant's, else the
// default, which is not declared.
func rateOf(kind Kind, k *schemas.Key, t *schemas.Tenant) (rate *Rate, declared bool) {
	if t == nil {
		t = &schemas.Tenant{}
	}
	w, declared := k.Rates[string(kind)]
	if !declared {
		w, declared = t.Rates[string(kind)]
	}
	if !declared {
		w = Defaults[kind]
	}
	return NewRate(kind, w, k.Smooth || t.Smooth), declared
}

// Key decides a call under an API key. ok is false for a key that the policy
// does not have.
func (l *Limiter) Key(name string, kind Kind, now time.Duration) (v Verdict, ok bool) {
	k, ok := l.rules.Load().keys[name]
	if !ok {
		return Verdict{}, false
	}
	lane, t := k.lanes[kind.index()], now.Microseconds()
	lane.mu.Lock()
	defer lane.mu.Unlock()
	lane.turn(t)
	lane.now++
	return lane.take(lane.rate, t), true
}

// Address decides a call from an address without a key: by the rates of tenant
// default. ok is false where nothing limits it: on this very machine, unless
// the policy declares that rate. A sign-in and a wrong key are limited
// everywhere. Addresses of IPv6 count by their /64, which is what one customer
// of a network has.
func (l *Limiter) Address(a netip.Addr, kind Kind, now time.Duration) (v Verdict, ok bool) {
	rules, i := l.rules.Load(), kind.index()
	if a = a.Unmap(); a.IsLoopback() && !rules.declared[i] {
		return Verdict{}, false
	}
	return l.table.take(a, i, rules.addresses[i], now.Microseconds()), true
}

// turn begins a new minute, if there is one.
func (l *lane) turn(now int64) {
	switch m := now / minute; {
	case m == l.minute+1:
		l.minute, l.last, l.now = m, l.now, 0
	case m > l.minute:
		l.minute, l.last, l.now = m, 0, 0
	}
}

// Busy is how many calls of a key were decided lately.
type Busy struct {
	Key   string
	Calls int64 // in the last minute, about: the one before counts by the part of it that is in it
}

// Busiest returns the n busiest keys that called within a minute or two, the
// busiest first.
func (l *Limiter) Busiest(n int, now time.Duration) []Busy {
	var all []Busy
	t := now.Microseconds()
	left := float64(minute-t%minute) / float64(minute)
	for _, k := range l.rules.Load().keys {
		b, before := Busy{Key: k.name}, int64(0)
		for _, lane := range k.lanes {
			lane.mu.Lock()
			lane.turn(t)
			b.Calls += lane.now
			before += lane.last
			lane.mu.Unlock()
		}
		b.Calls += int64(float64(before) * left)
		if b.Calls > 0 {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Busy) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// Addresses is how many addresses are remembered, one of each kind of call.
func (l *Limiter) Addresses() int { return l.table.len() }
