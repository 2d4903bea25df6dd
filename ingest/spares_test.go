package ingest

import (
	"context"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/replies"
	"github.com/weirhq/weir/processor/stream/streamtest"
)

// TestWhatStaysIsSaidNowAndThen: statuses and replies that may not be read are asked for
// all the same.
func TestWhatStaysIsSaidNowAndThen(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		run        func(t *testing.T, ctx context.Context, log *streamtest.Log, broker []kgo.Opt)
	}{
		{"statuses", "reading statuses failed", func(t *testing.T, ctx context.Context, log *streamtest.Log, broker []kgo.Opt) {
			tail, err := newTail("topic", newRecent(bounds{}), newFeed(1, 10, 1000), log.Logger(), broker)
			if err != nil {
				t.Fatal(err)
			}
			defer tail.cl.Close()
			tail.run(ctx)
		}},
		{"replies", "reading replies failed", func(t *testing.T, ctx context.Context, log *streamtest.Log, broker []kgo.Opt) {
			room, err := replies.Open(replies.Config{Topic: "topic", Partitions: 1, Logger: log.Logger(), Options: broker})
			if err != nil {
				t.Fatal(err)
			}
			if err := room.Run(ctx); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, broker []kgo.Opt) {
				streamtest.Create(t, streamtest.Client(t, broker...), "topic")
				log := new(streamtest.Log)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { tt.run(t, ctx, log, broker) })
				streamtest.Spares(t, c, log, tt.text)
				cancel()
				running.Wait()
			})
		})
	}
}
