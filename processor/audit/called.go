package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// A limit is exact when a message is decided, and its recipient sees when it is
// called. So each call is made no later than its slack after the decision: n + 1 calls
// in one scope then span at least a window less the slack. A lane gives back a message
// that is past that moment, and admission decides it again. One that comes back past it
// twice in a row is called late, and its status says so.

// The slack is a tenth of the smallest window in which the decision charged the
// recipient, within these bounds, or what the message's class says. See docs/exactness.md.
const (
	leastSlack = time.Second
	mostSlack  = time.Minute
)

// reasonLate is the reason of a sending status whose call is later than its slack.
const reasonLate = "late"

// staleTwice is how many times in a row a lane gives a message back before it may call
// it late.
const staleTwice = 2

// callBy returns the last moment at which a message may be called that was decided at t
// and charged what list holds.
func (p *partition) callBy(list int32, t schemas.Millis) schemas.Millis {
	for i := range p.rules.policy.Classes {
		if c := &p.rules.policy.Classes[i]; c.Name == cmp.Or(p.e.Class, schemas.DefaultClass) && c.StaleAfter > 0 {
			return t.Add(time.Duration(c.StaleAfter))
		}
	}
	slack := mostSlack
	for ; list != 0; list = p.calls.held[list].next {
		l := p.calls.held[list].limit
		if l.wide || l.observe {
			continue
		}
		for _, w := range l.windows(p.e.To) {
			slack = min(slack, lengthOf(&w)/10)
		}
	}
	return t.Add(max(slack, leastSlack))
}

// lengthOf is the length of a window: of a bucket, the time in which it refills by one.
func lengthOf(w *schemas.Window) time.Duration {
	switch w.Kind {
	case schemas.WindowCalendar:
		return map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "month": 28 * 24 * time.Hour}[w.Unit]
	case schemas.WindowBucket:
		return time.Duration((w.RefillEvery+w.RefillTokens-1)/w.RefillTokens) * time.Millisecond
	case schemas.WindowRolling:
	}
	return w.Length
}

// called judges the time of a call.
func (p *partition) called(m *message) {
	e := p.e
	switch {
	case m.by == 0 || e.At <= m.by:
		if e.Reason == reasonLate {
			p.fault(KindCalled, "called at %s and said to be late, and it may be called until %s", e.At, m.by)
		}
	case e.Reason == reasonLate && m.stale >= staleTwice:
		p.counts.LateCalls += p.one()
	case p.judged && !p.gone[e.Provider]:
		p.found.late(e.Provider, Violation{
			Kind: KindCalled, Topic: p.statusTopic, Partition: p.num, Offset: p.rec.Offset, T: e.At, MessageID: e.MessageID, To: e.To,
			Appended: schemas.MillisOf(p.rec.Timestamp),
			Text:     fmt.Sprintf("called at %s, %s after the last moment at which it might be: %s", e.At, e.At.Sub(m.by), m.by),
		})
	}
}

// lateKept bounds how many late calls of a provider are kept until its journals are read.
const lateKept = 1000

// late notes a call that was too late. Whether its lane knew the bound, its journal says.
func (f *findings) late(provider string, v Violation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.lateCalls[provider]
	if o == nil {
		o = new(lateCalls)
		f.lateCalls[provider] = o
	}
	if o.kept = append(o.kept, v); len(o.kept) == 2*lateKept {
		slices.SortFunc(o.kept, func(a, b Violation) int { return cmp.Compare(b.T, a.T) })
		o.kept, o.earlier = o.kept[:lateKept], o.earlier+lateKept
	}
}

// unbounded notes that a lane of provider gave a permit at t to a message that said no
// moment until which it might be called: admission or the lane was of an earlier version.
func (f *findings) unbounded(provider string, t schemas.Millis) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boundless[provider] = max(f.boundless[provider], t)
}

// lateCalls are calls of one provider that were too late: the latest, and the number of
// those before.
type lateCalls struct {
	kept    []Violation
	earlier int64
}

// judgeLate reports the calls that were too late, but those before the last permit of an
// earlier version. Unless all journals were read, that permit is not known.
func (f *findings) judgeLate(all bool) {
	defer clear(f.lateCalls)
	for provider, o := range f.lateCalls {
		until, excused := f.boundless[provider], o.earlier
		if !all {
			f.cannotTell("calls later than their slack, of lanes whose journals were not read", excused+int64(len(o.kept)))
			continue
		}
		for _, v := range o.kept {
			if v.T <= until {
				excused++
				continue
			}
			f.violation(v)
		}
		if until == 0 {
			continue
		}
		f.cannotTell("calls later than their slack, before the last permit of a lane or an admission of an earlier version", excused)
	}
}
