package lane

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// callKey names a permit: a dispatch record, and the time of the permit on it.
type callKey struct {
	topic     string
	partition int32
	offset    int64
	permit    schemas.Millis
}

// flight is a call that this process made and whose outcome is not known to be
// committed.
type flight struct {
	answered bool
	answer   answer
	at       time.Time   // when it was answered
	done     func(error) // tells the breaker
}

// landed is a call's outcome on its way to the owner of the state.
type landed struct {
	key    callKey
	answer answer
	took   time.Duration
}

// calls are the calls of one Run. They outlive a stage: when a client is
// rebuilt, outcomes in hand and calls under way are found again by their
// permit. All fields belong to the stream's goroutine, but for those that say
// otherwise.
type calls struct {
	provider provider.Provider
	waker    *stream.Waker
	ctx      context.Context // ends when calls must
	wg       sync.WaitGroup
	landed   chan landed // never blocks: as large as concurrency can be

	flights map[callKey]*flight
	flying  map[int32]int // by lane
	// open are the permits of the open transaction. If a stage is thrown away
	// with them, the transaction's end is unknown, but that they were never
	// called is certain.
	open     []callKey
	uncalled map[callKey]bool
	// hushed is until when no call of a lane starts, in Millis: what was permitted
	// for a moment before, and then something was heard that forbids it, is not called.
	hushed map[int32]*atomic.Int64

	stopping atomic.Bool  // any goroutine
	cut      atomic.Int64 // any goroutine: calls that ended because ctx did
}

// keepAnswered is how long an outcome is kept whose lane went elsewhere.
const keepAnswered = 2 * time.Minute

func newCalls(ctx context.Context, p provider.Provider, w *stream.Waker) *calls {
	return &calls{
		provider: p, waker: w, ctx: ctx,
		landed:  make(chan landed, schemas.MaxConcurrency),
		flights: make(map[callKey]*flight), flying: make(map[int32]int), uncalled: make(map[callKey]bool),
		hushed: make(map[int32]*atomic.Int64),
	}
}

// start makes the call at its time, unless its permit has expired: a process
// that was paused must not call on a lane that may be another's by now. Nor does it
// where the lane was hushed meanwhile.
func (c *calls) start(p permitted, timeout time.Duration, now func() time.Time) {
	key, call := p.item.key, p.item.call
	c.flights[key] = &flight{done: p.done}
	c.flying[key.partition]++
	hushed := c.hushing(key.partition)
	c.wg.Go(func() {
		if wait := p.from.Sub(now()); wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.ctx.Done():
			}
		}
		began := now()
		forbidden := c.ctx.Err() != nil || began.UnixMilli() < hushed.Load()
		if forbidden || !began.Before(p.expires) {
			c.landed <- landed{key: key, answer: answer{uncalled: true, overdue: p.callBy && !forbidden}}
			c.waker.Wake()
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, timeout)
		o := send(ctx, c.provider, &call)
		cancel()
		if c.ctx.Err() != nil {
			c.cut.Add(1)
		}
		c.landed <- landed{key: key, answer: answer{outcome: o}, took: now().Sub(began)}
		c.waker.Wake()
	})
}

// codePanic is of a call that ended in a panic of its adapter.
const codePanic = "internal_error"

// send makes a call. What a panic of the adapter leaves behind is not known: the call may
// have reached the provider.
func send(ctx context.Context, p provider.Provider, call *provider.Call) (o provider.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: codePanic, Text: fmt.Sprintf("the adapter panicked: %v", v)}
		}
	}()
	return p.Send(ctx, call)
}

// hush lets no call of a lane start before until.
func (c *calls) hush(lane int32, until schemas.Millis) {
	h := c.hushing(lane)
	h.Store(max(h.Load(), int64(until)))
}

func (c *calls) hushing(lane int32) *atomic.Int64 {
	if c.hushed[lane] == nil {
		c.hushed[lane] = &atomic.Int64{}
	}
	return c.hushed[lane]
}

// collect takes the outcomes that have arrived and hands each to fn.
func (c *calls) collect(now time.Time, fn func(landed)) {
	for {
		select {
		case l := <-c.landed:
			if f := c.flights[l.key]; f != nil && !f.answered {
				f.answered, f.answer, f.at = true, l.answer, now
				c.landing(l.key)
				if f.done != nil {
					f.done(verdict(l.answer))
				}
			}
			fn(l)
		default:
			return
		}
	}
}

func (c *calls) landing(key callKey) {
	if c.flying[key.partition]--; c.flying[key.partition] == 0 {
		delete(c.flying, key.partition)
	}
}

// abandon takes note that a stage was thrown away.
func (c *calls) abandon() {
	for _, k := range c.open {
		c.uncalled[k] = true
	}
	c.open = c.open[:0]
}

// forget drops what is settled for a permit.
func (c *calls) forget(key callKey) {
	if f := c.flights[key]; f != nil && !f.answered {
		c.landing(key)
	}
	delete(c.flights, key)
	delete(c.uncalled, key)
}

// sweep drops outcomes that nobody came for.
func (c *calls) sweep(now time.Time) {
	for k, f := range c.flights {
		if f.answered && now.Sub(f.at) > keepAnswered {
			delete(c.flights, k)
		}
	}
}

// forgetAnswered drops a call whose outcome stands in the journal.
func (c *calls) forgetAnswered(key callKey) {
	if f := c.flights[key]; f != nil && f.answered {
		delete(c.flights, key)
	}
	delete(c.uncalled, key)
}
