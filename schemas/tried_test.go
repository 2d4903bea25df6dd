package schemas

import (
	"fmt"
	"slices"
	"testing"
)

func TestTry(t *testing.T) {
	var tried []Tried
	for _, s := range []struct {
		name string
		how  RetryCause
		want string
	}{
		{"a", RetryTransient, "a=transient"},
		{"b", RetryThrottled, "a=transient,b=throttled"},
		{"a", RetryThrottled, "b=throttled,a=throttled"},
		{"b", RetryUnknown, "a=throttled,b=unknown"},
		{"a", RetryTransient, "b=unknown,a=transient"},
		{"b", RetryTransient, "a=transient,b=unknown"}, // it may still have it
	} {
		before := slices.Clone(tried)
		next := Try(tried, s.name, s.how)
		if !slices.Equal(tried, before) {
			t.Fatal("it wrote to what it was given")
		}
		tried = next
		if got := string(appendTried(nil, tried)); got != s.want || !slices.Equal(ParseTried(got), tried) {
			t.Errorf("%s, want %s", got, s.want)
		}
	}
	for i := range 100 {
		tried = Try(tried, fmt.Sprint("p", i), RetryTransient)
	}
	if len(tried) != maxTried || tried[maxTried-1].Provider != "p99" {
		t.Errorf("%v", tried)
	}
	for _, bad := range []string{"", "a", "=transient", "a=delivered", ",,", "a=transient=x"} {
		if got := ParseTried(bad); got != nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}
