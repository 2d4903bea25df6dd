package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
)

// writer writes transactions to one partition of "log".
type writer struct {
	t  *testing.T
	cl *kgo.Client
}

func newWriter(t *testing.T, seeds []string, id string, opts ...kgo.Opt) *writer {
	return &writer{t, client(t, seeds, append(opts, kgo.TransactionalID(id))...)}
}

func (w *writer) begin(values ...string) {
	w.t.Helper()
	if err := w.cl.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	for _, v := range values {
		if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: "log", Value: []byte(v)}).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *writer) end(try kgo.TransactionEndTry) {
	w.t.Helper()
	if err := w.cl.EndTransaction(w.t.Context(), try); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) commit(values ...string) { w.t.Helper(); w.begin(values...); w.end(kgo.TryCommit) }

var log0 = stream.Partition{Topic: "log"}

func reader(t *testing.T, seeds []string, cfg stream.ReadConfig) *stream.Reader {
	t.Helper()
	cfg.Brokers = seeds
	r, err := stream.OpenReader(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// from reads partition 0 of log on from a position.
func from(t *testing.T, r *stream.Reader, at int64) (values []string, next int64, err error) {
	t.Helper()
	reached, err := r.Read(t.Context(), []stream.Range{{Partition: log0, From: at, Resume: at > 0}}, func(rec *kgo.Record) error {
		values = append(values, string(rec.Value))
		return nil
	})
	return values, reached[log0].From, err
}

// TestReadGoesOnWhereItEnded: what a read returns is where the log goes on, past
// markers and aborted records, and each committed record is read once.
func TestReadGoesOnWhereItEnded(t *testing.T) {
	seeds := cluster(t, "log")
	r := reader(t, seeds, stream.ReadConfig{})
	w := newWriter(t, seeds, "w")
	if values, next, err := from(t, r, 0); err != nil || len(values) != 0 || next != 0 {
		t.Fatalf("an empty log: %v, %d, %v", values, next, err)
	}
	w.commit("a", "b")
	values, next, err := from(t, r, 0)
	if err != nil || !slices.Equal(values, []string{"a", "b"}) || next != 3 {
		t.Fatalf("read %v up to %d (%v), want a b up to 3: the marker is at 2", values, next, err)
	}
	w.begin("x", "y")
	w.end(kgo.TryAbort)
	// Only an aborted transaction follows: no record tells how far the log goes.
	values, next, err = from(t, r, next)
	if err != nil || len(values) != 0 || next != 6 {
		t.Fatalf("read %v up to %d (%v), want nothing up to 6", values, next, err)
	}
	w.commit("c")
	values, next, err = from(t, r, next)
	if err != nil || !slices.Equal(values, []string{"c"}) || next != 8 {
		t.Fatalf("read %v up to %d (%v), want c up to 8", values, next, err)
	}
	if values, next, err = from(t, r, next); err != nil || len(values) != 0 || next != 8 {
		t.Fatalf("read %v up to %d (%v), want nothing more", values, next, err)
	}
}

// TestReadSaysHowFarItIs: progress ends at the total, past markers and aborted records.
func TestReadSaysHowFarItIs(t *testing.T) {
	seeds := cluster(t, "log")
	w := newWriter(t, seeds, "a")
	w.commit("a", "b")
	w.begin("x")
	w.end(kgo.TryAbort)
	w.commit("c")
	var last, of int64
	r := reader(t, seeds, stream.ReadConfig{Progress: func(done, total int64) { last, of = done, total }})
	if _, next, err := from(t, r, 0); err != nil || last != next || of != next {
		t.Errorf("%d of %d, want %d, %v", last, of, next, err)
	}
}

// TestReadToTheHighWatermark: a committed record above another's open
// transaction is part of what was there, though no reader is given it before
// that transaction ends (KAFKA-10167).
func TestReadToTheHighWatermark(t *testing.T) {
	seeds := cluster(t, "log")
	open, w := newWriter(t, seeds, "open"), newWriter(t, seeds, "w")
	open.begin("never")
	w.commit("a")
	r := reader(t, seeds, stream.ReadConfig{})
	type result struct {
		values []string
		next   int64
		err    error
	}
	done := make(chan result, 1)
	go func() {
		values, next, err := from(t, r, 0)
		done <- result{values, next, err}
	}()
	select {
	case got := <-done:
		t.Fatalf("read %v up to %d (%v) while a transaction below was open", got.values, got.next, got.err)
	case <-time.After(300 * time.Millisecond):
	}
	open.end(kgo.TryAbort)
	if got := <-done; got.err != nil || !slices.Equal(got.values, []string{"a"}) || got.next < 3 {
		t.Fatalf("read %v up to %d (%v), want a", got.values, got.next, got.err)
	}
}

// TestReadStalls: a partition that does not come to its end is an error that
// names it, and where to go on is right all the same. A stable reading ends before
// the open transaction.
func TestReadStalls(t *testing.T) {
	seeds := cluster(t, "log")
	w, open := newWriter(t, seeds, "w"), newWriter(t, seeds, "open")
	w.commit("a")
	open.begin("later")
	r := reader(t, seeds, stream.ReadConfig{Stall: 3 * time.Second})
	values, next, err := from(t, r, 0)
	if !errors.Is(err, stream.ErrStalled) || !strings.Contains(err.Error(), "log/0") {
		t.Fatalf("read %v up to %d: %v", values, next, err)
	}
	if !slices.Equal(values, []string{"a"}) || next != 2 {
		t.Fatalf("read %v up to %d, want a up to 2", values, next)
	}
	for _, at := range []int64{0, 3} {
		var stable []string
		_, err := r.Read(t.Context(), []stream.Range{{Partition: stream.Partition{Topic: "log"}, From: at, Stable: true}}, func(r *kgo.Record) error {
			stable = append(stable, string(r.Value))
			return nil
		})
		if err != nil || len(stable) != int(max(1-at, 0)) {
			t.Fatalf("a stable reading from %d brought %v: %v", at, stable, err)
		}
	}
	open.end(kgo.TryCommit)
	if values, next, err = from(t, r, next); err != nil || !slices.Equal(values, []string{"later"}) || next != 4 {
		t.Fatalf("went on with %v up to %d: %v", values, next, err)
	}
}

// TestReadStallsWithoutBrokers: brokers that do not answer are no reason to wait
// for ever either.
func TestReadStallsWithoutBrokers(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(parts, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := newWriter(t, c.ListenAddrs(), "w")
	w.commit("a")
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets} {
		t.Run(key.Name(), func(t *testing.T) {
			release := make(chan struct{})
			c.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				c.SleepControl(func() { <-release })
				return nil, errors.New("gone"), true
			})
			r := reader(t, c.ListenAddrs(), stream.ReadConfig{Stall: 300 * time.Millisecond})
			_, _, err := from(t, r, 0)
			close(release)
			if !errors.Is(err, stream.ErrStalled) {
				t.Fatalf("ended with %v", err)
			}
		})
	}
}

// TestReadWhatIsGone: to go on where the log no longer is, is an error; to begin
// there is to begin where it does.
func TestReadWhatIsGone(t *testing.T) {
	seeds := cluster(t, "log")
	w := newWriter(t, seeds, "w")
	w.commit("a", "b")
	w.commit("c")
	adm := kadm.NewClient(client(t, seeds))
	if _, err := adm.DeleteRecords(t.Context(), kadm.Offsets{"log": {0: {Topic: "log", At: 3}}}); err != nil {
		t.Fatal(err)
	}
	r := reader(t, seeds, stream.ReadConfig{})
	for _, at := range []int64{1, 99} {
		values, _, err := from(t, r, at)
		gone, ok := errors.AsType[*stream.GoneError](err)
		if !ok || gone.Partition != log0 || gone.From != at || gone.Start != 3 || gone.End != 5 {
			t.Errorf("from %d: read %v, %v", at, values, err)
		}
	}
	if values, next, err := from(t, r, 3); err != nil || !slices.Equal(values, []string{"c"}) || next != 5 {
		t.Errorf("from 3: read %v up to %d, %v", values, next, err)
	}
	if values, next, err := from(t, r, 0); err != nil || !slices.Equal(values, []string{"c"}) || next != 5 {
		t.Errorf("from the start: read %v up to %d, %v", values, next, err)
	}
}

// TestReadOfATopicMadeAnew: where a read of another topic of that name ended says
// nothing, however far this one goes.
func TestReadOfATopicMadeAnew(t *testing.T) {
	seeds := cluster(t, "log")
	newWriter(t, seeds, "w").commit("a", "b")
	r := reader(t, seeds, stream.ReadConfig{})
	ignore := func(*kgo.Record) error { return nil }
	reached, err := r.Read(t.Context(), []stream.Range{{Partition: log0}}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(client(t, seeds))
	if _, err := adm.DeleteTopic(t.Context(), "log"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "log"); err != nil {
		t.Fatal(err)
	}
	newWriter(t, seeds, "w2").commit("c", "d", "e", "f")
	r = reader(t, seeds, stream.ReadConfig{}) // the other knows the old topic's leader for a while
	_, err = r.Read(t.Context(), []stream.Range{reached[log0]}, ignore)
	if gone, ok := errors.AsType[*stream.GoneError](err); !ok || !gone.Anew || gone.From != 3 {
		t.Fatalf("went on: %v", err)
	}
	if values, next, err := from(t, r, 0); err != nil || len(values) != 4 || next != 5 {
		t.Fatalf("from the start: read %v up to %d, %v", values, next, err)
	}
}

// TestReadManyAtOnce: partitions are read side by side, each in its order, with
// small fetches that end inside of transactions.
func TestReadManyAtOnce(t *testing.T) {
	seeds := cluster(t, "log", "other")
	const n = 2000
	w := newWriter(t, seeds, "w", kgo.ProducerBatchMaxBytes(4<<10))
	for i := 0; i < n; i += 100 {
		if err := w.cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		try := kgo.TryCommit
		if i%300 == 0 {
			try = kgo.TryAbort
		}
		for k := i; k < i+100; k++ {
			for _, topic := range []string{"log", "other"} {
				w.cl.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: int32(k % parts), Value: fmt.Appendf(nil, "%d %0100d", k, 0)}, nil)
			}
		}
		if err := w.cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.end(try)
	}
	r := reader(t, seeds, stream.ReadConfig{FetchBytes: 2 << 10})
	var ranges []stream.Range
	for p := range int32(parts) {
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: "log", Partition: p}}, stream.Range{Partition: stream.Partition{Topic: "other", Partition: p}})
	}
	var mu sync.Mutex
	got := make(map[stream.Partition][]int)
	busy := make([]bool, parts)
	if _, err := r.Read(t.Context(), ranges, func(rec *kgo.Record) error {
		mu.Lock()
		if busy[rec.Partition] {
			t.Error("two calls for one partition number at once")
		}
		busy[rec.Partition] = true
		mu.Unlock()
		v, err := strconv.Atoi(strings.Fields(string(rec.Value))[0])
		mu.Lock()
		defer mu.Unlock()
		busy[rec.Partition] = false
		p := stream.Partition{Topic: rec.Topic, Partition: rec.Partition}
		if rec.Topic == "other" && len(got[stream.Partition{Topic: "log", Partition: rec.Partition}]) != (n-n/300*100-100)/parts {
			t.Error("the second topic's records came before the first's end")
		}
		got[p] = append(got[p], v)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, rg := range ranges {
		var want []int
		for k := range n {
			if int32(k%parts) == rg.Partition.Partition && k/100*100%300 != 0 {
				want = append(want, k)
			}
		}
		if !slices.Equal(got[rg.Partition], want) {
			t.Errorf("%v: %d records, want %d", rg.Partition, len(got[rg.Partition]), len(want))
		}
	}
}

// TestReadEndsWithItsContext: cancelled in the middle, a read says how far it
// came, and nothing is read twice or left out by going on there.
func TestReadEndsWithItsContext(t *testing.T) {
	seeds := cluster(t, "log")
	w := newWriter(t, seeds, "w", kgo.ProducerBatchMaxBytes(4<<10))
	var want []string
	for i := range 20 {
		var values []string
		for k := range 20 {
			values = append(values, fmt.Sprintf("%d-%d %0500d", i, k, 0))
		}
		w.commit(values...)
		want = append(want, values...)
	}
	r := reader(t, seeds, stream.ReadConfig{FetchBytes: 2 << 10})
	var got []string
	next, cuts := int64(0), 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		reached, err := r.Read(ctx, []stream.Range{{Partition: log0, From: next}}, func(rec *kgo.Record) error {
			got = append(got, string(rec.Value))
			if n++; n == 30 {
				cancel()
			}
			return nil
		})
		cancel()
		next = reached[log0].From
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cuts++
	}
	if !slices.Equal(got, want) || cuts < 5 {
		t.Fatalf("%d records after %d cuts, want %d", len(got), cuts, len(want))
	}
}
