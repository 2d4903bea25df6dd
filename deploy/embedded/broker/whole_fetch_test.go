package broker_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
)

// TestAbortedInALargeAnswer: what was aborted is not read, however the answers of
// fetches are cut.
func TestAbortedInALargeAnswer(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	broker.AnswerWholePartitions(c)
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	p, err := kgo.NewClient(seeds, kgo.TransactionalID("p"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const rounds = 40
	for i := range rounds {
		end, mark := kgo.TryCommit, byte('c')
		if i%2 == 1 {
			end, mark = kgo.TryAbort, 'a'
		}
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for part := range int32(2) {
			p.Produce(ctx, &kgo.Record{Topic: "t", Partition: part, Value: bytes.Repeat([]byte{mark}, 1000)}, nil)
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := p.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	r, err := kgo.NewClient(seeds, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(3500)) // some three batches
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	committed := 0
	for committed < rounds {
		f := r.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(rec *kgo.Record) {
			if rec.Value[0] == 'a' {
				t.Fatalf("a record that was aborted was read: partition %d, offset %d", rec.Partition, rec.Offset)
			}
			committed++
		})
	}
}
