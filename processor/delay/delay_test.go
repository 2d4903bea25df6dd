package delay_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const partitions = 4

// TestReturnsExactlyOnceAndNeverEarly writes messages with different waits,
// runs the stage, kills and starts it twice meanwhile, and looks at when each
// came back.
func TestReturnsExactlyOnceAndNeverEarly(t *testing.T) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(names.Readmit(), names.Receipts()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: partitions, Replication: 1}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := topics.Apply(t.Context(), cl, diff, nil); err != nil {
		t.Fatal(err)
	}

	const receipts = 3 // partitions
	returns := func(i int) string {
		if i%4 == 3 {
			return names.Receipts()
		}
		return names.Readmit()
	}
	start := time.Now()
	waits := []time.Duration{0, 300 * time.Millisecond, time.Second, 1700 * time.Millisecond, 2500 * time.Millisecond}
	due := make(map[string]time.Time)
	for i := range 200 {
		key := fmt.Sprintf("+8613800%06d", i)
		at := start.Add(waits[i%len(waits)]).Truncate(time.Millisecond)
		env := schemas.Envelope{ID: key, Key: key, Reason: schemas.ReadmitRetry, DueAt: schemas.MillisOf(at), Return: returns(i)}
		rec := &kgo.Record{Topic: names.Delay("1s"), Partition: schemas.PartitionOf(key, partitions), Key: []byte(key), Value: []byte("bytes of " + key)}
		env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		due[key] = at
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	working, stop := context.WithCancel(t.Context())
	defer stop()
	run := func(life time.Duration) chan error {
		ctx, cancel := context.WithTimeout(working, life)
		done := make(chan error, 1)
		go func() {
			defer cancel()
			done <- delay.Run(ctx, delay.Config{
				Stream:     stream.Config{Brokers: c.ListenAddrs(), TransactionalID: "delay-0", SessionTimeout: 6 * time.Second},
				Names:      names,
				Partitions: partitions, DelayPartitions: partitions, Returns: map[string]int32{names.Receipts(): receipts},
			})
		}()
		return done
	}
	lives := make(chan error, 1)
	go func() {
		for _, life := range []time.Duration{700 * time.Millisecond, 900 * time.Millisecond} {
			if err := <-run(life); err != nil {
				lives <- err
				return
			}
		}
		lives <- <-run(2 * time.Minute) // or until all is back
	}()

	got := make(map[string]int)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(got) < len(due) {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			select {
			case err := <-lives:
				t.Logf("the stage ended: %v", err)
			default:
			}
			for k, at := range due {
				if got[k] == 0 {
					t.Logf("missing %s, due after %v", k, at.Sub(start))
				}
			}
			t.Fatalf("%d of %d returned", len(got), len(due))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			now := time.Now()
			key := string(r.Key)
			got[key]++
			i, _ := strconv.Atoi(key[len(key)-6:])
			parts := int32(partitions)
			if i%4 == 3 {
				parts = receipts
			}
			if string(r.Value) != "bytes of "+key || r.Topic != returns(i) || r.Partition != schemas.PartitionOf(key, parts) {
				t.Errorf("%s came back as %q in %s/%d", key, r.Value, r.Topic, r.Partition)
			}
			if now.Before(due[key]) {
				t.Errorf("%s came back %v early", key, due[key].Sub(now))
			}
		})
	}
	stop()
	if err := <-lives; err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // for one too many
	defer cancel()
	cl.PollFetches(late).EachRecord(func(r *kgo.Record) { got[string(r.Key)]++ })
	for key, n := range got {
		if n != 1 {
			t.Errorf("%s came back %d times", key, n)
		}
	}
}
