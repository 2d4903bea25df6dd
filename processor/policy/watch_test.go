package policy_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream/streamtest"
)

// TestATopicThatWasJustMade: the broker that is asked does not know it for a moment.
// One that is never made is an error, and soon.
func TestATopicThatWasJustMade(t *testing.T) {
	for name, after := range map[string]time.Duration{"a second later": time.Second, "never": time.Hour} {
		t.Run(name, func(t *testing.T) {
			streamtest.Simulated(t, func(t *testing.T, _ *kfake.Cluster, broker []kgo.Opt) {
				cl := streamtest.Client(t, broker...)
				made := time.AfterFunc(after, func() { streamtest.Create(t, cl, "weir.config") })
				defer made.Stop()
				began := time.Now()
				w, err := policy.Watch(t.Context(), "weir.config", slog.New(slog.DiscardHandler), broker...)
				took := time.Since(began)
				if after < time.Hour {
					if err != nil || took < after || took > 2*after {
						t.Fatalf("after %v: %v", took, err)
					}
					w.Close()
					return
				}
				if !errors.Is(err, kerr.UnknownTopicOrPartition) || took > 10*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}

// TestWhatStaysIsSaidNowAndThen: a topic that may not be read is asked for all the same.
func TestWhatStaysIsSaidNowAndThen(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "weir.config"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	log := new(streamtest.Log)
	w, err := policy.Watch(t.Context(), "weir.config", log.Logger(), kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Run(t, w)
	streamtest.Spares(t, c, log, "reading the policy failed")
}
