package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Call is one call that its recipient may have received.
type Call struct {
	Provider, Message string
	To                string         // canonical, as the provider was called
	At                schemas.Millis // by the provider's clock, which is the brokers' here
}

// phones judges what recipients see: the calls that providers received, by their own
// clock, against the windows in which admission charged them.
type phones struct {
	admitted map[string][]dispatchable // by message, in order
	late     map[string]bool           // messages whose calls Weir said were late
}

// dispatchable is a decision after which a message is called.
type dispatchable struct {
	to       string
	appended schemas.Millis
	slack    time.Duration
	windows  []counted
}

// counted is a window that counts a message: by what, how many it lets in, how long.
type counted struct {
	key    string
	n      int64
	length time.Duration
	cost   int64
}

func newPhones() *phones {
	return &phones{admitted: make(map[string][]dispatchable), late: make(map[string]bool)}
}

// slack is how long after its decision a message may be called: what its class says, or
// a tenth of the smallest window of the recipient's limits that charged it, from one
// second to one minute.
func (o *Oracle) slack(pol *schemas.Policy, e *schemas.Event, limits []*schemas.Limit) time.Duration {
	for _, c := range pol.Classes {
		if c.Name == cmp.Or(e.Class, schemas.DefaultClass) && c.StaleAfter != 0 {
			return time.Duration(c.StaleAfter)
		}
	}
	least := 10 * time.Minute
	for _, l := range limits {
		for _, w := range windowsFor(l, e.To) {
			length := w.Length
			if w.Kind == schemas.WindowCalendar && w.Unit == "minute" {
				length = time.Minute
			} else if w.Kind == schemas.WindowCalendar {
				continue // an hour or more: no less than ten minutes
			} else if w.Kind == schemas.WindowBucket {
				length = time.Duration(float64(w.RefillEvery) / float64(w.RefillTokens) * float64(time.Millisecond))
			}
			least = min(least, length)
		}
	}
	return max(time.Second, least/10)
}

// admits takes note of a decision after which a message is called.
func (f *phones) admits(o *Oracle, p *logged, r Record) {
	e, d := r.Event, r.Event.Decision
	pol := o.policies[d.Revision]
	if pol == nil {
		return
	}
	var limits []*schemas.Limit
	a := dispatchable{to: e.To, appended: r.Appended}
	for _, c := range slices.Concat(d.Charges, d.Carried) {
		l := o.limit(d.Revision, c.Limit)
		if l == nil || isWide(l) || l.Mode == schemas.ModeObserve {
			continue
		}
		limits = append(limits, l)
		for _, w := range windowsFor(l, e.To) {
			if w.Kind == schemas.WindowRolling {
				// What was called before the window began to count is another's.
				key := fmt.Sprint(shelf(l, e), w, p.since[l.Name][w.UnitKey()])
				a.windows = append(a.windows, counted{key, w.N, w.Length, c.Cost})
			}
		}
	}
	a.slack = o.slack(pol, e, limits)
	f.admitted[e.MessageID] = append(f.admitted[e.MessageID], a)
}

// status takes note of what Weir says of a call.
func (f *phones) status(e *schemas.Event) {
	if e.Status == schemas.StatusSending && e.Reason == "late" {
		f.late[e.MessageID] = true
	}
}

// seen is what a window counted at a moment, and in what time it may count no more than n.
type seen struct {
	at      schemas.Millis
	cost    int64
	message string
	n       int64
	within  time.Duration
}

// judge looks whether the calls in each window were further apart than the window,
// less their slack. clocks is by how much workers' clocks may differ.
func (f *phones) judge(o *Oracle, calls []Call, clocks time.Duration) {
	windows := make(map[string][]seen)
	last := make(map[string]int) // by message: its last call
	for i, c := range calls {
		if j, again := last[c.Message]; !again || calls[j].At <= c.At {
			last[c.Message] = i
		}
	}
	for n, c := range calls {
		all := f.admitted[c.Message]
		i, _ := slices.BinarySearchFunc(all, c.At+1, func(a dispatchable, t schemas.Millis) int { return cmp.Compare(a.appended, t) })
		if i == 0 {
			o.fault(FaultCalls, Record{Offset: -1, Event: &schemas.Event{MessageID: c.Message}}, "called at %s, before it was admitted", c.At)
			continue
		}
		if c.To != all[i-1].to {
			o.fault(FaultCalls, Record{Offset: -1, Event: &schemas.Event{MessageID: c.Message}}, "called for another recipient than it was admitted for")
		}
		if last[c.Message] != n { // in doubt, and sent again: its charge moved on
			o.report.Again++
			continue
		}
		if f.late[c.Message] {
			o.report.Late++
			continue
		}
		for _, w := range all[i-1].windows {
			windows[w.key] = append(windows[w.key], seen{c.At, w.cost, c.Message, w.n, w.length - all[i-1].slack - clocks})
		}
	}
	o.close(windows, "calls")
	f.appends(o, clocks)
	o.report.Judged = len(calls)
}

// appendedApart is by how much two decisions may be closer by their appends than by their
// own times: one is two seconds ahead of its append at most, the other five behind.
const appendedApart = 7 * time.Second

// appends looks at the decisions that may have been acted upon by the brokers' clock: their
// own times prove nothing, since whoever makes them up would pass every window.
func (f *phones) appends(o *Oracle, clocks time.Duration) {
	windows := make(map[string][]seen)
	for id, all := range f.admitted {
		s, a := o.messages[id], all[len(all)-1]
		if s == nil || s.gaveBack || s.released > 0 || s.end != schemas.StatusSent && s.end != schemas.StatusUnknown {
			continue
		}
		o.report.Appended++
		for _, w := range a.windows {
			windows[w.key] = append(windows[w.key], seen{a.appended, w.cost, id, w.n, w.length - appendedApart - clocks})
		}
	}
	o.close(windows, "appended decisions")
}

// close judges that no window has more than its n in less time than it may.
func (o *Oracle) close(windows map[string][]seen, what string) {
	for key, list := range windows {
		slices.SortStableFunc(list, func(a, b seen) int { return cmp.Compare(a.at, b.at) })
		for i, to := range list {
			within, total := to.within, int64(0)
			for j := i; j >= 0; j-- {
				within = min(within, list[j].within)
				if to.at.Sub(list[j].at) >= within {
					break
				}
				if total += list[j].cost; total > to.n && j < i {
					o.fault(FaultClose, Record{Offset: -1, Event: &schemas.Event{MessageID: to.message}},
						"%d %s within %s, to %s, in a window of %s", total, what, to.at.Sub(list[j].at), to.at, key)
					break
				}
			}
		}
	}
}
