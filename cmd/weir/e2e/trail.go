package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Trail follows weir.status from its start, reading committed records, and
// hands them to an oracle as they come.
type Trail struct {
	cl *kgo.Client

	mu      sync.Mutex
	oracle  *Oracle
	watch   func(Record) // may be nil
	err     error
	changed chan struct{} // closed and made anew when records came
}

// Follow begins a trail, which Run drives. watch, which may be nil, is called
// with every record after the oracle has seen it.
func Follow(brokers []string, names topics.Names, oracle *Oracle, watch func(Record)) (*Trail, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(names.Status()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", names.Status(), err)
	}
	return &Trail{cl: cl, oracle: oracle, watch: watch, changed: make(chan struct{})}, nil
}

// Run reads until ctx ends.
func (t *Trail) Run(ctx context.Context) {
	defer t.cl.Close()
	for {
		fetches := t.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil {
				t.err = fmt.Errorf("status/%d/%d: %w", r.Partition, r.Offset, err)
				return
			}
			rec := Record{Partition: r.Partition, Offset: r.Offset, Event: e}
			t.oracle.Take(rec)
			if t.watch != nil {
				t.watch(rec)
			}
		})
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
	}
}

// Until waits until done holds of what the oracle has seen.
func (t *Trail) Until(ctx context.Context, done func(*Oracle) bool) error {
	for {
		t.mu.Lock()
		ok, err, changed := done(t.oracle), t.err, t.changed
		t.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Revisions reads weir.config: every policy by its revision.
func Revisions(ctx context.Context, brokers []string, names topics.Names) (map[int64]*schemas.Policy, error) {
	out := map[int64]*schemas.Policy{0: {}}
	err := ReadCommitted(ctx, brokers, names.Config(), func(r *kgo.Record) error {
		var rev schemas.Revision
		if json.Unmarshal(r.Value, &rev) != nil || rev.Revision != int64(len(out)) || rev.Parent != rev.Revision-1 {
			return nil // it does not count
		}
		out[rev.Revision] = &rev.Policy
		return nil
	})
	return out, err
}

// Committed returns where every committed record of a topic stands.
func Committed(ctx context.Context, brokers []string, topic string) ([]Offset, error) {
	var out []Offset
	err := ReadCommitted(ctx, brokers, topic, func(r *kgo.Record) error {
		out = append(out, Offset{r.Partition, r.Offset})
		return nil
	})
	return out, err
}

// silence is for how long a reading may bring nothing: far longer than leaders take to change.
const silence = 3 * time.Minute

// ReadCommitted calls fn for every record of a topic that is committed as of
// now. The last offset of a partition is often a marker, so what counts is how
// far the client has come, not the offsets of records.
func ReadCommitted(ctx context.Context, brokers []string, topic string, fn func(*kgo.Record) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	left := make(map[int32]int64) // partition → end
	from := make(map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		if start, _ := starts.Lookup(topic, end.Partition); start.Offset < end.Offset {
			left[end.Partition] = end.Offset
			from[end.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	if len(left) == 0 {
		return nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(left) > 0 {
		within, cancel := context.WithTimeout(ctx, silence)
		fetches := cl.PollFetches(within)
		late := within.Err()
		cancel()
		if late != nil {
			return fmt.Errorf("read %s: %w, partitions left %v", topic, cmp.Or(context.Cause(ctx), late), left)
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := left[r.Partition]
			if !open || r.Offset >= end {
				return
			}
			if !r.Attrs.IsControl() && failed == nil {
				if err := fn(r); err != nil {
					failed = fmt.Errorf("%s/%d/%d: %w", topic, r.Partition, r.Offset, err)
				}
			}
			if r.Offset == end-1 {
				delete(left, r.Partition)
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

// ReadLog gives an oracle all of weir.status that is committed as of now.
func ReadLog(ctx context.Context, brokers []string, names topics.Names, o *Oracle) error {
	return readLog(ctx, brokers, names, o.Take)
}

func readLog(ctx context.Context, brokers []string, names topics.Names, take func(Record)) error {
	return ReadCommitted(ctx, brokers, names.Status(), func(r *kgo.Record) error {
		e, err := schemas.DecodeEvent(r.Value)
		if err != nil {
			return err
		}
		take(Record{Partition: r.Partition, Offset: r.Offset, Event: e})
		return nil
	})
}
