// Package retry says when a message is tried again.
//
// It is pure. It does not wait, choose a topic (topics.TierFor does) or look at
// the expiry: a message that has expired when it returns is ended by admission,
// which is the one judge.
package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// MaxTold bounds how long a provider can make a message wait by Retry-After: a
// mistaken header must not park messages for days.
const MaxTold = time.Hour

// Next returns how long to wait before the next attempt, or false when attempt
// was the last. attempt counts the attempts made, from 1: after the first, the
// class's first wait applies. A class with nil Retries has
// schemas.DefaultRetries; one with an empty list is never tried again.
//
// told is what the provider asked for (Retry-After), 0 or less when it did not:
// the wait is then the longer of the schedule's and told, told counting for at
// most MaxTold. A throttled attempt is an attempt: it uses up a wait, so that a
// provider that throttles for ever cannot hold a message for ever.
//
// There is no jitter: waits are delay topics, which keep a queue's spacing, and
// the lane's pace spreads what returns.
func Next(class schemas.Class, attempt int, told time.Duration) (wait time.Duration, again bool) {
	attempt = max(attempt, 1)
	if class.Retries == nil {
		if attempt > len(schemas.DefaultRetries) {
			return 0, false
		}
		wait = schemas.DefaultRetries[attempt-1]
	} else {
		if attempt > len(class.Retries) {
			return 0, false
		}
		wait = time.Duration(class.Retries[attempt-1])
	}
	return max(wait, min(told, MaxTold)), true
}

// After reads a Retry-After header (RFC 9110, section 10.2.3): whole seconds, or
// an HTTP date measured from now. It returns false for what is neither, and a
// wait of 0 for a date that has passed. The wait is at most MaxTold.
func After(header string, now time.Time) (time.Duration, bool) {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0, false
	}
	if digits(header) {
		s, err := strconv.ParseInt(header, 10, 64)
		if err != nil || s > int64(MaxTold/time.Second) { // more digits than an int64 holds is long too
			return MaxTold, true
		}
		return time.Duration(s) * time.Second, true
	}
	t, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return min(max(t.Sub(now), 0), MaxTold), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
