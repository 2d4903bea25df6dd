//go:build e2e

package sink_test

import (
	"os"
	"testing"
	"time"
)

// 300,000 events and five kills of the sink; with WEIR_CHAOS=1 the two million and
// twenty that it is promised to stand.
func TestKilledAtLength(t *testing.T) {
	if os.Getenv("WEIR_CHAOS") != "" {
		killed(t, kills{events: 2_000_000, times: 20, rows: 20_000, perTx: 10_000, patience: 4 * time.Minute})
		return
	}
	killed(t, kills{events: 300_000, times: 5, rows: 5_000, perTx: 5_000, patience: time.Minute})
}
