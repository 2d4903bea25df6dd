package callback

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// arrive says what becomes of a callback.
func (s *stage) arrive(j *job, now schemas.Millis) {
	j.arrived = now
	switch what, until := j.part.book.arrive(j); what {
	case known:
		s.close(j)
	case behind:
		s.leave(j, tierFrom(max(until.Sub(now), time.Second)).Wait, 0, now)
	case next:
		if s.count > maxHere {
			s.leave(j, nextRoom(j.age(now)), 0, now)
			return
		}
		s.here = append(s.here, waiter{j, now})
	case first:
		s.submit(j, now)
	}
}

// age is for how long a callback could not be told.
func (j *job) age(now schemas.Millis) time.Duration {
	if j.Since == 0 {
		return 0
	}
	return now.Sub(j.Since)
}

// submit puts a callback that may be told into its endpoint's queue.
func (s *stage) submit(j *job, now schemas.Millis) {
	t := s.find(j, now)
	if t == nil {
		return
	}
	e := s.pool.of(j.tenant, t)
	ok, down := e.room(now)
	switch {
	case down:
		s.tryLater(j, now)
	case !ok || s.count > maxHere:
		s.leave(j, nextRoom(j.age(now)), 0, now)
	default:
		j.arrived = now
		s.here = append(s.here, waiter{j, now})
		s.pool.enqueue(e, j)
	}
}

// find returns whom to call for a callback; nil where it ended, or went away, because
// there is nobody.
func (s *stage) find(j *job, now schemas.Millis) *target {
	s.on(j)
	t := s.targets.find(j.tenant, j.URL)
	switch {
	case t == nil:
		s.finish(j, outcomeWithdrawn, now)
		return nil
	case t.err != nil:
		s.complain(j, t.host, t.err.Error())
		s.tryLater(j, now)
		return nil
	case s.notes.disabled(t.print, now):
		s.finish(j, outcomeDisabled, now)
		return nil
	}
	return t
}

// tryLater lets a callback wait that could not be told, or gives it up.
func (s *stage) tryLater(j *job, now schemas.Millis) { s.tryAfter(j, 0, now) }

func (s *stage) tryAfter(j *job, asked time.Duration, now schemas.Millis) {
	age := j.age(now)
	if age >= keepTrying {
		s.cfg.Logger.Warn("a callback is given up: nobody took it for three days; weir callbacks replay makes it again", "tenant", j.tenant, "message_id", j.message, "status", string(j.Status))
		s.finish(j, outcomeGivenUp, now)
		return
	}
	wait := min(nextTry(age), max(keepTrying-age, time.Second))
	switch {
	case asked > wait:
		s.leave(j, topics.TierFor(asked).Wait, now.Add(asked), now)
	case wait < nextTry(age): // to the end of three days
		s.leave(j, topics.TierFor(wait).Wait, now.Add(wait), now)
	default:
		s.leave(j, wait, 0, now)
	}
}

// leave sends a callback, and what is here behind it, to a delay topic: for the time of a
// tier, or until due.
func (s *stage) leave(j *job, wait time.Duration, due, now schemas.Millis) {
	p := j.part
	back := due
	if back == 0 {
		back = now.Add(wait)
	}
	for _, x := range p.book.leave(j, back) {
		if x.Since == 0 {
			x.Since = now
		}
		topic := s.cfg.Names.Delay(tierFrom(wait).Name)
		s.out = append(s.out, x.waits(topic, schemas.PartitionOf(p.salt, s.cfg.DelayPartitions), p.salt, s.cfg.Names.Callbacks(), due))
		s.close(x)
	}
}

// finish ends a callback, told or not.
func (s *stage) finish(j *job, outcome string, now schemas.Millis) {
	s.metrics.callbacks.WithLabelValues(outcome).Inc()
	s.end(j, now)
}

// end forgets a callback, and goes on to the next of its message.
func (s *stage) end(j *job, now schemas.Millis) {
	s.close(j)
	if then := j.part.book.end(j); then != nil {
		s.submit(then, now)
	}
}

// late sends away what has waited too long here for its turn.
func (s *stage) late(now schemas.Millis) {
	n := 0
	for ; n < len(s.here); n++ {
		j := s.here[n].job
		if j.entry.job != j || j.entry.place != waiting || j.arrived != s.here[n].at {
			continue
		}
		if now.Sub(j.arrived) < queueFor {
			break
		}
		s.on(j)
		s.leave(j, nextRoom(j.age(now)), 0, now)
	}
	s.here = slices.Delete(s.here, 0, n)
}

// landed is a call's end.
type landed struct {
	job    *job
	target *target
	end    *endpoint
	done   func(error)
	what   verdict
	after  time.Duration
	why    string // for people, without address or body
	life   int    // of the stage that called
	took   time.Duration
}

// land takes a call's end.
func (s *stage) land(l landed, now schemas.Millis) {
	s.on(l.job)
	s.pool.landed(l.end, l.what, l.done)
	s.metrics.seconds.Observe(l.took.Seconds())
	l.end.used, l.end.last = now, l.why
	j := l.job
	switch l.what {
	case taken:
		s.finish(j, string(taken), now)
	case gone:
		s.disable(j, l.target, now)
		s.finish(j, outcomeDisabled, now)
	case failed, refused:
		s.metrics.callbacks.WithLabelValues(string(l.what)).Inc()
		s.complain(j, l.target.host, l.why)
		if l.after > 0 {
			l.end.hold = max(l.end.hold, now.Add(l.after))
		}
		s.tryAfter(j, l.after, now)
	}
}

// disable notes that an endpoint wants no more.
func (s *stage) disable(j *job, t *target, now schemas.Millis) {
	n := Note{Tenant: j.tenant, Host: t.host, Since: now, Own: t.own}
	s.cfg.Logger.Warn("a callback's endpoint answered 410: it is disabled until its address or secret changes, or weir callbacks enable", "tenant", j.tenant, "host", t.host)
	s.notes.set(t.print, n)
	s.out = append(s.out, &kgo.Record{Topic: s.cfg.Names.Endpoints(), Partition: 0, Key: []byte(noteKey(t.print)), Value: encode(n)})
}

// complain logs that callbacks of a tenant fail, at most once a minute for each host.
func (s *stage) complain(j *job, host, why string) {
	k := endpointKey{j.tenant, host}
	now := s.cfg.Now()
	if now.Sub(s.complained[k]) < tidyEvery {
		return
	}
	if len(s.complained) > 10_000 {
		clear(s.complained)
	}
	s.complained[k] = now
	s.cfg.Logger.Warn("callbacks fail; they are tried for three days", "tenant", j.tenant, "host", host, "error", why)
}
