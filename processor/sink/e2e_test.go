//go:build e2e

package sink_test

import (
	"os"
	"testing"
	"time"
)

// 300,000 events and six kills; with WEIR_CHAOS=1 the two million and twenty that
// the sink is promised to stand.
func TestKilledAtLength(t *testing.T) {
	if os.Getenv("WEIR_CHAOS") != "" {
		killed(t, 2_000_000, 20, 20_000, 10_000, 4*time.Minute)
		return
	}
	killed(t, 300_000, 6, 5_000, 5_000, time.Minute)
}
