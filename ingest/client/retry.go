package client

import (
	"cmp"
	"net/http"
	"strconv"
	"time"
)

// Retry says how often and how long a call is tried. A field that is 0 has its
// default; a negative Tries is 1.
//
// Tried again is what passes: no connection or one that broke, 408, 502, 503,
// 504, and 429 of the caller's own pace. A 429 of a recipient's limit is an
// answer and is not. What may have been done already is repeated only where
// that changes nothing: all but changes of the policy that name a version, and
// those that make a key, which are repeated after refusals that looked at
// nothing (408, 429) and where no connection came about.
//
// Before try n+1 a call waits as long as the server says (Retry-After, 0 where it
// says nothing), and in addition a random time between 0 and the smaller of Cap and
// Base·2ⁿ⁻¹ (full jitter): docs/retry-after.md. It does not wait for what lies beyond
// its time: it gives up at once.
type Retry struct {
	Tries int           // at most, the first included. Default 5
	Total time.Duration // of a call with all its tries and waits; of a batch of at most 10,000. Default 30 s. A context that ends earlier wins
	Base  time.Duration // default 100 ms
	Cap   time.Duration // default 5 s
}

func (r Retry) withDefaults() Retry {
	return Retry{
		Tries: max(cmp.Or(r.Tries, 5), 1),
		Total: cmp.Or(max(r.Total, 0), 30*time.Second),
		Base:  cmp.Or(max(r.Base, 0), 100*time.Millisecond),
		Cap:   cmp.Or(max(r.Cap, 0), 5*time.Second),
	}
}

// wait returns how long to wait after the given number of tries, if there may
// be another one. after is what the server says, 0 when it says nothing; left
// is the call's time; random is from [0,1).
func (r Retry) wait(tries int, after, left time.Duration, random float64) (time.Duration, bool) {
	if tries >= r.Tries || after >= left {
		return 0, false
	}
	jitter := r.Base
	for i := 1; i < tries && jitter < r.Cap; i++ {
		jitter *= 2
	}
	wait := after + time.Duration(random*float64(min(jitter, r.Cap)))
	return min(wait, after+(left-after)/2), true // some of the time is for the try
}

// chance says what may come of trying a failed call again.
type chance string

const (
	final  chance = "final"  // the same again, or nobody waits for it any more
	unseen chance = "unseen" // the server has done nothing
	unsure chance = "unsure" // it may have done all of it
)

// chance judges an answer.
func (p *Problem) chance() chance {
	switch p.Status {
	case http.StatusTooManyRequests:
		if p.Type == TypeQuotaExceeded || p.Code == CodeQuotaExceeded {
			return final
		}
		return unseen // ours, or that of a proxy on the way
	case http.StatusRequestTimeout:
		return unseen
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unsure
	}
	return final
}

// Temporary reports whether the same call may succeed later: RetryAfter says
// when, where the server said. After a 502, 503 or 504 it may have been done
// already.
func (p *Problem) Temporary() bool { return p.chance() != final }

// retryAfter reads the header as whole seconds or as a date (RFC 9110, 10.2.3);
// 0 when it is neither or has passed. A date is compared with the answer's own,
// because the clocks of two machines differ.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if digits(v) {
		s, err := strconv.ParseInt(v, 10, 32)
		if err != nil { // more than fits
			s = 1<<31 - 1
		}
		return time.Duration(s) * time.Second
	}
	t, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return max(t.Sub(now), 0)
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
