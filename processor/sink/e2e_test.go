//go:build e2e

package sink_test

import "testing"

// The number of the main job: 300,000 events, five kills.
func TestKilledAtLength(t *testing.T) { killed(t, 300_000, 5, 5_000, 5_000) }
