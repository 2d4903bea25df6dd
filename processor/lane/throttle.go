package lane

import (
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// When throttled calls silence a lane.
const (
	maxSilence     = time.Minute // of one silence
	firstSilence   = time.Second // when the provider does not say; doubled while its probes are throttled
	throttledMany  = 3           // so many recipients, of whom nobody knows whether they alone are throttled,
	throttledShare = 10          // and one in so many of the calls that ended
	throttledSoon  = 10 * time.Second
	throttledKept  = 256
)

// throttle decides from calls' outcomes when a lane is silent because its
// provider throttles everyone. A throttled recipient never silences it.
//
//	calls are made ─(throttled)─► silent ─(until)─► one probe ─► calls are made
//	                                ▲                    │
//	                                └───(throttled)──────┘
//
// A call that was permitted before the end of a silence changes nothing: it was
// under way when that began, and says nothing new.
type throttle struct {
	since   schemas.Millis // when the last silence began; 0 when none has
	until   schemas.Millis // its end
	probing bool           // no call has succeeded since: one at a time
	row     int            // silences one after another, without a call between that was not throttled
	ended   int64          // calls
	recent  []throttledOne // of whom nobody knows; each recipient once, the oldest first
}

type throttledOne struct {
	to    string
	t     schemas.Millis
	ended int64 // calls that had ended before
}

// answer takes note of the outcome of a call to a recipient, permitted at permit,
// at t. It reports whether a silence begins.
func (h *throttle) answer(o *provider.Outcome, to string, permit, t schemas.Millis) bool {
	h.ended++
	if permit < h.until {
		return false
	}
	if o.Kind != provider.Throttled || o.OfRecipient {
		h.probing, h.row = false, 0
		return false
	}
	if !o.OfProvider && !h.probing && !h.many(to, t) {
		return false
	}
	h.since, h.until, h.probing, h.recent = t, t.Add(silence(o.RetryAfter, h.row)), true, nil
	h.row++
	return true
}

// many notes that a recipient was throttled at t, and reports whether so many were
// lately that it is the provider who throttles.
func (h *throttle) many(to string, t schemas.Millis) bool {
	kept := h.recent[:0]
	for _, r := range h.recent {
		if t.Sub(r.t) < throttledSoon && r.to != to {
			kept = append(kept, r)
		}
	}
	if len(kept) == throttledKept {
		kept = append(kept[:0], kept[1:]...)
	}
	h.recent = append(kept, throttledOne{to: to, t: t, ended: h.ended - 1})
	n := int64(len(h.recent))
	return n >= throttledMany && n*throttledShare >= h.ended-h.recent[0].ended
}

// silence is how long a lane makes no call, by what the provider asked for (0:
// nothing) and how many silences came just before.
func silence(asked time.Duration, row int) time.Duration {
	if asked <= 0 {
		asked = firstSilence << min(row, 8)
	}
	return min(asked, maxSilence)
}
