package alert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// How a notice is tried.
const (
	firstPause = time.Second // after the first try that failed; doubled by each further one
	maxPause   = time.Minute
	giveUp     = 15 * time.Minute // after the first try: its counts go back to what is held
	// afterRefusal is how long an alert is silent at least when its receiver
	// refused a notice: the address is wrong, as a rule.
	afterRefusal = time.Minute
	// remembered is how long it is known that a subject was told before.
	remembered = 24 * time.Hour
)

// Rule is an alert of the policy, as far as it decides what is told when.
type Rule struct {
	Name   string
	When   []string
	N      int           // notices in Window at most
	Window time.Duration // it rolls
}

// State is what the alerter remembers. It is what Step reads and changes, and all
// of it is written down.
type State struct {
	Alerts map[string]*Alert `json:"alerts"`
	Now    schemas.Millis    `json:"now,omitzero"` // of the last step
}

// Alert is what is remembered of one alert.
type Alert struct {
	Number   int64                     `json:"number"`          // of notices made so far
	Sent     []schemas.Millis          `json:"sent,omitempty"`  // when notices were taken, or given up and perhaps taken; the latest N
	Quiet    schemas.Millis            `json:"quiet,omitempty"` // no notice before
	Held     map[string]*Sum           `json:"held,omitempty"`
	Standing map[string]*Standing      `json:"standing,omitempty"`
	Told     map[string]schemas.Millis `json:"told,omitempty"` // when a subject was last told
	Out      *Notice                   `json:"out,omitempty"`  // on its way: the next waits for it
}

// Standing is a condition, and what was told of it.
type Standing struct {
	Subject
	Since  schemas.Millis `json:"since"`
	Detail string         `json:"detail,omitempty"`
	On     bool           `json:"on"`
	Until  schemas.Millis `json:"until,omitzero"` // when it ended, if it is not on
	Told   bool           `json:"told"`           // the last notice said that it is on
	Begun  int64          `json:"begun"`          // how often it began since the last notice
}

// news reports whether there is something to tell.
func (s *Standing) news() bool { return s.On != s.Told || s.Begun > 0 }

// Notice is one message to whom an alert tells. Its id stays the same however
// often it is tried.
type Notice struct {
	ID        string                    `json:"id"`
	Alert     string                    `json:"alert"`
	At        schemas.Millis            `json:"at"`
	Sums      []*Sum                    `json:"sums,omitempty"`
	Standings []*Standing               `json:"standings,omitempty"` // as they were before it: Told is what an earlier one said
	Told      map[string]schemas.Millis `json:"told,omitempty"`      // of its sums' subjects: when they were told before
	Tries     int                       `json:"tries,omitempty"`
	Next      schemas.Millis            `json:"next"`             // not tried before
	Unsure    bool                      `json:"unsure,omitempty"` // a try may have been taken, though nobody said so
	Test      bool                      `json:"test,omitempty"`
}

// Step tells the state what happened and what the time is, and returns the notices
// that are due to be tried now, by alert. A notice is returned again at each step
// until an outcome is reported, so whoever tries knows what is under way. It must
// be written down before it is tried.
//
// Of each alert there is one notice on its way at a time, and at most N of them
// are taken in any window: a window counts from when a notice was taken. One that was
// given up counts only if it may have been taken. What may not be told yet is summed
// up, and the next notice has it all.
func (s *State) Step(rules []Rule, f Facts, now schemas.Millis) (due []*Notice, done []Done) {
	if s.Alerts == nil {
		s.Alerts = make(map[string]*Alert)
	}
	if s.Now > now {
		for _, a := range s.Alerts {
			a.setBack(s.Now - now)
		}
	}
	s.Now = now
	maps.DeleteFunc(s.Alerts, func(name string, _ *Alert) bool {
		return !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == name })
	})
	for i := range f.Outcomes {
		o := f.Outcomes[i]
		o.At = min(o.At, now) // it may be of before the clock went back
		if a := s.Alerts[o.Alert]; a != nil && a.Out != nil && a.Out.ID == o.Notice {
			if d := a.outcome(&o); d != nil {
				done = append(done, *d)
			}
		}
	}
	for _, r := range rules {
		a := s.Alerts[r.Name]
		if a == nil {
			a = new(Alert)
			s.Alerts[r.Name] = a
		}
		a.hear(r, &f, now)
		a.trim(r, now)
		if a.Out == nil && a.news() && a.may(r, now) {
			a.compose(r, now)
		}
		if a.Out != nil && a.Out.Next <= now {
			due = append(due, a.Out)
		}
	}
	return due, done
}

// behind returns the stages that are behind as far as is known.
func (s *State) behind() map[string]Condition {
	out := make(map[string]Condition)
	for _, a := range s.Alerts {
		for _, st := range a.Standing {
			if st.Event == schemas.AlertLag && st.On {
				out[st.Stage] = Condition{Subject: st.Subject, Since: st.Since, Detail: st.Detail}
			}
		}
	}
	return out
}

// setBack moves what is remembered by as much as the clock went back: whoever had
// one that was hours ahead would else be silent for hours. A window that counts
// from the last step is no shorter than one that counts from the notice before it.
func (a *Alert) setBack(by schemas.Millis) {
	for i := range a.Sent {
		a.Sent[i] -= by
	}
	a.Quiet -= min(a.Quiet, by)
	for key := range a.Told {
		a.Told[key] -= by
	}
	if n := a.Out; n != nil {
		n.At -= by
		n.Next -= min(n.Next, by)
	}
}

// takeOver is told that another was the alerter until now: its last try of a notice may
// have been taken. All are due at once.
func (s *State) takeOver() {
	for _, a := range s.Alerts {
		if a.Out != nil {
			a.Out.Next, a.Out.Unsure = 0, true
		}
	}
}

// Done is a notice's end.
type Done struct {
	Notice  *Notice
	Verdict Verdict // Taken, Refused, or Again: given up
}

// hear adds what happened and stands to what is held.
func (a *Alert) hear(r Rule, f *Facts, now schemas.Millis) {
	for i := range f.Happened {
		if h := &f.Happened[i]; slices.Contains(r.When, h.Event) {
			a.held(h.Subject).add(h)
		}
	}
	for event, list := range f.Standing {
		if !slices.Contains(r.When, event) {
			continue
		}
		is := make(map[string]*Condition, len(list))
		for i := range list {
			is[list[i].key()] = &list[i]
		}
		for key, c := range is {
			st := a.Standing[key]
			if st == nil {
				if a.Standing == nil {
					a.Standing = make(map[string]*Standing)
				}
				st = &Standing{Subject: c.Subject}
				a.Standing[key] = st
			}
			if !st.On {
				st.On, st.Since, st.Until = true, c.Since, 0
				st.Begun++
			}
			st.Detail = clip(c.Detail)
		}
		for key, st := range a.Standing {
			if st.Event == event && st.On && is[key] == nil {
				st.On, st.Until = false, now
			}
		}
	}
	// What an alert no longer asks for is not told.
	maps.DeleteFunc(a.Held, func(_ string, s *Sum) bool { return !slices.Contains(r.When, s.Event) })
	maps.DeleteFunc(a.Standing, func(_ string, s *Standing) bool { return !slices.Contains(r.When, s.Event) })
}

func (a *Alert) held(s Subject) *Sum {
	if a.Held == nil {
		a.Held = make(map[string]*Sum)
	}
	key := s.key()
	if a.Held[key] == nil && len(a.Held) >= maxSubjects {
		s = s.others()
		key = s.key()
	}
	if a.Held[key] == nil {
		a.Held[key] = &Sum{Subject: s}
	}
	return a.Held[key]
}

func (a *Alert) news() bool {
	if len(a.Held) > 0 {
		return true
	}
	for _, st := range a.Standing {
		if st.news() {
			return true
		}
	}
	return false
}

// may reports whether a notice more keeps to the rule: the n-th most recent one is
// at least a window old.
func (a *Alert) may(r Rule, now schemas.Millis) bool {
	return now >= a.Quiet && (len(a.Sent) < r.N || a.Sent[len(a.Sent)-r.N]+schemas.Millis(r.Window.Milliseconds()) <= now)
}

func (a *Alert) trim(r Rule, now schemas.Millis) {
	if over := len(a.Sent) - r.N; over > 0 {
		a.Sent = slices.Delete(a.Sent, 0, over)
	}
	keep := schemas.Millis(max(remembered, r.Window).Milliseconds())
	maps.DeleteFunc(a.Told, func(_ string, at schemas.Millis) bool { return at+keep < now })
}

// compose makes a notice of all there is to tell.
func (a *Alert) compose(r Rule, now schemas.Millis) {
	a.Number++
	n := &Notice{ID: fmt.Sprintf("alert_%s_%d_%d", r.Name, now, a.Number), Alert: r.Name, At: now, Next: now}
	for _, key := range slices.Sorted(maps.Keys(a.Held)) {
		n.Sums = append(n.Sums, a.Held[key])
		if at, ok := a.Told[key]; ok {
			if n.Told == nil {
				n.Told = make(map[string]schemas.Millis)
			}
			n.Told[key] = at
		}
	}
	slices.SortStableFunc(n.Sums, func(x, y *Sum) int {
		if x.Event != y.Event {
			return strings.Compare(x.Event, y.Event)
		}
		return int(min(max(y.Count-x.Count, -1), 1))
	})
	for _, key := range slices.Sorted(maps.Keys(a.Standing)) {
		if st := a.Standing[key]; st.news() {
			as := *st
			n.Standings = append(n.Standings, &as)
			st.Told, st.Begun = st.On, 0
		}
	}
	a.forget()
	a.Held, a.Out = nil, n
}

// forget drops conditions that are over and of which nothing is to be told.
func (a *Alert) forget() {
	maps.DeleteFunc(a.Standing, func(_ string, st *Standing) bool { return !st.On && !st.news() })
}

// outcome is what came of the notice that is out. It returns its end, if it is one.
func (a *Alert) outcome(o *Outcome) *Done {
	n := a.Out
	at := max(o.At, n.At)
	if len(a.Sent) > 0 {
		at = max(at, a.Sent[len(a.Sent)-1]) // a clock that was set back makes no room
	}
	if o.Verdict == Unsure {
		n.Unsure, o.Verdict = true, Again
	}
	switch o.Verdict {
	case Taken:
		a.Out = nil
		a.Sent = append(a.Sent, at)
		for _, sum := range n.Sums {
			if a.Told == nil {
				a.Told = make(map[string]schemas.Millis)
			}
			if len(a.Told) < 2*maxSubjects || a.Told[sum.key()] != 0 {
				a.Told[sum.key()] = n.At
			}
		}
		return &Done{n, Taken}
	case Again, Unsure:
		n.Tries++
		pause := schemas.Millis(max(firstPause<<min(n.Tries-1, 6), time.Duration(o.After)*time.Millisecond).Milliseconds())
		if o.After == 0 {
			pause = min(pause, schemas.Millis(maxPause.Milliseconds()))
		}
		if at+pause <= n.At+schemas.Millis(giveUp.Milliseconds()) {
			n.Next = at + pause
			return nil
		}
		a.Quiet = max(a.Quiet, at+pause) // also what the receiver asked for
	case Refused:
		a.Quiet = max(a.Quiet, at+schemas.Millis(afterRefusal.Milliseconds()))
	}
	a.Out = nil
	if n.Unsure { // a receiver that has it must not get another within the window
		a.Sent = append(a.Sent, at)
	}
	a.takeBack(n)
	return &Done{n, o.Verdict}
}

// takeBack holds again what a notice did not tell.
func (a *Alert) takeBack(n *Notice) {
	for _, sum := range n.Sums {
		a.held(sum.Subject).merge(sum)
	}
	for _, was := range n.Standings {
		st := a.Standing[was.key()]
		if st == nil {
			if a.Standing == nil {
				a.Standing = make(map[string]*Standing)
			}
			back := *was
			a.Standing[was.key()] = &back
			continue
		}
		st.Told = was.Told
		st.Begun += was.Begun
	}
	a.forget()
}
