package ingest

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// limitHeaders tells what a message's limits leave, in the fields of
// draft-ietf-httpapi-ratelimit-headers-11 and in the older ones that clients
// know, which have room for one window: the one that opens last of those that
// are full, or else the one that leaves least.
func limitHeaders(h http.Header, limits []schemas.LimitState, now time.Time) {
	if len(limits) == 0 {
		return
	}
	var policies, states strings.Builder
	tightest := &limits[0]
	for i := range limits {
		l := &limits[i]
		if i > 0 {
			policies.WriteString(", ")
			states.WriteString(", ")
		}
		name := strconv.Quote(policyName(l.Limit, l.Window)) // printable ASCII, so a string of RFC 9651 too
		policies.WriteString(name + ";q=" + strconv.FormatInt(l.N, 10))
		if w := windowSeconds(l.Window); w > 0 {
			policies.WriteString(";w=" + strconv.FormatInt(w, 10))
		}
		states.WriteString(name + ";r=" + strconv.FormatInt(l.Remaining, 10))
		if l.Reset != 0 {
			states.WriteString(";t=" + strconv.FormatInt(max(seconds(l.Reset.Time().Sub(now)), 0), 10))
		}
		if tighter(l, tightest) {
			tightest = l
		}
	}
	h.Set("RateLimit-Policy", policies.String())
	h.Set("RateLimit", states.String())
	h.Set("X-RateLimit-Limit", strconv.FormatInt(tightest.N, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(tightest.Remaining, 10))
	if tightest.Reset != 0 {
		h.Set("X-RateLimit-Reset", strconv.FormatInt(seconds(time.Duration(tightest.Reset)*time.Millisecond), 10))
	} else {
		h.Del("X-RateLimit-Reset")
	}
}

// roomHeaders is limitHeaders for a message that was let through. The caller's own pace,
// where the call was counted, comes first, and keeps the older fields: a client that
// paces itself by those must not take a recipient's window for its own.
func roomHeaders(h http.Header, limits []schemas.LimitState, now time.Time) {
	room := http.Header{}
	limitHeaders(room, limits, now)
	if h.Get("RateLimit") == "" {
		maps.Copy(h, room)
		return
	}
	for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
		if v := room.Get(name); v != "" {
			h.Set(name, h.Get(name)+", "+v)
		}
	}
}

func tighter(a, b *schemas.LimitState) bool {
	if a.Violated != b.Violated {
		return a.Violated
	}
	if a.Violated {
		return a.Reset > b.Reset
	}
	return a.Remaining < b.Remaining
}

// windowSeconds is a window's length; 0 for a bucket, which has none.
func windowSeconds(text string) int64 {
	w, err := schemas.ParseWindow(text)
	if err != nil {
		return 0
	}
	switch w.Kind {
	case schemas.WindowRolling:
		return seconds(w.Length)
	case schemas.WindowCalendar:
		return calendarSeconds[w.Unit]
	case schemas.WindowBucket:
	}
	return 0
}

// calendarSeconds are the units' usual lengths: a day that clocks are changed on
// has another, and a month has fewer days or more.
var calendarSeconds = map[string]int64{"minute": 60, "hour": 3600, "day": 86_400, "month": 30 * 86_400}
