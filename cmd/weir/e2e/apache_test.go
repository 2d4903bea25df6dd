//go:build e2e

package e2e

import (
	"testing"

	"github.com/weirhq/weir/deploy/local/localtest"
)

func TestApacheKafka(t *testing.T) {
	suite(t, localtest.ForTest(t), full)
}
