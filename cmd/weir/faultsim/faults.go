package faultsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/cmd/weir/e2e"
)

// Tally counts what really happened.
type Tally struct {
	Hits        map[string]int // faults by call and kind
	Events      map[What]int
	Deaths      int
	Restarts    int // of processes that ended on their own
	Rebalances  int
	Takeovers   int // first assignments of a process that a standby's state began
	Committed   int
	Aborted     int
	Unknown     int // asked to commit, and no answer came
	Stuck       int // groups of kfake that the referee restarted
	Decisions   int64
	Again       int64 // replayed under the same policy
	Requests    int
	Simulated   float64 // seconds
	Transcripts int     // cycles
	Wide        e2e.Wide
	Released    int            // decisions without sending
	NotHeld     int            // releases that changed nothing
	Passed      int            // through topics that are bound to tenants
	TurnedAway  int            // at them
	Told        int            // first decisions, to those who waited
	Asked       int            // of them questions for what is left
	Cuts        int64          // that an audit beside the faults judged
	Judged      int            // calls that recipients may have received
	Doubted     int            // of them before the last of their message
	Late        int            // of them called late, as Weir says
	Appended    int            // decisions judged by their appends
	Mixed       int            // cycles in which workers with other time zones and numbering plans decided
	Versions    int            // takeovers from workers with other ones
	Repeats     map[string]int // records that came again, by form and way
}

func newTally() *Tally {
	return &Tally{Hits: make(map[string]int), Events: make(map[What]int), Repeats: make(map[string]int)}
}

// Add sums up.
func (t *Tally) Add(o *Tally) {
	for k, n := range o.Hits {
		t.Hits[k] += n
	}
	for k, n := range o.Events {
		t.Events[k] += n
	}
	for k, n := range o.Repeats {
		t.Repeats[k] += n
	}
	t.Deaths += o.Deaths
	t.Cuts += o.Cuts
	t.Restarts += o.Restarts
	t.Rebalances += o.Rebalances
	t.Takeovers += o.Takeovers
	t.Committed += o.Committed
	t.Aborted += o.Aborted
	t.Unknown += o.Unknown
	t.Stuck += o.Stuck
	t.Decisions += o.Decisions
	t.Again += o.Again
	t.Requests += o.Requests
	t.Simulated += o.Simulated
	t.Transcripts += o.Transcripts
	t.Wide.Add(o.Wide)
	t.Released += o.Released
	t.NotHeld += o.NotHeld
	t.Passed += o.Passed
	t.TurnedAway += o.TurnedAway
	t.Told += o.Told
	t.Asked += o.Asked
	t.Judged += o.Judged
	t.Doubted += o.Doubted
	t.Late += o.Late
	t.Appended += o.Appended
	t.Mixed += o.Mixed
	t.Versions += o.Versions
}

// Never lists the faults that no cycle had, and what of wide limits never
// happened.
func (t *Tally) Never() (out []string) {
	if name := hitName(kmsg.Produce, KindHang); t.Hits[name] == 0 {
		out = append(out, name)
	}
	for key := range errs {
		for _, kind := range []Kind{KindError, KindLoseCall, KindLoseAnswer} {
			if t.Hits[hitName(key, kind)] == 0 {
				out = append(out, hitName(key, kind))
			}
		}
	}
	for _, key := range append(slices.Collect(maps.Keys(errs)), anyCall) {
		if t.Hits[hitName(key, KindDieBefore)]+t.Hits[hitName(key, KindDieAfter)] == 0 {
			out = append(out, hitName(key, "die"))
		}
	}
	for _, w := range []What{WhatJoin, WhatLeave, WhatKill, WhatCut, WhatClock, WhatCoordinators, WhatLeaders, WhatCompact, WhatPolicy} {
		if t.Events[w] == 0 {
			out = append(out, string(w))
		}
	}
	for what, n := range map[string]int{"rebalances": t.Rebalances, "takeovers": t.Takeovers, "commits": t.Committed, "aborts": t.Aborted, "unknown outcomes": t.Unknown, "releases": t.Released, "releases of nothing": t.NotHeld, "passed at inputs": t.Passed, "turned away at inputs": t.TurnedAway, "told": t.Told, "asked": t.Asked, "cuts that were audited": int(t.Cuts), "calls in doubt": t.Doubted, "decisions by their appends": t.Appended, "groups of two versions": t.Mixed, "takeovers from another version": t.Versions} {
		if n == 0 {
			out = append(out, what)
		}
	}
	for what, n := range t.Wide.Counts() {
		if n == 0 {
			out = append(out, "wide limits: "+what)
		}
	}
	out = append(out, t.neverRepeated()...)
	slices.Sort(out)
	return out
}

func (t *Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cycles, %.0f simulated seconds, %d requests, %d decisions audited, %d decided again; transactions: %d committed, %d aborted, %d of unknown outcome; %d crashes, %d restarts on their own, %d rebalances, %d takeovers from a standby, %d groups of kfake stuck",
		t.Transcripts, t.Simulated, t.Requests, t.Decisions, t.Again, t.Committed, t.Aborted, t.Unknown, t.Deaths, t.Restarts, t.Rebalances, t.Takeovers, t.Stuck)
	total := 0
	for _, n := range t.Hits {
		total += n
	}
	fmt.Fprintf(&b, "\n%d faults of calls:", total)
	for _, k := range slices.Sorted(maps.Keys(t.Hits)) {
		fmt.Fprintf(&b, " %s=%d", strings.ReplaceAll(k, " ", "_"), t.Hits[k])
	}
	fmt.Fprintf(&b, "\nwide limits: %s", t.Wide)
	fmt.Fprintf(&b, "\ndecisions without sending: %d released, %d releases of nothing", t.Released, t.NotHeld)
	fmt.Fprintf(&b, "\n%d cuts audited beside the faults", t.Cuts)
	fmt.Fprintf(&b, "\ntold of their decision: %d, of them %d who asked what is left", t.Told, t.Asked)
	fmt.Fprintf(&b, "\nat the provider: %d calls, %d of them in doubt and made again, %d late; by their appends: %d decisions", t.Judged, t.Doubted, t.Late, t.Appended)
	fmt.Fprintf(&b, "\ntime zones and numbering plans of two versions: %d cycles, %d takeovers from the other", t.Mixed, t.Versions)
	fmt.Fprintf(&b, "\nrecords that came again: %s", t.repeats())
	b.WriteString("\nothers:")
	for _, k := range slices.Sorted(maps.Keys(t.Events)) {
		fmt.Fprintf(&b, " %s=%d", strings.ReplaceAll(string(k), " ", "_"), t.Events[k])
	}
	return b.String()
}

func hitName(key kmsg.Key, kind Kind) string {
	if key == anyCall {
		return "any " + string(kind)
	}
	return key.Name() + " " + string(kind)
}

// injector decides what becomes of each call of the workers, by the plan.
type injector struct {
	cluster *kfake.Cluster
	trace   *Trace

	mu     sync.Mutex
	plan   []Fault
	counts map[kmsg.Key]int
	errors []*planned
	over   bool
	tally  *Tally
	spare  func(kmsg.Request) bool // which calls are no worker's
}

// planned is an error that the broker is to answer.
type planned struct {
	fault  Fault
	handle *kfake.FaultHandle
}

// fate is called for every call of a worker.
func (in *injector) fate(who string, k *call) fate {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return fatePass
	}
	in.counts[k.key]++
	in.counts[anyCall]++
	for i, f := range in.plan {
		if f.Key != anyCall && f.Key != k.key || f.Nth > in.counts[f.Key] {
			continue
		}
		in.plan = slices.Delete(in.plan, i, i+1)
		in.trace.Say("FAULT %s: %s (%s)", who, f, k.key.Name())
		if f.Kind == KindError {
			in.errors = append(in.errors, &planned{f, in.cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{f.Key}, Err: f.Err, When: func(r kmsg.Request) bool { return !in.spare(r) },
			})})
			return fatePass
		}
		in.tally.Hits[hitName(f.Key, f.Kind)]++
		if req, ok := k.request().(*kmsg.EndTxnRequest); ok && req.Commit {
			in.tally.Unknown++
		}
		switch f.Kind {
		case KindLoseCall:
			return fateLoseCall
		case KindLoseAnswer:
			return fateLoseAnswer
		case KindDieBefore:
			return fateDieBefore
		case KindDieAfter:
			return fateDieAfter
		case KindHang:
			return fateHang
		case KindError:
		}
	}
	return fatePass
}

// end lets everything pass from here on.
func (in *injector) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over = true
	for _, p := range in.errors {
		if p.handle.Hits() > 0 {
			in.tally.Hits[hitName(p.fault.Key, KindError)]++
		}
		p.handle.Remove()
	}
	in.trace.Say("no more faults; not reached: %v", in.plan)
}

// start begins to count calls.
func (in *injector) start() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over = false
}
