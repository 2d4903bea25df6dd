//go:build chaos

package stream_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/local/localtest"
	"github.com/weirhq/weir/processor/stream"
)

// ticks is a stage that writes one record a transaction, as fast as it can,
// until it has committed so many.
type ticks struct {
	left  int
	fails int
	stop  func()
}

func (s *ticks) Assign(context.Context, map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	return nil, nil
}
func (s *ticks) Revoke()             {}
func (s *ticks) Wait() time.Duration { return 0 }
func (s *ticks) Step(_ context.Context, tx *stream.Tx, _ []*kgo.Record) error {
	tx.Produce(&kgo.Record{Topic: "epochs.out", Value: []byte("x")})
	tx.Stand(stream.Partition{Topic: "epochs.in"}, stream.Position{Offset: 0})
	return nil
}

func (s *ticks) Ended(committed bool) {
	if !committed {
		s.fails++
		return
	}
	if s.left--; s.left == 0 {
		s.stop()
	}
}

// TestApachePastTheLastEpoch runs one transactional id past 32,767
// transactions, where its producer's epoch ends and a new producer id begins.
// It takes minutes, so it belongs to make chaos.
func TestApachePastTheLastEpoch(t *testing.T) {
	brokers := localtest.ForTest(t)
	cl := client(t, brokers)
	if _, err := kadm.NewClient(cl).CreateTopics(t.Context(), 1, 1, nil, "epochs.in", "epochs.out"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	const n = 33_500
	s := &ticks{left: n, stop: cancel}
	if err := stream.Run(ctx, stream.Config{Brokers: brokers, Group: "epochs", Topics: []string{"epochs.in"}, TransactionalID: "epochs", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, nil,
		func(stream.Fetching) stream.Stage { return s }); err != nil {
		t.Fatal(err)
	}
	if s.left > 0 {
		t.Fatalf("%d of %d transactions did not commit", s.left, n)
	}
	t.Logf("EPOCHS %d transactions committed, %d aborted", n, s.fails)
}
