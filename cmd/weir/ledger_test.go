package main

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
)

// A cut is where the epoch that was committed with an offset ends before that offset. An
// epoch that goes on, one that no broker knows, and an offset without one show none.
func TestCuts(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ends := map[int32]int64{0: 22, 1: 25, 2: -1, 3: 1} // of the epochs asked for
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
			topic.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, rp.LeaderEpoch, ends[rp.Partition]
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	offsets := make(kadm.OffsetResponses)
	for p, epoch := range []int32{2, 2, 2, -1} {
		offsets.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "in", Partition: int32(p), At: 25, LeaderEpoch: epoch}})
	}
	k := &cluster{cl: cl, adm: kadm.NewClient(cl)}
	got, err := k.cuts(t.Context(), offsets)
	if want := map[stream.Partition]int64{{Topic: "in", Partition: 0}: 22}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
