package stream_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
)

// copier copies in to out, record by record, and writes what is poison to dead.
type copier struct {
	next  map[int32]int64
	base  map[int32]int64
	write func(tx *stream.Tx, r *kgo.Record)
	state func(tx *stream.Tx, took []*kgo.Record)
}

func (c *copier) Assign(_ context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	c.next, c.base = map[int32]int64{}, map[int32]int64{}
	return nil, nil
}
func (c *copier) Revoke() {}
func (c *copier) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	var took []*kgo.Record
	for ; len(polled) > 0; polled = tx.More() {
		for _, r := range polled {
			took = append(took, r)
			c.next[r.Partition] = r.Offset + 1
			if p := tx.On(r); p != nil {
				tx.Produce(&kgo.Record{Topic: "dead", Partition: r.Partition, Value: []byte(p.Reason), Key: []byte(strconv.FormatInt(r.Offset, 10))})
				continue
			}
			c.write(tx, r)
		}
	}
	tx.On(nil)
	if c.state != nil {
		c.state(tx, took)
	}
	for p, n := range c.next {
		if n != c.base[p] {
			tx.Stand(stream.Partition{Topic: "in", Partition: p}, stream.Position{Offset: n})
		}
	}
	return nil
}
func (c *copier) Ended(committed bool) {
	if committed {
		for p, n := range c.next {
			c.base[p] = n
		}
		return
	}
	for p := range c.next {
		c.next[p] = c.base[p]
	}
}
func (c *copier) Wait() time.Duration { return time.Second }

// resilient is a copier that goes on after a panic.
type resilient struct{ *copier }

func (resilient) Resilient() {}

func onward(tx *stream.Tx, r *kgo.Record) {
	tx.Produce(&kgo.Record{Topic: "out", Partition: r.Partition, Value: r.Value})
}

// TestPoisonIsEnded: a record that makes every transaction fail is found, and ended by the
// stage; every other one is copied exactly once, in order.
func TestPoisonIsEnded(t *testing.T) {
	huge := bytes.Repeat([]byte("a"), 2<<20)
	bad := func(r *kgo.Record) bool { return len(r.Value) > 0 && r.Value[0] == '!' }
	refuseBad := func(c *kfake.Cluster) {
		c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			p := req.(*kmsg.ProduceRequest)
			resp := p.ResponseKind().(*kmsg.ProduceResponse)
			found := false
			for _, topic := range p.Topics {
				rt := kmsg.NewProduceResponseTopic()
				rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
				for _, part := range topic.Partitions {
					rp := kmsg.NewProduceResponseTopicPartition()
					rp.Partition = part.Partition
					rp.ErrorCode = kerr.NotLeaderForPartition.Code
					if bytes.Contains(part.Records, []byte("!refused")) {
						found, rp.ErrorCode = true, kerr.InvalidRecord.Code
					}
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, found
		})
	}
	for name, tt := range map[string]struct {
		broker func(*kfake.Cluster)
		stage  func() stream.Stage
		reason string
	}{
		"its output is too large": {stage: func() stream.Stage {
			return &copier{write: func(tx *stream.Tx, r *kgo.Record) {
				if onward(tx, r); bad(r) {
					tx.Produce(&kgo.Record{Topic: "out", Partition: r.Partition, Value: huge})
				}
			}}
		}, reason: "too_large"},
		"a broker refuses it, with its batch": {broker: refuseBad, stage: func() stream.Stage {
			return &copier{write: func(tx *stream.Tx, r *kgo.Record) {
				if onward(tx, r); bad(r) {
					tx.Produce(&kgo.Record{Topic: "out", Partition: r.Partition, Value: []byte("!refused")})
				}
			}}
		}, reason: "internal_error"},
		"what is written for all of them is too large": {stage: func() stream.Stage {
			return &copier{write: onward, state: func(tx *stream.Tx, took []*kgo.Record) {
				if slices.ContainsFunc(took, bad) && len(took) > 1 || len(took) == 1 && bad(took[0]) && tx.On(took[0]) == nil {
					tx.On(nil)
					tx.Produce(&kgo.Record{Topic: "out", Value: huge})
				}
			}}
		}, reason: "too_large"},
		"a panic": {stage: func() stream.Stage {
			return &copier{write: func(tx *stream.Tx, r *kgo.Record) {
				if onward(tx, r); bad(r) {
					panic("a bug")
				}
			}}
		}, reason: "internal_error"},
		"a panic, and the stage goes on": {stage: func() stream.Stage {
			return resilient{&copier{write: func(tx *stream.Tx, r *kgo.Record) {
				if onward(tx, r); bad(r) {
					panic("a bug")
				}
			}}}
		}, reason: "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out", "dead"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			seeds := c.ListenAddrs()
			cl := client(t, seeds)
			var want []string
			var recs []*kgo.Record
			for i := range 200 {
				text := strconv.Itoa(i)
				if i == 77 || i == 150 {
					text = "!" + text
				} else {
					want = append(want, text)
				}
				recs = append(recs, &kgo.Record{Topic: "in", Value: []byte(text)})
			}
			if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if tt.broker != nil {
				tt.broker(c)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			watch := stream.NewWatch(nil)
			cfg := config(seeds, "s")
			cfg.Watch = watch
			go func() { done <- stream.Run(ctx, cfg, nil, func(stream.Fetching) stream.Stage { return tt.stage() }) }()
			var got, dead []string
			for r := range committed(t, seeds, "out", "dead") {
				if r.Topic == "dead" {
					dead = append(dead, string(r.Key)+" "+string(r.Value))
				} else {
					got = append(got, string(r.Value))
				}
				if len(got) >= len(want) && len(dead) >= 2 {
					break
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d of %d were copied, or not in order: %v", len(got), len(want), got)
			}
			if w := []string{"77 " + tt.reason, "150 " + tt.reason}; !slices.Equal(dead, w) {
				t.Errorf("ended %v, want %v", dead, w)
			}
			if stuck := watch.Stuck(); len(stuck) > 0 {
				t.Errorf("%v", stuck)
			}
		})
	}
}

// TestPanicsStopTheWorker: when every record makes the stage panic, the fault is not a
// record's.
func TestPanicsStopTheWorker(t *testing.T) {
	seeds := cluster(t, "in", "out", "dead")
	produce(t, client(t, seeds), "in", 0, 100)
	err := stream.Run(t.Context(), config(seeds, "s"), nil, func(stream.Fetching) stream.Stage {
		return resilient{&copier{write: func(*stream.Tx, *kgo.Record) { panic("a bug") }}}
	})
	if err == nil || !strings.Contains(err.Error(), "a bug") || errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// committed returns the committed records of topics as they come.
func committed(t *testing.T, seeds []string, topics ...string) func(func(*kgo.Record) bool) {
	return func(yield func(*kgo.Record) bool) {
		cl := client(t, seeds, kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			for _, r := range cl.PollFetches(ctx).Records() {
				if !yield(r) {
					return
				}
			}
			if ctx.Err() != nil {
				t.Error("not all came within a minute")
				return
			}
		}
	}
}
