package receipt_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/schemas"
)

// TestToldIsSafe: the channel gives nil when the brokers have the receipt, and an error
// when they will not.
func TestToldIsSafe(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(receipts, "weir.receipts"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := receipt.NewWriter(cl, receipt.Topic{Name: "weir.receipts", Partitions: receipts}, nil)
	wait := func(safe <-chan error) error {
		select {
		case err := <-safe:
			return err
		case <-time.After(2 * time.Minute):
			return errors.New("nothing was said")
		}
	}
	want := provider.Receipt{Provider: "centre", ProviderMessageID: "m-1", Status: schemas.StatusDelivered}
	if err := wait(w.Told(want)); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("weir.receipts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got provider.Receipt
	for _, r := range reader.PollFetches(ctx).Records() {
		if err := json.Unmarshal(r.Value, &got); err != nil {
			t.Fatal(err)
		}
	}
	if got != want {
		t.Errorf("%+v is in the topic", got)
	}
	cl.Close()
	if err := wait(w.Told(want)); err == nil {
		t.Error("safe, without a client")
	}
}
