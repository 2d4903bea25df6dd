package callback

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
)

// A status that is appended while the stage asks where to begin is not left out: kadm asks
// for the first young record and then, where there is none, for the end.
func TestBeginningOfWhatIsAppendedMeanwhile(t *testing.T) {
	const topic = "weir.status"
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var asked atomic.Bool // for what is young
	var wrote atomic.Bool
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		of := r.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp
		if of >= 0 {
			asked.Store(true)
		} else if asked.Load() && !wrote.Swap(true) {
			c.SleepControl(func() {
				if err := cl.ProduceSync(t.Context(), kgo.StringRecord("queued")).FirstErr(); err != nil {
					t.Error(err)
				}
			})
		}
		return nil, nil, false
	})
	adm, err := kadm.NewOptClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer adm.Close()
	s := &stage{runner: &runner{adm: adm, cfg: &Config{Now: time.Now}}}
	at, err := s.beginning(t.Context(), stream.Partition{Topic: topic}, firstReach)
	if err != nil || at != 0 || !wrote.Load() {
		t.Errorf("it begins at %d, %v (written meanwhile: %v)", at, err, wrote.Load())
	}
}
