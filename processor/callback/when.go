package callback

import (
	"net/http"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/topics"
)

// keepTrying is for how long a callback is tried, from when it first could not be told.
const keepTrying = 3 * 24 * time.Hour

// verdict is what came of a call.
type verdict string

const (
	taken   verdict = "taken"   // 2xx
	failed  verdict = "failed"  // no answer, or any other
	refused verdict = "refused" // the address is not public: nothing was connected
	gone    verdict = "gone"    // 410: the endpoint wants no more
)

// judge says what an answer means, as Standard Webhooks has it (spec, "Delivery
// success and failure"): 2xx is taken, 410 disables the endpoint, and whatever else
// is a failure that is tried again, redirects and 4xx too. after is how long the
// receiver asks to wait; 0: it does not.
func judge(a *outbound.Answer) (v verdict, after time.Duration) {
	switch {
	case a.Code >= 200 && a.Code < 300:
		return taken, 0
	case a.Code == http.StatusGone:
		return gone, 0
	case a.Code == http.StatusTooManyRequests, a.Code == http.StatusServiceUnavailable:
		return failed, a.RetryAfter
	}
	return failed, 0
}

// nextTry is how long a callback waits that could not be told for age so far: tiers of
// the delay topics, so that each wait is one write. 5 s, 30 s, every 5 minutes for half
// an hour, every hour for six, then every six hours.
func nextTry(age time.Duration) time.Duration {
	switch {
	case age < 5*time.Second:
		return 5 * time.Second
	case age < 35*time.Second:
		return 30 * time.Second
	case age < 30*time.Minute:
		return 5 * time.Minute
	case age < 6*time.Hour:
		return time.Hour
	}
	return 6 * time.Hour
}

// nextRoom is how long a callback waits for which there was no room, at an endpoint that
// answers.
func nextRoom(age time.Duration) time.Duration {
	switch {
	case age < time.Minute:
		return 5 * time.Second
	case age < 10*time.Minute:
		return 30 * time.Second
	}
	return 5 * time.Minute
}

// tierFrom returns the shortest tier that waits at least so long: who stands behind
// another waits once, and not less.
func tierFrom(wait time.Duration) topics.Tier {
	for _, t := range topics.Tiers {
		if t.Wait >= wait {
			return t
		}
	}
	return topics.Tiers[len(topics.Tiers)-1]
}
