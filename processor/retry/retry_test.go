package retry

import (
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
	"pgregory.net/rapid"
)

func class(waits ...time.Duration) schemas.Class {
	c := schemas.Class{Retries: []schemas.Duration{}}
	for _, w := range waits {
		c.Retries = append(c.Retries, schemas.Duration(w))
	}
	return c
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name    string
		class   schemas.Class
		attempt int
		told    time.Duration
		wait    time.Duration
		again   bool
	}{
		{"default, after the first", schemas.Class{}, 1, 0, 5 * time.Second, true},
		{"default, after the second", schemas.Class{}, 2, 0, 30 * time.Second, true},
		{"default, after the third", schemas.Class{}, 3, 0, 5 * time.Minute, true},
		{"default, after the fourth", schemas.Class{}, 4, 0, 0, false},
		{"the policy's filled-in default is the same", (&schemas.Policy{}).Class("x"), 3, 0, 5 * time.Minute, true},
		{"a class of its own", class(5*time.Second, 30*time.Second), 2, 0, 30 * time.Second, true},
		{"a class of its own, over", class(5*time.Second, 30*time.Second), 3, 0, 0, false},
		{"no retries", class(), 1, 0, 0, false},
		{"no retries, though told", class(), 1, time.Second, 0, false},
		{"told longer", schemas.Class{}, 1, 17 * time.Second, 17 * time.Second, true},
		{"told shorter", schemas.Class{}, 2, 17 * time.Second, 30 * time.Second, true},
		{"told too long", schemas.Class{}, 1, 48 * time.Hour, time.Hour, true},
		{"a schedule beyond the cap stands", class(2 * time.Hour), 1, 48 * time.Hour, 2 * time.Hour, true},
		{"told nonsense", schemas.Class{}, 1, -time.Hour, 5 * time.Second, true},
		{"attempt 0 is treated as the first", schemas.Class{}, 0, 0, 5 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait, again := Next(tt.class, tt.attempt, tt.told)
			if wait != tt.wait || again != tt.again {
				t.Errorf("Next = %s, %t, want %s, %t", wait, again, tt.wait, tt.again)
			}
		})
	}
}

// Whatever a provider says, a message is tried a bounded number of times, never
// earlier than its schedule, and what the provider says delays it by at most
// MaxTold.
func TestNextIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waits := rapid.SliceOfN(rapid.Int64Range(0, int64(48*time.Hour)), 0, 8).Draw(t, "waits")
		c := class()
		for _, w := range waits {
			c.Retries = append(c.Retries, schemas.Duration(w))
		}
		n := 0
		for attempt := 1; ; attempt++ {
			told := time.Duration(rapid.Int64().Draw(t, "told"))
			wait, again := Next(c, attempt, told)
			if !again {
				break
			}
			scheduled := time.Duration(waits[n])
			if wait < scheduled || wait > max(scheduled, MaxTold) || wait < min(told, MaxTold) {
				t.Fatalf("attempt %d: wait %s, schedule %s, told %s", attempt, wait, scheduled, told)
			}
			n++
		}
		if n != len(waits) {
			t.Fatalf("%d retries of %d", n, len(waits))
		}
	})
}

func TestAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		header string
		wait   time.Duration
		ok     bool
	}{
		{"120", 2 * time.Minute, true},
		{" 7 ", 7 * time.Second, true},
		{"0", 0, true},
		{"86400", time.Hour, true},
		{"99999999999999999999999", time.Hour, true},
		{"Sat, 21 Nov 2026 08:00:30 GMT", 30 * time.Second, true},
		{"Saturday, 21-Nov-26 08:00:30 GMT", 30 * time.Second, true},
		{"Sat, 21 Nov 2026 07:00:00 GMT", 0, true},
		{"Sun, 22 Nov 2026 08:00:00 GMT", time.Hour, true},
		{"", 0, false},
		{"-5", 0, false},
		{"+5", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
	} {
		t.Run(tt.header, func(t *testing.T) {
			wait, ok := After(tt.header, now)
			if wait != tt.wait || ok != tt.ok {
				t.Errorf("After = %s, %t, want %s, %t", wait, ok, tt.wait, tt.ok)
			}
		})
	}
}
