package faultsim

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// referee holds kfake's groups to three things that a broker does and kfake
// does not (groups.go of the version in go.mod):
//
//   - A member that waits for the answer to its JoinGroup or SyncGroup is alive
//     (Apache Kafka's MemberMetadata.hasSatisfiedHeartbeat). kfake lets its session
//     end meanwhile, throws it out, and never answers it. The referee sends its
//     heartbeats.
//   - When all members have joined, they are answered. kfake counts those that
//     wait (nJoining), takes one off for each member that is removed while it
//     waits, also one that waits in SyncGroup and was never counted, and does
//     not count a join that follows a SyncGroup whose connection broke. From
//     then on it waits for one more than there are.
//   - A rebalance ends within its timeout. kfake starts that anew with every
//     join, so clients that give up and join again, one after the other, keep it
//     from ending.
//
// The first is mended before it does harm. The others are seen when they happened:
// JoinGroups that a broker would have answered. Then the referee does to the group
// what the restart of its coordinator does to it: every member is unknown, and every
// connection on which a member waits breaks. What the stages make of that is
// judged like all the rest: no cycle is excused. It is counted, and the test fails
// when it is more than rare.
type referee struct {
	c     *cycle
	since map[string]time.Time // of groups: since when all have joined and nobody is told

	mu      sync.Mutex
	beating string // the member for which a heartbeat is on its way
}

const (
	refereeLooks = time.Second
	// answeredWithin is how long after the last JoinGroup a broker may take.
	answeredWithin = 2 * time.Second
)

func newReferee(c *cycle) *referee { return &referee{c: c, since: make(map[string]time.Time)} }

// waiter is a member that waits for an answer.
type waiter struct {
	key     kmsg.Key // JoinGroup or SyncGroup
	group   string
	member  string
	since   time.Time
	timeout time.Duration // of the rebalance, as a JoinGroup says
	conn    *conn
}

// own reports whether a heartbeat is the referee's: planned errors are not for it.
func (f *referee) own(req kmsg.Request) bool {
	hb, ok := req.(*kmsg.HeartbeatRequest)
	f.mu.Lock()
	defer f.mu.Unlock()
	return ok && hb.MemberID == f.beating
}

// run looks until ctx ends.
func (f *referee) run(ctx context.Context) {
	for {
		select {
		case <-time.After(refereeLooks):
		case <-ctx.Done():
			return
		}
		groups := make(map[string][]waiter)
		for _, s := range f.c.slots {
			if w := s.network(); w != nil {
				for _, m := range w.waiting() {
					groups[m.group] = append(groups[m.group], m)
				}
			}
		}
		for g := range f.since {
			if groups[g] == nil {
				delete(f.since, g)
			}
		}
		for g, waiting := range groups {
			f.look(ctx, g, waiting)
		}
	}
}

// look sees to one group.
func (f *referee) look(ctx context.Context, group string, waiting []waiter) {
	info := f.c.cluster.GroupInfo(group)
	if info == nil {
		return
	}
	joined := make(map[string]bool)
	for _, m := range waiting {
		if m.key == kmsg.JoinGroup {
			joined[m.member] = true
		}
	}
	all := info.State == "PreparingRebalance"
	for _, m := range info.Members {
		all = all && joined[m.MemberID]
	}
	if !all {
		delete(f.since, group)
	} else if f.since[group].IsZero() {
		f.since[group] = time.Now()
	}
	if all && time.Since(f.since[group]) >= answeredWithin {
		f.restart(ctx, group, waiting, "all %d members have joined for %s", len(info.Members), time.Since(f.since[group]))
		return
	}
	for _, m := range waiting {
		if d := time.Since(m.since); m.key == kmsg.JoinGroup && d > m.timeout+answeredWithin {
			f.restart(ctx, group, waiting, "a JoinGroup waits for %s, beyond the rebalance timeout", d)
			return
		}
	}
	for _, m := range waiting {
		f.beat(ctx, group, m.member, info.Epoch)
	}
}

// beat sends a heartbeat for a member.
func (f *referee) beat(ctx context.Context, group, member string, generation int32) {
	set := func(m string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.beating = m
	}
	set(member)
	defer set("")
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// What it answers does not matter: a member that is gone stays gone.
	_, _ = req.RequestWith(ctx, f.c.cl)
}

// restart takes all members out of a group and breaks the connections on which
// they wait.
func (f *referee) restart(ctx context.Context, group string, waiting []waiter, why string, args ...any) {
	delete(f.since, group)
	f.c.trace.Say("REFEREE: kfake answers no JoinGroup of "+group+", though "+why+": as its coordinator's restart does, everybody joins anew", args...)
	f.c.count(func(t *Tally) { t.Stuck++ })
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range f.c.cluster.GroupInfo(group).Members {
		gone := kmsg.NewLeaveGroupRequestMember()
		gone.MemberID = m.MemberID
		req.Members = append(req.Members, gone)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := req.RequestWith(ctx, f.c.cl); err != nil && ctx.Err() == nil {
		f.c.trace.Say("REFEREE: %v", err)
	}
	for _, m := range waiting {
		m.conn.Conn.Close()
	}
}
