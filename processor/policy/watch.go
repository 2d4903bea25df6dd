package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Watcher follows weir.config and holds all revisions in force so far. Its
// methods may be called from any goroutine.
type Watcher struct {
	cl     *kgo.Client
	topic  string
	logger *slog.Logger
	opts   []kgo.Opt          // reach the brokers
	failed stream.FetchErrors // of who polls: Watch, then Run

	mu      sync.Mutex
	log     *Log
	void    int64         // records that do not count
	next    int64         // offset after the last record read
	err     error         // fatal: the log cannot be read further
	changed chan struct{} // closed and made anew when any of the above changes
}

// A topic that was made just now is not yet known to every broker: Watch asks for so
// long, every now and then, before it takes the word of one that does not know it.
const (
	unknownFor = 3 * time.Second
	unknownGap = 100 * time.Millisecond
)

// Watch reads topic up to its end as of now, then returns a watcher that Run
// keeps up to date. opts reach the brokers; they must name no group.
func Watch(ctx context.Context, topic string, logger *slog.Logger, opts ...kgo.Opt) (*Watcher, error) {
	cl, err := kgo.NewClient(append(slices.Clone(opts),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		stream.Bounded(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)...)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", topic, err)
	}
	w := &Watcher{cl: cl, topic: topic, logger: logger, opts: opts, log: NewLog(), changed: make(chan struct{})}
	end, err := w.end(ctx)
	for begun := time.Now(); errors.Is(err, kerr.UnknownTopicOrPartition) && time.Since(begun) < unknownFor && ctx.Err() == nil; {
		time.Sleep(unknownGap)
		end, err = w.end(ctx)
	}
	if err != nil {
		cl.Close()
		return nil, fmt.Errorf("watch %s: find its end: %w", topic, err)
	}
	for w.position() < end {
		if err := w.poll(ctx); err != nil {
			cl.Close()
			return nil, fmt.Errorf("watch %s: %w", topic, err)
		}
	}
	return w, nil
}

// Run follows the topic until ctx ends. It returns an error when the log
// cannot be read further.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.cl.Close()
	for {
		err := w.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("watch %s: %w", w.topic, err)
		}
	}
}

// Close ends a watcher that Run was never called for.
func (w *Watcher) Close() { w.cl.Close() }

// end asks where the topic ends now.
func (w *Watcher) end(ctx context.Context) (int64, error) {
	ends, err := kadm.NewClient(w.cl).ListCommittedOffsets(ctx, w.topic)
	if err == nil {
		err = ends.Error()
	}
	end, _ := ends.Lookup(w.topic, 0)
	return end.Offset, err
}

func (w *Watcher) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

func (w *Watcher) poll(ctx context.Context) error {
	fetches := w.cl.PollFetches(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	var (
		fatal  error
		passed int64 // the offset behind a batch that is not read
	)
	fetches.EachError(func(_ string, p int32, err error) {
		if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost || fetches.IsClientClosed() {
			fatal = err
			return
		}
		if at, ok := stream.Oversized(err); ok {
			stream.PassOversized(w.cl, err)
			passed = at.NextOffset
		}
		w.failed.Warn(w.logger, "reading the policy failed", w.topic, p, err)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		if w.err != nil {
			return
		}
		rev, err := w.log.Append(r.Value, r.Offset)
		w.next = r.Offset + 1
		switch {
		case errors.Is(err, schemas.ErrNewerRevision):
			w.err = w.without(ctx, r, err)
		case err != nil:
			w.void++
			w.logger.Warn("a record of the policy does not count; the revision in force stays", "topic", w.topic, "error", err, "in_force", w.log.Latest().Revision)
		}
		if rev != nil {
			w.logger.Info("policy revision in force", "revision", rev.Revision, "by", rev.By)
		}
	})
	w.next = max(w.next, passed)
	if fatal != nil && w.err == nil {
		w.err = fatal
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return w.err
}

// without decides whether the policy is known although a record cannot be read: where
// an operator skipped it, it does not count.
func (w *Watcher) without(ctx context.Context, r *kgo.Record, why error) error {
	names := topics.Names{Prefix: strings.TrimSuffix(w.topic, "config")}
	look := &skip.Lookup{Read: stream.ReadConfig{Options: w.opts}, Names: names}
	skipped, err := look.Covers(ctx, r)
	switch {
	case err != nil:
		return err
	case !skipped:
		return skip.Unreadable(names, r, why)
	}
	w.void++
	w.logger.Warn("a record is skipped, as an operator said; the revision in force stays", "topic", w.topic, "offset", r.Offset, "in_force", w.log.Latest().Revision)
	return nil
}

// CatchUp waits until everything has been read that the topic held when it was
// called, and returns the revision that is in force then. The watcher must be
// run meanwhile.
func (w *Watcher) CatchUp(ctx context.Context) (*schemas.Revision, error) {
	end, err := w.end(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", w.topic, err)
	}
	for {
		w.mu.Lock()
		next, latest, err, changed := w.next, w.log.Latest(), w.err, w.changed
		w.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case next >= end:
			return latest, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("read %s up to %d: %w", w.topic, end, context.Cause(ctx))
		}
	}
}

// Void returns how many records of the topic do not count: edits that lost to
// another, and what is no revision at all.
func (w *Watcher) Void() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.void
}

// Latest returns the newest revision in force.
func (w *Watcher) Latest() *schemas.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Latest()
}

// Get waits until the revision has been read: a new owner of a partition must
// know the policy up to the partition's marker before it decides.
func (w *Watcher) Get(ctx context.Context, revision int64) (*schemas.Revision, error) {
	for {
		w.mu.Lock()
		r, err, changed := w.log.Get(revision), w.err, w.changed
		w.mu.Unlock()
		switch {
		case r != nil:
			return r, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("policy revision %d is not in %s: %w", revision, w.topic, context.Cause(ctx))
		}
	}
}

// ErrConflict means that another revision came into force first.
var ErrConflict = errors.New("the policy was changed meanwhile: read it again and repeat")

// Publish writes p as the successor of parent and waits until the log shows
// whether it won. It returns the new revision, or ErrConflict. cl must be a
// producer with acks=all.
func (w *Watcher) Publish(ctx context.Context, cl *kgo.Client, parent int64, by string, p schemas.Policy) (*schemas.Revision, error) {
	rev := schemas.Revision{Revision: parent + 1, Parent: parent, At: schemas.MillisOf(time.Now()), By: by, Zones: schemas.ZonesVersion, Phones: recipient.MetadataVersion, Policy: p}
	value, err := json.Marshal(rev)
	if err != nil {
		return nil, fmt.Errorf("encode revision %d: %w", rev.Revision, err)
	}
	rec := &kgo.Record{Topic: w.topic, Partition: 0, Key: []byte("policy"), Value: value}
	if err := cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return nil, fmt.Errorf("write revision %d: %w", rev.Revision, err)
	}
	for {
		w.mu.Lock()
		next, err, changed := w.next, w.err, w.changed
		got, offset := w.log.Get(rev.Revision), w.log.Offset(rev.Revision)
		w.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case next > rec.Offset:
			if offset != rec.Offset {
				return nil, ErrConflict
			}
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for revision %d: %w", rev.Revision, context.Cause(ctx))
		}
	}
}
