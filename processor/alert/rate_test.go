//go:build e2e

package alert

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/local/localtest"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestRate reads a backlog in which one record of a hundred is told of, on Apache
// Kafka, and says how many records a second that is.
func TestRate(t *testing.T) {
	const total, parts = 1_000_000, 8
	brokers := localtest.ForTest(t)
	names := topics.Names{Prefix: fmt.Sprintf("rate-%d.", time.Now().UnixMilli())}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for topic, n := range map[string]int32{names.Status(): parts, names.DLQ(): 1, names.Alerts(): 1} {
		if _, err := adm.CreateTopic(t.Context(), n, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	client := outbound.New(outbound.Config{})
	defer client.Close()
	policy := &schemas.Revision{Revision: 1, Policy: schemas.Policy{Alerts: []schemas.Alert{{Name: "a", When: []string{schemas.AlertLimitRefused}, To: map[string]any{"type": "email"}}}}}
	e := &election{group: cl, metrics: newMetrics(nil), cfg: Config{
		Brokers: brokers, Names: names, Policy: func() *schemas.Revision { return policy }, Health: func() route.Health { return nil },
		Reports: func() map[string]schemas.Report { return nil }, Sender: &Sender{Client: client}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}}
	first := &term{election: e} // the first ever: it writes down where it begins
	if err := first.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.close()
	refused := event(1, schemas.StatusLimited)
	refused.Limit, refused.Decision.Evidence = "verify", evidence("verify")
	no, yes := schemas.AppendEvent(nil, event(1, schemas.StatusQueued)), schemas.AppendEvent(nil, refused)
	for i := range total {
		v := no
		if i%100 == 0 {
			v = yes
		}
		cl.Produce(t.Context(), &kgo.Record{Topic: names.Status(), Partition: int32(i % parts), Value: v}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- e.term(ctx) }()
	for value(t, e.metrics.read) < total {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	took := time.Since(began)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if held := value(t, e.metrics.held.WithLabelValues("a")); held != total/100 {
		t.Errorf("%v refusals are counted, want %d", held, total/100)
	}
	t.Logf("%d records of %d bytes in %v, the start included: %.0f a second", total, len(no), took, total/took.Seconds())
}
