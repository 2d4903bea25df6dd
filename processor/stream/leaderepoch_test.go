package stream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
)

// follower is a stage that stands behind what it was given, and ends when it has come to an offset.
type follower struct {
	to   int64
	at   int64
	stop func()
}

func (s *follower) Assign(_ context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	s.at = committed[stream.Partition{Topic: "in"}].Offset
	return nil, nil
}
func (s *follower) Revoke()             {}
func (s *follower) Wait() time.Duration { return 10 * time.Millisecond }
func (s *follower) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	for _, r := range polled {
		if r.Partition == 0 {
			s.at = r.Offset + 1
			tx.Stand(stream.Partition{Topic: r.Topic}, stream.Position{Offset: s.at})
		}
	}
	return nil
}

func (s *follower) Ended(committed bool) {
	if committed && s.at >= s.to {
		s.stop()
	}
}

// follow runs a worker until its group has come to an offset.
func follow(t *testing.T, seeds []string, to int64) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := &follower{to: to, stop: cancel}
	err := stream.Run(ctx, stream.Config{Brokers: seeds, Group: "g", Topics: []string{"in"}, TransactionalID: "x", Logger: new(streamtest.Log).Logger()}, nil,
		func(stream.Fetching) stream.Stage { return s })
	if err == nil && s.at < to {
		t.Fatalf("it came to %d, want %d", s.at, to)
	}
	return err
}

// With each offset the epoch of the leader that had what was read is committed. So a worker that
// starts where brokers lost that learns of it, though the log is longer again by then; and one
// that starts after ordinary elections does not.
func TestLostEndIsNoticed(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(parts, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := c.ListenAddrs()
	prod := client(t, seeds)
	adm := kadm.NewClient(prod)
	stands := func() kadm.Offset {
		t.Helper()
		all, err := adm.FetchOffsets(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		o, _ := all.Lookup("in", 0)
		return o.Offset
	}
	elect := func() {
		t.Helper()
		if err := c.MoveTopicPartition("in", 0, 1-c.LeaderFor("in", 0)); err != nil {
			t.Fatal(err)
		}
	}
	// One leader after another, some without a record.
	elections := []int{0, 1, 0, 3, 1}
	var epoch int32
	for i, n := range elections {
		for range n {
			elect()
			epoch++
		}
		produce(t, prod, "in", 0, 5*parts)
		if err := follow(t, seeds, int64(5*(i+1))); err != nil {
			t.Fatal(err)
		}
		if got := stands(); got.At != int64(5*(i+1)) || got.LeaderEpoch != epoch {
			t.Fatalf("after election %d: the group stands at %d with epoch %d, want %d and %d", i, got.At, got.LeaderEpoch, 5*(i+1), epoch)
		}
	}
	elect()
	produce(t, prod, "in", 0, 5*parts) // by a leader that had only 22 of 25

	end := int64(22)
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			t := kmsg.NewOffsetForLeaderEpochResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, rp.LeaderEpoch, end
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	for range 2 { // the next start is no way out
		if err := follow(t, seeds, 30); !errors.Is(err, stream.ErrDataLoss) {
			t.Fatalf("%v, want %v", err, stream.ErrDataLoss)
		}
		if got := stands(); got.At != 25 {
			t.Fatalf("the group stands at %d, want 25", got.At)
		}
	}
	// An operator sets the group, which leaves the epoch out.
	var at kadm.Offsets
	at.AddOffset("in", 0, 22, -1)
	if err := adm.CommitAllOffsets(t.Context(), "g", at); err != nil {
		t.Fatal(err)
	}
	if err := follow(t, seeds, 30); err != nil {
		t.Fatal(err)
	}
}

// A topic that was created again begins with epoch 0 once more, and its leader knows none of
// a higher one that was committed: a worker goes on, and does not wait for an answer. (That
// the topic is another one, admission sees by its id.)
func TestEpochOfATopicCreatedAgain(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(parts, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := c.ListenAddrs()
	prod := client(t, seeds)
	adm := kadm.NewClient(prod)
	for range 3 {
		if err := c.MoveTopicPartition("in", 0, 1-c.LeaderFor("in", 0)); err != nil {
			t.Fatal(err)
		}
	}
	produce(t, prod, "in", 0, 5*parts)
	if err := follow(t, seeds, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopics(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopics(t.Context(), parts, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	produce(t, client(t, seeds), "in", 0, 10*parts)
	if err := follow(t, seeds, 10); err != nil {
		t.Fatal(err)
	}
}
