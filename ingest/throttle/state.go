package throttle

import "time"

// Verdict is what becomes of one call.
type Verdict struct {
	Rate    *Rate
	Allowed bool
	// Together is whether the rate is that of all keys of a tenant.
	Together bool
	// Wait is how long an allowed call of a smooth rate waits for its turn.
	Wait time.Duration
	// Remaining is how many more would be allowed now, and Reset the time until
	// it grows; 0 where it cannot. After a refusal Reset is when to try again.
	Remaining int64
	Reset     time.Duration
}

// state is what is kept of one caller and kind. Zero is a caller who has not
// called. Only the calls that were let through are in it: who is refused is no
// worse off for having asked.
type state struct {
	at int64 // of the last call, in microseconds

	debt int64 // what a bucket lacked then, in parts of a token

	// The times of the calls in a window that rolls, oldest first, in a ring
	// that grows to the window's n.
	ring  []int64
	first int32
	count int32
}

// take decides one call. Callers read their clock before they are let at the
// state, so a time may be older than the last one: it counts as that.
func (s *state) take(r *Rate, now int64) Verdict {
	now = max(now, s.at)
	if r.part > 0 {
		return s.pour(r, now)
	}
	return s.mark(r, now)
}

// pour is a bucket's decision.
func (s *state) pour(r *Rate, now int64) Verdict {
	debt := s.debt
	if debt > 0 {
		// The product is bounded only once the time is.
		if elapsed := now - s.at; elapsed > debt/r.refill {
			debt = 0
		} else {
			debt = max(0, debt-elapsed*r.refill)
		}
	}
	s.at, s.debt = now, debt
	v := Verdict{Rate: r}
	if debt <= r.room {
		v.Allowed = true
		if r.smooth {
			v.Wait = micros(ceil(debt, r.refill))
		}
		debt += r.part
		s.debt = debt
	}
	if debt <= r.room {
		v.Remaining = (r.room-debt)/r.part + 1
	}
	if v.Remaining < r.limit {
		v.Reset = micros(ceil(debt-(r.room-v.Remaining*r.part), r.refill))
	}
	return v
}

// mark is a rolling window's decision. A call stands in the window for exactly
// its length.
func (s *state) mark(r *Rate, now int64) Verdict {
	for s.count > 0 && now-s.ring[s.first] >= r.length {
		s.first = (s.first + 1) % int32(len(s.ring))
		s.count--
	}
	s.at = now
	v := Verdict{Rate: r}
	if int64(s.count) < r.limit {
		v.Allowed = true
		if int(s.count) == len(s.ring) {
			s.grow(s.next(r))
		}
		s.ring[int(s.first+s.count)%len(s.ring)] = now
		s.count++
	}
	v.Remaining = r.limit - int64(s.count)
	v.Reset = micros(s.ring[s.first] + r.length - now)
	return v
}

// next is how long the ring becomes when it grows.
func (s *state) next(r *Rate) int {
	return int(min(r.limit, max(4, 2*int64(len(s.ring)))))
}

func (s *state) grow(size int) {
	ring := make([]int64, size)
	n := copy(ring, s.ring[s.first:])
	copy(ring[n:], s.ring[:s.first])
	s.ring, s.first = ring, 0
}

// forget makes s the state of a caller who has not called. Its memory is kept.
func (s *state) forget() { *s = state{ring: s.ring} }

// full is when s will be as if the caller had never called.
func (s *state) full(r *Rate) int64 {
	switch {
	case r.part > 0:
		return s.at + ceil(s.debt, r.refill)
	case s.count > 0:
		return s.ring[int(s.first+s.count-1)%len(s.ring)] + r.length
	}
	return s.at
}

func ceil(a, b int64) int64 {
	q := a / b
	if q*b < a {
		q++
	}
	return q
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
