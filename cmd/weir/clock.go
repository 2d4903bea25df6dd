//go:build !chaos

package main

import "time"

// admissionClock is the clock by which admission stamps its decisions.
func admissionClock() func() time.Time { return time.Now }
