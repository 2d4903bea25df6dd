package lane

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// How often a lane says how its provider is: at once when the breaker moves,
// and when only figures changed, after this.
const (
	healthEvery   = time.Second      // while calls end
	healthFalling = 10 * time.Second // while they only fall out of the window
)

const healthBuckets = 60

// tally counts calls that ended in the last schemas.HealthWindow, to a sixtieth
// of it, of those permitted since the breaker last closed: who is well again is
// not judged by the outage.
type tally struct {
	buckets [healthBuckets]outcomes
	at      int64          // the newest bucket's number
	since   schemas.Millis // calls permitted before this do not count
}

// outcomes counts calls by outcome.
type outcomes struct {
	calls, failures int64
	refused         int64 // neither accepted nor failed
}

// anew forgets what was permitted before the breaker closed at t.
func (y *tally) anew(t schemas.Millis) {
	if y.since < t {
		*y = tally{since: t}
	}
}

func bucketOf(t schemas.Millis) int64 { return int64(t) / (schemas.HealthWindow / healthBuckets) }

// move drops what has left the window.
func (y *tally) move(t schemas.Millis) {
	now := bucketOf(t)
	if now-y.at >= healthBuckets {
		*y = tally{at: now, since: y.since}
	}
	for y.at < now {
		y.at++
		y.buckets[y.at%healthBuckets] = outcomes{}
	}
}

// add counts a call that ended at t.
func (y *tally) add(t, permit schemas.Millis, o *provider.Outcome) {
	if permit < y.since {
		return
	}
	y.move(t)
	b := &y.buckets[y.at%healthBuckets]
	b.calls++
	switch {
	case fails(o):
		b.failures++
	case o.Kind != provider.Accepted:
		b.refused++
	}
}

func (y *tally) sums(t schemas.Millis) (all outcomes) {
	y.move(t)
	for _, b := range y.buckets {
		all.calls += b.calls
		all.failures += b.failures
		all.refused += b.refused
	}
	return all
}

// report is what a lane last said of its provider; the zero value is nothing.
type report struct {
	schemas.Health
	said      bool
	ended     bool // calls have ended since
	takenOver bool // a former owner may have said something
}

// health writes what is new of a lane's health into the open transaction.
func (s *stage) health(tx *stream.Tx, l *lanePart, t schemas.Millis) {
	h := schemas.Health{Provider: s.cfg.Provider, Lane: l.num, Breaker: l.breaker.look(), ProbeAt: l.breaker.probeAt, At: t}
	if l.throttle.until > t {
		h.SilentUntil = l.throttle.until
	}
	l.tally.anew(l.breaker.closed)
	all := l.tally.sums(t)
	h.Calls, h.Failures, h.Refused = all.calls, all.failures, all.refused
	was := l.told
	switch {
	case !was.said && h.Breaker == schemas.BreakerClosed && h.SilentUntil == 0 && h.Calls == 0 && !was.takenOver:
		return // nothing to say
	case !was.said, h.Breaker != was.Breaker, h.ProbeAt != was.ProbeAt, h.SilentUntil > was.SilentUntil:
	case h.Calls == was.Calls && h.Failures == was.Failures && h.Refused == was.Refused:
		return
	default:
		every := healthFalling
		if was.ended {
			every = healthEvery
		}
		if due := was.At.Add(every); due > t {
			l.wakeAt(due)
			return
		}
	}
	if !l.stands() {
		return // nothing was read yet: no position that would fence the record
	}
	s.say(tx, l, h.Encode())
	l.toldWas, l.told = was, report{Health: h, said: true}
	s.tx.told = append(s.tx.told, l)
}

// silence takes a drained lane's word back.
func (s *stage) silence(tx *stream.Tx, l *lanePart) {
	if !l.told.said && !l.told.takenOver || !l.stands() {
		return
	}
	s.say(tx, l, nil)
	l.toldWas, l.told = l.told, report{}
	s.tx.told = append(s.tx.told, l)
}

// say writes one record of weir.health; nil is a tombstone. All are in one
// partition, so that compaction finds their keys again however many it has.
func (s *stage) say(tx *stream.Tx, l *lanePart, value []byte) {
	l.dirty = true
	tx.Produce(&kgo.Record{Topic: s.cfg.Names.Health(), Key: []byte(schemas.HealthKey(s.cfg.Provider, l.num)), Value: value})
}
