package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/schemas"
)

const (
	// holdTail is how long weir tail waits for an earlier event of another partition.
	holdTail = 300 * time.Millisecond
	// holdHistory is how long it waits for a partition from which nothing comes.
	holdHistory = 5 * time.Second
	// untidy is how much events of one partition may be out of order.
	untidy = 2 * time.Second
	// mostHeld bounds the memory: beyond it events are printed as they come.
	mostHeld = 1 << 17
)

// ordered puts events of several partitions in the order of their times.
type ordered struct {
	held   []heldEvent
	behind map[int32]*partRead // partitions whose history is not read to its end
	moved  time.Time           // when one of them was last read
}

type heldEvent struct {
	at   schemas.Millis
	came time.Time
	text string
}

// partRead is how far a partition's history is read.
type partRead struct {
	at  schemas.Millis
	end int64
}

// history says from where to where each partition is history.
func (o *ordered) history(begins, ends kadm.ListedOffsets) {
	o.behind = make(map[int32]*partRead)
	ends.Each(func(end kadm.ListedOffset) {
		if begin, ok := begins.Lookup(end.Topic, end.Partition); ok && begin.Err == nil && end.Err == nil && begin.Offset < end.Offset {
			o.behind[end.Partition] = &partRead{end: end.Offset}
		}
	})
}

// read says that a partition was read up to an offset, whose record is of that time; 0 is one without.
func (o *ordered) read(partition int32, offset int64, at schemas.Millis) {
	p := o.behind[partition]
	if p == nil {
		return
	}
	if p.at, o.moved = max(p.at, at), time.Now(); offset+1 >= p.end {
		delete(o.behind, partition)
	}
}

// due returns what may be printed, in order: what was held for long enough and what is older, once
// no partition's history can have an earlier event. all is everything.
func (o *ordered) due(now time.Time, all bool) []string {
	if now.Sub(o.moved) > holdHistory {
		clear(o.behind)
	}
	slices.SortStableFunc(o.held, func(a, b heldEvent) int { return cmp.Compare(a.at, b.at) })
	n := len(o.held)
	if !all && n <= mostHeld {
		for n > 0 && now.Sub(o.held[n-1].came) < holdTail {
			n--
		}
		for _, p := range o.behind {
			first, _ := slices.BinarySearchFunc(o.held, p.at.Add(-untidy), func(e heldEvent, at schemas.Millis) int { return cmp.Compare(e.at, at) })
			n = min(n, first)
		}
	}
	var out []string
	for _, e := range o.held[:n] {
		out = append(out, e.text)
	}
	o.held = slices.Delete(o.held, 0, n)
	return out
}
