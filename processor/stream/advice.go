package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	advicePatience = 3 * time.Second // for the topic's end at the start: then it is followed from behind
	adviceTurn     = time.Second     // of one wait for what is new
)

// Advice follows the one partition of a topic that advises and decides nothing:
// where it is missing or cannot be read, that is logged, and what is known stays.
// Its functions are called by the goroutine that is in Open, then in Run.
type Advice struct {
	Topic  string
	What   string // the records are, in log lines: "the reports"
	Logger *slog.Logger
	// Take is told of each record, in order; markers of transactions are left out.
	Take func(r *kgo.Record)
	// Turned is called after what came was taken, and at least once a second.
	Turned func()

	cl     *kgo.Client
	next   int64
	failed FetchErrors
}

// Open reads the topic up to its end as of now; Run keeps on. When that cannot be
// done soon it says so in the log, and Run goes on. opts reach the brokers; they
// must name no group. The error is one of opts.
func (a *Advice) Open(ctx context.Context, opts ...kgo.Opt) error {
	cl, err := kgo.NewClient(append(opts,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{a.Topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // a topic that was made anew is read anew
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		Bounded(), kgo.FetchMaxWait(time.Second), kgo.KeepRetryableFetchErrors(),
		kgo.KeepControlRecords(), // the last record may be a transaction's marker: to see that it was reached
	)...)
	if err != nil {
		return fmt.Errorf("watch %s: %w", a.Topic, err)
	}
	a.cl = cl
	ctx, cancel := context.WithTimeout(ctx, advicePatience)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, a.Topic)
	if err == nil {
		err = ends.Error()
	}
	end, _ := ends.Lookup(a.Topic, 0)
	for err == nil && a.next < end.Offset {
		before := a.next
		a.poll(ctx)
		if err = ctx.Err(); err == nil && a.next == before {
			break // what is left may have been compacted away
		}
	}
	if err != nil {
		a.Logger.Warn("not known yet: "+a.What, "topic", a.Topic, "error", err)
	}
	return nil
}

// Run follows the topic until ctx ends.
func (a *Advice) Run(ctx context.Context) error {
	defer a.cl.Close()
	for ctx.Err() == nil {
		a.poll(ctx)
	}
	return nil
}

// Close ends what Run was never called for.
func (a *Advice) Close() { a.cl.Close() }

// poll takes what is there, or waits a moment for it.
func (a *Advice) poll(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, adviceTurn)
	defer cancel()
	fetches := a.cl.PollFetches(waiting)
	if ctx.Err() != nil {
		return
	}
	failed := false
	fetches.EachError(func(_ string, p int32, err error) {
		if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil {
			return // nothing new
		}
		if at, _ := Oversized(err); PassOversized(a.cl, err) {
			a.next = max(a.next, at.NextOffset)
			a.Logger.Error("a batch is skipped: it decompresses to more than the bound", "topic", a.Topic, "error", err)
			return
		}
		failed = true
		a.failed.Warn(a.Logger, "reading "+a.What+" failed; what is known stays", a.Topic, p, err)
	})
	fetches.EachRecord(func(r *kgo.Record) {
		a.next = r.Offset + 1
		if !r.Attrs.IsControl() {
			a.Take(r)
		}
	})
	a.Turned()
	if failed {
		<-waiting.Done() // no faster than the clock
	}
}
