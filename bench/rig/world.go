package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// World is a set of Weir's topics.
type World struct {
	Brokers []string
	Admin   *kadm.Client
	Topics  topics.Config
	Names   topics.Names
	policy  schemas.Policy // in force; not known of one that was there
}

// NewWorld makes topics of their own, so that no run inherits a state, and brings a
// policy into force in them.
func (c *Cluster) NewWorld(ctx context.Context, bench string, partitions int, policyText string) (*World, error) {
	doc, err := schemas.ParsePolicy("bench.yaml", []byte(policyText))
	if err != nil {
		return nil, err
	}
	w := c.World(fmt.Sprintf("%s-%d.", bench, time.Now().UnixNano()), partitions)
	w.policy = doc.Policy
	diff, err := topics.Plan(ctx, c.Admin, w.catalogue())
	if err != nil {
		return nil, err
	}
	if err := topics.Apply(ctx, c.client, diff, nil); err != nil {
		return nil, err
	}
	cl, err := w.Producer()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	watch, stop, err := w.Watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	_, err = watch.Publish(ctx, cl, 0, "bench", doc.Policy)
	return w, err
}

// World is one that is there already, under its prefix.
func (c *Cluster) World(prefix string, partitions int) *World {
	cfg := topics.Config{Prefix: prefix, Partitions: int32(partitions), Replication: 1}
	return &World{Brokers: c.Brokers, Admin: c.Admin, Topics: cfg, Names: cfg.Names()}
}

func (w *World) catalogue() []topics.Spec { return topics.Catalogue(w.Topics, &w.policy) }

// Drop deletes the topics.
func (w *World) Drop() {
	var names []string
	for _, s := range w.catalogue() {
		names = append(names, s.Name)
	}
	_, _ = w.Admin.DeleteTopics(context.Background(), names...) // the next run has others
}

// Watch follows the policy until stop.
func (w *World) Watch(ctx context.Context) (watch *policy.Watcher, stop func(), err error) {
	watch, err = policy.Watch(ctx, w.Names.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(w.Brokers...))
	if err != nil {
		return nil, nil, err
	}
	ctx, stop = context.WithCancel(ctx)
	go watch.Run(ctx) //nolint:errcheck // Publish and who asks the watcher report what Run meets
	return watch, stop, nil
}

// Producer makes a client for large numbers of records, each with its partition.
func (w *World) Producer() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(100_000))
}

// Produce writes n requests, each into the partition that owns its recipient, and
// returns once all are acknowledged.
func (w *World) Produce(ctx context.Context, cl *kgo.Client, n int, request func(i int) schemas.Request) error {
	var failed error
	for i := range n {
		q := request(i)
		cl.Produce(ctx, &kgo.Record{Topic: w.Names.Requests(), Partition: schemas.PartitionOf(q.To, w.Topics.Partitions), Key: []byte(q.To), Value: schemas.RequestJSON(&q)},
			func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) }) // promises of one client run one after another
	}
	return errors.Join(cl.Flush(ctx), failed)
}

// Pad makes a request's value so many bytes long, if it is shorter.
func Pad(q schemas.Request, bytes int) schemas.Request {
	if short := bytes - len(schemas.RequestJSON(&q)); short > 0 {
		q.Body += strings.Repeat("x", short)
	}
	return q
}

// Stream is the settings of a stage, of which name tells one from the others.
func (w *World) Stream(name string) stream.Config {
	return stream.Config{Brokers: w.Brokers, TransactionalID: w.Names.Requests() + name, ClientID: name, BatchBytes: w.Names.BatchBytes}
}

// Admission is admission as weir run runs it.
func (w *World) Admission(name string) admission.Config {
	return admission.Config{
		Stream:     w.Stream(name),
		Read:       stream.ReadConfig{Brokers: w.Brokers},
		Names:      w.Names,
		Partitions: w.Topics.Partitions, DelayPartitions: w.Topics.Partitions, DLQPartitions: w.Topics.Partitions,
	}
}

// Committed is how many requests a group has committed.
func (w *World) Committed(ctx context.Context, group string) (sum int64, err error) {
	offsets, err := w.Admin.FetchOffsets(ctx, group)
	if kerr.IsRetriable(err) {
		return 0, nil // a fresh broker makes its coordinator first
	}
	if err != nil {
		return 0, err
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == w.Names.Requests() && o.At > 0 {
			sum += o.At
		}
	})
	return sum, nil
}
