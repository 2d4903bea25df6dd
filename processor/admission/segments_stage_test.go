package admission_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// TestManyPlacesAcrossRestarts: a limit for all has so many places that they are
// in segments, and three workers, one after the other, let exactly n through.
func TestManyPlacesAcrossRestarts(t *testing.T) {
	const n, more = 1300, 20
	w := newWorld(t)
	rev := w.pol.Latest()
	next := rev.Policy
	all, err := schemas.ParseWindow(fmt.Sprintf("%d/24h", n))
	if err != nil {
		t.Fatal(err)
	}
	next.Limits = []schemas.Limit{{Name: "all", Per: []string{}, Allow: []schemas.Window{all}}}
	if _, err := w.pol.Publish(t.Context(), w.cl, rev.Revision, "test", next); err != nil {
		t.Fatal(err)
	}
	var events []*schemas.Event
	sent := 0
	for i, upTo := range []int{600, n - 10, n + more} {
		stop := w.admit(fmt.Sprint(i))
		count := 0
		for ; sent < upTo; sent++ {
			to := fmt.Sprintf("+86138%08d", sent)
			w.cl.Produce(t.Context(), &kgo.Record{Topic: w.names.Requests(), Partition: schemas.PartitionOf(to, partitions),
				Value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to)}, nil)
			count++
		}
		events = append(events, w.statuses(count)...)
		stop()
	}
	if queued, limited := len(only(events, schemas.StatusQueued)), len(only(events, schemas.StatusLimited)); queued != n || limited != more {
		t.Errorf("%d were let through and %d refused, of %d and %d more", queued, limited, n, more)
	}
	dense(t, events)
	segments, largest := 0, 0
	ledger := stream.Range{Partition: stream.Partition{Topic: w.names.Ledger(), Partition: schemas.PartitionOf("", partitions)}}
	if err := stream.Read(t.Context(), stream.ReadConfig{Brokers: w.seeds}, []stream.Range{ledger}, func(r *kgo.Record) error {
		if len(r.Key) == 21 {
			segments++
		}
		largest = max(largest, len(r.Value))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d records of segments, the largest of the ledger has %d bytes", segments, largest); segments < 3 || largest > 4096 {
		t.Error("the places are not in segments")
	}
}
