package alert

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestPassesOversized: a batch beyond the bound in the DLQ does not hide the records behind
// it from the alerter.
func TestPassesOversized(t *testing.T) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Status(), names.DLQ(), names.Alerts()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl := streamtest.Client(t, kgo.SeedBrokers(c.ListenAddrs()...), kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	log := new(streamtest.Log)
	one := &term{written: make(map[string]bool), flying: make(map[string]bool), election: &election{group: cl, metrics: newMetrics(nil), cfg: Config{
		Brokers: c.ListenAddrs(), Names: names, Slot: "1", Logger: log.Logger(), Watch: stream.NewWatch(nil),
		Health: func() route.Health { return nil }, Reports: func() map[string]schemas.Report { return nil },
		Policy: func() *schemas.Revision { return &schemas.Revision{Revision: 1} },
	}}}
	if err := one.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.close)
	for _, r := range []*kgo.Record{
		{Topic: names.DLQ(), Value: make([]byte, schemas.MaxBatchBytes+1)},
		{Topic: names.DLQ(), Headers: []kgo.RecordHeader{{Key: schemas.HeaderReason, Value: []byte("held")}}},
	} {
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); ; {
		f, err := one.facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Happened) > 0 {
			if f.Happened[0].Reason != "held" || one.read[names.DLQ()].Next[0] != 2 || !log.Has("a batch is skipped") {
				t.Errorf("%+v, read up to %d", f.Happened, one.read[names.DLQ()].Next[0])
			}
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the record behind the batch was not read")
		}
	}
}
