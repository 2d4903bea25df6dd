package alert

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// newTerms returns a broker, and what opens a term on it.
func newTerms(t *testing.T) (*kfake.Cluster, func(slot string) *term) {
	t.Helper()
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Status(), names.DLQ(), names.Alerts()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func(slot string) *term {
		t.Helper()
		group, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(group.Close)
		e := &election{group: group, metrics: newMetrics(nil), cfg: Config{
			Brokers: c.ListenAddrs(), Names: names, Slot: slot, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}}
		one := &term{election: e, written: make(map[string]bool), flying: make(map[string]bool)}
		if err := one.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(one.close)
		return one
	}
}

// TestTheOneBeforeIsFenced: once another has opened, who was the alerter writes
// nothing more, however long it was paused.
func TestTheOneBeforeIsFenced(t *testing.T) {
	_, opened := newTerms(t)
	first := opened("1")
	if err := first.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := opened("2")
	if err := first.save(t.Context()); !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("the one before wrote: %v", err)
	}
	if err := second.save(t.Context()); err != nil {
		t.Errorf("the one that is cannot write: %v", err)
	}
	if was, err := second.load(t.Context()); err != nil || was == nil || was.By != "2" {
		t.Errorf("what was told is of %+v: %v", was, err)
	}
}

// TestEndWhileItSaves: a save that is under way when the process ends is finished. One that fails is
// not followed by another, which the transaction that is still open would refuse.
func TestEndWhileItSaves(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("fails ", fails), func(t *testing.T) { testEndWhileItSaves(t, fails) })
	}
}

func testEndWhileItSaves(t *testing.T, fails bool) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Status(), names.DLQ(), names.Alerts()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, log := streamtest.Client(t, kgo.SeedBrokers(c.ListenAddrs()...)), new(streamtest.Log)
	e := &election{group: cl, metrics: newMetrics(nil), cfg: Config{
		Brokers: c.ListenAddrs(), Names: names, Slot: "1", Logger: log.Logger(), Watch: stream.NewWatch(nil),
		Health: func() route.Health { return nil }, Reports: func() map[string]schemas.Report { return nil },
		Policy: func() *schemas.Revision {
			return &schemas.Revision{Revision: 1, Policy: schemas.Policy{Alerts: []schemas.Alert{{Name: "oncall", When: []string{schemas.AlertDLQRecord}}}}}
		},
	}}
	e.begin(t.Context())
	for !log.Has("this process sends the alerts") {
		time.Sleep(time.Millisecond)
	}
	saving, answer := make(chan struct{}), make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.ProduceRequest)
		if r.TransactionID == nil {
			return nil, nil, false
		}
		c.DropControl()
		c.SleepControl(func() {
			close(saving)
			<-answer
		})
		if !fails {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range r.Topics {
			said := kmsg.NewProduceResponseTopic()
			said.Topic, said.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				one := kmsg.NewProduceResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, kerr.InvalidRecord.Code
				said.Partitions = append(said.Partitions, one)
			}
			resp.Topics = append(resp.Topics, said)
		}
		return resp, nil, true
	})
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: names.DLQ(), Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	<-saving
	ended := make(chan struct{})
	go func() {
		e.end()
		close(ended)
	}()
	select {
	case <-ended: // it did not wait for its save
	case <-time.After(100 * time.Millisecond):
	}
	close(answer)
	<-ended
	was, err := (&term{election: e}).load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := was.State.Alerts["oncall"]; log.Has("already in a transaction") || (a != nil) == fails {
		t.Errorf("the log says that a transaction is open: %v; written is %+v", log.Has("already in a transaction"), a)
	}
}

// TestSaveIsBounded: without a broker a save ends with its time.
func TestSaveIsBounded(t *testing.T) {
	t.Parallel()
	c, opened := newTerms(t)
	one := opened("1")
	c.Close()
	began := time.Now()
	if err := one.save(t.Context()); err == nil || time.Since(began) > saveWithin+time.Minute {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
