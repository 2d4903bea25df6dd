package admission_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/schemas"
)

// TestBrokersClocksDiffer: one broker's clock is an hour behind the other's. Every
// partition is decided at the time of its own ledger's leader, and the log says once that
// the clocks differ.
func TestBrokersClocksDiffer(t *testing.T) {
	const apart = time.Hour
	w := newWorldOf(t, 2)
	for n := range int32(partitions) {
		if err := w.broker.MoveTopicPartition(w.names.Ledger(), n, n%2); err != nil {
			t.Fatal(err)
		}
	}
	w.broker.ControlKey(kmsg.ListOffsets.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.broker.KeepControl()
		list := req.(*kmsg.ListOffsetsRequest)
		if len(list.Topics) != 1 || list.Topics[0].Topic != w.names.Ledger() || list.Topics[0].Partitions[0].Timestamp != -3 {
			return nil, nil, false
		}
		resp := list.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = w.names.Ledger()
		for _, p := range list.Topics[0].Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition = p.Partition
			if node := w.broker.CurrentNode(); node != p.Partition%2 {
				part.ErrorCode = kerr.NotLeaderForPartition.Code
			} else {
				part.Timestamp = time.Now().Add(-apart * time.Duration(node)).UnixMilli()
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	var said bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&said, nil))
	begun := time.Now()
	stop := w.admit("0")
	for range 3 {
		for n := range int32(partitions) {
			to := recipientOf(n)
			w.request(n, `{"channel":"sms","to":%q,"class":"notice","body":"x"}`, to)
			// One after the other: with only the slow broker's, the machine's clock seems ahead.
			e := w.statuses(1)[0]
			ahead := e.Decision.T.Sub(schemas.MillisOf(time.Now().Add(-apart * time.Duration(n%2))))
			if ahead > 2*time.Second || ahead < -time.Since(begun)-2*time.Second {
				t.Errorf("partition %d decided %v from its leader's clock", n, ahead)
			}
		}
	}
	stop()
	if got := strings.Count(said.String(), "the brokers' clocks differ; "); got != 1 {
		t.Errorf("said %d times:\n%s", got, said.String())
	}
	if strings.Contains(said.String(), "stalled") {
		t.Errorf("stalled:\n%s", said.String())
	}
}

// recipientOf is a number of which this partition is the home.
func recipientOf(n int32) string {
	for i := 0; ; i++ {
		if to := fmt.Sprintf("+861380000%04d", i); schemas.PartitionOf(to, partitions) == n {
			return to
		}
	}
}
