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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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

// TestAnew: where a partition is begun whose log ClickHouse may not have, and what is
// waited for first.
func TestAnew(t *testing.T) {
	at := func(p Plan) position { return position{offset: p.From, metadata: p.Metadata()} }
	const elsewhere = "the topic was deleted and made again"
	const empty = "ClickHouse has no rows of it: the database is another one, or was emptied"
	for _, tt := range []struct {
		name   string
		stands position
		empty  bool
		anew   string
		waits  bool
	}{
		{name: "it has rows", stands: at(Plan{Topic: "t", From: 9, To: 9})},
		{name: "it has rows, and a plan stands", stands: at(Plan{Topic: "t", From: 9, To: 12})},
		{name: "it has none", stands: at(Plan{Topic: "t", From: 9, To: 9}), empty: true, anew: empty},
		{name: "it has none, and a plan stands", stands: at(Plan{Topic: "t", From: 9, To: 12}), empty: true, anew: empty, waits: true},
		{name: "it has none, nor ever had, and a plan stands", stands: at(Plan{Topic: "t", From: 9, To: 12, First: true}), empty: true},
		{name: "it has none, nor ever had", stands: at(Plan{Topic: "t", From: 9, To: 9, First: true}), empty: true},
		{name: "it has none, and the plan is of the first records", stands: at(Plan{Topic: "t", From: 0, To: 12}), empty: true},
		{name: "of another topic", stands: at(Plan{Topic: "u", From: 9, To: 12}), anew: elsewhere},
		{name: "set by hand", stands: position{offset: 9}, empty: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &sink{cfg: Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults(), topic: "t", count: 1, parts: make(map[int32]*partition), ledger: newLedger(), there: map[int32]bool{0: !tt.empty}}
			pos := s.anew(0, tt.stands)
			if pos.anew != tt.anew || (pos.offset == atStart) != (tt.anew != "") {
				t.Errorf("%+v, want %q", pos, tt.anew)
			}
			s.assigned = map[int32]position{0: pos}
			if err := s.rebalance(); err != nil {
				t.Fatal(err)
			}
			if got := time.Until(s.parts[0].settled) > time.Minute; got != tt.waits {
				t.Errorf("it waits: %v, want %v", got, tt.waits)
			}
		})
	}
}
