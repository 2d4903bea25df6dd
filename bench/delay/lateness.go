package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

type bench struct {
	load
	cluster *rig.Cluster
	log     io.Writer
}

// scenario is one way to wait.
type scenario struct {
	name string
	says string
	// tier is what everything waits; or shortest and longest bound waits that
	// are scattered evenly.
	tier              time.Duration
	shortest, longest time.Duration
}

var scenarios = []scenario{
	{name: "5s", says: "tier 5s", tier: 5 * time.Second},
	{name: "1s", says: "tier 1s", tier: time.Second},
	{name: "scattered", says: "times of their own, 0.5 s to 20 s ahead", shortest: 500 * time.Millisecond, longest: 20 * time.Second},
}

type world struct {
	*bench
	*rig.World
}

func (b *bench) newWorld(ctx context.Context) (*world, error) {
	made, err := b.cluster.NewWorld(ctx, "delay", b.partitions, "providers: [{name: simulated, type: simulated, channels: [sms]}]")
	return &world{bench: b, World: made}, err
}

func (w *world) producer() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(200_000))
}

// record is the i-th message, which waits in a tier until due. Its value begins
// with its number and cannot be compressed much.
func (w *world) record(i int, due schemas.Millis, tier topics.Tier) *kgo.Record {
	key := fmt.Sprintf("+861%010d", i)
	env := schemas.Envelope{ID: fmt.Sprintf("bench-%d", i), Key: key, Reason: schemas.ReadmitRetry, DueAt: due, Return: w.Names.Readmit()}
	value := make([]byte, max(w.size, 8))
	for j := 8; j+8 <= len(value); j += 16 {
		binary.LittleEndian.PutUint64(value[j:], rand.Uint64())
	}
	binary.LittleEndian.PutUint64(value, uint64(i))
	rec := &kgo.Record{Topic: w.Names.Delay(tier.Name), Partition: schemas.PartitionOf(key, int32(w.partitions)), Key: []byte(key), Value: value}
	env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	return rec
}

// row is what came of one scenario.
type row struct {
	says    string
	n       int
	hops    float64 // writes a message, the last to readmit among them
	late    []time.Duration
	visible []time.Duration
	peak    int64
	cpu     time.Duration
}

func (r row) String() string {
	return fmt.Sprintf("%s: %d, %.2f writes each, late min %v p50 %v p99 %v max %v, visible p99 %v max %v, peak %.0f MB, cpu %v", r.says, r.n, r.hops,
		r.late[0], at(r.late, 50), at(r.late, 99), r.late[len(r.late)-1], at(r.visible, 99), r.visible[len(r.visible)-1], float64(r.peak)/1e6, r.cpu)
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

func latenessTable(l load, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Lateness\n\n%d records/s for %v into the first tier of each. In ms; late is by the broker's append time on weir.readmit, visible is when\na reader of committed records had it. Writes are those of the stage for one message.\n\n", l.rate, l.span)
	b.WriteString("| waits | messages | writes each | earliest | late p50 | p99 | max | visible p99 | max | peak memory | CPU of the stage |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %.2f | %d | %d | **%d** | %d | %d | %d | %.0f MB | %.1f s |\n", r.says, r.n, r.hops, r.late[0].Milliseconds(),
			at(r.late, 50).Milliseconds(), at(r.late, 99).Milliseconds(), r.late[len(r.late)-1].Milliseconds(),
			at(r.visible, 99).Milliseconds(), r.visible[len(r.visible)-1].Milliseconds(), float64(r.peak)/1e6, r.cpu.Seconds())
	}
	return b.String()
}

// lateness writes at the rate and looks at when each came back.
func (b *bench) lateness(ctx context.Context, s scenario) (row, error) {
	w, err := b.newWorld(ctx)
	if err != nil {
		return row{}, err
	}
	p, err := w.start(ctx)
	if err != nil {
		return row{}, err
	}
	defer p.end() // if it has not ended below
	if err := w.joined(ctx); err != nil {
		return row{}, err
	}
	n := b.rate * int(b.span/time.Second)
	returned := make(chan returns, 1)
	go func() { returned <- w.readBack(ctx, n, b.span+s.tier+s.longest+20*time.Second) }()
	asked, err := w.write(ctx, s, n)
	if err != nil {
		return row{}, err
	}
	back := <-returned
	if back.err != nil {
		return row{}, back.err
	}
	r := row{says: s.says, n: n, cpu: 0}
	if r.peak, err = p.end(); err != nil {
		return row{}, err
	}
	r.cpu = p.cpu
	hops, err := w.written(ctx)
	if err != nil {
		return row{}, err
	}
	r.hops = float64(hops) / float64(n)
	due := asked
	if s.tier > 0 {
		if due, err = w.appended(ctx, s.tier, n); err != nil {
			return row{}, err
		}
	}
	for i := range n {
		if back.times[i] != 1 {
			return row{}, fmt.Errorf("message %d came back %d times", i, back.times[i])
		}
		r.late = append(r.late, back.at[i].Sub(due[i]))
		r.visible = append(r.visible, back.seen[i].Sub(due[i]))
	}
	slices.Sort(r.late)
	slices.Sort(r.visible)
	return r, nil
}

// joined waits until the stage has all partitions.
func (w *world) joined(ctx context.Context) error {
	for ctx.Err() == nil {
		groups, err := w.Admin.DescribeGroups(ctx, w.Names.Delay("all"))
		if err == nil {
			if g := groups[w.Names.Delay("all")]; g.State == "Stable" && len(g.Members) == 1 {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ctx.Err()
}

// write produces n records evenly at the rate and returns when each is due, as asked for.
func (w *world) write(ctx context.Context, s scenario, n int) ([]schemas.Millis, error) {
	cl, err := w.producer()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var mu sync.Mutex
	var failed error
	due := make([]schemas.Millis, n)
	began := time.Now()
	for i := 0; i < n; {
		now := time.Now()
		upTo := min(n, int(now.Sub(began).Seconds()*float64(w.rate)))
		for ; i < upTo; i++ {
			wait := s.tier
			if wait == 0 {
				wait = s.shortest + rand.N(s.longest-s.shortest)
			}
			due[i] = schemas.MillisOf(now.Add(wait))
			cl.Produce(ctx, w.record(i, due[i], topics.TierFor(wait)), func(_ *kgo.Record, err error) {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			})
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return due, failed
}

// returns is what came back: by the broker's clock, and when it was read.
type returns struct {
	at, seen []schemas.Millis
	times    []uint8
	err      error
}

func (w *world) readBack(ctx context.Context, n int, within time.Duration) returns {
	r := returns{at: make([]schemas.Millis, n), seen: make([]schemas.Millis, n), times: make([]uint8, n)}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ConsumeTopics(w.Names.Readmit()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(20*time.Millisecond))
	if err != nil {
		r.err = err
		return r
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for got := 0; got < n; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			r.err = fmt.Errorf("%d of %d came back within %v", got, n, within)
			return r
		}
		now := schemas.MillisOf(time.Now())
		fetches.EachRecord(func(rec *kgo.Record) {
			i := binary.LittleEndian.Uint64(rec.Value)
			r.at[i], r.seen[i] = schemas.MillisOf(rec.Timestamp), now
			r.times[i]++
			got++
		})
	}
	return r
}

// appended reads when the broker appended each record to a tier, and returns
// when that makes it due.
func (w *world) appended(ctx context.Context, wait time.Duration, n int) ([]schemas.Millis, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ConsumeTopics(w.Names.Delay(topics.TierFor(wait).Name)), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	due := make([]schemas.Millis, n)
	for left := n; left > 0; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read what was written: %d are missing", left)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			// A second hop through the tier comes later: the first is what was asked.
			if i := binary.LittleEndian.Uint64(rec.Value); due[i] == 0 {
				due[i] = schemas.MillisOf(rec.Timestamp).Add(wait)
				left--
			}
		})
	}
	return due, nil
}

// written counts the records that the stage wrote: offsets, less what a reader
// cannot see, are counted by reading.
func (w *world) written(ctx context.Context) (int, error) {
	names := []string{w.Names.Readmit()}
	for _, t := range topics.Tiers {
		names = append(names, w.Names.Delay(t.Name))
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ConsumeTopics(names...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	n := 0
	for {
		quiet, cancel := context.WithTimeout(ctx, 2*time.Second)
		fetches := cl.PollFetches(quiet)
		cancel()
		got := fetches.NumRecords()
		if got == 0 {
			break
		}
		n += got
	}
	return n - w.rate*int(w.span/time.Second), ctx.Err()
}
