package audit

import (
	"maps"
	"testing"

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
		r, err := newRules(next, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.limits[0].keeps {
			t.Errorf("%s: rolling places are given back", test.name)
		}
		next.Limits[0].Allow, next.Limits[0].Overrides = parse("bucket 1 refill 1/s"), nil
		if r, _ = newRules(next, nil); !r.limits[0].keeps {
			t.Errorf("%s: a bucket gives nothing back", test.name)
		}
	}
}
