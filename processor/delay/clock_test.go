package delay

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

func TestCompare(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, tt := range []struct {
		name  string
		known bool
		all   []comparison
		move  time.Duration
		early bool
	}{
		{"the first is close enough", false, []comparison{{1000, 1001, 1004}}, 0, false},
		{"the first does not tell closely: never ahead from now on", false, []comparison{{1000, 1001, 1031}}, ms(-30), false},
		{"a later one that does not tell closely says nothing", true, []comparison{{1000, 1001, 1031}}, 0, false},
		{"ahead for certain", true, []comparison{{4000, 1000, 4010}}, ms(-3010), true},
		{"ahead for certain, the first", false, []comparison{{4000, 1000, 4010}}, ms(-3010), true},
		{"ahead by the margin", true, []comparison{{1005, 1000, 1007}}, 0, false},
		{"ahead by more than the margin", true, []comparison{{1006, 1000, 1007}}, ms(-7), true},
		{"behind for certain", true, []comparison{{1000, 4000, 1010}}, ms(2990), false},
		{"behind for certain, the first", false, []comparison{{1000, 4000, 1010}}, ms(2990), false},
		{"of two brokers the one behind counts", true, []comparison{{1000, 1500, 1010}, {1000, 1020, 1010}}, ms(10), false},
		{"behind one broker and not the other", true, []comparison{{1000, 1500, 1010}, {1000, 1001, 1010}}, 0, false},
		{"ahead of one broker and not the other", true, []comparison{{1000, 1001, 1010}, {1000, 900, 1010}}, ms(-110), true},
	} {
		if move, early := compare(tt.known, tt.all); move != tt.move || early != tt.early {
			t.Errorf("%s: move %v, early %v; want %v, %v", tt.name, move, early, tt.move, tt.early)
		}
	}
}

func TestDueOf(t *testing.T) {
	for _, tt := range []struct {
		name      string
		due, want schemas.Millis
	}{
		{"the tier's time", 0, 6000},
		{"due before the tier's end", 5990, 6000},
		{"due just after: held until then", 6050, 6050},
		{"due later: another hop", 6051, 6000},
	} {
		if got := dueOf(1000, 5*time.Second, tt.due); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestReadingPutsALaggingClockRight: nothing is compared before something is due,
// so a clock that is an hour behind would let everything wait an hour longer. What
// is read was appended before.
func TestReadingPutsALaggingClockRight(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	s := &stage{clock: newClock(func() time.Time { return now.Add(-time.Hour) }), metrics: newMetrics(nil), queues: make(map[stream.Partition]*queue)}
	s.cfg.Logger = slog.New(slog.DiscardHandler)
	s.queues[stream.Partition{Topic: "d", Partition: 0}] = &queue{}
	s.take([]*kgo.Record{{Topic: "d", Timestamp: now}})
	if got := s.clock.now(); got != schemas.MillisOf(now) {
		t.Errorf("the clock is at %v, want %v", got.Time(), now)
	}
	s.take([]*kgo.Record{{Topic: "d", Offset: 1, Timestamp: now.Add(-time.Minute)}})
	if got := s.clock.now(); got != schemas.MillisOf(now) {
		t.Errorf("an older record moved the clock to %v", got.Time())
	}
}
