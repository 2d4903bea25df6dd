package callback

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weirhq/weir/schemas"
)

// Bounds of calls. Not in the policy: nobody has asked to set them yet.
const (
	callTimeout = 10 * time.Second
	queueFor    = 2 * time.Second // how long a callback waits here for its turn: then it goes away
	maxQueued   = 512             // of an endpoint
	firstCalls  = 2               // at once to an endpoint that nobody knows: each that is taken allows one more,
	maxCalls    = 16              // up to so many, and each failure halves it
	tenantCalls = 64              // at once of a tenant, whose requests may name many endpoints
	processCall = 1024            // at once of this process

	tripInARow = 3                // failures one after another open a breaker,
	openFor    = 10 * time.Second // then it is half-open: one call is made
	forgetIdle = 10 * time.Minute // an endpoint that nobody called and that was well
)

var (
	errFailed  = errors.New("failed")
	errNotMade = errors.New("not called")
)

// endpoint is one receiver of a tenant's callbacks: a scheme, host and port. It is not
// kept over restarts: the first failures of the next owner open its breaker again.
type endpoint struct {
	tenant, origin, host string
	two                  *gobreaker.TwoStepCircuitBreaker[struct{}]
	queue                []*job
	flying, limit        int
	hold                 schemas.Millis // not before: Retry-After
	used                 schemas.Millis
	last                 string // what was wrong last, for people
}

func (e *endpoint) state() gobreaker.State { return e.two.State() }

// pool are the endpoints of a process.
type pool struct {
	all      map[endpointKey]*endpoint
	busy     map[*endpoint]struct{} // those with a queue
	flying   int
	byTenant map[string]int
	start    func(j *job, t *target, e *endpoint, done func(error))
}

type endpointKey struct{ tenant, origin string }

func newPool(start func(*job, *target, *endpoint, func(error))) *pool {
	return &pool{all: make(map[endpointKey]*endpoint), busy: make(map[*endpoint]struct{}), byTenant: make(map[string]int), start: start}
}

func (p *pool) of(tenant string, t *target) *endpoint {
	k := endpointKey{tenant, t.origin}
	e := p.all[k]
	if e == nil {
		e = &endpoint{tenant: tenant, origin: t.origin, host: t.host, limit: firstCalls,
			two: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
				MaxRequests: 1, Timeout: openFor,
				IsExcluded:  func(err error) bool { return errors.Is(err, errNotMade) },
				ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripInARow },
			})}
		p.all[k] = e
	}
	return e
}

// room says whether a callback may wait for its turn at an endpoint, and if not whether
// that is because the endpoint does not answer.
func (e *endpoint) room(now schemas.Millis) (ok, down bool) {
	switch {
	case e.state() == gobreaker.StateOpen, e.hold > now:
		return false, true
	case len(e.queue) >= maxQueued:
		return false, false
	}
	return true, false
}

func (p *pool) enqueue(e *endpoint, j *job) {
	e.queue = append(e.queue, j)
	p.busy[e] = struct{}{}
}

// run starts what may be called now. What an endpoint that does not answer cannot take
// is handed to shed. find says whom to call for a callback now; nil: nobody.
func (p *pool) run(now schemas.Millis, find func(*job) *target, shed func(*job, *endpoint)) {
	for e := range p.busy {
		p.runOne(e, now, find, shed)
		if len(e.queue) == 0 {
			delete(p.busy, e)
		}
	}
}

func (p *pool) runOne(e *endpoint, now schemas.Millis, find func(*job) *target, shed func(*job, *endpoint)) {
	for len(e.queue) > 0 {
		j := e.queue[0]
		if j.entry.job != j || j.entry.place != waiting { // it went away
			e.queue = e.queue[1:]
			continue
		}
		if e.state() == gobreaker.StateOpen || e.hold > now {
			e.queue = e.queue[1:]
			shed(j, e)
			continue
		}
		if e.flying >= e.limit || p.byTenant[e.tenant] >= tenantCalls || p.flying >= processCall {
			return
		}
		done, err := e.two.Allow()
		if err != nil { // half-open, and its one call is under way
			return
		}
		e.queue = e.queue[1:]
		t := find(j)
		if t == nil { // it was ended, or is another endpoint's by now
			done(errNotMade)
			continue
		}
		j.entry.place = calling
		e.flying++
		e.used = now
		p.flying++
		p.byTenant[e.tenant]++
		p.start(j, t, e, done)
	}
	e.queue = nil
}

// landed tells of a call's end.
func (p *pool) landed(e *endpoint, v verdict, done func(error)) {
	e.flying--
	p.flying--
	if p.byTenant[e.tenant]--; p.byTenant[e.tenant] == 0 {
		delete(p.byTenant, e.tenant)
	}
	switch v {
	case taken, gone: // it answers
		e.limit = min(e.limit+1, maxCalls)
		done(nil)
	case failed, refused:
		e.limit = max(e.limit/2, 1)
		done(errFailed)
	}
}

// sweep forgets endpoints that are as if they had never been called.
func (p *pool) sweep(now schemas.Millis) {
	for k, e := range p.all {
		if e.flying == 0 && len(e.queue) == 0 && e.hold <= now && now.Sub(e.used) > forgetIdle && e.state() != gobreaker.StateOpen {
			delete(p.all, k)
		}
	}
}
