package backlog

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	// rateOver is how far back a rate looks, and rateFrom the least that it needs.
	rateOver = time.Minute
	rateFrom = time.Second
	// stalledAfter is how long a provider may make no call while messages wait for it,
	// at least. It is the window over which lanes count their calls.
	stalledAfter = schemas.HealthWindow
)

// Rate is what waits in a queue, and how fast it is worked off.
type Rate struct {
	Waiting
	Known     bool          // PerMinute is known
	PerMinute float64       // records a minute, over the last minute or less
	Drain     time.Duration // until it is empty if nothing is added; 0 where nothing waits or nothing moves
}

// permits are what of ten calls the priorities get while all of them wait
// (docs/lanes.md, "Which message is next"). What one does not need goes to the highest that
// waits.
var permits = []struct {
	queue topics.Queue
	of    float64
}{{topics.QueueUrgent, 7}, {topics.QueueNormal, 2}, {topics.QueueBulk, 1}}

// Calls sets the rates of lanes' queues: each has its part of the calls that its provider
// made in the last minute. Their positions say less, since a message whose decision
// goes stale leaves its queue and returns on again without a call. again has messages of
// all priorities, and is worked off like normal here.
func Calls(all []Rate, health route.Health, now schemas.Millis) {
	waiting := make(map[string]map[topics.Queue]float64) // by provider
	for _, r := range all {
		if r.Stage == Lanes {
			if waiting[r.Provider] == nil {
				waiting[r.Provider] = make(map[topics.Queue]float64)
			}
			q := topics.Queue(r.Name)
			if q == topics.QueueAgain {
				q = topics.QueueNormal
			}
			waiting[r.Provider][q] += float64(r.Records)
		}
	}
	for i := range all {
		r := &all[i]
		if r.Stage != Lanes {
			continue
		}
		perMinute := float64(calls(health[r.Provider], now))
		of := topics.Queue(r.Name)
		if of == topics.QueueAgain {
			of = topics.QueueNormal
		}
		left := waiting[r.Provider]
		r.Known, r.PerMinute, r.Drain = true, 0, 0
		if r.Records == 0 || perMinute == 0 {
			continue
		}
		r.PerMinute = math.Round(10*perMinute*part(left, of)*float64(r.Records)/left[of]) / 10
		r.Drain = time.Duration(drain(left, of) / perMinute * float64(time.Minute)).Round(time.Millisecond)
	}
}

// part is what part of all calls a priority gets while these wait.
func part(left map[topics.Queue]float64, of topics.Queue) float64 {
	got, spare, highest := 0.0, 0.0, topics.Queue("")
	for _, p := range permits {
		switch {
		case left[p.queue] == 0:
			spare += p.of
		case highest == "":
			highest = p.queue
		}
		if p.queue == of {
			got = p.of
		}
	}
	if of == highest {
		got += spare
	}
	return got / 10
}

// drain is after how many calls a priority is empty, if nothing is added: those that are
// empty first leave their part to the others.
func drain(left map[topics.Queue]float64, of topics.Queue) float64 {
	left = maps.Clone(left)
	total := 0.0
	for {
		next, first := math.Inf(1), topics.Queue("") // the first that is empty
		for _, p := range permits {
			if left[p.queue] > 0 {
				if n := left[p.queue] / part(left, p.queue); n < next {
					next, first = n, p.queue
				}
			}
		}
		total += next
		if first == of {
			return total
		}
		now := maps.Clone(left)
		for _, p := range permits {
			now[p.queue] = max(left[p.queue]-next*part(left, p.queue), 0)
		}
		now[first] = 0
		if now[of] == 0 { // in the same moment
			return total
		}
		left = now
	}
}

// Meter compares looks. The zero value has seen none. It is for one goroutine.
type Meter struct {
	looks []look
	moved map[string]schemas.Millis // by provider: when a position of its lanes last changed, or the first look
}

type look struct {
	at      schemas.Millis
	done    map[string]int64 // by topic
	waiting map[string]int64
}

// Add takes in a look at a time, and returns the rates as of it.
func (m *Meter) Add(at schemas.Millis, all []Waiting) []Rate {
	now := look{at: at, done: make(map[string]int64, len(all)), waiting: make(map[string]int64, len(all))}
	out := make([]Rate, len(all))
	for i, w := range all {
		now.done[w.Topic], now.waiting[w.Topic] = w.Done, w.Records
		out[i] = Rate{Waiting: w}
		// Back to the first look within rateOver since which something has always waited:
		// idle time is not counted.
		for _, was := range slices.Backward(m.looks) {
			before, ok := was.done[w.Topic]
			span := at.Sub(was.at)
			if !ok || span > rateOver || w.Records > 0 && was.waiting[w.Topic] == 0 {
				break
			}
			if span < rateFrom {
				continue
			}
			out[i].Known = true
			out[i].PerMinute = math.Round(10*float64(max(w.Done-before, 0))/span.Minutes()) / 10
			if w.Records > 0 && out[i].PerMinute > 0 {
				out[i].Drain = time.Duration(float64(w.Records) / out[i].PerMinute * float64(time.Minute)).Round(time.Millisecond)
			} else {
				out[i].Drain = 0
			}
		}
	}
	m.move(now, all)
	for len(m.looks) > 0 && at.Sub(m.looks[0].at) > rateOver {
		m.looks = m.looks[1:]
	}
	m.looks = append(m.looks, now)
	return out
}

// move notes which providers have moved since the last look.
func (m *Meter) move(now look, all []Waiting) {
	if m.moved == nil {
		m.moved = make(map[string]schemas.Millis)
	}
	for _, w := range all {
		if w.Stage != Lanes {
			continue
		}
		_, known := m.moved[w.Provider]
		if len(m.looks) > 0 {
			before, ok := m.looks[len(m.looks)-1].done[w.Topic]
			known = known && ok && before == w.Done
		}
		if !known {
			m.moved[w.Provider] = now.at
		}
	}
}

// Stalled returns the providers that make no calls although messages wait for them, in
// the policy's order: as of the last look at now, none of their lanes has ended a call
// for a minute, and the oldest message has waited longer than that. Where the pace has
// a window beyond half a minute, both are twice that window, and have to be observed.
func (m *Meter) Stalled(pol *schemas.Policy, health route.Health, all []Rate, now schemas.Millis) []string {
	out := []string{}
	for i := range pol.Providers {
		p := &pol.Providers[i]
		oldest := now
		for _, w := range all {
			if w.Stage == Lanes && w.Provider == p.Name && w.Records > 0 {
				oldest = min(oldest, w.Oldest)
			}
		}
		after := schemas.Millis(stalledAfter)
		for _, w := range p.Pace {
			after = max(after, schemas.Millis(2*w.Length.Milliseconds()))
		}
		if now-oldest < after || calls(health[p.Name], now) > 0 {
			continue
		}
		if after == stalledAfter || now-m.moved[p.Name] >= after {
			out = append(out, p.Name)
		}
	}
	return out
}

// calls is how many calls of a provider ended lately. A lane that runs says it within
// ten seconds when they become fewer, so an older word is of one that has ended.
func calls(of route.Standing, now schemas.Millis) (n int64) {
	for _, l := range of.Lanes {
		if now-l.At <= schemas.HealthWindow {
			n += l.Calls
		}
	}
	return n
}
