package faultsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Plan is all that a seed decides. Times count from the moment at which the
// first policy is in force.
type Plan struct {
	Seed       uint64
	Start      time.Time // what the brokers' clock shows then
	Partitions int32
	Brokers    int
	Before40   bool // the brokers speak Apache Kafka 3.8's protocol: partitions and offsets are added to a transaction by calls of their own
	Providers  int
	Workers    int  // from the beginning
	Standby    bool // workers follow what others own: admission.standby
	Clocks     map[int]time.Duration
	Policies   []int // in order, the first at once
	Wide       bool  // some have limits beyond one recipient
	Doors      bool  // some requests come through topics that are bound to tenants
	Mixed      bool  // some workers have other time zones and numbering plans
	Gate       bool  // a provider only decides, and some of its decisions are released
	Requests   int
	Span       time.Duration // of requests and of faults by time
	Faults     []Fault
	Events     []Event
}

// Kind is what happens to a broker call.
type Kind string

const (
	KindError      Kind = "error"       // the broker answers an error
	KindLoseCall   Kind = "lose call"   // the connection breaks before it arrives
	KindLoseAnswer Kind = "lose answer" // it is performed, and the connection breaks before the answer
	KindDieBefore  Kind = "die before"  // the worker dies before it arrives
	KindHang       Kind = "hang"        // it arrives nine seconds late
	KindDieAfter   Kind = "die after"   // it is performed, and the worker dies before the answer
)

// anyCall counts calls of every kind.
const anyCall = kmsg.Key(-1)

// Fault hits the Nth call of a kind, counted over all workers from the start.
type Fault struct {
	Key  kmsg.Key
	Nth  int
	Kind Kind
	Err  *kerr.Error // of KindError
}

func (f Fault) String() string {
	name := "call"
	if f.Key != anyCall {
		name = f.Key.Name()
	}
	s := fmt.Sprintf("%s %d: %s", name, f.Nth, f.Kind)
	if f.Err != nil {
		s += " " + f.Err.Message
	}
	return s
}

// What is a fault that has a time instead of a call.
type What string

const (
	WhatJoin         What = "join"         // one more worker
	WhatLeave        What = "leave"        // a worker ends in good order, and stays away for For
	WhatKill         What = "kill"         // a worker dies, and stays away for For
	WhatCut          What = "cut off"      // all of a worker's network stands still for For: longer than its session
	WhatClock        What = "clock"        // a worker's clock steps by By
	WhatCoordinators What = "coordinators" // groups and transactional ids move to other brokers
	WhatLeaders      What = "leaders"      // partitions do
	WhatCompact      What = "compact"      // the brokers compact their logs
	WhatPolicy       What = "policy"       // the next policy comes into force
)

// Event is a fault at a time.
type Event struct {
	At     time.Duration
	What   What
	Worker int
	For    time.Duration
	By     time.Duration
}

func (e Event) String() string {
	s := fmt.Sprintf("%s %s", e.At.Round(time.Millisecond), e.What)
	switch e.What {
	case WhatJoin:
		s += fmt.Sprintf(" %d", e.Worker)
	case WhatLeave, WhatKill, WhatCut:
		s += fmt.Sprintf(" %d for %s", e.Worker, e.For.Round(time.Millisecond))
	case WhatClock:
		s += fmt.Sprintf(" %d by %s", e.Worker, e.By)
	case WhatCoordinators, WhatLeaders, WhatCompact, WhatPolicy:
	}
	return s
}

func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: from %s, %d partitions, %d brokers", p.Seed, p.Start.UTC().Format(time.RFC3339), p.Partitions, p.Brokers)
	if p.Before40 {
		b.WriteString(" (before 4.0)")
	}
	if p.Standby {
		b.WriteString(", with standbys")
	}
	if p.Wide {
		b.WriteString(", with wide limits")
	}
	if p.Gate {
		b.WriteString(", with decisions without sending")
	}
	if p.Doors {
		b.WriteString(", with inputs")
	}
	if p.Mixed {
		b.WriteString(", with time zones and numbering plans of two versions")
	}
	fmt.Fprintf(&b, ", %d providers, %d workers (clocks %v), policies %v, %d requests in %s\n", p.Providers, p.Workers, p.Clocks, p.Policies, p.Requests, p.Span)
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	return b.String()
}

// errs are what brokers answer to a call in trouble, of which a client must
// mend or bear each. REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND are
// answered to what was performed.
var errs = map[kmsg.Key][]*kerr.Error{
	kmsg.EndTxn:             {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions},
	kmsg.TxnOffsetCommit:    {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.RequestTimedOut, kerr.IllegalGeneration, kerr.UnknownMemberID},
	kmsg.AddOffsetsToTxn:    {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions},
	kmsg.AddPartitionsToTxn: {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions},
	kmsg.Produce:            {kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.ConcurrentTransactions},
	kmsg.InitProducerID:     {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions},
	kmsg.Heartbeat:          {kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress},
	kmsg.Fetch:              {kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.OffsetNotAvailable, kerr.KafkaStorageError},
	kmsg.ListOffsets:        {kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, kerr.LeaderNotAvailable},
	kmsg.JoinGroup:          {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress},
	kmsg.SyncGroup:          {kerr.NotCoordinator, kerr.RebalanceInProgress, kerr.UnknownMemberID},
	kmsg.OffsetFetch:        {kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.UnstableOffsetCommit},
	kmsg.FindCoordinator:    {kerr.CoordinatorNotAvailable},
}

// reach is how many calls of a kind a cycle makes, roughly.
var reach = map[kmsg.Key]int{
	kmsg.EndTxn: 150, kmsg.TxnOffsetCommit: 150, kmsg.AddOffsetsToTxn: 150, kmsg.AddPartitionsToTxn: 150, kmsg.Produce: 250,
	kmsg.InitProducerID: 15, kmsg.Heartbeat: 80, kmsg.Fetch: 600, kmsg.ListOffsets: 60, kmsg.JoinGroup: 25, kmsg.SyncGroup: 12,
	kmsg.OffsetFetch: 12, kmsg.FindCoordinator: 15, anyCall: 2500,
}

// hurt is which calls faults prefer: the ends of transactions.
var hurt = []kmsg.Key{
	kmsg.EndTxn, kmsg.EndTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.TxnOffsetCommit, kmsg.AddOffsetsToTxn, kmsg.AddPartitionsToTxn,
	kmsg.Produce, kmsg.Produce, kmsg.InitProducerID, kmsg.InitProducerID, kmsg.Heartbeat, kmsg.Fetch, kmsg.ListOffsets, kmsg.ListOffsets,
	kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.FindCoordinator,
}

// session is the workers' group session: the least that brokers take.
const session = 6 * time.Second

// starts are moments at which calendars do something: midnight in Shanghai, an
// hour that New York repeats and one that it skips, the end of a year, and an
// afternoon at which nothing happens.
var starts = []time.Time{
	time.Date(2026, 11, 21, 15, 59, 40, 0, time.UTC),
	time.Date(2026, 11, 1, 5, 59, 40, 0, time.UTC),
	time.Date(2027, 3, 14, 6, 59, 40, 0, time.UTC),
	time.Date(2026, 12, 31, 23, 59, 40, 0, time.UTC),
	time.Date(2026, 11, 18, 13, 7, 11, 0, time.UTC),
}

// NewPlan draws the plan of a seed.
func NewPlan(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x77656972))
	p := &Plan{
		Seed: seed, Start: starts[r.IntN(len(starts))].Add(time.Duration(r.IntN(20_000)) * time.Millisecond),
		Partitions: int32(1 + r.IntN(3)), Brokers: 1 + r.IntN(2), Before40: r.IntN(2) == 0,
		Providers: 1 + r.IntN(3)/2, Workers: 1 + r.IntN(2), Clocks: make(map[int]time.Duration),
		Requests: 50 + r.IntN(60), Span: time.Duration(20+r.IntN(25)) * time.Second,
	}
	p.Policies = r.Perm(len(policies))[:1+r.IntN(3)]
	if r.IntN(2) == 0 {
		p.wide(r)
	}
	p.faults(r)
	p.events(r)
	if r.IntN(2) == 0 {
		p.standby(r)
	}
	p.Gate = rand.New(rand.NewPCG(seed, 0x67617465)).IntN(3) == 0 // by itself, so that the rest of a seed stays
	p.hangs(rand.New(rand.NewPCG(seed, 0x68616e67)))
	p.Doors = rand.New(rand.NewPCG(seed, 0x646f6f72)).IntN(3) == 0
	p.Mixed = rand.New(rand.NewPCG(seed, 0x6d697865)).IntN(6) == 0
	return p
}

// clocks is by how much two workers' clocks may differ: each may be wrong by as much as
// admission lets it, in either direction.
func (p *Plan) clocks() time.Duration {
	if len(p.Clocks) == 0 && !slices.ContainsFunc(p.Events, func(e Event) bool { return e.What == WhatClock }) {
		return 0
	}
	return 2 * clockMayBeAhead
}

// hangs delays appends in a third of the cycles.
func (p *Plan) hangs(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(3) {
		p.Faults = append(p.Faults, Fault{Key: kmsg.Produce, Nth: 1 + r.IntN(reach[kmsg.Produce]), Kind: KindHang})
	}
}

// wide gives messages limits beyond their recipient, and in half of the cycles
// one policy more without them.
func (p *Plan) wide(r *rand.Rand) {
	p.Wide = true
	p.Partitions = 1 + int32(r.IntN(8)+2)/3 // mostly several: 1 to 4
	all := r.Perm(len(wide))[:1+r.IntN(4)]
	for i := range all {
		all[i] += len(policies)
	}
	if r.IntN(2) == 0 {
		all = slices.Insert(all, r.IntN(len(all)+1), p.Policies[0])
	}
	p.Policies = all
}

// standby gives workers something to follow, and then to take over: there are
// two at least, and one or both die and stay away for longer than their session,
// or another would not have their partitions before they are back.
func (p *Plan) standby(r *rand.Rand) {
	p.Standby = true
	p.Workers = 2
	for i := range p.Events {
		if p.Events[i].What == WhatJoin {
			p.Events[i].Worker = p.Workers
		}
	}
	first := r.IntN(p.Workers)
	at := p.Span / 4
	for i := range 1 + r.IntN(2) {
		at += time.Duration(r.Int64N(int64(p.Span / 4)))
		p.Events = append(p.Events, Event{At: at, What: WhatKill, Worker: (first + i) % p.Workers, For: session + time.Duration(1+r.IntN(8000))*time.Millisecond})
		at += 2 * session
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
}

func (p *Plan) faults(r *rand.Rand) {
	deaths := 0
	for range 3 + r.IntN(6) {
		f := Fault{Key: hurt[r.IntN(len(hurt))]}
		switch n := r.IntN(10); {
		case n < 4:
			f.Kind = KindError
			f.Err = errs[f.Key][r.IntN(len(errs[f.Key]))]
		case n < 5:
			f.Kind = KindLoseCall
		case n < 8:
			f.Kind = KindLoseAnswer
		case deaths == 3:
			continue
		default:
			deaths++
			f.Kind = []Kind{KindDieBefore, KindDieAfter}[r.IntN(2)]
			if r.IntN(3) == 0 {
				f.Key = anyCall
			}
		}
		// Evenly over magnitudes: what is rare at first is not at the end.
		f.Nth = int(math.Exp(r.Float64() * math.Log(float64(reach[f.Key]))))
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return strings.Compare(a.Key.Name(), b.Key.Name()) })
}

func (p *Plan) events(r *rand.Rand) {
	when := func() time.Duration { return time.Duration(r.Int64N(int64(p.Span))) }
	for w := range p.Workers + 1 {
		if r.IntN(3) == 0 {
			p.Clocks[w] = steps[r.IntN(len(steps))]
		}
	}
	all := []What{WhatJoin, WhatLeave, WhatCut, WhatCut, WhatClock, WhatCoordinators, WhatLeaders, WhatCompact}
	cut, moved := false, false
	for range 1 + r.IntN(4) {
		e := Event{At: when(), What: all[r.IntN(len(all))], Worker: r.IntN(p.Workers)}
		switch e.What {
		case WhatJoin:
			e.Worker = p.Workers
		case WhatLeave:
			e.For = time.Duration(1+r.IntN(10_000)) * time.Millisecond
		case WhatCut:
			if cut { // two in a minute would look like a second process in the slot
				continue
			}
			cut = true
			e.For = session + time.Duration(r.IntN(9_000))*time.Millisecond
		case WhatClock:
			e.By = steps[r.IntN(len(steps))]
		case WhatLeaders:
			if moved { // after quick moves kfake tells consumers of losses that are none
				continue
			}
			moved = true
		case WhatKill, WhatCoordinators, WhatCompact, WhatPolicy:
		}
		p.Events = append(p.Events, e)
	}
	for range len(p.Policies) - 1 {
		p.Events = append(p.Events, Event{At: when(), What: WhatPolicy})
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
}

// steps are by how much clocks are wrong.
var steps = []time.Duration{
	-time.Hour, -30 * time.Second, -3 * time.Second, -time.Second, -150 * time.Millisecond,
	150 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 30 * time.Second, time.Hour,
}
