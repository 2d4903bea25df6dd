//go:build chaos

package main

import (
	"os"
	"sync"
	"time"
)

// machineClock is, in a program built to be lied to, a clock that is off by what
// the file named in WEIR_CHAOS_CLOCK says ("90s", "-1.5s"), as of ten milliseconds
// ago at most. Elapsed time is off too, as on a machine that was moved or resumed.
// Without a file, or with one that does not say a duration, it is right.
func machineClock() func() time.Time {
	file := os.Getenv("WEIR_CHAOS_CLOCK")
	var mu sync.Mutex
	var off time.Duration
	var read time.Time
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Sub(read) >= 10*time.Millisecond {
			b, _ := os.ReadFile(file)
			off, _ = time.ParseDuration(string(b))
			read = now
		}
		return now.Add(off)
	}
}
