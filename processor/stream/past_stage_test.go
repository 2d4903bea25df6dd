package stream_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
)

// still is a stage that stands behind the last record that it was given, and asks at each
// Step what lies behind that.
type still struct {
	at    map[stream.Partition]int64
	asked chan map[stream.Partition]int64 // past all of at, of the Steps between two assignments
	past  chan map[stream.Partition]int64 // and of those in one

	revoked bool
}

func (s *still) Assign(_ context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	s.revoked, s.at = false, make(map[stream.Partition]int64)
	for p := range committed {
		s.at[p] = committed[p].Offset
	}
	return nil, nil
}

func (s *still) Revoke() { s.revoked = true }

func (s *still) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	for _, r := range polled {
		p := stream.Partition{Topic: r.Topic, Partition: r.Partition}
		s.at[p] = r.Offset + 1
		tx.Stand(p, stream.Position{Offset: s.at[p]})
	}
	past := make(map[stream.Partition]int64)
	for p, at := range s.at {
		past[p] = tx.Past(p, at) - at
	}
	to := s.past
	if s.revoked {
		to = s.asked
	}
	select {
	case to <- past:
	default:
	}
	return nil
}

func (s *still) Ended(bool) {}

func (s *still) Wait() time.Duration { return 10 * time.Millisecond }

// TestPast: a stage learns that markers lie behind the last record, those of transactions
// that aborted too, while a partition is its own; and not between two assignments, where
// it writes nothing.
func TestPast(t *testing.T) {
	seeds := cluster(t, "in")
	prod := client(t, seeds, kgo.TransactionalID("producer"))
	transact := func(end kgo.TransactionEndTry, n int) {
		t.Helper()
		if err := prod.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, prod, "in", 0, n)
		if err := prod.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	first := &still{asked: make(chan map[stream.Partition]int64, 1), past: make(chan map[stream.Partition]int64, 1)}
	run := func(id string, s *still) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- stream.Run(ctx, config(seeds, id), nil, func(stream.Fetching) stream.Stage { return s })
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	transact(kgo.TryCommit, parts)
	run("a", first)
	all := func(n int64) func() bool {
		return func() bool {
			past := <-first.past
			return len(past) == parts && !slices.ContainsFunc(slices.Collect(maps.Values(past)), func(by int64) bool { return by != n })
		}
	}
	streamtest.Eventually(t, "the marker is known", all(1))
	transact(kgo.TryAbort, 2*parts)
	streamtest.Eventually(t, "what was aborted is known, and its marker", all(4))
	run("b", &still{asked: make(chan map[stream.Partition]int64, 1), past: make(chan map[stream.Partition]int64, 1)})
	select {
	case between := <-first.asked:
		if slices.ContainsFunc(slices.Collect(maps.Values(between)), func(by int64) bool { return by != 0 }) {
			t.Errorf("between two assignments it would stand on by %v", between)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it was never revoked")
	}
}
