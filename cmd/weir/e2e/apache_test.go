//go:build e2e

package e2e

import (
	"os"
	"testing"

	"github.com/weirhq/weir/deploy/local/localtest"
)

func TestApacheKafka(t *testing.T) {
	brokers := localtest.ForTest(t)
	suite(t, brokers, full)
	if os.Getenv("WEIR_CHAOS") == "" {
		return
	}
	for range 8 { // each with a seed of its own
		t.Run("exact again", func(t *testing.T) { exact(t, brokers, full) })
	}
}
