package ingest

import (
	"net/http"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// The older fields have room for one window.
func TestTightestWindow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	in := func(d time.Duration) schemas.Millis { return schemas.MillisOf(now.Add(d)) }
	for _, tt := range []struct {
		name             string
		limits           []schemas.LimitState
		limit, rem, when string
	}{
		{"none", nil, "", "", ""},
		{"what leaves least", []schemas.LimitState{
			{Limit: "a", Window: "9/60s", N: 9, Remaining: 3, Reset: in(time.Minute)}, {Limit: "a", Window: "5/1h", N: 5, Remaining: 1, Reset: in(time.Hour)}, {Limit: "b", Window: "7/1h", N: 7, Remaining: 7},
		}, "5", "1", "1800003600"},
		{"of the full the one that opens last", []schemas.LimitState{
			{Limit: "a", Window: "1/60s", N: 1, Reset: in(time.Minute), Violated: true}, {Limit: "a", Window: "5/1h", N: 5, Reset: in(time.Hour), Violated: true}, {Limit: "b", Window: "2/60s", N: 2, Reset: in(2 * time.Minute), Violated: true},
			{Limit: "c", Window: "3/calendar-day", N: 3, Reset: in(9 * time.Hour)},
		}, "5", "0", "1800003600"},
		{"a full one that did not refuse comes after", []schemas.LimitState{
			{Limit: "c", Window: "3/calendar-day", N: 3, Reset: in(9 * time.Hour)}, {Limit: "b", Window: "2/60s", N: 2, Reset: in(time.Minute), Violated: true},
		}, "2", "0", "1800000060"},
		{"nothing to wait for", []schemas.LimitState{{Limit: "b", Window: "bucket 7 refill 1/s", N: 7, Remaining: 7}}, "7", "7", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			limitHeaders(h, tt.limits, now)
			if h.Get("X-RateLimit-Limit") != tt.limit || h.Get("X-RateLimit-Remaining") != tt.rem || h.Get("X-RateLimit-Reset") != tt.when {
				t.Errorf("%v", h)
			}
		})
	}
	const limits = `"a 9/60s";q=9;w=60`
	open := []schemas.LimitState{{Limit: "a", Window: "9/60s", N: 9, Remaining: 3, Reset: in(time.Minute)}}
	for name, tt := range map[string]struct {
		pace                   http.Header
		limits                 []schemas.LimitState
		policy, state, x, when string
	}{
		"without a pace": {http.Header{}, open, limits, `"a 9/60s";r=3;t=60`, "9", "1800000060"},
		"beside a pace": {
			http.Header{"Ratelimit-Policy": {`"write";q=30;w=6`}, "Ratelimit": {`"write";r=29;t=1`}, "X-Ratelimit-Limit": {"30"}, "X-Ratelimit-Reset": {"1800000001"}}, open,
			`"write";q=30;w=6, ` + limits, `"write";r=29;t=1, "a 9/60s";r=3;t=60`, "30", "1800000001",
		},
		"without limits": {http.Header{"Ratelimit-Policy": {`"write";q=30;w=6`}, "Ratelimit": {`"write";r=29;t=1`}}, nil, `"write";q=30;w=6`, `"write";r=29;t=1`, "", ""},
		"without either": {http.Header{}, nil, "", "", "", ""},
	} {
		h := tt.pace
		roomHeaders(h, tt.limits, now)
		if h.Get("RateLimit-Policy") != tt.policy || h.Get("RateLimit") != tt.state || h.Get("X-RateLimit-Limit") != tt.x || h.Get("X-RateLimit-Reset") != tt.when {
			t.Errorf("%s: %v", name, h)
		}
	}
	h := http.Header{}
	limitHeaders(h, []schemas.LimitState{{Limit: "a", Window: "9/calendar-day", N: 9, Remaining: 3, Reset: in(time.Minute)}, {Limit: "b", Window: "bucket 7 refill 1/s", N: 7, Remaining: 7}}, now)
	if got, want := h.Get("RateLimit-Policy")+" "+h.Get("RateLimit"), `"a 9/calendar-day";q=9;w=86400, "b bucket 7 refill 1/s";q=7 "a 9/calendar-day";r=3;t=60, "b bucket 7 refill 1/s";r=7`; got != want {
		t.Errorf("%s", got)
	}
}
