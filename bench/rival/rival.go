package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rival/redisserver"
	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/topics"
)

// variant is how Redis keeps what it counts, and whether anything is done to it.
type variant struct {
	name, title string
	args        []string
	calm        bool
}

var variants = []variant{
	{"calm", "no faults at all", nil, true},
	{"rdb", "Redis with snapshots, its default", nil, false},
	{"aof", "Redis with an append-only file, fsync each second", []string{"--appendonly", "yes", "--appendfsync", "everysec"}, false},
}

// partitions is N, of both systems.
const partitions = 8

// grace in favour of the rivals: their pipelines take some milliseconds, and the
// stamp is of one of their commands.
const grace = 10 * time.Millisecond

// rivals runs all ways over one run of traffic and faults, and judges each.
func (b *bench) rivals(ctx context.Context, v variant, seed uint64) ([]outcome, error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "weir-rival-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server, err := redisserver.Start(ctx, b.redis, dir, v.args...)
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	names := topics.Names{Prefix: fmt.Sprintf("rival-%d.", time.Now().UnixMilli())}
	made, err := b.cluster.Admin.CreateTopics(ctx, partitions, 1, nil, names.Requests(), names.Prefix+sentTopic, names.Prefix+refusedTopic)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("make topics: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{store: server, log: b.log, start: func(slot int) (*e2e.Process, error) {
		return e2e.Start(dir, fmt.Sprintf("worker-%d", slot), self, workerCommand, "-brokers", strings.Join(b.cluster.Brokers, ","),
			"-redis", server.Addr(), "-prefix", names.Prefix, "-slot", fmt.Sprint(slot))
	}}
	defer c.killAll()
	if err := c.startAll(); err != nil {
		return nil, err
	}
	requests, err := b.underFaults(ctx, c, names, seed, v.calm)
	if err == nil {
		err = b.caughtUp(ctx, c, names)
	}
	if err != nil {
		return nil, errors.Join(err, kept(dir, c))
	}
	c.killAll()

	sent, refused := make(map[string][]sending), make(map[string][]refusal)
	read := func(topic string, take func(r record)) error {
		return e2e.ReadCommitted(ctx, b.cluster.Brokers, names.Prefix+topic, func(k *kgo.Record) error {
			var r record
			if err := json.Unmarshal(k.Value, &r); err != nil {
				return err
			}
			take(r)
			return nil
		})
	}
	if err := errors.Join(
		read(sentTopic, func(r record) { sent[r.Way] = append(sent[r.Way], sending{r.ID, r.Tenant, [2]int64{r.At, r.At}}) }),
		read(refusedTopic, func(r record) { refused[r.Way] = append(refused[r.Way], refusal{r.ID, r.Tenant, r.At, -1}) }),
	); err != nil {
		return nil, err
	}
	var all []outcome
	for _, w := range ways {
		o := judge(requests, sent[w.name], refused[w.name], grace)
		o.System, o.Seed, o.Seconds = w.name+"/"+v.name, seed, time.Since(began).Seconds()
		all = append(all, o)
	}
	_, err = b.cluster.Admin.DeleteTopics(ctx, names.Requests(), names.Prefix+sentTopic, names.Prefix+refusedTopic)
	return all, err
}

// underFaults produces the traffic of a seed while the crew suffers its faults.
func (b *bench) underFaults(ctx context.Context, c *crew, names topics.Names, seed uint64, calm bool) (made map[string]string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	suffered := make(chan error, 1)
	length := time.Duration(float64(b.requests) / float64(b.perSecond) * float64(time.Second))
	faults := schedule(seed, length)
	if calm {
		faults = nil
	}
	go func() {
		err := c.suffer(ctx, faults)
		if err != nil {
			cancel(err)
		}
		suffered <- err
	}()
	made, err = produce(ctx, b.cluster.Brokers, names, newTraffic(seed), b.requests, b.perSecond)
	if err != nil {
		cancel(err)
	}
	return made, errors.Join(err, <-suffered)
}

// caughtUp waits until every way's group has committed every request.
func (b *bench) caughtUp(ctx context.Context, c *crew, names topics.Names) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 90*time.Second, errors.New("the rivals did not catch up in 90 s"))
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		behind := 0
		for _, w := range ways {
			offsets, err := b.cluster.Admin.FetchOffsets(ctx, names.Prefix+w.name)
			if err != nil && !kerr.IsRetriable(err) {
				return err
			}
			var sum int64
			offsets.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
			if sum < int64(b.requests) {
				behind++
			}
		}
		if behind == 0 {
			return nil
		}
		if err := c.alive(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// kept is what the workers said last, for an error.
func kept(dir string, c *crew) error {
	var all []error
	for _, p := range c.workers {
		if p != nil {
			all = append(all, fmt.Errorf("%s: %s", filepath.Join(dir, p.Name+".log"), p.Tail(5)))
		}
	}
	return errors.Join(all...)
}
