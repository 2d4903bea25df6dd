package faultsim

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestReferee does by hand what befalls kfake's groups under faults, with and
// without a referee. When a case fails without one, kfake has been mended, and
// that part of the referee can go.
func TestReferee(t *testing.T) {
	tests := []struct {
		name  string
		what  func(*testing.T, *members) int16 // what becomes of the call that kfake does not answer
		want  int16
		stuck int
	}{
		{"a member waits for the leader, longer than its session", func(t *testing.T, g *members) int16 {
			g.gather(t)
			follower := g.sync(1)
			for range 10 {
				time.Sleep(session / 3)
				g.beat(t, 0)
			}
			g.sync(0)
			return <-follower
		}, 0, 0},
		{"a member leaves that waited for the leader", func(t *testing.T, g *members) int16 {
			g.gather(t)
			g.sync(1)
			synctest.Wait()
			g.leave(t, 1)
			return <-g.join(0)
		}, broken, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, with := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					g := newMembers(t, with)
					got := tc.what(t, g)
					want, stuck := tc.want, tc.stuck
					if !with {
						want, stuck = unanswered, 0
					}
					if got != want || g.c.tally.Stuck != stuck {
						t.Errorf("referee %v: the answer is %d, want %d; %d groups restarted, want %d\n%s", with, got, want, g.c.tally.Stuck, stuck, g.c.trace)
					}
				})
			}
		})
	}
}

// members are the two of one group. Number 0 leads.
type members struct {
	c   *cycle
	cls [2]*kgo.Client

	mu  sync.Mutex // answers come on goroutines of their own
	ids [2]string
	gen int32
}

// known is a member's id, and the generation.
func (g *members) known(i int) (string, int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ids[i], g.gen
}

func newMembers(t *testing.T, with bool) *members {
	c := &cycle{trace: new(Trace), net: new(kfake.VirtualNetwork), tally: newTally(), brokers: []string{"127.0.0.1:9092"}}
	c.trace.start()
	var err error
	c.cluster, err = kfake.NewCluster(kfake.ListenFn(c.net.Listen), kfake.NumBrokers(1), kfake.Ports(9092), kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cluster.Close)
	if c.cl, err = kgo.NewClient(c.own()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cl.Close)
	g := &members{c: c}
	for i := range g.cls {
		l := &life{c: c}
		l.wire = newWire(c.net.DialContext, func(*call) fate { return fatePass }, func(*call, []byte) {})
		c.slots = append(c.slots, &slot{c: c, num: i, life: l})
		if g.cls[i], err = kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.Dialer(l.wire.Dial), kgo.DisableClientMetrics()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.cls[i].Close)
	}
	if with {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); newReferee(c).run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return g
}

// gather brings both to the point at which they know their generation and have
// not asked for their partitions.
func (g *members) gather(t *testing.T) {
	for i := range g.cls {
		<-g.join(i) // only an id
	}
	first := g.join(0)
	<-first
	g.sync(0)
	second := g.join(1)
	synctest.Wait()
	<-g.join(0)
	if code := <-second; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
}

// patience is less than the rebalance timeout, after which kfake goes on by
// itself as long as nobody joins.
const patience = 45 * time.Second

// What ask tells when there is no code.
const (
	unanswered int16 = -100 - iota // within patience
	broken                         // the connection
)

// ask sends what a member asks for, and passes on the code of the answer.
func ask[R kmsg.Response](g *members, i int, req kmsg.Request, code func(R) int16) chan int16 {
	out := make(chan int16, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		resp, err := g.cls[i].Request(ctx, req)
		switch {
		case ctx.Err() != nil:
			out <- unanswered
			return
		case err != nil:
			out <- broken
			return
		}
		out <- code(resp.(R))
	}()
	return out
}

func (g *members) join(i int) chan int16 {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = "g", "consumer"
	req.MemberID, _ = g.known(i)
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session/time.Millisecond), 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{byte(i)}
	req.Protocols = append(req.Protocols, p)
	return ask(g, i, req, func(r *kmsg.JoinGroupResponse) int16 {
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.MemberID != "" {
			g.ids[i] = r.MemberID
		}
		if r.ErrorCode == 0 {
			g.gen = r.Generation
		}
		return r.ErrorCode
	})
}

func (g *members) sync(i int) chan int16 {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group = "g"
	req.MemberID, req.Generation = g.known(i)
	return ask(g, i, req, func(r *kmsg.SyncGroupResponse) int16 { return r.ErrorCode })
}

func (g *members) beat(t *testing.T, i int) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = "g"
	req.MemberID, req.Generation = g.known(i)
	if _, err := req.RequestWith(t.Context(), g.cls[i]); err != nil {
		t.Fatal(err)
	}
}

func (g *members) leave(t *testing.T, i int) {
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, _ = g.known(i)
	req.Group, req.Members = "g", append(req.Members, m)
	if _, err := req.RequestWith(t.Context(), g.c.cl); err != nil {
		t.Fatal(err)
	}
}
