// Package collector sets how often Go's collector of garbage runs in a process of
// Weir's.
//
// A cycle takes the processors from whoever waits for an answer: it is what makes
// calls of the HTTP API late (bench/overload). So it runs seldom while memory is
// small, and as often as memory asks for once it is not.
package collector

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	seldom   = 400       // GOGC, below the limit
	smallest = 200 << 20 // bytes of the limit
)

// Tune sets GOGC and the memory limit, and keeps the latter up to date until ctx
// ends. Where the environment has GOGC or GOMEMLIMIT it does nothing.
func Tune(ctx context.Context, getenv func(string) string) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(seldom)
	debug.SetMemoryLimit(smallest)
	go func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(live)
			debug.SetMemoryLimit(limitFor(live[0].Value.Uint64()))
		}
	}()
}

// limitFor is the memory limit, in bytes, where so many bytes of the heap live:
// garbage may take as much again, so that the limit never has the collector run
// without end.
func limitFor(live uint64) int64 {
	return max(smallest, 2*int64(live)+smallest/4)
}
