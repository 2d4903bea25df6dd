package erase

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestHoldings: every topic that has a record is told, with how many it still has:
// Weir's own, those of a provider that is gone, and the policy's inputs; not what
// never names anybody, nor what is not Weir's.
func TestHoldings(t *testing.T) {
	names := []string{"weir.requests", "weir.status", "weir.health", "weir.reports", "weir.dispatch.gone.bulk", "acme.sends", "other.sends", "weir.readmit"}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, names...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, topic := range names[:len(names)-1] { // readmit is empty
		for i := range 5 {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	adm := kadm.NewClient(cl)
	var gone kadm.Offsets
	gone.AddOffset("weir.status", 0, 2, -1) // of three
	if _, err := adm.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	cfg := topics.Config{Partitions: 2, Replication: 1}
	now := schemas.MillisOf(time.Now())
	got, err := Holdings(t.Context(), adm, cfg, &schemas.Policy{Inputs: []schemas.Input{{Topic: "acme.sends"}}}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"weir.requests": 5, "weir.status": 3, "weir.dispatch.gone.bulk": 5, "acme.sends": 5}
	for _, h := range got {
		if n, is := want[h.Topic]; !is || n != h.Records || h.Holds == "" || strings.Contains(h.Holds, "gone") != strings.Contains(h.Topic, "gone") {
			t.Errorf("%+v, want %d records", h, want[h.Topic])
		}
		delete(want, h.Topic)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
}
