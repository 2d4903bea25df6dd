package alert

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestElectingSaysWhatStaysNowAndThen: the group's topic is fetched for ever, and fails as
// often.
func TestElectingSaysWhatStaysNowAndThen(t *testing.T) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Alerts())) // no other: there will be no term
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	log := new(streamtest.Log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{
			Brokers: c.ListenAddrs(), Names: names, Logger: log.Logger(),
			Policy: func() *schemas.Revision { return new(schemas.Revision) }, Health: func() route.Health { return nil },
			Reports: func() map[string]schemas.Report { return nil },
		})
	}()
	streamtest.Spares(t, c, log, "electing the alerter failed")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
