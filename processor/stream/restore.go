package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Range is what to read of a partition: from From up to its high watermark as
// of the call.
type Range struct {
	Partition
	From int64 // below the log's start means the log's start
}

// ReadConfig says how Read reaches the brokers.
type ReadConfig struct {
	Brokers  []string
	ClientID string
	// Stall is how long a partition may bring nothing new before Read gives
	// up. It must exceed the transaction timeout: a dead owner's open
	// transaction holds its partitions back that long. Default 30 s.
	Stall   time.Duration
	Options []kgo.Opt
}

// Read hands every committed record of the ranges to fn, in offset order
// within a partition, and returns when all of them have been read up to the
// high watermarks that stood when it was called. The bound is the high
// watermark and not the last stable offset: under an open transaction the
// latter lies below records that are committed (KAFKA-10167). The caller must
// have fetched the group's stable offsets before.
//
// It is an error when nothing new comes for cfg.Stall.
func Read(ctx context.Context, cfg ReadConfig, ranges []Range, fn func(*kgo.Record) error) error {
	if len(ranges) == 0 {
		return nil
	}
	if cfg.Stall == 0 {
		cfg.Stall = 30 * time.Second
	}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Transactions end in a control record: without seeing it the end of
		// a partition could not be told from a partition that is behind.
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}, cfg.Options...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer cl.Close()
	until, start, err := bounds(ctx, kadm.NewClient(cl), ranges)
	if err != nil {
		return err
	}
	consume := make(map[string]map[int32]kgo.Offset)
	left := 0
	for _, r := range ranges {
		from := max(r.From, start[r.Partition])
		if from >= until[r.Partition] {
			continue
		}
		if consume[r.Topic] == nil {
			consume[r.Topic] = make(map[int32]kgo.Offset)
		}
		consume[r.Topic][r.Partition.Partition] = kgo.NewOffset().At(from)
		left++
	}
	cl.AddConsumePartitions(consume)
	done := make(map[Partition]bool)
	progress := time.Now()
	for left > 0 {
		pollCtx, cancel := context.WithDeadline(ctx, progress.Add(cfg.Stall))
		fetches := cl.PollRecords(pollCtx, 50_000)
		cancel()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		switch now := time.Now(); {
		case !fetches.Empty():
			progress = now
		case now.Sub(progress) >= cfg.Stall:
			return fmt.Errorf("read: %d of %d partitions brought nothing for %v before their end: is a transaction left open over them?", left, len(ranges), cfg.Stall)
		}
		var errs []error
		fetches.EachError(func(topic string, p int32, err error) {
			if !kerr.IsRetriable(err) && !errors.Is(err, context.DeadlineExceeded) {
				errs = append(errs, fmt.Errorf("read %s/%d: %w", topic, p, err))
			}
		})
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		var fnErr error
		fetches.EachRecord(func(r *kgo.Record) {
			p := Partition{r.Topic, r.Partition}
			if fnErr != nil || done[p] {
				return
			}
			if r.Offset < until[p] && !r.Attrs.IsControl() {
				fnErr = fn(r)
			}
			if r.Offset+1 >= until[p] {
				done[p] = true
				left--
				cl.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
			}
		})
		if fnErr != nil {
			return fnErr
		}
	}
	return nil
}

// bounds returns the high watermark and the log start of each partition.
func bounds(ctx context.Context, adm *kadm.Client, ranges []Range) (until, start map[Partition]int64, err error) {
	topics := make(map[string]bool)
	var names []string
	for _, r := range ranges {
		if !topics[r.Topic] {
			topics[r.Topic] = true
			names = append(names, r.Topic)
		}
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list high watermarks: %w", err)
	}
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list log starts: %w", err)
	}
	until, start = make(map[Partition]int64), make(map[Partition]int64)
	for _, r := range ranges {
		end, ok := ends.Lookup(r.Topic, r.Partition.Partition)
		if !ok {
			return nil, nil, fmt.Errorf("%s/%d does not exist", r.Topic, r.Partition.Partition)
		}
		until[r.Partition] = end.Offset
		if st, ok := starts.Lookup(r.Topic, r.Partition.Partition); ok {
			start[r.Partition] = st.Offset
		}
	}
	return until, start, nil
}
