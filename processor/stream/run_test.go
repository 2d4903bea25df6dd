package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
)

const parts = 4

func cluster(t *testing.T, topics ...string) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(parts, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func client(t *testing.T, seeds []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, cl *kgo.Client, topic string, from, n int) {
	t.Helper()
	var recs []*kgo.Record
	for i := range n {
		recs = append(recs, &kgo.Record{Topic: topic, Partition: int32(i % parts), Value: []byte(strconv.Itoa(from + i))})
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// count is a stage that copies in to out and keeps a count of each partition as
// state, which it writes to the topic "state" and must find again.
type count struct {
	t       *testing.T
	seeds   []string
	base    map[int32]int64 // as committed
	overlay map[int32]int64
	next    map[int32]int64 // offset
	step    func(tx *stream.Tx)
	ended   func(bool)
	assigns func(map[stream.Partition]stream.Position)
	wait    time.Duration
}

func (c *count) Assign(ctx context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	if c.assigns != nil {
		c.assigns(committed)
	}
	c.base, c.overlay, c.next = map[int32]int64{}, map[int32]int64{}, map[int32]int64{}
	var ranges []stream.Range
	for p := range committed {
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: "state", Partition: p.Partition}})
	}
	if err := stream.Read(ctx, stream.ReadConfig{Brokers: c.seeds}, ranges, func(r *kgo.Record) error {
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		c.base[r.Partition] = n
		return err
	}); err != nil {
		return nil, err
	}
	for p, pos := range committed {
		if want := fmt.Sprintf("n=%d", c.base[p.Partition]); pos.Offset >= 0 && pos.Metadata != want {
			return nil, stream.Fatal(fmt.Errorf("%v: metadata %q, state %q", p, pos.Metadata, want))
		}
	}
	return nil, nil
}

func (c *count) Revoke() {}

func (c *count) Step(ctx context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	for len(polled) > 0 {
		for _, r := range polled {
			if _, ok := c.overlay[r.Partition]; !ok {
				c.overlay[r.Partition] = c.base[r.Partition]
			}
			c.overlay[r.Partition]++
			c.next[r.Partition] = r.Offset + 1
			tx.Produce(&kgo.Record{Topic: "out", Partition: r.Partition, Value: r.Value})
		}
		polled = tx.More()
	}
	for p, n := range c.overlay {
		tx.Produce(&kgo.Record{Topic: "state", Partition: p, Value: []byte(strconv.FormatInt(n, 10))})
		tx.Stand(stream.Partition{Topic: "in", Partition: p}, stream.Position{Offset: c.next[p], Metadata: fmt.Sprintf("n=%d", n)})
	}
	if c.step != nil {
		c.step(tx)
	}
	return nil
}

func (c *count) Ended(committed bool) {
	if committed {
		for p, n := range c.overlay {
			c.base[p] = n
		}
	}
	clear(c.overlay)
	clear(c.next)
	if c.ended != nil {
		c.ended(committed)
	}
}

func (c *count) Wait() time.Duration { return c.wait }

func config(seeds []string, id string) stream.Config {
	return stream.Config{Brokers: seeds, Group: "g", Topics: []string{"in"}, TransactionalID: id, SessionTimeout: 6 * time.Second, Logger: slog.New(slog.DiscardHandler)}
}

// TestExactlyOnceAcrossMembers runs three members that come and go, over a
// stream of records; every record must stand in out exactly once, and the
// state must have followed its partition each time (Assign checks it). Each
// member joins, and leaves, only after the one before has been given partitions
// and the others have lost some, so that records are on their way through every
// rebalance.
func TestExactlyOnceAcrossMembers(t *testing.T) {
	seeds := cluster(t, "in", "out", "state")
	prod := client(t, seeds)
	var mu sync.Mutex
	owned := make(map[string][]int) // of each member, how many partitions by assignment
	start := func(id string) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- stream.Run(ctx, config(seeds, id), nil, func(stream.Fetching) stream.Stage {
				return &count{t: t, seeds: seeds, wait: 100 * time.Millisecond, assigns: func(committed map[stream.Partition]stream.Position) {
					mu.Lock()
					defer mu.Unlock()
					owned[id] = append(owned[id], len(committed))
				}}
			})
		}()
		var once sync.Once
		stop = func() {
			once.Do(func() {
				cancel()
				if err := <-done; err != nil {
					t.Errorf("member %s: %v", id, err)
				}
			})
		}
		t.Cleanup(stop)
		return stop
	}
	n := 0
	// until produces on until the members, each of them, share all partitions.
	until := func(members ...string) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute) // of a test that fails
		for {
			produce(t, prod, "in", n, 50)
			n += 50
			mu.Lock()
			all, idle := 0, false
			for _, id := range members {
				k := 0
				if n := len(owned[id]); n > 0 {
					k = owned[id][n-1]
				}
				all, idle = all+k, idle || k == 0
			}
			mu.Unlock()
			if all == parts && !idle {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("assigned %v, want all %d shared by %v", owned, parts, members)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	stopA := start("a")
	until("a")
	stopB := start("b")
	until("a", "b")
	stopC := start("c")
	until("a", "b", "c")
	stopA()
	until("b", "c")
	stopB()
	until("c")
	got := consume(t, seeds, "out", n)
	stopC()
	for i := range n {
		if got[strconv.Itoa(i)] != 1 {
			t.Fatalf("record %d stands %d times in out", i, got[strconv.Itoa(i)])
		}
	}
	t.Logf("%d records through %v", n, owned)
}

// consume reads topic until n different values were seen and nothing more is there.
func consume(t *testing.T, seeds []string, topic string, n int) map[string]int {
	t.Helper()
	cl := client(t, seeds, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got := make(map[string]int)
	for len(got) < n {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s holds %d of %d values", topic, len(got), n)
		}
		fs.EachRecord(func(r *kgo.Record) { got[string(r.Value)]++ })
	}
	return got
}

// TestAbortDropsEverything fails every other transaction after producing.
func TestAbortDropsEverything(t *testing.T) {
	seeds := cluster(t, "in", "out", "state")
	prod := client(t, seeds)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	calls, aborts := 0, 0
	go func() {
		done <- stream.Run(ctx, config(seeds, "a"), nil, func(stream.Fetching) stream.Stage {
			return &count{
				t: t, seeds: seeds, wait: 50 * time.Millisecond,
				step: func(tx *stream.Tx) {
					if calls++; calls%2 == 1 {
						// A record that no broker takes fails the transaction.
						tx.Produce(&kgo.Record{Topic: "out", Partition: 99, Value: []byte("bad")})
					}
				},
				ended: func(ok bool) {
					if !ok {
						aborts++
					}
				},
			}
		})
	}()
	for i := range 5 {
		produce(t, prod, "in", i*100, 100)
		if got := consume(t, seeds, "out", (i+1)*100); len(got) != (i+1)*100 {
			t.Fatalf("%d values", len(got))
		} else {
			for v, k := range got {
				if k != 1 {
					t.Fatalf("value %s stands %d times", v, k)
				}
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if aborts == 0 {
		t.Fatal("no transaction was aborted: the test shows nothing")
	}
}

// TestZombieWithoutPolledRecordsIsFenced: a member that lost its membership
// writes a transaction without having polled anything. The group knows it no
// more, so its transaction must abort.
func TestZombieWithoutPolledRecordsIsFenced(t *testing.T) {
	seeds := cluster(t, "in", "out", "state")
	prod := client(t, seeds)
	produce(t, prod, "in", 0, parts)
	cl := client(t, seeds)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	evicted := make(chan struct{})
	ended := make(chan bool, 16)
	done := make(chan error, 1)
	waker := &stream.Waker{}
	var phase int
	go func() {
		done <- stream.Run(ctx, config(seeds, "z"), waker, func(stream.Fetching) stream.Stage {
			c := &count{t: t, seeds: seeds, wait: time.Hour}
			c.step = func(tx *stream.Tx) {
				if phase == 1 {
					phase = 2
					// The group forgets the member while it believes it owns the partition.
					evict(t, cl)
					close(evicted)
					tx.Produce(&kgo.Record{Topic: "out", Partition: 0, Value: []byte("zombie")})
					tx.Stand(stream.Partition{Topic: "in", Partition: 0}, stream.Position{Offset: 1, Metadata: "n=1"})
				}
			}
			c.ended = func(ok bool) { ended <- ok }
			return c
		})
	}()
	if ok := <-ended; !ok {
		t.Fatal("the first transaction did not commit")
	}
	phase = 1
	waker.Wake()
	<-evicted
	if ok := <-ended; ok {
		t.Fatal("the zombie's transaction committed")
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := consume(t, seeds, "out", parts); got["zombie"] != 0 {
		t.Fatal("the zombie's record is visible")
	}
}

// TestConcurrentTransactionsIsNoPause: a broker that has not finished the last
// transaction may say so to the first batch of the next (KIP-890, KIP-447). The
// client then waits for metadata, which it asks for no more often than each five
// seconds unless it is told otherwise.
func TestConcurrentTransactionsIsNoPause(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(parts, "in", "out", "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := c.ListenAddrs()
	prod := client(t, seeds)
	ended := make(chan bool, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- stream.Run(ctx, config(seeds, "tx"), nil, func(stream.Fetching) stream.Stage {
			return &count{t: t, seeds: seeds, wait: time.Second, ended: func(ok bool) { ended <- ok }}
		})
	}()
	next := func() {
		t.Helper()
		select {
		case ok := <-ended:
			if !ok {
				t.Fatal("a transaction was aborted")
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("no transaction")
		}
	}
	produce(t, prod, "in", 0, 1)
	next()
	refused := 0
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		if req.TransactionID == nil || refused == 3 {
			c.KeepControl()
			return nil, nil, false
		}
		c.KeepControl()
		refused++
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, kerr.ConcurrentTransactions.Code
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	began := time.Now()
	produce(t, prod, "in", 1, 1)
	next()
	took := time.Since(began)
	t.Logf("refused %d times, committed after %v", refused, took)
	if refused != 3 || took > 5*time.Second { // each would be up to five seconds
		t.Errorf("refused %d times, and then it took %v", refused, took)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// evict sends the LeaveGroup of every member of the group, in its name.
func evict(t *testing.T, cl *kgo.Client) {
	t.Helper()
	groups, err := kadm.NewClient(cl).DescribeGroups(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range groups["g"].Members {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = "g", m.MemberID
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.MemberID = m.MemberID
		req.Members = append(req.Members, rm)
		if _, err := req.RequestWith(t.Context(), cl); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoProcessesInOneSlot: with one transactional id, one of the two ends
// with the error that says so, however often they fence each other before.
func TestTwoProcessesInOneSlot(t *testing.T) {
	seeds := cluster(t, "in", "out", "state")
	prod := client(t, seeds)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			ended <- stream.Run(ctx, config(seeds, "same"), nil, func(stream.Fetching) stream.Stage {
				return &count{t: t, seeds: seeds, wait: 50 * time.Millisecond}
			})
		}()
	}
	var err error
	for i := 0; err == nil; i++ {
		produce(t, prod, "in", i*parts, parts)
		select {
		case err = <-ended:
		case <-time.After(20 * time.Millisecond):
		}
		if ctx.Err() != nil {
			t.Fatal("both processes run in one slot")
		}
	}
	if !errors.Is(err, stream.ErrFenced) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("ended with %v", err)
	}
	cancel()
	<-ended
}
