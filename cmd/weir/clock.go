//go:build !chaos

package main

import "time"

// machineClock is the clock by which admission stamps its decisions and delays end.
func machineClock() func() time.Time { return time.Now }
