package faultsim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// Half of the requests have somebody who waits for the first decision on them, and
// some name an address that is none. Others ask meanwhile what is left. In the end
// everyone who could be told must have been told once: what the log says, and what
// the oracle counted at that point of it.

// replyPartitions is how many weir.replies has.
const replyPartitions = 2

// noAddresses are headers for which nobody is told anything.
var noAddresses = []string{"", "x", "2/beyond", "2147483647/beyond", "-1/x", "0/", "0/with space", "0/\x00"}

// addressed gives requests who waits for them, from a source by itself, so that
// the rest of a seed stays.
func addressed(p *Plan, all []send) {
	r := rand.New(rand.NewPCG(p.Seed, 0x7265706c))
	for i := range all {
		switch n := r.IntN(20); {
		case all[i].ask != nil:
		case n < 10:
			all[i].replyTo = schemas.ReplyTo(r.Int32N(replyPartitions), fmt.Sprintf("r%d", i))
		case n == 10:
			all[i].replyTo = noAddresses[r.IntN(len(noAddresses))]
		}
	}
}

// questions draws who asks what is left, mostly about those to whom something is
// sent then.
func questions(p *Plan, sends []send) (all []send) {
	r := rand.New(rand.NewPCG(p.Seed, 0x71756f74))
	choices, err := parsed()
	if err != nil {
		panic(err) // said by who uses them for more
	}
	for i := range p.Requests / 6 {
		pol := &choices[0][p.Policies[r.IntN(len(p.Policies))]]
		rules, err := limit.Compile(pol, nil)
		if err != nil {
			panic(err)
		}
		s := limit.Subject{
			Recipient: fmt.Sprintf("+861380000000%d", 1+r.IntN(3)), Country: "CN", Tenant: []string{"default", "default", "acme", "umbrella"}[r.IntN(4)], Channel: "sms",
			Class: []string{"verify", "verify", "notice", "hold"}[r.IntN(4)], Provider: []string{"", "sim"}[r.IntN(2)],
		}
		if ip := r.IntN(4); ip > 0 {
			s.Metadata = map[string]string{"ip": fmt.Sprintf("10.0.0.%d", ip)}
		}
		if p.Wide && r.IntN(2) == 0 {
			s.Recipient = fmt.Sprintf("+861380000000%d", 4+r.IntN(6))
		}
		at := sends[r.IntN(len(sends))].at + time.Duration(r.IntN(500))*time.Millisecond
		asks := rules.Inquire(&s, p.Partitions).Asks
		for partition := range p.Partitions {
			if ask := asks[partition]; ask != nil {
				to := partition
				if r.IntN(8) == 0 { // to one that does not own it
					to = r.Int32N(p.Partitions)
				}
				all = append(all, send{at: at, partition: to, ask: ask, replyTo: schemas.ReplyTo(r.Int32N(replyPartitions), fmt.Sprintf("q%d-%d", i, partition))})
			}
		}
	}
	return all
}

// replies is what a cycle knows of those who wait.
type replies struct {
	waits  map[schemas.Source]string               // by the input that says so
	asks   map[string]*schemas.QuotaAsk            // questions, by header
	events map[schemas.Source]*schemas.Event       // by the input that was decided
	left   map[schemas.Source][]schemas.LimitState // of home's own limits then, as the oracle has it
	quotas map[schemas.Source]map[string][]schemas.LimitState
	told   map[string][]*schemas.Reply // by header
}

func newReplies() *replies {
	return &replies{
		waits: make(map[schemas.Source]string), asks: make(map[string]*schemas.QuotaAsk), events: make(map[schemas.Source]*schemas.Event),
		left: make(map[schemas.Source][]schemas.LimitState), quotas: make(map[schemas.Source]map[string][]schemas.LimitState), told: make(map[string][]*schemas.Reply),
	}
}

// tells takes down a decision that the oracle has just taken.
func (c *cycle) tells(r e2e.Record) {
	d := r.Event.Decision
	if d == nil || d.Input == nil {
		return
	}
	w := c.replies
	w.events[*d.Input] = r.Event
	switch {
	case r.Event.Reason == "quota":
		// Which question it is, the follower may not have read yet.
		w.quotas[*d.Input] = make(map[string][]schemas.LimitState)
		for at, ask := range w.asks {
			w.quotas[*d.Input][at] = c.oracle.Left(r.Partition, d.Revision, ask, d.T)
		}
	case r.Event.Kind == schemas.KindStatus && (d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictRefuse || d.Verdict == schemas.VerdictDefer && r.Event.Reason == "limited"):
		w.left[*d.Input] = c.oracle.LeftOf(r)
	}
}

// judgeReplies holds what was told to what was decided.
func (c *cycle) judgeReplies() {
	c.mu.Lock()
	w, tally := c.replies, c.tally
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	type first struct {
		in schemas.Source
		e  *schemas.Event
	}
	firsts := make(map[string][]first)
	for in, at := range w.waits {
		if _, ok := firsts[at]; !ok {
			firsts[at] = nil // nobody is forgotten on the way
		}
		e := w.events[in]
		if e == nil {
			fault("%s waits for a decision on %s, and there is none", at, in)
			continue
		}
		d := e.Decision
		if d.Verdict == schemas.VerdictForward || d.Verdict == schemas.VerdictCharge || d.Verdict == schemas.VerdictRefuse && e.Kind == schemas.KindDecision {
			continue // it goes on
		}
		firsts[at] = append(firsts[at], first{in, e})
	}
	for at, fs := range firsts {
		partition, _, ok := schemas.ParseReplyTo(at)
		if !ok || partition >= replyPartitions {
			continue // told is empty then, or it is a stranger's
		}
		told := w.told[at]
		delete(w.told, at)
		if len(fs) != 1 || len(told) != 1 {
			fault("%s was told %d times, of %d first decisions", at, len(told), len(fs))
			continue
		}
		f, r := fs[0], told[0]
		tally.Told++
		want := *f.e
		want.Decision = nil
		got := *r.Event
		got.Decision = nil
		if want.Kind == schemas.KindDecision {
			got.Status = ""
		}
		if !reflect.DeepEqual(got, want) {
			fault("%s was told of %s another thing than the log says: %s %s, and %s %s", at, f.in, got.Status, got.Reason, want.Status, want.Reason)
		}
		if ask := w.asks[at]; ask != nil {
			tally.Asked++
			if want := w.quotas[f.in][at]; f.e.Reason != "quota" || !slices.Equal(r.Limits, want) && !c.plan.Mixed {
				fault("%s asked what is left, by %s: told %+v, the oracle counts %+v", at, f.in, r.Limits, want)
			}
			continue
		}
		if c.plan.Mixed {
			continue // calendar windows are not those of the oracle
		}
		if err := sameLeft(r.Limits, w.left[f.in], f.e); err != nil {
			fault("%s was told of %s what is left: %v", at, f.in, err)
		}
	}
	for at := range w.told {
		fault("%s was told something, and nobody waits", at)
	}
	c.mu.Unlock()
	for _, f := range faults {
		c.fail("%s", f)
	}
}

// sameLeft compares what was told of the recipient's own limits with what the
// oracle counts. Who was admitted was put to all of them.
func sameLeft(told, counted []schemas.LimitState, e *schemas.Event) error {
	d := e.Decision
	for _, s := range counted {
		i := slices.IndexFunc(told, func(o schemas.LimitState) bool { return o.Limit == s.Limit && o.Window == s.Window })
		if i < 0 {
			if d.Verdict == schemas.VerdictAdmit {
				return fmt.Errorf("nothing of %s %s, which it was put to", s.Limit, s.Window)
			}
			continue
		}
		got := told[i]
		full := slices.ContainsFunc(d.Evidence, func(v schemas.Evidence) bool { return v.Limit == s.Limit && v.Window == s.Window })
		if got.Violated != (full && d.Verdict != schemas.VerdictAdmit) {
			return fmt.Errorf("%+v, and it refuses: %v", got, full)
		}
		if got.Violated = false; got != s {
			return fmt.Errorf("%+v, the oracle counts %+v", got, s)
		}
	}
	if d.Verdict != schemas.VerdictAdmit {
		return nil
	}
	for _, s := range told {
		if !slices.ContainsFunc(slices.Concat(d.Charges, d.Carried), func(c schemas.Charge) bool { return c.Limit == s.Limit }) {
			return fmt.Errorf("%+v, in which it has no place", s)
		}
	}
	return nil
}
