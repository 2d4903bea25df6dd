package broker

import (
	"crypto/rand"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// askAgain is after how long a client asks again which metrics the broker wants.
const askAgain = time.Hour

// WantNoMetrics keeps a kfake cluster from subscribing to all metrics of every client
// (KIP-714). Nobody reads them, and each client would compress and send them twice a
// minute and once more when it closes.
func WantNoMetrics(cluster *kfake.Cluster) {
	cluster.ControlKey(kmsg.GetTelemetrySubscriptions.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := req.(*kmsg.GetTelemetrySubscriptionsRequest)
		resp := asked.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
		resp.ClientInstanceID = asked.ClientInstanceID
		if resp.ClientInstanceID == ([16]byte{}) {
			_, _ = rand.Read(resp.ClientInstanceID[:]) // it does not fail
		}
		resp.PushIntervalMillis = int32(askAgain.Milliseconds())
		return resp, nil, true
	})
}
