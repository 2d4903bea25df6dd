package lane

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestThrottle: whose throttling silences a lane, for how long, and what ends it.
func TestThrottle(t *testing.T) {
	const s = schemas.Millis(1000)
	ok := provider.Outcome{Kind: provider.Accepted}
	his := provider.Outcome{Kind: provider.Throttled, OfRecipient: true, RetryAfter: 30 * time.Second}
	all := provider.Outcome{Kind: provider.Throttled, OfProvider: true, RetryAfter: 30 * time.Second}
	mute := provider.Outcome{Kind: provider.Throttled, OfProvider: true}
	open := provider.Outcome{Kind: provider.Throttled, RetryAfter: 5 * time.Second}
	type call struct {
		o         provider.Outcome
		to        string
		permit, t schemas.Millis
		until     schemas.Millis // of a silence that begins; 0: none does
	}
	for _, tt := range []struct {
		name    string
		calls   []call
		probing bool
	}{
		{"a recipient, however often", []call{{his, "a", 1, 10, 0}, {his, "b", 1, 11, 0}, {his, "c", 1, 12, 0}, {his, "d", 1, 13, 0}}, false},
		{"the provider", []call{{all, "a", 1, 10, 10 + 30*s}}, true},
		{"calls under way when it began do not renew it", []call{{all, "a", 1, 10, 10 + 30*s}, {all, "b", 5, 20, 0}, {all, "c", 9, 29 * s, 0}, {all, "d", 9, 40 * s, 0}}, true},
		{"nor do they end it", []call{{all, "a", 1, 10, 10 + 30*s}, {ok, "b", 5, 20, 0}}, true},
		{"a probe ends it", []call{{all, "a", 1, 10, 10 + 30*s}, {ok, "b", 10 + 30*s, 31 * s, 0}}, false},
		{"a probe whose recipient is throttled ends it", []call{{all, "a", 1, 10, 10 + 30*s}, {his, "b", 10 + 30*s, 31 * s, 0}}, false},
		{"a throttled probe begins another", []call{{all, "a", 1, 10, 10 + 30*s}, {all, "b", 31 * s, 32 * s, 62 * s}}, true},
		{"a probe of whom nobody knows does too", []call{{all, "a", 1, 10, 10 + 30*s}, {open, "b", 31 * s, 32 * s, 37 * s}}, true},
		{"each without a time doubles, up to a minute", []call{
			{mute, "a", 0, 0, 1 * s}, {mute, "a", 1 * s, 1 * s, 3 * s}, {mute, "a", 3 * s, 3 * s, 7 * s}, {mute, "a", 7 * s, 7 * s, 15 * s}, {mute, "a", 15 * s, 15 * s, 31 * s},
			{mute, "a", 31 * s, 31 * s, 63 * s}, {mute, "a", 63 * s, 63 * s, 123 * s}, {mute, "a", 123 * s, 123 * s, 183 * s}}, true},
		{"and begins again after a probe that ended it", []call{{mute, "a", 0, 0, 1 * s}, {mute, "a", 1 * s, 1 * s, 3 * s}, {ok, "a", 3 * s, 3 * s, 0}, {mute, "a", 4 * s, 4 * s, 5 * s}}, true},
		{"an hour is a minute", []call{{provider.Outcome{Kind: provider.Throttled, OfProvider: true, RetryAfter: time.Hour}, "a", 0, 0, 60 * s}}, true},
		{"nobody knows: one recipient, however often", []call{{open, "a", 1, 10, 0}, {open, "a", 1, 11, 0}, {open, "a", 1, 12, 0}, {open, "a", 1, 13, 0}}, false},
		{"nobody knows: two", []call{{open, "a", 1, 10, 0}, {open, "b", 1, 11, 0}, {open, "a", 1, 12, 0}}, false},
		{"nobody knows: three", []call{{open, "a", 1, 10, 0}, {open, "b", 1, 11, 0}, {open, "c", 1, 12, 12 + 5*s}}, true},
		{"three in longer than ten seconds", []call{{open, "a", 1, 1, 0}, {open, "b", 1, 6 * s, 0}, {open, "c", 1, 1 + 10*s, 0}, {open, "d", 1, 15 * s, 15*s + 5*s}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h throttle
			for i, c := range tt.calls {
				began := h.answer(&c.o, c.to, c.permit, c.t)
				if began != (c.until != 0) || began && (h.until != c.until || h.since != c.t) {
					t.Fatalf("call %d: %v, silent until %d, want %d", i, began, h.until, c.until)
				}
			}
			if h.probing != tt.probing {
				t.Errorf("probing %v", h.probing)
			}
		})
	}

	t.Run("nobody knows: few among many that succeed", func(t *testing.T) {
		var h throttle
		for i := range 4000 {
			o := &ok
			if i%20 == 0 {
				o = &open
			}
			if h.answer(o, fmt.Sprint(i), 1, schemas.Millis(i)) {
				t.Fatalf("silent at call %d, though 19 of 20 succeed", i)
			}
			if len(h.recent) > throttledKept {
				t.Fatalf("%d recipients in memory", len(h.recent))
			}
		}
	})
}
