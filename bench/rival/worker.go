package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// session is that of every group here, and Weir's.
const session = 10 * time.Second

// topic names of a rival's run, behind its prefix; requests are named as Weir's.
const (
	sentTopic    = "sent"
	refusedTopic = "refused"
)

// record is what a worker writes of a sending or a refusal.
type record struct {
	Way    string `json:"way"`
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	At     int64  `json:"at"` // the answer's
	Slot   int    `json:"slot"`
}

// rivalWorker is a process that sends what its limiter lets through, as people
// write it: poll, work the batch off side by side, commit. It runs every way at
// once, each in a group of its own, so that all meet the same faults.
func rivalWorker(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("worker", flag.ContinueOnError)
	brokers := fs.String("brokers", "", "addresses, separated by commas")
	addr := fs.String("redis", "", "address of Redis")
	prefix := fs.String("prefix", "", "of all topics and groups")
	slot := fs.Int("slot", 0, "the worker's number")
	if err := fs.Parse(args); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: *addr, PoolSize: 4 * parallel}) // its defaults, three retries among them
	defer rdb.Close()
	var all sync.WaitGroup
	errs := make([]error, len(ways))
	for i, w := range ways {
		all.Go(func() {
			c := &consumer{way: w, rdb: rdb, prefix: *prefix, slot: *slot, log: stderr}
			errs[i] = c.run(ctx, strings.Split(*brokers, ","))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

const (
	batch    = 500 // records of a poll: Java's max.poll.records
	parallel = 64  // messages of a batch at once
)

type consumer struct {
	way    way
	rdb    *redis.Client
	cl     *kgo.Client
	prefix string
	slot   int
	log    io.Writer
}

func (c *consumer) run(ctx context.Context, brokers []string) error {
	var err error
	c.cl, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup(c.prefix+c.way.name), kgo.ConsumeTopics(c.prefix+"requests"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(session),
		kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer c.cl.CloseAllowingRebalance()
	for {
		fetches := c.cl.PollRecords(ctx, batch)
		if ctx.Err() != nil {
			return nil
		}
		fetches.EachError(func(topic string, p int32, err error) {
			fmt.Fprintf(c.log, "%s: read %s/%d: %v\n", c.way.name, topic, p, err)
		})
		records := fetches.Records()
		var work errgroup.Group
		work.SetLimit(parallel)
		for _, r := range records {
			work.Go(func() error { return c.handle(ctx, r) })
		}
		err := work.Wait()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.way.name, err)
		}
		if err := c.cl.CommitRecords(ctx, records...); err != nil {
			fmt.Fprintf(c.log, "%s: commit: %v\n", c.way.name, err) // someone else has them now
		}
		c.cl.AllowRebalance()
	}
}

// handle asks, until Redis answers, and then sends or refuses. That it waits for
// Redis is the careful choice: others let everything through meanwhile.
func (c *consumer) handle(ctx context.Context, r *kgo.Record) error {
	var m message
	if err := json.Unmarshal(r.Value, &m); err != nil {
		return err
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	a, err := c.way.ask(ctx, c.rdb, m)
	for ; err != nil; a, err = c.way.ask(ctx, c.rdb, m) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	topic := sentTopic
	if !a.ok {
		topic = refusedTopic
	}
	value, err := json.Marshal(record{c.way.name, m.ID, m.Tenant, a.at, c.slot})
	if err != nil {
		return err
	}
	if err := c.cl.ProduceSync(ctx, &kgo.Record{Topic: c.prefix + topic, Key: []byte(m.ID), Value: value}).FirstErr(); err != nil || !a.ok {
		return err
	}
	answered(ctx)
	return nil
}

// answered waits as long as a provider takes to answer a call that it has received,
// in both systems: 20 to 80 ms.
func answered(ctx context.Context) {
	timer := time.NewTimer(20*time.Millisecond + rand.N(60*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
