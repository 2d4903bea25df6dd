package streamtest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RefuseOffsets lets groups refuse the offsets of as many transactions as refuse says,
// as those of an old generation, so that they abort; refused counts them.
func RefuseOffsets(c *kfake.Cluster) (refuse, refused *atomic.Int32) {
	refuse, refused = new(atomic.Int32), new(atomic.Int32)
	c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if refuse.Load() == 0 {
			return nil, nil, false
		}
		refuse.Add(-1)
		refused.Add(1)
		req := kreq.(*kmsg.TxnOffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.IllegalGeneration.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return refuse, refused
}

// Spares checks that who reads from a cluster, alone, and logs text when a fetch fails
// does not log each that does: of fifty a line in ten seconds at most.
func Spares(t *testing.T, c *kfake.Cluster, log *Log, text string) {
	t.Helper()
	const fetches = 50
	var refused atomic.Int32
	began := time.Now()
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if refused.Load() == fetches {
			return nil, nil, false
		}
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse) // of no session: the next request names all partitions
		for _, t := range req.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		if len(req.Topics) > 0 {
			refused.Add(1)
		}
		return resp, nil, true
	})
	Eventually(t, "fetches fail, and it is said", func() bool { return refused.Load() == fetches && log.Has(text) })
	most := 1 + int(time.Since(began)/(10*time.Second))
	if lines := log.Count(text); lines > most {
		t.Errorf("%d fetches failed, and %q was logged %d times, want %d at most", fetches, text, lines, most)
	}
}
