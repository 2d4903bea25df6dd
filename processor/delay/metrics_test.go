package delay

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestWaiting(t *testing.T) {
	names := topics.Names{}
	in := func(tier string, p int32) stream.Partition {
		return stream.Partition{Topic: names.Delay(tier), Partition: p}
	}
	now := schemas.Millis(100_000)
	got := waiting(names, map[stream.Partition]place{
		in("1s", 0):  {at: 10},                               // something is held
		in("1s", 1):  {at: 5},                                //
		in("5s", 0):  {at: 10, empty: now - 60_000},          // read for long: what is beyond is a marker
		in("30s", 0): {at: 10, empty: now.Add(-time.Second)}, // read just now
		in("5m", 0):  {at: 10, empty: 0},                     // its end is not known
	}, map[stream.Partition]int64{in("1s", 0): 15, in("1s", 1): 12, in("5s", 0): 11, in("30s", 0): 13, in("1h", 0): 99}, now)
	want := map[string]int64{"1s": 12, "5s": 0, "30s": 3, "5m": 0, "1h": 0, "6h": 0, "1d": 0}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// still counts what is paused; it fetches nothing.
type still struct{ paused map[stream.Partition]bool }

func (f still) Pause(ps ...stream.Partition) {
	for _, p := range ps {
		f.paused[p] = true
	}
}

func (f still) Resume(ps ...stream.Partition) {
	for _, p := range ps {
		delete(f.paused, p)
	}
}

func (still) Rewind(map[stream.Partition]int64) {}

// TestPlaces: what is handed to whoever counts, and whether the partition is read,
// through an assignment, a record that waits, and a revocation.
func TestPlaces(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	reg := prometheus.NewRegistry()
	f, at := still{make(map[stream.Partition]bool)}, new(places)
	s := newStage(Config{Now: func() time.Time { return now }}, f, newMetrics(reg), at)
	tp := stream.Partition{Topic: s.cfg.Names.Delay("5s"), Partition: 2}
	if _, err := s.Assign(t.Context(), map[stream.Partition]stream.Position{tp: {Offset: 7}}); err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Topic: tp.Topic, Partition: 2, Offset: 8, Timestamp: now, Headers: []kgo.RecordHeader{{Key: schemas.HeaderReturn, Value: []byte(s.cfg.Names.Readmit())}}}
	if err := s.Step(t.Context(), new(stream.Tx), nil); err != nil {
		t.Fatal(err)
	}
	if got := at.get()[tp]; got.at != 7 || got.empty == 0 || f.paused[tp] {
		t.Errorf("nothing waits: %+v, paused %v", got, f.paused)
	}
	now = now.Add(2 * time.Second)
	if err := s.Step(t.Context(), new(stream.Tx), []*kgo.Record{rec}); err != nil {
		t.Fatal(err)
	}
	if got := at.get()[tp]; got.at != 7 || got.empty != 0 || !f.paused[tp] {
		t.Errorf("one waits: %+v, paused %v", got, f.paused)
	}
	now = now.Add(2800 * time.Millisecond) // it is due in 200 ms
	if wait := s.Wait(); wait != 0 {
		t.Errorf("waits %v before it reads on", wait)
	}
	if err := s.Step(t.Context(), new(stream.Tx), nil); err != nil {
		t.Fatal(err)
	}
	if wait := s.Wait(); f.paused[tp] || wait != 205*time.Millisecond {
		t.Errorf("almost due: paused %v, waits %v", f.paused, wait)
	}
	s.Revoke()
	if got := at.get(); len(got) != 0 {
		t.Errorf("nothing is owned: %v", got)
	}
}
