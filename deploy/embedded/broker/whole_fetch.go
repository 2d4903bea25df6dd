package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AnswerWholePartitions keeps a kfake cluster from ending a fetch's answer in the
// middle of a partition because all of it is large enough (max_bytes). It then
// leaves out which of that partition's transactions were aborted, so that readers
// of committed records take theirs for committed. What bounds an answer instead is
// the bound of each partition.
func AnswerWholePartitions(cluster *kfake.Cluster) {
	cluster.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req.(*kmsg.FetchRequest).MaxBytes = math.MaxInt32
		return nil, nil, false
	})
}
