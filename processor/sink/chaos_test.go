//go:build chaos

package sink_test

import (
	"fmt"
	"testing"
	"time"
)

// A million events, and twenty kills of the engine, the sink or both.
func TestKilledWithItsEngineAtLength(t *testing.T) {
	killed(t, kills{events: 1_000_000, times: 20, rows: 20_000, perTx: 10_000, engine: true, patience: 4 * time.Minute})
}

// Twenty seeds of what ClickHouse may lose.
func TestLossesAtLength(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) { losses(t, seed+1) })
	}
}
