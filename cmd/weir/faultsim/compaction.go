package faultsim

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compact lets the brokers compact their logs, at a moment when kfake does so
// without loss: no transaction is open, since kfake lets a record of an open
// transaction replace a committed one, and when the transaction is aborted, both
// are gone; and every marker of an aborted transaction will be kept, since kfake
// goes on telling readers of the transaction, who then drop all that its producer
// commits until they see a marker.
func (c *cycle) compact() {
	adm := kadm.NewClient(c.cl)
	for range 50 {
		var held sync.WaitGroup
		for _, s := range c.slots {
			s.mu.Lock()
			if s.life != nil {
				w := s.life.wire
				held.Go(func() { w.Freeze(20 * time.Millisecond) })
			}
			s.mu.Unlock()
		}
		time.Sleep(10 * time.Millisecond)
		ends, err1 := adm.ListEndOffsets(context.Background(), c.names.Ledger())
		stable, err2 := adm.ListCommittedOffsets(context.Background(), c.names.Ledger())
		open := err1 != nil || err2 != nil
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup(o.Topic, o.Partition)
			open = open || o.Err != nil || s.Err != nil || s.Offset != o.Offset
		})
		if open = open || !c.markersStay(); !open {
			c.cluster.Compact()
			c.count(func(t *Tally) { t.Events[WhatCompact]++ })
			c.trace.Say("compacted")
		}
		held.Wait()
		if !open {
			return
		}
		time.Sleep(90 * time.Millisecond)
	}
}

// markersStay reports whether each producer of the ledger that has aborted a
// transaction also has a record that a compaction keeps: kfake keeps the markers
// of those producers only.
func (c *cycle) markersStay() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(c.cl).ListEndOffsets(ctx, c.names.Ledger())
	if err != nil {
		return false
	}
	from := map[int32]kgo.Offset{}
	for p := range ends[c.names.Ledger()] {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(c.own(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.names.Ledger(): from}),
		kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadUncommitted()))...)
	if err != nil {
		c.trace.Say("FAIL cannot look for markers: %v", err)
		return false
	}
	defer cl.Close()
	type producer struct {
		partition int32
		id        int64
	}
	type key struct {
		partition int32
		key       string
	}
	open := map[producer][]*kgo.Record{} // since its last marker
	latest := map[key]*kgo.Record{}      // of what was committed
	aborted := map[producer]bool{}
	left := 0
	for _, end := range ends[c.names.Ledger()] {
		if end.Offset > 0 {
			left++
		}
	}
	for left > 0 {
		fetched := cl.PollFetches(ctx)
		if fetched.Err() != nil {
			return false
		}
		fetched.EachRecord(func(r *kgo.Record) {
			w := producer{r.Partition, r.ProducerID}
			end, _ := ends.Lookup(r.Topic, r.Partition)
			switch last := r.Offset == end.Offset-1; {
			case last: // the active segment stays as it is
				left--
			case !r.Attrs.IsControl():
				open[w] = append(open[w], r)
			default:
				if r.Key[3] == 0 { // an abort marker: ControlRecordKey's type
					aborted[w] = true
				} else {
					for _, r := range open[w] {
						latest[key{r.Partition, string(r.Key)}] = r
					}
				}
				delete(open, w)
			}
		})
	}
	for _, r := range latest {
		delete(aborted, producer{r.Partition, r.ProducerID})
	}
	return len(aborted) == 0
}
