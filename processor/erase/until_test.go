package erase

import (
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// What is there now is gone with its segment: that takes records for a while
// after the newest, and is kept for the retention after its last.
func TestUntil(t *testing.T) {
	const hour = int64(time.Hour / time.Millisecond)
	now := schemas.Millis(1000 * hour)
	for _, tt := range []struct {
		name, topic, cleanup, retention, segment string
		newest                                   schemas.Millis
		hours                                    int64 // after now; 0 is no date
		note                                     bool
	}{
		{"a topic at rest", "weir.requests", "delete", "36000000", "3600000", now - schemas.Millis(5*hour), 6, false},
		{"one in use", "weir.requests", "delete", "36000000", "3600000", now, 11, false},
		{"nobody knows its newest record", "weir.requests", "delete", "36000000", "3600000", 0, 11, false},
		{"a producer's clock", "weir.requests", "delete", "36000000", "3600000", now + schemas.Millis(100*hour), 11, false},
		{"Kafka's own segments", "acme.sends", "delete", "36000000", "", now, 10 + 7*24, false},
		{"for ever", "acme.sends", "delete", "-1", "3600000", now, 0, true},
		{"the ledger", "weir.ledger", "compact", "36000000", "3600000", now, 0, true},
		{"the policy", "weir.config", "delete", "-1", "3600000", now, 0, true},
		{"somebody else's compacted topic", "acme.sends", "compact,delete", "36000000", "3600000", now, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := Holding{Topic: tt.topic, Newest: tt.newest}
			until(&h, topics.Names{}, tt.cleanup, tt.retention, tt.segment, now)
			want := schemas.Millis(0)
			if tt.hours > 0 {
				want = now + schemas.Millis(tt.hours*hour)
			}
			if h.Until != want || (h.Note != "") != tt.note {
				t.Errorf("until %v, want %v; %q", h.Until, want, h.Note)
			}
		})
	}
}
