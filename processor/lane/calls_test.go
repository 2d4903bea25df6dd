package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// clocked notes when each call was made.
type clocked struct{ at chan time.Time }

func (c *clocked) Send(context.Context, *provider.Call) provider.Outcome {
	c.at <- time.Now()
	return provider.Outcome{Kind: provider.Accepted}
}

func (c *clocked) Close() error { return nil }

// TestPlannedCalls: a call is made at the moment that its permit names and
// never before; it is not made when the provider asked for silence meanwhile,
// when the permit has expired, or when calls are to end.
func TestPlannedCalls(t *testing.T) {
	const ahead, life = 50 * time.Millisecond, 5 * time.Second
	for _, tt := range []struct {
		name   string
		during func(c *calls, cut func()) // while the call waits for its moment
		paused time.Duration              // of the process
		called bool
	}{
		{"nothing happens", func(*calls, func()) {}, 0, true},
		{"silence until after it", func(c *calls, _ func()) { c.hush(0, schemas.MillisOf(time.Now().Add(time.Second))) }, 0, false},
		{"silence until before it", func(c *calls, _ func()) { c.hush(0, schemas.MillisOf(time.Now().Add(ahead/2))) }, 0, true},
		{"a shorter silence ends no longer one", func(c *calls, _ func()) {
			c.hush(0, schemas.MillisOf(time.Now().Add(time.Second)))
			c.hush(0, schemas.MillisOf(time.Now()))
		}, 0, false},
		{"another lane's silence", func(c *calls, _ func()) { c.hush(1, schemas.MillisOf(time.Now().Add(time.Second))) }, 0, true},
		{"the process is paused until the permit has expired", func(*calls, func()) {}, life, false},
		{"calls are to end", func(_ *calls, cut func()) { cut() }, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cut := context.WithCancel(t.Context())
				defer cut()
				p := &clocked{at: make(chan time.Time, 1)}
				c := newCalls(ctx, p, &stream.Waker{})
				now := time.Now()
				clock := func() time.Time { return time.Now().Add(tt.paused) }
				it := &item{key: callKey{permit: schemas.MillisOf(now.Add(ahead))}}
				c.start(permitted{item: it, from: now.Add(ahead), expires: now.Add(life)}, time.Second, clock)
				tt.during(c, cut)
				got := <-c.landed
				if got.answer.uncalled == tt.called || got.key != it.key {
					t.Errorf("%+v, want called %v", got, tt.called)
				}
				if tt.called {
					if at := <-p.at; !at.Equal(now.Add(ahead)) {
						t.Errorf("called %v after it was permitted, want %v", at.Sub(now), ahead)
					}
				}
				c.wg.Wait()
			})
		})
	}
}
