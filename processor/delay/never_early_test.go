package delay_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// world is a broker with Weir's topics, which stamps every append.
type world struct {
	t     *testing.T
	names topics.Names
	addrs []string
	reach []kgo.Opt   // options of every client
	cl    *kgo.Client // reads readmit
	adm   *kadm.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return newWorldOn(t, c, c.ListenAddrs())
}

// neverSaysLatest makes a broker that knows no latest append time, as is one of
// Apache Kafka as long as what was appended last is not replicated.
func neverSaysLatest(c *kfake.Cluster) {
	const latest = -3 // KIP-734
	c.ControlKey(kmsg.ListOffsets.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				if p.Timestamp != latest {
					return nil, nil, false
				}
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.Partition, -1, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

func newWorldOn(t *testing.T, c *kfake.Cluster, addrs []string, reach ...kgo.Opt) *world {
	t.Helper()
	return newWorldOf(t, c, func(string) time.Time { return time.Now() }, addrs, reach...)
}

// newWorldOf is newWorldOn where the leaders of each topic have a clock of their own.
func newWorldOf(t *testing.T, c *kfake.Cluster, clock func(topic string) time.Time, addrs []string, reach ...kgo.Opt) *world {
	t.Helper()
	if err := broker.StampAppendTimes(c, clock); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, addrs: addrs, reach: reach}
	var err error
	w.cl, err = w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(w.names.Readmit()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	w.adm = kadm.NewClient(w.cl)
	diff, err := topics.Plan(t.Context(), w.adm, topics.Catalogue(topics.Config{Partitions: partitions, Replication: 1}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := topics.Apply(t.Context(), w.cl, diff, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(slices.Concat([]kgo.Opt{kgo.SeedBrokers(w.addrs...)}, w.reach, more)...)
}

// put lets n messages wait in a tier. due is when each is to return.
func (w *world) put(first, n int, tier string, due time.Time, size int) {
	w.t.Helper()
	var recs []*kgo.Record
	for i := first; i < first+n; i++ {
		key := fmt.Sprintf("+861%010d", i)
		env := schemas.Envelope{ID: key, Key: key, Reason: schemas.ReadmitRetry, DueAt: schemas.MillisOf(due), Return: w.names.Readmit()}
		rec := &kgo.Record{Topic: w.names.Delay(tier), Partition: schemas.PartitionOf(key, partitions), Key: []byte(key), Value: make([]byte, size)}
		_, _ = rand.Read(rec.Value) // nothing to compress
		env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		recs = append(recs, rec)
	}
	if err := w.cl.ProduceSync(w.t.Context(), recs...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// start runs the stage until the test ends, or end is called.
func (w *world) start(change func(*delay.Config)) (end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	cfg := delay.Config{
		Stream:     stream.Config{Brokers: w.addrs, TransactionalID: "delay-0", SessionTimeout: 6 * time.Second, Options: w.reach},
		Partitions: partitions, DelayPartitions: partitions,
	}
	change(&cfg)
	done := make(chan error, 1)
	go func() { done <- delay.Run(ctx, cfg) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
	w.t.Cleanup(end)
	return end
}

// returned reads n records that came back, by their keys: when they were appended.
func (w *world) returned(n int) map[string]schemas.Millis {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	got := make(map[string]schemas.Millis)
	for len(got) < n {
		fetches := w.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("%d of %d returned", len(got), n)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if _, twice := got[string(r.Key)]; twice {
				w.t.Errorf("%s came back twice", r.Key)
			}
			got[string(r.Key)] = schemas.MillisOf(r.Timestamp)
		})
	}
	return got
}

// appended reads the tier's records back: when each was appended.
func (w *world) appended(tier string, n int) map[string]schemas.Millis {
	w.t.Helper()
	cl, err := w.client(kgo.ConsumeTopics(w.names.Delay(tier)), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	got := make(map[string]schemas.Millis)
	for len(got) < n && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if _, again := got[string(r.Key)]; !again {
				got[string(r.Key)] = schemas.MillisOf(r.Timestamp)
			}
		})
	}
	return got
}

// TestNeverEarlyByTheBrokersClock: the stage's clock is wrong from the start, and
// steps while it works; what returns is appended a tier's time after its append
// all the same, and not much later.
func TestNeverEarlyByTheBrokersClock(t *testing.T) {
	for _, tt := range []struct {
		name        string
		off, then   time.Duration
		late, later time.Duration // at most, before and after the step
		silent      bool          // the broker does not say what it appended last
	}{
		{"right", 0, 0, time.Second, time.Second, false},
		{"right, and the broker does not say", 0, 0, time.Second, time.Second, true},
		{"ahead, then more, and the broker does not say", 700 * time.Millisecond, 1700 * time.Millisecond, 2 * time.Second, 2 * time.Second, true},
		{"a little ahead", 40 * time.Millisecond, 40 * time.Millisecond, time.Second, time.Second, false},
		{"ahead, then more", 700 * time.Millisecond, 5 * time.Second, time.Second, time.Second, false},
		{"behind, then ahead", -600 * time.Millisecond, 900 * time.Millisecond, 1700 * time.Millisecond, time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, reach []kgo.Opt) {
				if tt.silent {
					neverSaysLatest(c)
				}
				w := newWorldOn(t, c, []string{streamtest.SimulatedAddr}, reach...)
				var off atomic.Int64
				off.Store(int64(tt.off))
				w.start(func(c *delay.Config) {
					c.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
				})
				const n = 200
				check := func(first int, atMost time.Duration) {
					t.Helper()
					for b := range 10 { // of different ages
						w.put(first+b*n/10, n/10, "1s", time.Now().Add(time.Second), 50)
					}
					back, put := w.returned(n), w.appended("1s", first+n)
					early, late := time.Duration(0), time.Duration(0)
					for key, at := range back {
						took := at.Sub(put[key])
						early, late = max(early, time.Second-took), max(late, took-time.Second)
					}
					if early > 0 {
						t.Errorf("up to %v early", early)
					}
					if late > atMost {
						t.Errorf("up to %v late", late)
					}
					t.Logf("up to %v late", late)
				}
				check(0, tt.late)
				off.Store(int64(tt.then))
				check(n, tt.later)
			})
		})
	}
}

// TestBrokersApart: what is read was appended by a clock that is ahead, and what returns is appended
// by one that is behind. Under a steady flow, messages return late by the difference, and not after
// it. To be right for one of the two again and again would return none. When the difference grows,
// so does what they are late by, and no more, also after a quiet minute.
func TestBrokersApart(t *testing.T) {
	for _, silent := range []bool{false, true} { // the broker does not say what it appended last
		streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, reach []kgo.Opt) {
			const ahead, behind, further = 3 * time.Second, 3 * time.Second, 5 * time.Second
			began := time.Now()
			if silent {
				neverSaysLatest(c)
			}
			named := kversion.Stable()
			named.SetMaxKeyVersion(kmsg.Produce.Int16(), 12) // from 13 on topics have ids instead of names
			reach = append(reach, kgo.MaxVersions(named))
			var names topics.Names
			w := newWorldOf(t, c, func(topic string) time.Time {
				switch now := time.Now(); {
				case topic != names.Readmit():
					return now.Add(ahead)
				case now.Sub(began) < 60*time.Second:
					return now.Add(-behind)
				default: // its leader is another
					return now.Add(-behind - further)
				}
			}, []string{streamtest.SimulatedAddr}, reach...)
			w.start(func(*delay.Config) {})
			const flow, n = 200, 5
			for b := range flow {
				w.put(b*n, n, "1s", time.Now().Add(time.Second), 50)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(50 * time.Second) // quiet, and another leads
			w.put(flow*n, n, "1s", time.Now().Add(time.Second), 50)
			back, put := w.returned((flow+1)*n), w.appended("1s", (flow+1)*n)
			for key, at := range back {
				late, atMost := at.Sub(put[key])+behind+ahead-time.Second, ahead+behind+3*time.Second
				if at > schemas.MillisOf(began.Add(60*time.Second)) {
					late, atMost = late+further, atMost+further
				}
				if late < 0 || late > atMost {
					t.Fatalf("silent %v: %v late, %v at most", silent, late, atMost)
				}
			}
		})
	}
}

// fetched counts the records that a client fetched.
type fetched struct{ n atomic.Int64 }

func (f *fetched) OnFetchRecordBuffered(*kgo.Record) { f.n.Add(1) }

// TestReadsNoFurtherThanItsHeads: of what waits, no more is read than what one
// fetch of each partition brings, however often others come and go meanwhile.
func TestReadsNoFurtherThanItsHeads(t *testing.T) {
	w := newWorld(t)
	const waiting, size = 20_000, 1000 // 5 MB a partition
	for i := 0; i < waiting; i += 500 {
		w.put(i, 500, "5m", time.Now().Add(5*time.Minute), size)
	}
	var read fetched
	w.start(func(c *delay.Config) { c.Stream.Options = []kgo.Opt{kgo.WithHooks(&read)} })
	for i := range 20 {
		w.put(waiting+i*10, 10, "1s", time.Now().Add(time.Second), 10)
	}
	w.returned(200)
	if n := read.n.Load(); n == 0 || n > waiting/2 {
		t.Errorf("%d of %d records that wait were read", n, waiting)
	} else {
		t.Logf("%d of %d were read", n, waiting)
	}
}

// TestReturnsOneBeforeItKnowsTheClock: of a backlog that is due, the first
// transaction returns one record. How far the clock is ahead can be told of an
// append alone, and not of the last of many.
func TestReturnsOneBeforeItKnowsTheClock(t *testing.T) {
	w := newWorld(t)
	const n = 40 // several in each partition
	w.put(0, n, "1s", time.Now(), 10)
	<-time.After(1100 * time.Millisecond) // all of it is due
	w.start(func(*delay.Config) {})
	w.returned(n)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.ConsumeTopics(w.names.Readmit()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	alone := false
	for read := 0; read < n && ctx.Err() == nil; {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsControl() {
				alone = alone || r.Offset == 1
				return
			}
			read++
		})
	}
	if !alone {
		t.Error("no partition begins with a transaction of one record")
	}
}
