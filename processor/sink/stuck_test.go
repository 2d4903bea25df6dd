package sink

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
)

// TestStuckSink: a sink that has offsets to commit and cannot for a minute is stuck; one
// that has none any more, or whose commit succeeds, is not.
func TestStuckSink(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, broker []kgo.Opt) {
		streamtest.Create(t, streamtest.Client(t, broker...), "weir.status")
		cl := streamtest.Client(t, append(broker, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("weir.status"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		w := stream.NewWatch(nil)
		// Its client is in no group at first: no commit succeeds.
		s := &sink{ledger: newLedger(), cfg: Config{Watch: w, Logger: slog.New(slog.DiscardHandler)}.withDefaults(), name: "weir.status", cl: streamtest.Client(t, broker...), parts: make(map[int32]*partition)}
		pend := func() {
			p := newPartition("t", Plan{Topic: "t", From: 2, To: 2}, limits{})
			p.dirty = true
			s.parts[0] = p
		}
		commit := func() {
			t.Helper()
			if err := s.commit(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		pend()
		commit()
		if time.Sleep(stream.StuckAfter - time.Millisecond); len(w.Stuck()) != 0 {
			t.Fatalf("before its time: %v", w.Stuck())
		}
		time.Sleep(time.Millisecond)
		commit() // does not begin the minute again
		if got := w.Stuck(); len(got) != 1 || got[0].Stage != "sink" {
			t.Fatalf("%v", got)
		}
		clear(s.parts)
		if commit(); len(w.Stuck()) != 0 {
			t.Fatalf("its partitions are another's: %v", w.Stuck())
		}
		pend()
		commit()
		time.Sleep(stream.StuckAfter)
		if len(w.Stuck()) != 1 {
			t.Fatal("not stuck")
		}
		s.cl = cl
		joined, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		cl.PollFetches(joined)
		if commit(); len(w.Stuck()) != 0 || s.parts[0].dirty {
			t.Errorf("after a commit: %v, %+v", w.Stuck(), s.parts[0])
		}
	})
}
