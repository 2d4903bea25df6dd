package admission

import (
	"errors"
	"log/slog"
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

// TestAnotherDecidesMeanwhile: decisions that another worker commits while this one restores are
// none that its ledger lacks. Those committed before are.
func TestAnotherDecidesMeanwhile(t *testing.T) {
	for _, seq := range []int64{0, 7} { // of the ledger
		env := environment{partitions: 1}
		status := stream.Partition{Topic: env.names.Status()}
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, env.names.Status(), env.names.Requests(), env.names.Readmit()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(status.Topic))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		decide := func(seq int64) {
			e := schemas.Event{Kind: schemas.KindStatus, MessageID: "m", Tenant: "acme", Status: schemas.StatusLimited, Decision: &schemas.Decision{Verdict: schemas.VerdictRefuse, Seq: seq}}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: schemas.AppendEvent(nil, &e)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		read := stream.ReadConfig{Brokers: c.ListenAddrs()}
		s := &stage{cfg: Config{Read: read, Logger: slog.New(slog.DiscardHandler)}, env: env}
		if s.reader, err = stream.OpenReader(read); err != nil {
			t.Fatal(err)
		}
		defer s.reader.Close()
		parts := map[int32]*partition{0: {base: standing{meta: meta{Seq: seq}}}}
		if seq > 0 {
			decide(seq)
		}
		before, err := s.decidedUpTo(t.Context(), parts)
		if err != nil {
			t.Fatal(err)
		}
		decide(seq + 1)
		if err := s.whole(t.Context(), parts, before); err != nil {
			t.Errorf("after %d: %v", seq, err)
		}
		after, err := s.decidedUpTo(t.Context(), parts)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.whole(t.Context(), parts, after); !errors.Is(err, ErrLedgerLost) {
			t.Errorf("after %d: %v, want %v", seq, err, ErrLedgerLost)
		}
	}
}
