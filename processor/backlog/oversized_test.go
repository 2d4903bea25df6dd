package backlog

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestLookPassesOversized: a batch beyond the bound at the head does not hide what waits
// behind it.
func TestLookPassesOversized(t *testing.T) {
	names := topics.Names{}
	var seeds []kfake.Opt
	for _, tier := range topics.Tiers {
		seeds = append(seeds, kfake.SeedTopics(1, names.Delay(tier.Name)))
	}
	c, err := kfake.NewCluster(append(seeds, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, v := range [][]byte{make([]byte, schemas.MaxBatchBytes+1), []byte("x")} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: names.Delay(topics.Tiers[0].Name), Value: v}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	looker, err := Open(c.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(looker.Close)
	all, err := looker.Look(t.Context(), delays(names))
	if err != nil || all[0].Records != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
