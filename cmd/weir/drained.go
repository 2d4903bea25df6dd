package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/topics"
)

// drained returns an error when messages that were admitted for a provider wait
// in its queues: nobody would call it for them once it is gone. What is
// admitted between this look and the partitions' switch to the new policy is
// not seen, so a provider should get no new messages for a while before it is
// removed; what is left in a queue then stays there until the provider is
// declared again.
func (k *cluster) drained(ctx context.Context, s *Settings, provider string) error {
	names := topics.Names{Prefix: s.Prefix}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var queues []string
	for _, q := range topics.Queues {
		queues = append(queues, names.Dispatch(provider, q))
	}
	details, err := k.adm.ListTopics(ctx, queues...)
	if err != nil {
		return fmt.Errorf("list its queues: %w", err)
	}
	queues = queues[:0]
	for _, d := range details {
		if d.Err == nil {
			queues = append(queues, d.Topic)
		}
	}
	if len(queues) == 0 {
		return nil // no topics, no messages
	}
	starts, err := k.adm.ListStartOffsets(ctx, queues...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("find the start of its queues: %w", err)
	}
	ends, err := k.adm.ListCommittedOffsets(ctx, queues...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("find the end of its queues: %w", err)
	}
	group := lane.Group(names, provider)
	done, err := k.adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // lanes that never ran have done nothing
		return fmt.Errorf("read how far its lanes are: %w", err)
	}
	// From where the lanes stand to the end as of now. Between them may be
	// nothing but the ends of transactions, so the records themselves are read.
	from := map[string]map[int32]kgo.Offset{}
	left := map[string]map[int32]int64{}
	for topic, parts := range ends {
		for p, end := range parts {
			at := int64(0)
			if o, ok := starts.Lookup(topic, p); ok {
				at = o.Offset
			}
			if o, ok := done.Lookup(topic, p); ok && o.At > at {
				at = o.At
			}
			if at >= end.Offset {
				continue
			}
			if from[topic] == nil {
				from[topic], left[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
			}
			from[topic][p], left[topic][p] = kgo.NewOffset().At(at), end.Offset
		}
	}
	if len(from) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ClientID("weir"), kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return fmt.Errorf("read its queues: %w", err)
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read its queues: %w", context.Cause(ctx))
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read its queues: %w", err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			end, unread := left[r.Topic][r.Partition]
			if !unread || r.Offset >= end {
				continue
			}
			if !r.Attrs.IsControl() {
				return fmt.Errorf("messages wait for it in %s. Route nothing to it (weight: 0), wait until its lanes have done them (weir status: %s), then repeat", r.Topic, group)
			}
			if r.Offset+1 >= end {
				delete(left[r.Topic], r.Partition)
			}
		}
		for topic, parts := range left {
			if len(parts) == 0 {
				delete(left, topic)
			}
		}
	}
	return nil
}
