//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/local/localtest"
)

var full = scale{passing: 0.7, requests: 100_000, recipients: 10_000, perSecond: 2_500, kills: 5, pause: true, within: 20 * time.Minute, messages: 300}

func TestApacheKafka(t *testing.T) {
	brokers := localtest.ForTest(t)
	suite(t, brokers, full)
}

func TestApacheSinkScaled(t *testing.T) {
	t.Parallel()
	sinkScaled(t, localtest.ForTest(t), 300_000)
}

func TestApacheReceipts(t *testing.T) {
	t.Parallel()
	manyReceipts(t, localtest.ForTest(t), 2_000)
}

func TestApacheCallbacks(t *testing.T) {
	t.Parallel()
	callbacksOverKills(t, localtest.ForTest(t), 150, 2)
}

func TestApacheAlerterPaused(t *testing.T) {
	t.Parallel()
	alertsOverPauses(t, localtest.ForTest(t), 2)
}

func TestApacheQuietForLong(t *testing.T) {
	t.Parallel()
	quietForLong(t, localtest.ForTest(t))
}

func TestApacheOrders(t *testing.T) {
	t.Parallel()
	beginsIn(t, localtest.ForTest(t), orders["admission last"])
}
