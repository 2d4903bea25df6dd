package audit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	limiter "github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// A marker's word on buckets is held to the rule, written down by hand here.
func TestSinceOfBuckets(t *testing.T) {
	type moments = map[string]schemas.Millis
	parse := func(texts ...string) (out []schemas.Window) {
		for _, text := range texts {
			w, err := schemas.ParseWindow(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, w)
		}
		return out
	}
	const a, b = "bucket refill 1/s", "bucket refill 2/s"
	had := moments{a: 5, "bucket": 7, "1h": 5}
	for _, test := range []struct {
		name   string
		change func(l *schemas.Limit)
		want   moments
	}{
		{"nothing", func(*schemas.Limit) {}, moments{a: 5, "bucket": 7, "1h": 5}},
		{"observe", func(l *schemas.Limit) { l.Mode = schemas.ModeObserve }, moments{a: 5, "bucket": 7, "1h": 5}},
		{"n", func(l *schemas.Limit) { l.Allow = parse("bucket 11 refill 1/s", "9/1h") }, moments{a: 5, "bucket": 9, "1h": 5}},
		{"refill", func(l *schemas.Limit) { l.Allow = parse("bucket 10 refill 2/s", "9/1h") }, moments{b: 5, "bucket": 9, "1h": 5}},
		{"no bucket", func(l *schemas.Limit) { l.Allow = parse("9/1h") }, moments{"1h": 5}},
		{"an override without", func(l *schemas.Limit) {
			l.Overrides = []schemas.Override{{To: "+1", Allow: parse("9/1h")}}
		}, moments{a: 5, "bucket": 9, "1h": 5}},
		{"match", func(l *schemas.Limit) { l.Match.Class = []string{"x"} }, moments{a: 9, "bucket": 9, "1h": 9}},
	} {
		limits := func() *schemas.Policy {
			return &schemas.Policy{Limits: []schemas.Limit{{Name: "a", Per: []string{"recipient"}, Allow: parse("bucket 10 refill 1/s", "9/1h")}}}
		}
		prev, next := limits(), limits()
		test.change(&next.Limits[0])
		if got := sinceOf(prev, map[string]moments{"a": had}, next, 9); !maps.Equal(got["a"], test.want) {
			t.Errorf("%s: %v, want %v", test.name, got["a"], test.want)
		}
		r, err := newRules(next, nil, 9)
		if err != nil {
			t.Fatal(err)
		}
		if r.limits[0].keeps {
			t.Errorf("%s: rolling places are given back", test.name)
		}
		next.Limits[0].Allow, next.Limits[0].Overrides = parse("bucket 1 refill 1/s"), nil
		if r, _ = newRules(next, nil, 9); !r.limits[0].keeps {
			t.Errorf("%s: a bucket gives nothing back", test.name)
		}
	}
}

// A window that is changed and changed back counts what it counted all along: the
// moments are written down by hand here.
func TestSinceOfAWindowThatComesBack(t *testing.T) {
	const hour, day = schemas.Millis(3_600_000), schemas.Millis(86_400_000)
	type moments = map[string]schemas.Millis
	at := 40*day + 10*hour
	now, since := at, map[string]moments(nil)
	last := &schemas.Policy{}
	for _, step := range []struct {
		name  string
		after schemas.Millis
		allow []string
		want  moments
	}{
		{"the first", 0, []string{"2/calendar-day"}, moments{"calendar-day": at}},
		{"another", hour, []string{"1/24h"}, moments{"24h": at, "calendar-day": at, "left calendar-day": at + hour}},
		{"back", hour, []string{"2/calendar-day"}, moments{"calendar-day": at, "24h": at, "left 24h": at + 2*hour}},
		{"only counted", hour, []string{"200/calendar-day"}, moments{"calendar-day": at, "24h": at, "left 24h": at + 2*hour}},
		{"dropped while only counted", hour, []string{"1/1h"}, moments{"1h": at, "calendar-day": at, "left count calendar-day": at + 4*hour, "24h": at, "left 24h": at + 2*hour}},
		{"known by time from now on", hour, []string{"2/calendar-day"}, moments{"calendar-day": at, "times calendar-day": at + 5*hour, "24h": at, "left 24h": at + 2*hour, "1h": at, "left 1h": at + 5*hour}},
		{"after a day", 24 * hour, []string{"2/calendar-day", "1/25h"}, moments{"calendar-day": at, "times calendar-day": at + 5*hour, "25h": 41*day - 1}},
		{"longer", hour, []string{"3/26h"}, moments{"26h": 41*day - 1, "25h": 41*day - 1, "left 25h": at + 30*hour, "calendar-day": at, "left calendar-day": at + 30*hour, "times calendar-day": at + 5*hour}},
		{"no history", hour, nil, nil},
	} {
		next := &schemas.Policy{}
		if len(step.allow) > 0 {
			l := schemas.Limit{Name: "a", Per: []string{"recipient"}}
			for _, text := range step.allow {
				w, err := schemas.ParseWindow(text)
				if err != nil {
					t.Fatal(err)
				}
				l.Allow = append(l.Allow, w)
			}
			next.Limits = []schemas.Limit{l}
		}
		now += step.after
		for name, say := range map[string]func(*schemas.Policy, map[string]moments, *schemas.Policy, schemas.Millis) map[string]moments{"audit": sinceOf, "admission": limiter.NextSince} {
			if got := say(last, since, next, now); !maps.Equal(got["a"], step.want) {
				t.Errorf("%s, %s: %v, want %v", step.name, name, got["a"], step.want)
			}
		}
		since = sinceOf(last, since, next, now)
		last = next
		r, err := newRules(next, since, now)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.limits {
			if reach := r.limits[i].reach; step.name == "dropped while only counted" && reach != 26*hour {
				t.Errorf("it looks back %d ms only", reach)
			}
		}
	}
}

// TestSinceAgrees changes limits at random: the audit's rule and admission's say
// the same moments, though neither knows of the other.
func TestSinceAgrees(t *testing.T) {
	windows := []string{"1/1s", "5/1h", "2/24h", "3/25h", "9/7d", "2/calendar-day", "200/calendar-day", "5/calendar-hour", "150/calendar-month", "bucket 5 refill 1/s", "bucket 7 refill 1/10s"}
	kept := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		now := schemas.Millis(1_790_000_000_000) + schemas.Millis(rng.Int64N(86_400_000*40))
		var since map[string]map[string]schemas.Millis
		last := &schemas.Policy{}
		draw := func() (out []schemas.Window) {
			for _, i := range rng.Perm(len(windows))[:1+rng.IntN(3)] {
				w, err := schemas.ParseWindow(windows[i])
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(out, func(o schemas.Window) bool {
					return o.Kind == w.Kind && (w.Kind == schemas.WindowBucket || o.UnitKey() == w.UnitKey())
				}) {
					continue
				}
				out = append(out, w)
			}
			return out
		}
		for range 20 {
			now += schemas.Millis(rng.Int64N(10 * 3_600_000))
			next := &schemas.Policy{}
			if rng.IntN(20) > 0 {
				l := schemas.Limit{Name: "a", Per: []string{"recipient"}, Allow: draw()}
				if rng.IntN(3) == 0 {
					l.Overrides = []schemas.Override{{To: "+1", Allow: draw()}}
				}
				if rng.IntN(6) == 0 {
					l.Timezone = "Asia/Shanghai"
				}
				if rng.IntN(12) == 0 {
					l.Exempt = []string{"+2"}
				}
				next.Limits = []schemas.Limit{l}
			}
			want := limiter.NextSince(last, since, next, now)
			if got := sinceOf(last, since, next, now); !maps.EqualFunc(got, want, maps.Equal) {
				t.Fatalf("seed %d: %v, and admission says %v: %+v after %+v since %v", seed, got, want, next.Limits, last.Limits, since)
			}
			for key := range want["a"] {
				if strings.HasPrefix(key, "left ") {
					kept++
				}
			}
			since, last = want, next
		}
	}
	if kept < 1000 {
		t.Errorf("only %d windows were kept: the test shows nothing", kept)
	}
}
