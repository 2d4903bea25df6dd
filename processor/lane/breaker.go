package lane

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// When a lane's breaker opens and closes. Not in the policy: nobody has asked
// to set them yet.
const (
	tripInARow   = 5                // failures one after another open it,
	tripShare    = 2                // and so does one in so many
	tripCalls    = 20               // of at least so many calls
	tripWithin   = time.Minute      // that ended within this: schemas.HealthWindow
	tripBucket   = time.Second      // in steps of this
	openFor      = 10 * time.Second // then it is half-open:
	probes       = 3                // so many calls are made, and all of them must succeed to close it
	knownWithin  = time.Second      // after opening, admission knows: see handBack
	breakerMoved = time.Millisecond // the state changes after its time, not at it
)

// fails reports whether an outcome counts against a provider's health. Who
// throttles or refuses answers, so he is well; and a failure of the recipient
// says nothing of him.
func fails(o *provider.Outcome) bool {
	return !o.OfRecipient && (o.Kind == provider.Transient || o.Kind == provider.Unknown)
}

var (
	errFailed  = errors.New("failed")
	errNotMade = errors.New("not called") // a permit that was never used says nothing
)

// breaker is a lane's circuit breaker. It begins closed, also after a restart:
// the first failures of the new owner open it again.
type breaker struct {
	two     *gobreaker.TwoStepCircuitBreaker[struct{}]
	state   schemas.Breaker
	probeAt schemas.Millis // open: when it is half-open
	opened  schemas.Millis // last
	closed  schemas.Millis // last; 0: never since it was made
	now     func() schemas.Millis
}

func newBreaker(now func() schemas.Millis) *breaker {
	b := &breaker{state: schemas.BreakerClosed, now: now}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: probes, Interval: tripWithin, BucketPeriod: tripBucket, Timeout: openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalSuccesses + c.TotalFailures
			return c.ConsecutiveFailures >= tripInARow || ended >= tripCalls && c.TotalFailures*tripShare >= ended
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNotMade) },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.became(to) },
	})
	return b
}

func (b *breaker) became(to gobreaker.State) {
	b.probeAt = 0
	switch to {
	case gobreaker.StateClosed:
		b.state = schemas.BreakerClosed
		b.closed = b.now()
	case gobreaker.StateHalfOpen:
		b.state = schemas.BreakerHalfOpen
	case gobreaker.StateOpen:
		b.state = schemas.BreakerOpen
		b.opened = b.now()
		b.probeAt = b.opened.Add(openFor + breakerMoved)
	}
}

// look returns the state as of now: time alone opens it half.
func (b *breaker) look() schemas.Breaker {
	b.two.State()
	return b.state
}

// allow asks for one call. The call's outcome goes to the function returned;
// when it is nil there is to be no call now.
func (b *breaker) allow() func(error) {
	done, err := b.two.Allow()
	if err != nil {
		return nil
	}
	return done
}

// verdict is what a call's outcome tells a breaker.
func verdict(a answer) error {
	switch {
	case a.uncalled:
		return errNotMade
	case fails(&a.outcome):
		return errFailed
	}
	return nil
}
