package audit

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weirhq/weir/schemas"
)

// wideCalls gathers the calls that were made in wide scopes: by messages of every
// partition, so that they are in order only when all are there. An audit that goes on
// after a cut has none (nil).
type wideCalls struct {
	mu sync.Mutex
	of map[sum]*wideScope
	n  int64 // calls
}

type wideScope struct {
	limit *limit
	made  []made
}

// made is a call; one that was not made after all stands again, with its cost
// below zero.
type made struct {
	t    schemas.Millis
	cost int64
}

func newWideCalls() *wideCalls { return &wideCalls{of: make(map[sum]*wideScope)} }

// add counts a call. before is the time of an earlier permit of the same attempt,
// which expired unused; 0 is none.
func (c *wideCalls) add(h *held, t, before schemas.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of[h.scope]
	if s == nil {
		s = new(wideScope)
		c.of[h.scope] = s
	}
	s.limit = h.limit
	if before != 0 {
		s.made = append(s.made, made{before, -h.cost})
	}
	s.made = append(s.made, made{t, h.cost})
	c.n++
}

// densest finds the most calls in each rolling window of each limit. Windows are
// those that the limit has for all, whoever the messages were for.
func (c *wideCalls) densest() map[denseKey]*Density {
	if c == nil {
		return nil
	}
	out := make(map[denseKey]*Density)
	for _, s := range c.of {
		slices.SortFunc(s.made, func(a, b made) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.cost, b.cost)) })
		for i := range s.limit.Allow {
			w := &s.limit.Allow[i]
			if w.Kind != schemas.WindowRolling {
				continue
			}
			key := denseKey{s.limit.Name, w.String()}
			d := out[key]
			if d == nil {
				d = &Density{Limit: key.limit, Window: key.window, N: w.N}
				out[key] = d
			}
			length := schemas.Millis(w.Length.Milliseconds())
			first, n := 0, int64(0)
			for k := range s.made {
				for ; s.made[first].t <= s.made[k].t-length; first++ {
					n -= s.made[first].cost
				}
				if n += s.made[k].cost; n > d.Most {
					d.Most, d.At = n, s.made[k].t
				}
			}
		}
	}
	return out
}

// size is what is gathered, in bytes.
func (c *wideCalls) size() int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return inMap(len(c.of), 24+32) + c.n*20
}
