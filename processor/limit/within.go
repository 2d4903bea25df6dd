package limit

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// unitLengths are how long a calendar unit's period lasts.
var unitLengths = [unitCount]schemas.Millis{
	unitMinute: schemas.Millis(time.Minute / time.Millisecond),
	unitHour:   schemas.Millis(time.Hour / time.Millisecond),
	unitDay:    schemas.Millis(24 * time.Hour / time.Millisecond),
	unitMonth:  schemas.Millis(28 * 24 * time.Hour / time.Millisecond),
}

// CallWithin returns how long after the decision that took these places for a message
// to recipient it may be called: a tenth of the smallest window among its limits per
// recipient that refuse, within bounds. Two calls are then no closer to each other than
// nine tenths of a window of 10 s or more allow. Wide limits, and those that only
// observe, hold no two calls to one recipient apart, so they do not count.
func (r *Rules) CallWithin(recipient string, places []schemas.Charge) time.Duration {
	least := schemas.Millis(schemas.SlackPart * schemas.SlackMost / time.Millisecond)
	for i := range places {
		l := r.byName[places[i].Limit]
		if l == nil || l.wide || l.observe {
			continue
		}
		windows := l.windowsFor(recipient)
		for j := range windows {
			least = min(least, windows[j].spacing())
		}
	}
	return max(schemas.SlackLeast, time.Duration(least/schemas.SlackPart)*time.Millisecond)
}

// spacing returns the time by which a window holds messages apart: a rolling window's
// length, a calendar window's period, and what a bucket takes to refill one token.
func (w *window) spacing() schemas.Millis {
	switch {
	case w.calendar:
		return unitLengths[w.unit]
	case w.bucket():
		return w.wait(w.parts)
	}
	return w.length
}
