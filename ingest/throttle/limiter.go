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
	login schemas.Window
}

// rules are the callers and rates of one policy.
type rules struct {
	of        *schemas.Policy
	instances int64
	keys      map[string]*key
	totals    map[string]*key // by tenant; a lane is nil where all its keys together have no rate
	addresses [kinds]*Rate
	declared  [kinds]bool // the policy says it of tenant default, which callers without a key are
}

// key is one API key's callers' state.
type key struct {
	name  string
	lanes [kinds]*lane
	total *key // of its tenant
}

// lane is one key's calls of one kind, or those of all keys of a tenant. Where both are
// locked, the tenant's is locked first.
type lane struct {
	rate *Rate // what this process lets through
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
	l := &Limiter{table: newTable(cmp.Or(cfg.Addresses, DefaultAddresses)), login: login}
	l.SetPolicy(&schemas.Policy{}, 1, 0)
	return l
}

// SetPolicy takes over the keys and rates of a policy, which must not change
// afterwards, and the number of processes that share them. A caller keeps its state; where
// its rate has changed, or the number, what it had used stays used (state.carry). To set
// the same again costs next to nothing.
func (l *Limiter) SetPolicy(p *schemas.Policy, processes int, now time.Duration) {
	instances, t := max(int64(processes), 1), now.Microseconds()
	same := func(r *rules) bool { return r != nil && r.of == p && r.instances == instances }
	if same(l.rules.Load()) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.rules.Load()
	switch {
	case same(before):
		return
	case before == nil:
		before = &rules{}
	}
	tenants := make(map[string]*schemas.Tenant, len(p.Tenants))
	for i := range p.Tenants {
		tenants[p.Tenants[i].Name] = &p.Tenants[i]
	}
	next := &rules{of: p, instances: instances, keys: make(map[string]*key, len(p.Keys)), totals: make(map[string]*key)}
	for name, of := range tenants {
		if len(of.TotalRates) == 0 {
			continue
		}
		all := &key{name: name}
		for j, kind := range Kinds {
			if w, ok := of.TotalRates[string(kind)]; ok {
				all.lanes[j] = before.totals[name].lane(j).goOn(kind, w, false, instances, t)
			}
		}
		next.totals[name] = all
	}
	for i := range p.Keys {
		spec := &p.Keys[i]
		k := &key{name: spec.Name, total: next.totals[spec.Tenant]}
		for j, kind := range Kinds {
			w, smooth, _ := rateOf(kind, spec, tenants[spec.Tenant])
			k.lanes[j] = before.keys[spec.Name].lane(j).goOn(kind, w, smooth, instances, t)
		}
		next.keys[spec.Name] = k
	}
	for j, kind := range Kinds {
		w, smooth, declared := rateOf(kind, &schemas.Key{}, tenants[schemas.DefaultTenant])
		if kind == Login { // before it is known whose
			w, smooth, declared = l.login, false, true
		}
		r := NewRate(kind, share(w, instances), smooth)
		if old := before.addresses[j]; old != nil && *old == *r {
			r = old
		}
		next.addresses[j], next.declared[j] = r, declared
	}
	l.rules.Store(next)
}

// rateOf is the rate of a key's calls: its own, else its tenant's, else the
// default, which is not declared.
func rateOf(kind Kind, k *schemas.Key, t *schemas.Tenant) (w schemas.Window, smooth, declared bool) {
	if t == nil {
		t = &schemas.Tenant{}
	}
	w, declared = k.Rates[string(kind)]
	if !declared {
		w, declared = t.Rates[string(kind)]
	}
	if !declared {
		w = Defaults[kind]
	}
	return w, k.Smooth || t.Smooth, declared
}

// lane returns a key's lane; nil for a key or a lane that there was not.
func (k *key) lane(i int) *lane {
	if k == nil {
		return nil
	}
	return k.lanes[i]
}

// goOn is the lane that follows l, which may be nil, under a rate that processes share.
func (l *lane) goOn(kind Kind, w schemas.Window, smooth bool, instances, now int64) *lane {
	next := &lane{rate: NewRate(kind, share(w, instances), smooth)}
	if l == nil {
		return next
	}
	if *l.rate == *next.rate {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next.state = l.carry(l.rate, next.rate, now)
	next.minute, next.now, next.last = l.minute, l.now, l.last
	return next
}

// Key decides a call under an API key: by its own rate, and by what all keys of its tenant
// may do together. ok is false for a key that the policy
// does not have.
func (l *Limiter) Key(name string, kind Kind, now time.Duration) (v Verdict, ok bool) {
	k, ok := l.rules.Load().keys[name]
	if !ok {
		return Verdict{}, false
	}
	own, all, t := k.lanes[kind.index()], k.total.lane(kind.index()), now.Microseconds()
	if all != nil {
		all.mu.Lock()
		defer all.mu.Unlock()
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	own.turn(t)
	own.now++
	before := own.state
	v = own.take(own.rate, t)
	if all == nil || !v.Allowed {
		return v, true
	}
	together := all.take(all.rate, t)
	if !together.Allowed {
		own.state = before // the call is refused, and costs neither
		together.Together = true
		return together, true
	}
	return v.and(together), true
}

// and is the verdict on a call that its key's rate and its tenant's both allow: the header
// says what bounds the next call.
func (v Verdict) and(together Verdict) Verdict {
	out := v
	if together.Remaining < v.Remaining {
		out, out.Wait, out.Together = together, v.Wait, true
	}
	out.at, out.all, out.both = v.at, together.at, true
	return out
}

// GiveBack undoes a call that Key allowed with the verdict v, and returns what is left. ok
// is false for a key that is gone.
func (l *Limiter) GiveBack(name string, v Verdict, now time.Duration) (left Verdict, ok bool) {
	k, ok := l.rules.Load().keys[name]
	if !ok {
		return Verdict{}, false
	}
	i, t := v.Rate.Kind().index(), now.Microseconds()
	own, all := k.lanes[i], k.total.lane(i)
	if all != nil {
		all.mu.Lock()
		defer all.mu.Unlock()
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	left = own.giveBack(own.rate, v.at, t)
	if all == nil || !v.both { // the total came into force after the call
		return left, true
	}
	return left.and(all.giveBack(all.rate, v.all, t)), true
}

// GiveBackAddress is GiveBack for Address.
func (l *Limiter) GiveBackAddress(a netip.Addr, v Verdict, now time.Duration) (left Verdict, ok bool) {
	return l.table.giveBack(a.Unmap(), v.Rate.Kind().index(), v.at, now.Microseconds())
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
