package admission

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// TestLastDecided: while admission is down receipts go on, and however many there are, an
// older copy of the ledger is known by the last decision before them.
func TestLastDecided(t *testing.T) {
	env := environment{partitions: 1}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, env.names.Status()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(env.names.Status()), kgo.MaxBufferedRecords(2*lastTail))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	e := schemas.Event{Kind: schemas.KindStatus, MessageID: "m", Tenant: "acme", Status: schemas.StatusDelivered}
	receipt := schemas.AppendEvent(nil, &e)
	read := stream.ReadConfig{Brokers: c.ListenAddrs()}
	status := stream.Partition{Topic: env.names.Status()}
	for _, want := range []int64{0, 7} {
		if want > 0 {
			e.Status, e.Decision = schemas.StatusLimited, &schemas.Decision{Verdict: schemas.VerdictRefuse, Seq: want}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: schemas.AppendEvent(nil, &e)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for range lastTail + 1 {
			cl.Produce(t.Context(), &kgo.Record{Value: receipt}, nil)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		extents, err := stream.Extents(t.Context(), read, []stream.Partition{status})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ most, want int64 }{{math.MaxInt64 / 10, want}, {lastTail, 0}} {
			if got, err := lastDecided(t.Context(), read, status.Topic, extents, c.most, true); got[0] != c.want || err != nil {
				t.Errorf("of the last %d offsets the last decision is %d, %v, want %d", c.most, got[0], err, c.want)
			}
		}
	}
}
