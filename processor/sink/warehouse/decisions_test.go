package warehouse_test

import (
	"testing"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// TestHistoryBegins says from where on a partition's decisions are whole: from the
// first ever, from one whose predecessor is there, or all the time where there were
// others before and none since.
func TestHistoryBegins(t *testing.T) {
	conn := open(t)
	if err := conn.Exec(t.Context(), `
		INSERT INTO decisions (partition, seq, t, at, verdict, kind, status_partition, status_offset) VALUES
		(0, 1, '2026-11-20 09:00:00.000', '2026-11-20 09:00:00.000', 'marker', 'decision', 0, 10),
		(0, 2, '2026-11-20 10:00:00.000', '2026-11-20 10:00:00.000', 'admit', 'status', 0, 11),
		(1, 5, '2026-11-20 10:00:00.000', '2026-11-20 10:00:00.000', 'admit', 'status', 1, 12),
		(1, 7, '2026-11-20 11:00:00.000', '2026-11-20 11:00:00.000', 'admit', 'status', 1, 17),
		(1, 0, '2026-11-20 09:30:00.000', '2026-11-20 09:30:00.000', '', 'poison', 1, 9)`); err != nil {
		t.Fatal(err)
	}
	h := warehouse.History{Conn: conn}
	since, _ := schemas.ParseMillis("2026-11-20T10:00:00Z")
	for before, want := range map[int64]int64{12: 0, 13: 1, 17: 1, 18: 2} {
		if n, err := h.Count(t.Context(), 1, since, before); err != nil || n != want {
			t.Errorf("before %d there are %d, %v; want %d", before, n, err, want)
		}
	}
	for _, tt := range []struct {
		partition int32
		from, t   string // "" is none
		offset    int64
		whole     bool
	}{
		{0, "08:00", "09:00", 10, true},
		{0, "09:30", "10:00", 11, true},
		{0, "10:30", "", 0, true}, // nothing happened since
		{1, "09:00", "10:00", 12, false},
		{1, "10:30", "11:00", 17, false}, // 6 is missing
		{2, "09:00", "", 0, false},       // nothing is known
	} {
		from, _ := schemas.ParseMillis("2026-11-20T" + tt.from + ":00Z")
		want := schemas.Millis(0)
		if tt.t != "" {
			want, _ = schemas.ParseMillis("2026-11-20T" + tt.t + ":00Z")
		}
		at, offset, whole, err := h.Begins(t.Context(), tt.partition, from)
		if err != nil || at != want || offset != tt.offset || whole != tt.whole {
			t.Errorf("partition %d from %s: %s at %d, whole %v, %v; want %s at %d, %v", tt.partition, tt.from, at, offset, whole, err, want, tt.offset, tt.whole)
		}
	}
}
