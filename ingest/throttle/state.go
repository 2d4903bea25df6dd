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

	at, all int64 // when an allowed call counts: for its caller, and for all keys of its tenant
	both    bool  // it counts for all keys of its tenant, too
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
	s.pass(r, now)
	v := Verdict{Rate: r, at: s.at}
	switch {
	case r.part > 0:
		if v.Allowed = s.debt <= r.room; v.Allowed {
			if r.smooth {
				v.Wait = micros(ceil(s.debt, r.refill))
			}
			s.debt += r.part
		}
	default:
		if v.Allowed = int64(s.count) < r.limit; v.Allowed {
			if int(s.count) == len(s.ring) {
				s.grow(s.next(r))
			}
			s.ring[int(s.first+s.count)%len(s.ring)] = s.at
			s.count++
		}
	}
	s.tell(r, &v)
	return v
}

// pass lets time pass up to now: a bucket fills, and calls leave a window. A call
// counts in the window for exactly its length.
func (s *state) pass(r *Rate, now int64) {
	now = max(now, s.at)
	if r.part > 0 {
		// The product is bounded only once the time is.
		if elapsed := now - s.at; elapsed > s.debt/r.refill {
			s.debt = 0
		} else {
			s.debt = max(0, s.debt-elapsed*r.refill)
		}
	} else {
		for s.count > 0 && now-s.ring[s.first] >= r.length {
			s.first = (s.first + 1) % int32(len(s.ring))
			s.count--
		}
	}
	s.at = now
}

// tell says what is left at the time of the state.
func (s *state) tell(r *Rate, v *Verdict) {
	if r.part > 0 {
		if s.debt <= r.room {
			v.Remaining = (r.room-s.debt)/r.part + 1
		}
		if v.Remaining < r.limit {
			v.Reset = micros(ceil(s.debt-(r.room-v.Remaining*r.part), r.refill))
		}
		return
	}
	v.Remaining = max(0, r.limit-int64(s.count))
	if s.count > 0 { // beyond the limit are calls of a time when it was larger
		next := int(s.first) + max(0, int(s.count)-int(r.limit))
		v.Reset = micros(s.ring[next%len(s.ring)] + r.length - s.at)
	}
}

// giveBack undoes a call that was allowed at a time. Of a smooth rate the turn is free
// again for the last in line, so two calls may go on at once if others took later turns.
func (s *state) giveBack(r *Rate, at, now int64) Verdict {
	s.pass(r, now)
	if r.part > 0 {
		s.debt = max(0, s.debt-r.part)
	} else {
		for i := s.count - 1; i >= 0; i-- {
			if s.ring[int(s.first+i)%len(s.ring)] == at {
				for ; i+1 < s.count; i++ {
					s.ring[int(s.first+i)%len(s.ring)] = s.ring[int(s.first+i+1)%len(s.ring)]
				}
				s.count--
				break
			}
		}
	}
	v := Verdict{Rate: r, Allowed: true, at: at}
	s.tell(r, &v)
	return v
}

// carry is the state of a caller whose rate has become another: what was used stays used.
// Of a bucket the same part is missing, and a window keeps its calls, also those beyond a
// smaller n, so that a rate which is changed back has nothing more to give. Between a
// bucket and a window it is the part that is used. Rings are not shared.
func (s state) carry(from, to *Rate, now int64) state {
	s.pass(from, now)
	out := state{at: s.at}
	switch {
	case from.part > 0 && to.part > 0:
		out.debt = scale(s.debt, to.room+to.part, from.room+from.part)
	case from.part > 0:
		out.count = int32(divUp(s.debt, to.limit, from.room+from.part))
		out.ring = make([]int64, out.count)
		for i := range out.ring {
			out.ring[i] = s.at
		}
	case to.part > 0:
		out.debt = scale(min(int64(s.count), from.limit), to.room+to.part, from.limit)
	default:
		out.count = s.count
		out.ring = make([]int64, s.count)
		for i := range out.ring {
			out.ring[i] = s.ring[(int(s.first)+i)%len(s.ring)]
		}
	}
	return out
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
