package sink

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDeletedWhileAssigned: that Kafka no longer has the group's offset may come
// with the assignment itself, in one poll, and without any record.
func TestDeletedWhileAssigned(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "weir.status"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(10*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"weir.status": {0: kgo.NewOffset().At(2)}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range 10 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "weir.status"}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var gone kadm.Offsets
	gone.AddOffset("weir.status", 0, 5, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	s := &sink{
		cfg: Config{Grace: time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}.withDefaults(), name: "weir.status", topic: "t", count: 1, cl: cl, adm: kadm.NewClient(cl),
		parts: make(map[int32]*partition), paused: make(map[int32]bool), ledger: newLedger(), minutes: newMinutes(), metrics: newMetrics(prometheus.NewRegistry()),
		results: make(chan result, 1), checked: make(chan checked, 1), unfit: true, reporter: newReporter(nil),
	}
	defer s.reporter.close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		// Whichever turn it is in which the answer comes, the assignment is new then.
		clear(s.parts)
		s.assigned = map[int32]position{0: {offset: 2, metadata: Plan{Topic: "t", From: 2, To: 2}.Metadata()}}
		if err := s.turn(ctx); err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Fatal("it is not noticed that Kafka has deleted records")
		}
		if s.parts[0].read >= 5 {
			return
		}
	}
}
