package backtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// stored is a store that says the same of each partition.
type stored struct {
	t      schemas.Millis
	offset int64
	whole  bool
}

func (s *stored) Begins(context.Context, int32, schemas.Millis) (schemas.Millis, int64, bool, error) {
	return s.t, s.offset, s.whole, nil
}

func (*stored) Decisions(context.Context, int32, schemas.Millis, int64, func(*schemas.Event) error) error {
	return nil
}

func (*stored) Count(context.Context, int32, schemas.Millis, int64) (int64, error) { return 7, nil }

// TestExtent: partition 0 has what was before its record of ten minutes ago no more,
// partition 1 has nothing any more, 2 never had anything. From when on nothing is
// missing is said by the store where it knows; a log that is empty is not taken for one
// that lost something just now.
func TestExtent(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	cl := streamtest.Client(t, kgo.SeedBrokers(broker.ListenAddrs()...))
	adm := kadm.NewClient(cl)
	names := topics.Names{}
	if _, err := adm.CreateTopic(t.Context(), 3, 1, nil, names.Status()); err != nil {
		t.Fatal(err)
	}
	now := schemas.MillisOf(time.Now())
	ago := func(d time.Duration) schemas.Millis { return now.Add(-d) }
	for _, r := range []kgo.Record{
		{Partition: 0, Timestamp: ago(9 * time.Hour).Time()},
		{Partition: 0, Timestamp: ago(10 * time.Minute).Time()},
		{Partition: 1, Timestamp: ago(9 * time.Hour).Time()},
	} {
		r.Topic = names.Status()
		if err := cl.ProduceSync(t.Context(), &r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	gone := make(kadm.Offsets)
	gone.AddOffset(names.Status(), 0, 1, -1)
	gone.AddOffset(names.Status(), 1, 1, -1)
	if _, err := adm.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	none := make(kadm.Offsets)
	none.AddOffset(names.Status(), 0, 2, -1)
	ten := ago(10 * time.Minute)
	for _, c := range []struct {
		name    string
		store   History // nil: there is none
		joins   bool    // the policy needs requests: the store's decisions will not do
		empty   bool    // partition 0 lost its last record too
		whole   schemas.Millis
		history []int32
		idle    int
	}{
		{"nobody knows", nil, false, false, ten, nil, 1},
		{"the store has all", &stored{ago(9 * time.Hour), 0, true}, false, false, 0, []int32{0, 1}, 0},
		{"the store has some", &stored{ago(time.Hour), 0, false}, false, false, ago(time.Hour), []int32{0, 1}, 0},
		{"it has what a policy cannot use", &stored{ago(time.Hour), 0, true}, true, false, ten, nil, 1},
		{"nothing happened since", &stored{whole: true}, false, false, 0, nil, 0},
		{"and the policy needs requests", &stored{whole: true}, true, false, 0, nil, 0},
		{"all since is in Kafka too", &stored{ago(10*time.Minute + 5), 1, true}, true, false, 0, nil, 0},
		{"the store knows nothing", &stored{}, false, false, ten, nil, 1},
		{"nothing is left", nil, false, true, now, nil, 2},
		{"nothing is left, and nothing happened", &stored{whole: true}, false, true, 0, nil, 0},
	} {
		if c.empty {
			if _, err := adm.DeleteRecords(t.Context(), none); err != nil {
				t.Fatal(err)
			}
		}
		s, err := openSource(t.Context(), Config{Brokers: broker.ListenAddrs(), Names: names, History: c.store})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.extent(t.Context(), ago(10*time.Hour), !c.joins)
		total := int64(7 * len(c.history)) // as many as there are to be read
		for _, st := range got.kafka {
			total += st.end - st.from
		}
		if s.total.Load() != total {
			t.Errorf("%s: %d records in all, want %d", c.name, s.total.Load(), total)
		}
		s.close()
		if err != nil {
			t.Fatal(err)
		}
		var history []int32
		for n := range got.history {
			history = append(history, n)
		}
		slices.Sort(history)
		if c.whole == now {
			got.whole = min(got.whole, now) // it is of a moment later
		}
		if got.whole != c.whole || !slices.Equal(history, c.history) || got.idle != c.idle {
			t.Errorf("%s: whole since %s, want %s; from the store %v, want %v; idle %d, want %d", c.name, got.whole, c.whole, history, c.history, got.idle, c.idle)
		}
	}
}
