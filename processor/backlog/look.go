// Package backlog measures from outside what waits in Weir's queues: how much, since
// when, how fast it is worked off, and which providers make no calls although messages
// wait for them. It asks Kafka for offsets and reads the head of each queue, so it
// also sees what no process works on. It is a member of no group.
package backlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Stage is who reads a queue.
type Stage string

const (
	Inputs    Stage = "inputs"    // topics of producers that are bound to a tenant
	Admission Stage = "admission" // requests, and what comes back to be decided again
	Lanes     Stage = "lanes"     // decided messages, a topic for each provider and priority
	Delay     Stage = "delay"     // what waits for its time
	Receipts  Stage = "receipts"  // what providers report later
	Sink      Stage = "sink"      // statuses on their way into ClickHouse
	Callbacks Stage = "callbacks" // statuses, and callbacks that come back to be tried again
)

// Queue is one topic, and the group of consumers that reads it.
type Queue struct {
	Stage    Stage
	Provider string // of Lanes only
	Name     string // within the stage: a priority, a tier, a topic
	Topic    string
	Group    string
	// Bound says that only partitions count in which the group has a position: the
	// topic may be older than the group.
	Bound bool
	// Wait is how long a record waits there as it should.
	Wait time.Duration
}

// Waiting is what waits in one queue.
type Waiting struct {
	Queue
	// Records is how many the group has not finished; where AtMost is set, how many at most.
	Records int64
	// AtMost says that there were too many to count: beyond the first ones Kafka
	// counts offsets, and some are the markers of the transactions that wrote them.
	AtMost bool
	Oldest schemas.Millis // when the oldest of them was appended; 0 where nothing waits
	// Done is the sum of the group's positions: it grows as the queue is worked off.
	Done int64
}

// Looker looks at queues.
type Looker struct {
	cl     *kgo.Client
	adm    *kadm.Client
	reader *stream.Reader
}

// Open connects to nothing yet: errors of the network show at the first call.
func Open(brokers []string, opts ...kgo.Opt) (*Looker, error) {
	reader, err := stream.OpenReader(stream.ReadConfig{Brokers: brokers, ClientID: "weir-backlog", Stall: lookWithin, FetchBytes: 64 << 10, Oversized: stream.SkipOversized, Options: opts})
	if err != nil {
		return nil, fmt.Errorf("look at the backlog: %w", err)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ClientID("weir-backlog")}, opts...)...)
	if err != nil {
		reader.Close()
		return nil, fmt.Errorf("look at the backlog: %w", err)
	}
	return &Looker{cl, kadm.NewClient(cl), reader}, nil
}

// Close ends the connections.
func (l *Looker) Close() {
	l.cl.Close()
	l.reader.Close()
}

// Members is how many processes read as a group.
func (l *Looker) Members(ctx context.Context, group string) (int, error) {
	all, err := l.adm.DescribeGroups(ctx, group)
	if err == nil {
		err = all[group].Err
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, nil
	}
	return len(all[group].Members), err
}

const (
	lookWithin  = 2 * time.Second // for a partition to bring its head, which may be under an open transaction
	lookAtATime = 8               // partitions
	// A partition is counted as far as this: a handful of messages is counted exactly,
	// while a backlog, of which markers are a small part, costs no more to look at.
	lookRecords = 200
	lookBytes   = 256 << 10
)

// Look returns what waits in each queue, in their order. It asks for the positions of
// the groups and the ends of the topics, and reads the head of each partition that is
// not empty. A topic that does not exist has nothing.
func (l *Looker) Look(ctx context.Context, queues []Queue) ([]Waiting, error) {
	if len(queues) == 0 {
		return nil, nil // no names would ask for all topics
	}
	var names, groups []string
	for _, q := range queues {
		names = append(names, q.Topic)
		if !slices.Contains(groups, q.Group) {
			groups = append(groups, q.Group)
		}
	}
	// The groups first: what is done since only makes less of it.
	done := l.adm.FetchManyOffsets(ctx, groups...)
	for _, g := range done {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) { // it has done nothing yet
			return nil, fmt.Errorf("fetch the offsets of %s: %w", g.Group, g.Err)
		}
	}
	starts, err := listed(l.adm.ListStartOffsets(ctx, names...))
	if err != nil {
		return nil, fmt.Errorf("find the beginnings of the queues: %w", err)
	}
	ends, err := listed(l.adm.ListCommittedOffsets(ctx, names...))
	if err != nil {
		return nil, fmt.Errorf("find the ends of the queues: %w", err)
	}
	out := make([]Waiting, len(queues))
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(lookAtATime)
	for i, q := range queues {
		out[i].Queue = q
		for partition, end := range ends[q.Topic] {
			from := starts[q.Topic][partition]
			at, ok := done[q.Group].Fetched.Lookup(q.Topic, partition)
			if ok {
				from = max(from, at.At)
			}
			if q.Bound && !ok {
				continue
			}
			out[i].Done += from
			if from >= end {
				continue
			}
			g.Go(func() error {
				h, err := l.head(gctx, stream.Partition{Topic: q.Topic, Partition: partition}, from, end)
				if err != nil || h.records == 0 {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				w := &out[i]
				w.Records += h.records + h.rest
				w.AtMost = w.AtMost || h.rest > 0
				if w.Oldest == 0 || h.oldest < w.Oldest {
					w.Oldest = h.oldest
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read the heads of the queues: %w", err)
	}
	return out, nil
}

// head is the beginning of what waits in a partition.
type head struct {
	records int64          // that were read
	rest    int64          // offsets behind them, up to the end
	oldest  schemas.Millis // when the first was appended
}

// errEnough ends a reading that has what it came for.
var errEnough = errors.New("enough")

// head reads from an offset on; it has no records where there are only markers.
func (l *Looker) head(ctx context.Context, p stream.Partition, from, end int64) (head, error) {
	var h head
	bytes := 0
	_, err := l.reader.Span(ctx, p, from, end, func(r *kgo.Record) error {
		if h.records == 0 {
			h.oldest = schemas.MillisOf(r.Timestamp)
		}
		h.records++
		if bytes += len(r.Key) + len(r.Value); h.records >= lookRecords || bytes >= lookBytes {
			h.rest = max(end-r.Offset-1, 0)
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return h, nil
	}
	if _, gone := errors.AsType[*stream.GoneError](err); gone { // retention has deleted it since
		return head{}, nil
	}
	return h, err
}

// listed returns offsets by topic and partition. A topic that does not exist is left out.
func listed(all kadm.ListedOffsets, err error) (map[string]map[int32]int64, error) {
	if err != nil {
		return nil, err
	}
	out := make(map[string]map[int32]int64)
	all.Each(func(o kadm.ListedOffset) {
		if errors.Is(o.Err, kerr.UnknownTopicOrPartition) {
			return
		}
		if o.Err != nil {
			err = fmt.Errorf("%s/%d: %w", o.Topic, o.Partition, o.Err)
			return
		}
		if out[o.Topic] == nil {
			out[o.Topic] = make(map[int32]int64)
		}
		out[o.Topic][o.Partition] = o.Offset
	})
	return out, err
}
