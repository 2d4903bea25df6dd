package delay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Look tells from outside what waits: of the whole cluster, and without a part in
// the stage's group.
type Look struct {
	names  topics.Names
	cl     *kgo.Client
	adm    *kadm.Client
	reader *stream.Reader
}

// Waits is what waits in one tier.
type Waits struct {
	Tier topics.Tier
	// Records is how many have not returned; where AtMost is set, how many at most.
	Records int64
	// AtMost says that there were too many to count: of those beyond the first Kafka
	// tells offsets, and some are the markers of the transactions that wrote them.
	AtMost bool
	Oldest schemas.Millis // when the oldest of them was appended; 0 where nothing waits
}

// OpenLook connects to nothing yet: errors of the network show at the first call.
func OpenLook(brokers []string, names topics.Names, opts ...kgo.Opt) (*Look, error) {
	reader, err := stream.OpenReader(stream.ReadConfig{Brokers: brokers, ClientID: "weir-delays", Stall: lookWithin, FetchBytes: 64 << 10, Oversized: stream.SkipOversized, Options: opts})
	if err != nil {
		return nil, fmt.Errorf("look at the delays: %w", err)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ClientID("weir-delays")}, opts...)...)
	if err != nil {
		reader.Close()
		return nil, fmt.Errorf("look at the delays: %w", err)
	}
	return &Look{names, cl, kadm.NewClient(cl), reader}, nil
}

// Close ends the connections.
func (l *Look) Close() {
	l.cl.Close()
	l.reader.Close()
}

const (
	lookWithin  = 2 * time.Second // for a partition to bring its head, which may be under an open transaction
	lookAtATime = 8               // partitions
	// A partition is counted as far as this: a handful of messages is told exactly,
	// while a backlog, of which markers are a small part, costs no more to look at.
	lookRecords = 200
	lookBytes   = 256 << 10
)

// Waiting returns every tier, the shortest wait first. It asks for the offsets of
// the stage's group and the ends of the topics, and reads what stands at the head of
// each partition that is not empty.
func (l *Look) Waiting(ctx context.Context) ([]Waits, error) {
	names := make([]string, len(topics.Tiers))
	for i, t := range topics.Tiers {
		names[i] = l.names.Delay(t.Name)
	}
	// The group first: what has returned since only makes less of it.
	done, err := l.adm.FetchOffsets(ctx, Group(l.names))
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nothing has returned yet
		return nil, fmt.Errorf("fetch the offsets of the delays: %w", err)
	}
	starts, err := listed(l.adm.ListStartOffsets(ctx, names...))
	if err != nil {
		return nil, fmt.Errorf("find the beginnings of the delays: %w", err)
	}
	ends, err := listed(l.adm.ListCommittedOffsets(ctx, names...))
	if err != nil {
		return nil, fmt.Errorf("find the ends of the delays: %w", err)
	}
	out := make([]Waits, len(topics.Tiers))
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(lookAtATime)
	for i, t := range topics.Tiers {
		out[i].Tier = t
		for partition, end := range ends[names[i]] {
			from := starts[names[i]][partition]
			if at, ok := done.Lookup(names[i], partition); ok && at.At > from {
				from = at.At
			}
			if from >= end {
				continue
			}
			g.Go(func() error {
				h, err := l.head(gctx, stream.Partition{Topic: names[i], Partition: partition}, from, end)
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
		return nil, fmt.Errorf("read the heads of the delays: %w", err)
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

// head reads from an offset on; it has no records where only markers stand there.
func (l *Look) head(ctx context.Context, p stream.Partition, from, end int64) (head, error) {
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
	if _, gone := errors.AsType[*stream.GoneError](err); gone { // retention took it meanwhile
		return head{}, nil
	}
	return h, err
}

func listed(all kadm.ListedOffsets, err error) (map[string]map[int32]int64, error) {
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]map[int32]int64)
	all.Each(func(o kadm.ListedOffset) {
		if out[o.Topic] == nil {
			out[o.Topic] = make(map[int32]int64)
		}
		out[o.Topic][o.Partition] = o.Offset
	})
	return out, nil
}
