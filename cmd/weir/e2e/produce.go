package e2e

import (
	"context"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Partitioners of other languages' clients.
var (
	// Murmur2 is Java's and kgo's.
	Murmur2 = kgo.StickyKeyPartitioner(nil)
	// CRC32 is librdkafka's consistent_random: Python, C#, Ruby, PHP, kcat.
	CRC32 = kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		next := 0
		return func(r *kgo.Record, n int) int {
			if len(r.Key) == 0 {
				next++
				return next % n
			}
			return int(crc32.ChecksumIEEE(r.Key) % uint32(n))
		}
	})
	// FNV1a is Sarama's hash partitioner: the 32-bit hash as a signed number, its
	// remainder without the sign; a random partition where there is no key.
	FNV1a = kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int {
			if len(r.Key) == 0 {
				return rand.IntN(n)
			}
			h := fnv.New32a()
			_, _ = h.Write(r.Key) // never fails
			at := int32(h.Sum32()) % int32(n)
			return int(max(at, -at))
		}
	})
)

// Producer writes requests as a service would: idempotent, acks=all, with a
// client of its own.
type Producer struct {
	cl    *kgo.Client
	topic string

	mu    sync.Mutex
	acked []Offset
	keyed map[string][]Offset // by idempotency key
	err   error
}

// NewProducer connects a producer with a partitioner.
func NewProducer(brokers []string, names topics.Names, p kgo.Partitioner) (*Producer, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(p), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	return &Producer{cl: cl, topic: names.Requests(), keyed: make(map[string][]Offset)}, nil
}

// Send writes a request; Close waits for its acknowledgement.
func (p *Producer) Send(ctx context.Context, q *schemas.Request, key string) {
	r := &kgo.Record{Value: schemas.RequestJSON(q)}
	if key != "" {
		r.Key = []byte(key)
	}
	p.produce(ctx, r, q.IdempotencyKey)
}

// Record writes any record to weir.requests.
func (p *Producer) Record(ctx context.Context, r *kgo.Record) { p.produce(ctx, r, "") }

func (p *Producer) produce(ctx context.Context, r *kgo.Record, idempotencyKey string) {
	r.Topic = p.topic
	p.cl.Produce(ctx, r, func(r *kgo.Record, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			p.err = fmt.Errorf("produce: %w", err)
			return
		}
		at := Offset{r.Partition, r.Offset}
		p.acked = append(p.acked, at)
		if idempotencyKey != "" {
			p.keyed[idempotencyKey] = append(p.keyed[idempotencyKey], at)
		}
	})
}

// Close waits for all acknowledgements and returns where the requests stand.
func (p *Producer) Close(ctx context.Context) ([]Offset, error) {
	err := p.cl.Flush(ctx)
	p.cl.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		err = p.err
	}
	return p.acked, err
}

// Acked returns how many records a broker has acknowledged so far.
func (p *Producer) Acked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// Keyed returns where the requests with each idempotency key stand, after Close.
func (p *Producer) Keyed() map[string][]Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keyed
}

// Bursts calls send for each of n requests at a pace: half of them evenly, half in
// bursts just before and just after the moments, five seconds apart, at which windows
// that align with a clock begin. It breaks off with ctx's cause.
func Bursts(ctx context.Context, n, perSecond int, send func(i int)) error {
	const every = 5 * time.Second
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	edges := func(at time.Time) float64 { // half an edge each: 60 ms before one, and 40 ms after
		past := func(d time.Duration) int64 {
			return at.Add(d).UnixNano()/int64(every) - began.UnixNano()/int64(every)
		}
		return float64(past(60*time.Millisecond)+past(-40*time.Millisecond)) / 2
	}
	for sent := 0; sent < n; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		now := time.Now()
		due := min(n, int(float64(perSecond)/2*(now.Sub(began).Seconds()+every.Seconds()*edges(now))))
		for ; sent < due; sent++ {
			send(sent)
		}
	}
	return nil
}
