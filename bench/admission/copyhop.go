package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/topics"
)

// samples are records that a real admission wrote.
type samples struct {
	kinds []*kind
	meta  []byte // a partition's meta record
}

// kind is one of the records that each request makes.
type kind struct {
	name    string
	topic   func(topics.Names) string
	records []*kgo.Record
}

// mean is the size of key, value and headers.
func (k *kind) mean() float64 {
	n := 0
	for _, r := range k.records {
		n += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			n += len(h.Key) + len(h.Value)
		}
	}
	return float64(n) / float64(max(len(k.records), 1))
}

// sample runs admission on a few requests and keeps what it wrote.
func (b *bench) sample(ctx context.Context) (*samples, error) {
	w, err := b.newWorld(ctx, min(20_000, b.records))
	if err != nil {
		return nil, err
	}
	defer w.Drop()
	if _, err := w.measure(ctx, admission.Group(w.Names), w.admit); err != nil {
		return nil, err
	}
	s := &samples{kinds: []*kind{
		{name: "status", topic: topics.Names.Status},
		{name: "dispatch", topic: func(n topics.Names) string { return n.Dispatch("simulated", topics.QueueNormal) }},
		{name: "ledger", topic: topics.Names.Ledger},
	}}
	for _, k := range s.kinds {
		if err := w.collect(ctx, k, s); err != nil {
			return nil, err
		}
	}
	if len(s.meta) == 0 {
		return nil, fmt.Errorf("admission wrote no meta record")
	}
	return s, nil
}

const kept = 2000 // samples of a kind

func (w *world) collect(ctx context.Context, k *kind, s *samples) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ConsumeTopics(k.topic(w.Names)), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(k.records) < kept {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %d samples, then nothing came", k.topic(w.Names), len(k.records))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			switch {
			case string(r.Key) == "meta":
				s.meta = r.Value
			case strings.Contains(string(r.Value), `"verdict":"marker"`):
			default:
				k.records = append(k.records, r)
			}
		})
	}
	return nil
}

// copyHop measures the bare hop.
func (b *bench) copyHop(ctx context.Context) (figures, error) {
	w, err := b.newWorld(ctx, b.records)
	if err != nil {
		return figures{}, err
	}
	defer w.Drop()
	const group = "copy-hop"
	return w.measure(ctx, w.Names.Requests()+group, func(ctx context.Context) error {
		cfg := w.Stream(group)
		cfg.Group, cfg.Topics = w.Names.Requests()+group, []string{w.Names.Requests(), w.Names.Readmit()}
		return stream.Run(ctx, cfg, nil, func(stream.Fetching) stream.Stage {
			return &hop{w: w, next: make(map[int32]int64)}
		})
	})
}

// hop answers each record with one sample of every kind, in the record's
// partition, and each commit with the meta record of each partition it touched.
type hop struct {
	w       *world
	n       int
	next    map[int32]int64
	touched map[int32]bool
}

func (h *hop) Assign(context.Context, map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	return nil, nil
}
func (h *hop) Revoke()             {}
func (h *hop) Ended(bool)          {}
func (h *hop) Wait() time.Duration { return time.Second }

func (h *hop) Step(_ context.Context, tx *stream.Tx, polled []*kgo.Record) error {
	h.touched = make(map[int32]bool)
	for began := time.Now(); len(polled) > 0; polled = tx.More() {
		for _, r := range polled {
			for i, k := range h.w.samples.kinds {
				s := k.records[h.n%len(k.records)]
				out := &kgo.Record{Topic: k.topic(h.w.Names), Partition: r.Partition, Key: s.Key, Value: s.Value, Headers: s.Headers}
				if i == 1 {
					out.Partition = 0 // the provider has one lane
				}
				tx.Produce(out)
			}
			h.n++
			h.next[r.Partition], h.touched[r.Partition] = r.Offset+1, true
		}
		if time.Since(began) >= 100*time.Millisecond {
			break
		}
	}
	for n := range h.touched {
		tx.Produce(&kgo.Record{Topic: h.w.Names.Ledger(), Partition: n, Key: []byte("meta"), Value: h.w.samples.meta})
		tx.Stand(stream.Partition{Topic: h.w.Names.Requests(), Partition: n}, stream.Position{Offset: h.next[n]})
	}
	return nil
}
