package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readAll calls fn for every committed record of a topic as of now.
func readAll(ctx context.Context, brokers []string, topic string, fn func(*kgo.Record) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	left := make(map[int32]int64) // partition → end
	from := make(map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition], from[end.Partition] = end.Offset, kgo.NewOffset().At(0)
		}
	})
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("read %s: %w", topic, context.Cause(ctx))
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		for _, r := range fetches.Records() {
			end, open := left[r.Partition]
			if !open || r.Offset >= end {
				continue
			}
			if !r.Attrs.IsControl() { // a marker may be the last
				if err := fn(r); err != nil {
					return fmt.Errorf("%s/%d/%d: %w", topic, r.Partition, r.Offset, err)
				}
			}
			if r.Offset == end-1 {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}
