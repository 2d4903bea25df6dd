package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

const (
	tailBack  = 10_000                 // records of each partition that a tail begins before the end
	tailPause = 500 * time.Millisecond // between attempts while Kafka does not answer
)

// tail follows all partitions of weir.status, committed records only, into
// recent. One goroutine runs it.
type tail struct {
	cl     *kgo.Client
	topic  string
	recent *recent
	feed   *feed
	logger *slog.Logger
	failed stream.FetchErrors

	caughtUp atomic.Bool // has been at the end that stood when it began
}

func newTail(topic string, r *recent, f *feed, logger *slog.Logger, opts []kgo.Opt) (*tail, error) {
	cl, err := kgo.NewClient(append(opts,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// A transactional partition ends in a control record: without it the
		// end could not be told from being behind.
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd().Relative(-tailBack)),
		kgo.FetchMaxBytes(16<<20), stream.Bounded(),
	)...)
	if err != nil {
		return nil, fmt.Errorf("open a client for %s: %w", topic, err)
	}
	return &tail{cl: cl, topic: topic, recent: r, feed: f, logger: logger}, nil
}

// run follows the topic until ctx ends. Kafka being away is no error: it goes
// on where it was.
func (t *tail) run(ctx context.Context) {
	ends := t.begin(ctx)
	t.caughtUp.Store(len(ends) == 0 && ctx.Err() == nil)
	for ctx.Err() == nil {
		fetches := t.cl.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		failed := false
		fetches.EachError(func(_ string, p int32, err error) {
			failed = true
			if at, ok := stream.Oversized(err); ok {
				stream.PassOversized(t.cl, err)
				if end, ok := ends[at.Partition]; ok && at.NextOffset >= end {
					delete(ends, at.Partition)
				}
			}
			t.failed.Warn(t.logger, "reading statuses failed", t.topic, p, err)
		})
		if failed {
			wait(ctx, tailPause)
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			t.read(r, now)
			if end, ok := ends[r.Partition]; ok && r.Offset+1 >= end {
				delete(ends, r.Partition)
			}
		})
		t.feed.wake()
		if len(ends) == 0 {
			t.caughtUp.Store(true)
		}
	}
}

// begin sets the client a little before the end of each partition, and returns
// the ends of those that have something to read.
func (t *tail) begin(ctx context.Context) map[int32]int64 {
	for ctx.Err() == nil {
		from, ends, err := t.bounds(ctx)
		if err == nil {
			t.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: from})
			return ends
		}
		t.failed.Warn(t.logger, "finding the end of the statuses failed", t.topic, -1, err)
		wait(ctx, tailPause)
	}
	return nil
}

func (t *tail) bounds(ctx context.Context) (from map[int32]kgo.Offset, ends map[int32]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	adm := kadm.NewClient(t.cl)
	last, err := adm.ListCommittedOffsets(ctx, t.topic)
	if err == nil {
		err = last.Error()
	}
	if err != nil {
		return nil, nil, err
	}
	first, err := adm.ListStartOffsets(ctx, t.topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, nil, err
	}
	from, ends = make(map[int32]kgo.Offset), make(map[int32]int64)
	for p, end := range last[t.topic] {
		start, _ := first.Lookup(t.topic, p)
		at := max(start.Offset, end.Offset-tailBack)
		from[p] = kgo.NewOffset().At(at)
		t.feed.begin(p, at)
		if at < end.Offset {
			ends[p] = end.Offset
		}
	}
	if len(from) == 0 {
		return nil, nil, fmt.Errorf("%s has no partitions", t.topic)
	}
	return from, ends, nil
}

func (t *tail) read(r *kgo.Record, now time.Time) {
	if r.Attrs.IsControl() {
		t.feed.add(r.Partition, r.Offset, nil, nil)
		return
	}
	e, err := schemas.DecodeEvent(r.Value)
	if err != nil {
		t.feed.add(r.Partition, r.Offset, nil, nil)
		t.logger.Warn("a record is no status", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
		return
	}
	if e.Kind != schemas.KindStatus || e.MessageID == "" {
		t.feed.add(r.Partition, r.Offset, nil, nil)
		return
	}
	value := bytes.Clone(r.Value) // it is a part of a whole batch
	t.recent.add(e, value, now)
	t.feed.add(r.Partition, r.Offset, e, value)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
