package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
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

// TestAnOversizedBatchAtTheEnd: a process starts although the last batch of the topic is
// beyond the bound and is not read.
func TestAnOversizedBatchAtTheEnd(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, _ *kfake.Cluster, broker []kgo.Opt) {
		cl := streamtest.Client(t, append(broker, kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))...)
		streamtest.Create(t, cl, "weir.config")
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "weir.config", Value: make([]byte, schemas.MaxBatchBytes+1)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w, err := policy.Watch(ctx, "weir.config", slog.New(slog.DiscardHandler), broker...)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	})
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

// TestANewerRevisionCanBeSkipped: a revision of a later format, which anyone may have
// written, ends who follows the policy; the error names the command. After it the
// revision in force stays, and the next one counts.
func TestANewerRevisionCanBeSkipped(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "x.config", "x.skips", "x.dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	cl, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	put := func(value string) {
		t.Helper()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "x.config", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, garbage := range []string{"", "garbage", "{}", `{"revision":99999999999999999999,"parent":0}`, `{"revision":1,"parent":-1,"policy":{}}`} {
		put(garbage)
	}
	put(`{"format":99,"revision":1,"parent":0,"policy":{}}`)
	names := topics.Names{Prefix: "x."}
	logger := slog.New(slog.DiscardHandler)
	_, err = policy.Watch(t.Context(), names.Config(), logger, seeds)
	if !errors.Is(err, schemas.ErrNewerRevision) || !strings.Contains(err.Error(), `weir skip x.config/0/5 --reason "..."`) {
		t.Fatalf("%v, want an error that names the command", err)
	}
	at := schemas.Source{Topic: "x.config", Offset: 5}
	rec, err := skip.Find(t.Context(), stream.ReadConfig{Brokers: c.ListenAddrs()}, names, at)
	if err == nil {
		_, err = skip.Write(t.Context(), cl, names, 1, rec, "ann", "forged", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	put(`{"format":1,"revision":1,"parent":0,"policy":{}}`)
	w, err := policy.Watch(t.Context(), names.Config(), logger, seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := w.Latest().Revision; got != 1 {
		t.Errorf("revision %d is in force, want 1", got)
	}
}
