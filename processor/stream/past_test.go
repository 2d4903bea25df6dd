package stream

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestReading: of an offset it is only said what lies behind it where nothing but markers
// can.
func TestReading(t *testing.T) {
	w := &worker{cfg: Config{Group: "g"}, read: make(map[Partition]reading)}
	known, from, never := Partition{"in", 0}, Partition{"in", 1}, Partition{"in", 2}
	w.begin(map[Partition]Position{known: {Offset: 10}, from: {Offset: 10}, never: {Offset: -1}}, map[Partition]int64{from: 20})
	marker := controlAttrs(t)
	read := func(p Partition, at int64, control bool) {
		t.Helper()
		r := &kgo.Record{Topic: p.Topic, Partition: p.Partition, Offset: at}
		if control {
			r.Attrs = marker
		}
		if _, err := w.judge(kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: p.Topic, Partitions: []kgo.FetchPartition{{Partition: p.Partition, Records: []*kgo.Record{r}}}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	past := func(p Partition, at, want int64) {
		t.Helper()
		if got := (&Tx{read: w.read}).Past(p, at); got != want {
			t.Errorf("%v: past %d is %d, want %d", p, at, got, want)
		}
	}
	past(known, 10, 10)
	read(known, 10, true) // of a transaction that ended before
	past(known, 10, 11)
	past(known, 9, 9) // it stands before where this worker began
	read(known, 11, false)
	past(known, 11, 11) // and is not done with it
	past(known, 12, 12)
	read(known, 13, true) // what an aborted one wrote lay at 12
	read(known, 14, true)
	past(known, 12, 15)
	past(known, 13, 15)
	past(known, 11, 11)
	past(known, 16, 16)
	read(known, 11, false) // again, after an abort: what follows is read again, too
	past(known, 12, 12)
	past(known, 11, 11)
	read(from, 20, true)
	past(from, 10, 10)
	past(from, 20, 21)
	read(never, 0, true)
	past(never, -1, -1)
	past(never, 0, 0)
	read(never, 1, false)
	read(never, 2, true)
	past(never, 2, 3)
}

// controlAttrs are those of a marker, which only a log has.
func controlAttrs(t *testing.T) kgo.RecordAttrs {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("t"), kgo.DefaultProduceTopic("t"),
		kgo.ConsumeTopics("t"), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		for _, r := range cl.PollFetches(t.Context()).Records() {
			if r.Attrs.IsControl() {
				return r.Attrs
			}
		}
	}
	t.Fatal("no marker")
	return kgo.RecordAttrs{}
}
