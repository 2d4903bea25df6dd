//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/local/localtest"
)

// TestChaosTimes holds what the suite only looks at, beside whatever else runs there,
// to what the pages say: a revision is in force within a second, a delay is over in
// time, a provider that fell ill is left alone, and weir dev is ready soon.
func TestChaosTimes(t *testing.T) {
	brokers := localtest.ForTest(t)
	alone := full
	alone.alone = true
	t.Run("policy", func(t *testing.T) { livePolicy(t, brokers, alone) })
	t.Run("failover", func(t *testing.T) { failover(t, brokers, alone) })
	t.Run("delays", func(t *testing.T) { delays(t, brokers, alone, nil) })
	t.Run("latency", func(t *testing.T) { latency(t, brokers, alone) })
	t.Run("replies", func(t *testing.T) { waited(t, brokers, alone) })
	t.Run("dev", func(t *testing.T) {
		if d := startDev(t, filepath.Join(t.TempDir(), ".weir"), anyPorts...); d.ready > 15*time.Second {
			t.Errorf("ready after %v", d.ready)
		}
	})
}
