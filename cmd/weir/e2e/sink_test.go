package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/schemas"
)

func TestSinkScaled(t *testing.T) {
	t.Parallel()
	sinkScaled(t, []string{embedded(t).Addr()}, 20_000)
}

// sinkScaled loads n statuses by one process, by three and by one again while they
// are written: each becomes one row, and the processes say who loads what.
func sinkScaled(t *testing.T, brokers []string, n int) {
	click := enginetest.Start(t, engine.Options{Log: os.Stderr})
	s := newSite(t, brokers, "scaled", badInputPolicy)
	addr := click.Addr()
	start := func(slot int) *Process { return s.run(slot, "sink", "--clickhouse-url", "http://"+addr) }
	one := start(0)
	if !poll(t, 60*time.Second, func() bool { return sql(t, "http://"+addr, "EXISTS TABLE weir.messages_by_time") == "1" }) {
		t.Fatal("the sink made no tables")
	}
	// Written in six parts: the next when the one before is on its way.
	var written atomic.Int64
	write := make(chan int)
	produced := make(chan error, 1)
	go func() { produced <- s.writeStatuses(write, &written) }()
	rows := func() int {
		var v int
		_, _ = fmt.Sscan(sql(t, "http://"+addr, "SELECT count() FROM weir.status_events"), &v)
		return v
	}
	// loads holds that each of these slots has said that it loads some partitions, nobody
	// else any, and all together all. One that has said nothing yet does not: another's
	// last word may be of before its start.
	loads := func(slots ...int) func() bool {
		return func() bool {
			all := s.sinks()
			for _, slot := range slots {
				if len(all[slot].Partitions) == 0 {
					return false
				}
			}
			var parts []int32
			for slot, r := range all {
				if len(r.Partitions) > 0 != slices.Contains(slots, slot) {
					return false
				}
				parts = append(parts, r.Partitions...)
			}
			slices.Sort(parts)
			return slices.Equal(parts, []int32{0, 1, 2, 3, 4, 5, 6, 7})
		}
	}
	expect := func(what string, done func() bool) {
		t.Helper()
		if !poll(t, 90*time.Second, done) {
			t.Fatalf("not in time: %s; %d rows of %d written; sinks %+v", what, rows(), written.Load(), s.sinks())
		}
	}
	part := n / 6
	write <- part
	expect("rows arrive", func() bool { return rows() > 0 })
	two, three := start(1), start(2)
	write <- part
	expect("three load", loads(0, 1, 2))
	write <- part
	seen := rows()
	write <- part
	expect("rows arrive at three", func() bool { return rows() > seen })
	write <- part
	s.stop(one, two)
	expect("one loads", loads(2))
	write <- n - 5*part
	close(write)
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	expect("all rows arrive", func() bool { return rows() >= n })
	s.stop(three)
	got := sql(t, "http://"+addr, "SELECT count(), uniqExact(status_partition, status_offset), uniqExact(message_id), (SELECT sum(events) FROM weir.status_by_minute), (SELECT count() FROM weir.messages) FROM weir.status_events")
	if want := fmt.Sprintf("%d\t%d\t%d\t%d\t%d", n, n, n, n, n); got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	t.Logf("SINK 1 to 3 to 1 over %d events: %s", n, got)
	for slot, r := range s.sinks() {
		if len(r.Partitions) > 0 || r.Failing != "" || r.Difference != 0 {
			t.Errorf("slot %d ended, and says %+v", slot, r)
		}
	}
}

// writeStatuses writes so many statuses as it is told, each of a message of its own,
// until the channel is closed.
func (s *site) writeStatuses(much <-chan int, written *atomic.Int64) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(s.names.Status()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	now := schemas.MillisOf(time.Now())
	for n := range much {
		for range n {
			i := written.Add(1)
			to := fmt.Sprintf("+86139%08d", i)
			value := schemas.AppendEvent(nil, &schemas.Event{Kind: schemas.KindStatus, MessageID: fmt.Sprintf("m-%09d", i), Tenant: "default", Channel: "sms", Class: "verify", To: to,
				Status: schemas.StatusSent, At: now, AcceptedAt: now, Provider: "sim", Attempt: 1})
			cl.Produce(s.t.Context(), &kgo.Record{Key: []byte(to), Value: value, Partition: schemas.PartitionOf(to, partitions)}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
		}
	}
	if err := cl.Flush(s.t.Context()); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// sinks is what each slot's sink said last of itself, in weir.reports.
func (s *site) sinks() map[int]schemas.SinkReport {
	s.t.Helper()
	topic := s.names.Reports()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	out := make(map[int]schemas.SinkReport)
	for at := int64(0); at < end.Offset; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			s.t.Fatalf("%s has %d of %d records", topic, at, end.Offset)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			var slot int
			if _, err := fmt.Sscanf(string(r.Key), "sink/%d", &slot); err != nil {
				return
			}
			report, err := schemas.DecodeReport(r.Value)
			if err != nil || report.Sink == nil {
				s.t.Errorf("report %q: %v", r.Value, err)
				return
			}
			out[slot] = *report.Sink
		})
	}
	return out
}
