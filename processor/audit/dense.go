package audit

import (
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// calls finds the densest real sending in each rolling window of each limit:
// decisions are spaced exactly, and each call may follow its own by the slack. A call counts at its permit's time, in the
// scopes in which its message was charged. A permit that expires unused counts
// until the message has another.
type calls struct {
	made    *places
	held    []held // by number: what open messages were charged; the first is unused
	free    int32
	densest map[denseKey]*Density
	wide    *wideCalls // in scopes without recipient
}

type denseKey struct{ limit, window string }

// held is one charge of an open message.
type held struct {
	scope sum
	limit *limit
	cost  int64
	next  int32
}

func newCalls(wide *wideCalls) *calls {
	return &calls{wide: wide, made: newPlaces(), held: make([]held, 1), densest: make(map[denseKey]*Density)}
}

// hold adds a charge to a message's list, and returns the list.
func (c *calls) hold(list int32, l *limit, scope sum, cost int64) int32 {
	i := c.free
	if i != 0 {
		c.free = c.held[i].next
	} else {
		i = int32(len(c.held))
		c.held = append(c.held, held{})
	}
	c.held[i] = held{scope, l, cost, list}
	return i
}

func (c *calls) release(list int32) {
	for list != 0 {
		next := c.held[list].next
		c.held[list] = held{next: c.free}
		c.free, list = list, next
	}
}

// sent counts a call. before is the time of an earlier permit of the same
// attempt, which expired unused; 0 is none.
func (c *calls) sent(list int32, e *schemas.Event, message uint64, before schemas.Millis, judged bool) {
	for ; list != 0; list = c.held[list].next {
		h := &c.held[list]
		if h.limit.reach == 0 {
			continue
		}
		if h.limit.wide {
			if judged && c.wide != nil {
				c.wide.add(h, e.At, before)
			}
			continue
		}
		if before != 0 {
			c.made.remove(h.scope, before, h.cost, message)
		}
		c.made.add(h.scope, e.At, h.cost, message, e.At-h.limit.reach)
		if !judged {
			continue
		}
		windows := h.limit.windows(e.To)
		for i := range windows {
			w := &windows[i]
			if w.Kind != schemas.WindowRolling {
				continue
			}
			length := schemas.Millis(w.Length.Milliseconds())
			c.note(h, e, w, e.At, length)
			for _, t := range c.made.later(h.scope, e.At) { // lanes are not read in the order of their times
				if t < e.At+length {
					c.note(h, e, w, t, length)
				}
			}
		}
	}
}

// note counts the window that ends at t.
func (c *calls) note(h *held, e *schemas.Event, w *schemas.Window, t, length schemas.Millis) {
	key := denseKey{h.limit.Name, w.String()}
	d := c.densest[key]
	if d == nil {
		d = &Density{Limit: key.limit, Window: key.window, N: w.N}
		c.densest[key] = d
	}
	if n, _ := c.made.count(h.scope, t-length+1, t, nil, 0); n > d.Most {
		d.Most, d.At, d.To = n, t, recipient.Mask(e.To)
	}
}

// densest takes up what a partition found.
func (r *Report) densest(found map[denseKey]*Density) {
next:
	for _, d := range found {
		for i := range r.Densest {
			if o := &r.Densest[i]; o.Limit == d.Limit && o.Window == d.Window {
				if d.Most > o.Most {
					*o = *d
				}
				continue next
			}
		}
		r.Densest = append(r.Densest, *d)
	}
}

// unenforced marks the limits that refused nothing for a part of the judged time.
func (r *Report) unenforced(h *history) {
	for i := range r.Densest {
		if d := &r.Densest[i]; d.Limit != "" {
			d.Unenforced = h.unenforced(d.Limit, r.From, r.Until)
		}
	}
}
