package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// Range is what to read of a partition: from From up to its high watermark as
// of the call.
type Range struct {
	Partition
	From int64 // below the log's start means the log's start
	// Resume says that From is where an earlier read ended. If the log no
	// longer has it, what lies between is unknown: that is a GoneError.
	Resume bool
	// TopicID is that of the topic which the earlier read was of. If the name is
	// another topic's by now, where a log goes on says nothing: that is a
	// GoneError too. Zero is any.
	TopicID [16]byte
	// Stable ends the reading at the last stable offset, so it waits for no transaction.
	Stable bool
}

// GoneError means that a log no longer holds the position at which a read was to
// go on: it was deleted by retention, or the topic was made anew. What was
// built from the log so far must be built again from its start.
type GoneError struct {
	Partition
	From, Start, End int64
	Anew             bool // the topic is not the one that was read before
}

func (e *GoneError) Error() string {
	if e.Anew {
		return fmt.Sprintf("%s/%d: cannot go on at offset %d: the topic was made anew", e.Topic, e.Partition.Partition, e.From)
	}
	return fmt.Sprintf("%s/%d: cannot go on at offset %d: the log holds %d to %d", e.Topic, e.Partition.Partition, e.From, e.Start, e.End)
}

// ErrStalled means that a partition brought nothing new for ReadConfig.Stall
// before its end.
var ErrStalled = errors.New("brought nothing")

// ReadConfig says how Read reaches the brokers.
type ReadConfig struct {
	Brokers  []string
	ClientID string
	// Stall is how long a partition may bring nothing new before Read gives
	// up. It must exceed the transaction timeout: a dead owner's open
	// transaction holds its partitions back that long. Default 30 s.
	Stall time.Duration
	// FetchBytes bounds what one fetch brings of a partition. Default 1 MiB.
	FetchBytes int32
	// Oversized is called with a batch beyond MaxBatchBytes (see IsBatch), behind which it
	// goes on. It may be called from several goroutines. Nil: such a batch is an error.
	Oversized func(*kgo.Record) error
	// Progress is called with how many offsets of Read's ranges are read, of how many. It may be
	// called from several goroutines, and may be nil.
	Progress func(done, total int64)
	Options  []kgo.Opt
}

// Reader reads partitions outside any group. It keeps connections and nothing
// else: where to go on is the caller's to remember. Its methods may be called
// from any goroutine.
type Reader struct {
	cfg ReadConfig
	cl  *kgo.Client
	adm *kadm.Client
}

// OpenReader returns a reader that the caller must close.
func OpenReader(cfg ReadConfig) (*Reader, error) {
	cfg.Stall = cmp.Or(cfg.Stall, 30*time.Second)
	cfg.FetchBytes = cmp.Or(cfg.FetchBytes, 1<<20)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID(cfg.ClientID), Bounded()}, cfg.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	return &Reader{cfg: cfg, cl: cl, adm: kadm.NewClient(cl)}, nil
}

// Close ends the connections.
func (r *Reader) Close() { r.cl.Close() }

// Read hands every committed record of the ranges to fn, in offset order
// within a partition, and returns when all of them have been read up to the
// high watermarks that stood when it was called. The bound is the high
// watermark and not the last stable offset: under an open transaction the
// latter lies below records that are committed (KAFKA-10167). The caller must
// have fetched the group's stable offsets before. Either all ranges are Stable or none is.
//
// Calls of fn for ranges with different partition numbers may run at the same
// time; those with one number are read one after another, in their order. A
// record and what it points to are fn's to keep.
//
// What it returns is how to go on, also beside an error: every record below From
// has been handed to fn and none from there on. That may lie beyond the last
// record: transactions end in markers, and aborted ones leave gaps. Only after
// an error of fn itself it says nothing. It is an error when a partition brings
// nothing new for cfg.Stall.
func (r *Reader) Read(ctx context.Context, ranges []Range, fn func(*kgo.Record) error) (map[Partition]Range, error) {
	reached := make(map[Partition]Range)
	for _, rg := range ranges {
		reached[rg.Partition] = rg
	}
	if len(ranges) == 0 {
		return reached, nil
	}
	boundCtx, cancel := context.WithTimeoutCause(ctx, r.cfg.Stall, ErrStalled)
	jobs, err := r.bound(boundCtx, ranges)
	if ctx.Err() == nil && boundCtx.Err() != nil {
		err = fmt.Errorf("the brokers %w for %v: %w", ErrStalled, r.cfg.Stall, err)
	}
	cancel()
	if err != nil {
		return reached, err
	}
	byNumber := make(map[int32][]*job)
	var numbers []int32
	for _, j := range jobs {
		n := j.Partition.Partition
		if byNumber[n] == nil {
			numbers = append(numbers, n)
		}
		byNumber[n] = append(byNumber[n], j)
	}
	slices.Sort(numbers)
	if r.cfg.Progress != nil {
		var done atomic.Int64
		total := int64(0)
		for _, j := range jobs {
			total += max(j.until-j.at, 0)
			j.passed = func(n int64) { r.cfg.Progress(done.Add(n), total) }
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	// A job holds a turn while it has records in memory, and none while it waits
	// for a transaction to end. One more than can run hides the fetches.
	turns := make(chan struct{}, runtime.GOMAXPROCS(0)+1)
	var mu sync.Mutex
	for _, n := range numbers {
		g.Go(func() error {
			for _, j := range byNumber[n] {
				err := r.read(gctx, j, turns, fn)
				mu.Lock()
				reached[j.Partition] = Range{Partition: j.Partition, From: j.at, Resume: j.at > 0, TopicID: j.topicID}
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return reached, fmt.Errorf("read: %w", err)
	}
	return reached, nil
}

// Span hands the committed records of one partition from one offset up to
// another, which a caller knows to have been written, to fn in their order. It
// returns where to go on; after an error of fn that says nothing.
func (r *Reader) Span(ctx context.Context, p Partition, from, until int64, fn func(*kgo.Record) error) (int64, error) {
	j := &job{Range: Range{Partition: p, From: from}, at: from, until: until, leader: -1}
	err := r.read(ctx, j, make(chan struct{}, 1), fn)
	return j.at, err
}

// Read is Reader.Read with a reader of its own and one call of fn at a time.
func Read(ctx context.Context, cfg ReadConfig, ranges []Range, fn func(*kgo.Record) error) error {
	if len(ranges) == 0 {
		return nil
	}
	r, err := OpenReader(cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	var mu sync.Mutex
	_, err = r.Read(ctx, ranges, func(rec *kgo.Record) error {
		mu.Lock()
		defer mu.Unlock()
		return fn(rec)
	})
	return err
}

// bound finds each range's leader, end and log start.
func (r *Reader) bound(ctx context.Context, ranges []Range) ([]*job, error) {
	var names []string
	list := r.adm.ListEndOffsets
	for _, rg := range ranges {
		if !slices.Contains(names, rg.Topic) {
			names = append(names, rg.Topic)
		}
		if rg.Stable {
			list = r.adm.ListCommittedOffsets
		}
	}
	// The ends first: what is committed before this call lies below the high watermark.
	ends, err := list(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the logs' ends: %w", err)
	}
	starts, err := r.adm.ListStartOffsets(ctx, names...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list log starts: %w", err)
	}
	meta, err := r.adm.Metadata(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("find leaders: %w", err)
	}
	var jobs []*job
	var gone []error
	for _, rg := range ranges {
		end, ok := ends.Lookup(rg.Topic, rg.Partition.Partition)
		start, has := starts.Lookup(rg.Topic, rg.Partition.Partition)
		if !ok || !has {
			return nil, fmt.Errorf("%s/%d does not exist", rg.Topic, rg.Partition.Partition)
		}
		if rg.Resume && (rg.From < start.Offset || rg.From > end.Offset) {
			gone = append(gone, &GoneError{Partition: rg.Partition, From: rg.From, Start: start.Offset, End: end.Offset})
		}
		j := &job{Range: rg, at: max(rg.From, start.Offset), until: end.Offset}
		if rg.Resume {
			j.topicID = rg.TopicID
		}
		// read asks again for a leader that is not known yet
		if anew, ok := errors.AsType[*GoneError](j.locate(meta)); ok {
			gone = append(gone, anew)
		}
		jobs = append(jobs, j)
	}
	return jobs, errors.Join(gone...)
}
