package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

const (
	deliveryTimeout = 3 * time.Second // of a record, from its handing over to its acknowledgement
	answerTimeout   = 4 * time.Second // of the caller's wait: the client looks at its own only between requests
	maxInFlight     = 20_000          // records that wait for their acknowledgement
	maxInFlightSize = 64 << 20        // bytes of them
	retryKafka      = 2 * time.Second // what a caller is told to wait
)

// producer writes requests and waits for all in-sync replicas. What it holds
// and how long it waits is bounded.
type producer struct {
	cl     *kgo.Client
	logger *slog.Logger
	away   atomic.Bool // the last record failed: said once, not once a record
}

func newProducer(logger *slog.Logger, opts []kgo.Opt) (*producer, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// At 10,000 requests a second this halves the broker's work, and their p99
		// falls from 29 to 10 ms (bench/ingest -measure half); an idle one pays it.
		kgo.ProducerLinger(time.Millisecond),
		kgo.MaxBufferedRecords(maxInFlight),
		kgo.MaxBufferedBytes(maxInFlightSize),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProduceRequestTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(time.Second),
		kgo.DialTimeout(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 250 * time.Millisecond }),
		kgo.MetadataMinAge(250 * time.Millisecond),
		// A record that may have been written is given up on all the same:
		// its caller has long been told 503, and would not expect it to go out
		// when Kafka is back minutes later. One who repeats uses a key.
		kgo.AllowIdempotentProduceCancellation(),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	return &producer{cl: cl, logger: logger}, nil
}

// produce returns nil when the record is acknowledged, and the problem to
// answer with otherwise, which it is after the given time too: the record may
// still come to be written then.
func (p *producer) produce(ctx context.Context, rec *kgo.Record, within time.Duration) *client.Problem {
	done := make(chan *client.Problem, 1)
	p.send(ctx, rec, func(bad *client.Problem) { done <- bad })
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case bad := <-done:
		return bad
	case <-timer.C:
		return p.problem(rec, context.DeadlineExceeded)
	}
}

// send calls done once, with nil when the record is acknowledged and with the
// problem otherwise. A caller who leaves does not take the record along:
// cancelling one fails all that are behind it.
func (p *producer) send(ctx context.Context, rec *kgo.Record, done func(*client.Problem)) {
	p.cl.TryProduce(context.WithoutCancel(ctx), rec, func(_ *kgo.Record, err error) { done(p.problem(rec, err)) })
}

func (p *producer) problem(rec *kgo.Record, err error) *client.Problem {
	switch {
	case err == nil:
		if p.away.Load() && p.away.CompareAndSwap(true, false) {
			p.logger.Info("Kafka takes requests again")
		}
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return after(overloaded.problem("As many requests wait for Kafka as may."), time.Second)
	}
	if p.away.CompareAndSwap(false, true) {
		p.logger.Warn("Kafka does not take requests", "topic", rec.Topic, "error", err)
	}
	return after(kafkaUnavailable.problem("Kafka did not acknowledge the message in time, and whether it holds it is not known. With an Idempotency-Key it is safe to try again."), retryKafka)
}

// record is the message as it stands in weir.requests.
func (m *message) record(topic string, partitions int32, h http.Header) *kgo.Record {
	rec := &kgo.Record{
		Topic:     topic,
		Key:       []byte(m.to.Key),
		Value:     m.value,
		Partition: schemas.PartitionOf(m.to.Key, partitions),
	}
	if trace := h.Get(schemas.HeaderTraceParent); validTrace(trace) {
		rec.Headers = []kgo.RecordHeader{{Key: schemas.HeaderTraceParent, Value: []byte(trace)}}
	}
	return rec
}

// validTrace reports whether text is a traceparent of W3C Trace Context level
// 1, version 00: 00-<32 hex>-<16 hex>-<2 hex>, ids not all zero. What is not is
// dropped, as the recommendation has it.
func validTrace(text string) bool {
	if len(text) != 55 || text[:3] != "00-" || text[35] != '-' || text[52] != '-' {
		return false
	}
	return lowerHex(text[3:35]) && !zeros(text[3:35]) && lowerHex(text[36:52]) && !zeros(text[36:52]) && lowerHex(text[53:])
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}
