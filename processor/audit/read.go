package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// reader opens partitions up to the ends that were taken before.
type reader struct {
	brokers []string
	stall   time.Duration
	stalled func(error) error // nil: what brings nothing for stall ends with the error; else it waits on, unless stalled returns one
	options []kgo.Opt
	start   map[string]map[int32]int64
	until   map[string]map[int32]int64 // high watermarks: what is committed later of what lies below is waited for

	mu   sync.Mutex
	done map[string]map[int32]int64 // how far earlier cuts were read to their ends

	passed atomic.Int64 // offsets that were read or found empty
}

// left is how many offsets there are up to the ends that were taken.
func (r *reader) left() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, parts := range r.until {
		for num, until := range parts {
			n += max(until-max(r.start[topic][num], r.done[topic][num]), 0)
		}
	}
	return n
}

// resume reads on from where an earlier cut ended, and at least from an offset on. What
// it reads to its end, the next cut does not bring again.
func (r *reader) resume(ctx context.Context, topic string, num int32, least int64) (source, func(), error) {
	r.mu.Lock()
	from := max(r.start[topic][num], r.done[topic][num], least)
	r.mu.Unlock()
	next, closeLog, err := r.openFrom(ctx, topic, num, from)
	if err != nil {
		return nil, nil, err
	}
	until := r.until[topic][num]
	return func() (*kgo.Record, error) {
		rec, err := next()
		if rec == nil && err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.done == nil {
				r.done = make(map[string]map[int32]int64)
			}
			if r.done[topic] == nil {
				r.done[topic] = make(map[int32]int64)
			}
			r.done[topic][num] = max(from, until)
		}
		return rec, err
	}, closeLog, nil
}

// ends takes the ends of topics. One that does not exist has no partitions.
func (r *reader) ends(ctx context.Context, adm *kadm.Client, topics ...string) error {
	if r.until == nil {
		r.start, r.until = make(map[string]map[int32]int64), make(map[string]map[int32]int64)
	}
	until, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("list high watermarks: %w", err)
	}
	start, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("list log starts: %w", err)
	}
	for _, l := range []struct {
		from kadm.ListedOffsets
		into map[string]map[int32]int64
	}{{until, r.until}, {start, r.start}} {
		var failed error
		l.from.Each(func(o kadm.ListedOffset) {
			switch {
			case errors.Is(o.Err, kerr.UnknownTopicOrPartition):
			case o.Err != nil:
				failed = fmt.Errorf("%s/%d: %w", o.Topic, o.Partition, o.Err)
			default:
				if l.into[o.Topic] == nil {
					l.into[o.Topic] = make(map[int32]int64)
				}
				l.into[o.Topic][o.Partition] = o.Offset
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

// stable takes the last stable offsets of topics for their ends: what lies below is of
// transactions that are over.
func (r *reader) stable(ctx context.Context, adm *kadm.Client, topics ...string) error {
	if err := r.ends(ctx, adm, topics...); err != nil {
		return err
	}
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("list stable offsets: %w", err)
	}
	stable.Each(func(o kadm.ListedOffset) {
		if until := r.until[o.Topic]; o.Err == nil && until != nil {
			until[o.Partition] = min(until[o.Partition], o.Offset)
		}
	})
	return nil
}

// settled waits until no transaction is open below the ends that were taken of a
// topic: only then all that such a transaction writes elsewhere is there.
func (r *reader) settled(ctx context.Context, adm *kadm.Client, topic string) error {
	for began := time.Now(); ; {
		stable, err := adm.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return fmt.Errorf("list stable offsets: %w", err)
		}
		open := int32(-1)
		for num, until := range r.until[topic] {
			if o, ok := stable.Lookup(topic, num); !ok || o.Err != nil || o.Offset < until {
				open = num
			}
		}
		if open < 0 {
			return nil
		}
		if time.Since(began) >= r.stall {
			return fmt.Errorf("%s/%d: a transaction has been open for %s; it ends with its owner's return, or its timeout", topic, open, r.stall)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for open transactions: %w", context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// begins returns when the last of a topic's partitions begins that have lost
// their first records to age; 0 when all is there.
func (r *reader) begins(ctx context.Context, topic string) (schemas.Millis, error) {
	var last schemas.Millis
	for num, start := range r.start[topic] {
		if start == 0 {
			continue
		}
		log, closeLog, err := r.open(ctx, topic, num)
		if err != nil {
			return 0, err
		}
		rec, err := log()
		closeLog()
		if err != nil {
			return 0, err
		}
		at := schemas.MillisOf(time.Now()) // nothing is left
		if rec != nil {
			at = schemas.MillisOf(rec.Timestamp)
		}
		last = max(last, at)
	}
	return last, nil
}

// open reads a partition's committed records up to the end that was taken. A
// transaction that is open below it is waited for.
func (r *reader) open(ctx context.Context, topic string, num int32) (source, func(), error) {
	return r.openFrom(ctx, topic, num, r.start[topic][num])
}

// openFrom reads a partition's committed records from an offset on.
func (r *reader) openFrom(ctx context.Context, topic string, num int32, from int64) (source, func(), error) {
	return r.openTo(ctx, topic, num, from, r.until[topic][num])
}

// openTo reads a partition's committed records from one offset to before another.
func (r *reader) openTo(ctx context.Context, topic string, num int32, from, until int64) (source, func(), error) {
	if from >= until {
		return func() (*kgo.Record, error) { return nil, nil }, func() {}, nil
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.brokers...),
		kgo.ClientID("weir-audit"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Without its control records the end of a partition could not be told
		// from a partition that is behind.
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {num: kgo.NewOffset().At(from)}}),
		// Not less: the embedded broker names aborted transactions only where their
		// end lies in the same fetch, and what was aborted would be read.
		kgo.FetchMaxBytes(4 << 20), kgo.FetchMaxPartitionBytes(4 << 20), kgo.MaxConcurrentFetches(1),
		kgo.FetchMaxWait(250 * time.Millisecond), kgo.MaxDecompressBatchBytes(schemas.MaxBatchBytes),
	}, r.options...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s/%d: %w", topic, num, err)
	}
	var batch []*kgo.Record
	ended, at := false, from
	next := func() (*kgo.Record, error) {
		progress := time.Now()
		for !ended {
			for len(batch) > 0 {
				rec := batch[0]
				batch = batch[1:]
				r.passed.Add(rec.Offset + 1 - at)
				at = rec.Offset + 1
				if ended = rec.Offset+1 >= until; rec.Offset >= until {
					return nil, nil
				}
				if !rec.Attrs.IsControl() {
					return rec, nil
				}
			}
			if ended {
				break
			}
			stall := r.stall
			if r.stalled != nil {
				stall = min(stall, saysSo)
			}
			poll, cancel := context.WithDeadline(ctx, progress.Add(stall))
			fetches := cl.PollRecords(poll, 10_000)
			cancel()
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("read %s/%d: %w", topic, num, context.Cause(ctx))
			}
			var failed error
			var skipped []*kgo.Record
			fetches.EachError(func(_ string, _ int32, err error) {
				if at, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
					cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {num: {Epoch: at.Epoch, Offset: at.NextOffset}}})
					skipped = append(skipped, &kgo.Record{Topic: topic, Partition: num, Offset: at.NextOffset - 1, Context: context.WithValue(context.Background(), unread{}, at.Offset)})
					return
				}
				if !kerr.IsRetriable(err) && !errors.Is(err, context.DeadlineExceeded) {
					failed = err
				}
			})
			if errors.Is(failed, kerr.OffsetOutOfRange) {
				failed = fmt.Errorf("its oldest records were deleted by age while it was read: run the audit again: %w", failed)
			}
			if failed != nil {
				return nil, fmt.Errorf("read %s/%d: %w", topic, num, failed)
			}
			if batch = append(fetches.Records(), skipped...); len(batch) == 0 && time.Since(progress) >= stall {
				err := fmt.Errorf("read %s/%d: nothing came for %s before its end: %w", topic, num, stall, silence(ctx, cl))
				if r.stalled == nil {
					return nil, err
				}
				if err := r.stalled(err); err != nil {
					return nil, err
				}
				progress = time.Now()
			}
		}
		return nil, nil
	}
	return next, cl.Close, nil
}

// each brings every committed record from an offset up to the end that was taken.
func (r *reader) each(ctx context.Context, topic string, num int32, from int64, take func(*kgo.Record)) error {
	log, closeLog, err := r.openFrom(ctx, topic, num, from)
	if err != nil {
		return err
	}
	defer closeLog()
	for {
		rec, err := log()
		if err != nil || rec == nil {
			return err
		}
		take(rec)
	}
}

// saysSo is after how long a reader that waits on says that nothing comes.
const saysSo = 10 * time.Second

// unread marks the record that stands for a batch that no one reads, at its last offset.
// Its value is the first.
type unread struct{}

// unreadFrom returns the first offset of the batch that a record stands for.
func unreadFrom(r *kgo.Record) (first int64, ok bool) {
	if r.Context == nil {
		return 0, false
	}
	first, ok = r.Context.Value(unread{}).(int64)
	return first, ok
}

// silence says why nothing comes: the brokers are away, or a transaction was
// left open.
func silence(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("the brokers do not answer: %w", err)
	}
	return errors.New("a transaction is left open over it; it ends with its owner's return, or its timeout")
}

// source brings the committed records of a partition in offset order; nil at
// the end. It may skip offsets: those of control records and of what was
// aborted.
type source func() (*kgo.Record, error)
