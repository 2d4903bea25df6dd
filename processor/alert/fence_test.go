package alert

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/topics"
)

// TestTheOneBeforeIsFenced: once another has opened, who was the alerter writes
// nothing more, however long it was paused.
func TestTheOneBeforeIsFenced(t *testing.T) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Status(), names.DLQ(), names.Alerts()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	opened := func(slot string) *term {
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
