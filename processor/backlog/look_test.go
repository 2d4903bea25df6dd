package backlog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestLook(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	names := topics.Names{}
	for _, tier := range topics.Tiers {
		if _, err := adm.CreateTopic(t.Context(), 2, 1, nil, names.Delay(tier.Name)); err != nil {
			t.Fatal(err)
		}
	}
	looker, err := Open(c.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(looker.Close)
	text := func() (out string) {
		t.Helper()
		all, err := looker.Look(t.Context(), delays(names))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != len(topics.Tiers) {
			t.Fatalf("%+v", all)
		}
		for _, w := range all {
			if w.Records != 0 || w.Oldest != 0 {
				if w.AtMost {
					out += "at most "
				}
				out += fmt.Sprintf("%s: %d since %d; ", w.Name, w.Records, w.Oldest)
			}
		}
		return out
	}
	if got := text(); got != "" {
		t.Errorf("nothing was written: %s", got)
	}
	write := func(end kgo.TransactionEndTry, tier string, partition int32, at ...schemas.Millis) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, m := range at {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: names.Delay(tier), Partition: partition, Timestamp: m.Time(), Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	now := schemas.MillisOf(time.Now())
	write(kgo.TryCommit, "5m", 0, now-9000, now-8000)
	write(kgo.TryCommit, "5m", 1, now-9500)
	write(kgo.TryCommit, "1h", 0, now-70_000)
	write(kgo.TryAbort, "6h", 0, now-70_000) // was never there
	if got, want := text(), fmt.Sprintf("5m: 3 since %d; 1h: 1 since %d; ", now-9500, now-70_000); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// What has returned waits no more, and the marker behind it is no record.
	done := kadm.Offsets{}
	done.AddOffset(names.Delay("5m"), 1, 1, -1)
	done.AddOffset(names.Delay("5m"), 0, 1, -1)
	done.AddOffset(names.Delay("1h"), 0, 2, -1)
	if err := adm.CommitAllOffsets(t.Context(), "g", done); err != nil {
		t.Fatal(err)
	}
	if got, want := text(), fmt.Sprintf("5m: 1 since %d; ", now-8000); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Beyond what is counted one by one, offsets are.
	many := make([]schemas.Millis, lookRecords+50)
	for i := range many {
		many[i] = now - 500
	}
	write(kgo.TryCommit, "30s", 0, many[:lookRecords]...)
	if got, want := text(), fmt.Sprintf("at most 30s: %d since %d; 5m: 1 since %d; ", lookRecords+1, now-500, now-8000); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	write(kgo.TryCommit, "30s", 0, many[lookRecords:]...)
	if got, want := text(), fmt.Sprintf("at most 30s: %d since %d; 5m: 1 since %d; ", len(many)+2, now-500, now-8000); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := looker.Look(ctx, delays(names)); err == nil {
		t.Error("no error, though nobody waits for the answer")
	}
}

// delays are the delay topics, which a group named g reads.
func delays(names topics.Names) (out []Queue) {
	for _, tier := range topics.Tiers {
		out = append(out, Queue{Stage: Delay, Name: tier.Name, Topic: names.Delay(tier.Name), Group: "g"})
	}
	return out
}

// TestLookAtTopicsOfOthers: of a topic that is bound to a tenant only what its group
// began to read counts, and one that does not exist has nothing.
func TestLookAtTopicsOfOthers(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "shop.sends"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, p := range []int32{0, 0, 0, 1} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "shop.sends", Partition: p, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	done := kadm.Offsets{}
	done.AddOffset("shop.sends", 0, 1, -1)
	if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "g", done); err != nil {
		t.Fatal(err)
	}
	looker, err := Open(c.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(looker.Close)
	all, err := looker.Look(t.Context(), []Queue{
		{Stage: Inputs, Topic: "shop.sends", Group: "g", Bound: true},
		{Stage: Inputs, Topic: "shop.sends", Group: "never ran", Bound: true},
		{Stage: Lanes, Topic: "gone", Group: "g"},
		{Stage: Lanes, Topic: "shop.sends", Group: "never ran"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{2, 0, 0, 4} {
		if all[i].Records != want || all[i].AtMost {
			t.Errorf("%+v, want %d", all[i], want)
		}
	}
}
