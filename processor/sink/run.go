package sink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

const (
	// maxPoll is by how many records the memory allowed may be exceeded.
	maxPoll      = 2_000
	firstBackoff = 200 * time.Millisecond
	commitWithin = 10 * time.Second
)

// errTopicAnew means that weir.status was deleted, and perhaps made again, while it
// was read.
var errTopicAnew = errors.New("the topic was deleted")

// Run loads weir.status until ctx ends, and then returns nil. ClickHouse or
// Kafka being away is waited out. It returns an error only for what waiting does
// not mend: warehouse.ErrUnfit, ErrNewerMetadata, and records that
// the group has read and Kafka has no longer heard of.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	cfg = cfg.withDefaults()
	cfg.Watch.Failing(stage, time.Time{}, "")
	defer cfg.Watch.Gone(stage)
	reporter := newReporter(cfg.Report)
	defer reporter.close()
	metrics := newMetrics(cfg.Metrics) // before ClickHouse answers: that nothing is loaded is to be seen
	conn, err := connect(ctx, cfg, reporter, prepare)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	insert, err := warehouse.NewInserter(cfg.URL)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	defer insert.Close()
	var rows int64
	for {
		s := &sink{
			cfg: cfg, reporter: reporter, insert: insert, conn: conn, metrics: metrics, name: cfg.Names.Status(),
			there: make(map[int32]bool), parts: make(map[int32]*partition), ledger: newLedger(), minutes: newMinutes(), cancels: make(map[*partition]context.CancelFunc),
			paused: make(map[int32]bool), results: make(chan result, cfg.Inserts), checked: make(chan checked, 1),
		}
		s.health.current.Rows = rows
		err = s.run(ctx)
		rows = s.health.current.Rows
		if !errors.Is(err, errTopicAnew) {
			break
		}
		cfg.Logger.Warn("the status topic is not the one that was read: the sink begins anew", "topic", s.name)
	}
	// Who loads nothing is not late.
	last := schemas.SinkReport{Rows: rows}
	if err != nil {
		last.Failing = "the sink has ended: its log says why"
	}
	reporter.say(last)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	return nil
}

// connect waits for ClickHouse, migrates it and checks it. It returns nil and no
// error when ctx ended.
func connect(ctx context.Context, cfg Config, reporter *reporter, prepare func(context.Context, Config, func(step string)) (driver.Conn, error)) (driver.Conn, error) {
	said, at := "", time.Time{}
	for n := 0; ; n++ {
		w := watchWait(cfg.Logger, reporter)
		conn, err := prepare(ctx, cfg, w.begin)
		if w.end() {
			said = "" // it was said what is waited for
		}
		switch {
		case err == nil:
			if n > 0 {
				cfg.Logger.Info("ClickHouse is ready: the sink begins")
			}
			return conn, nil
		case errors.Is(err, warehouse.ErrUnfit):
			reporter.say(schemas.SinkReport{Failing: "ClickHouse cannot keep rows exactly once: the sink's log says why and what to do"})
			return nil, fmt.Errorf("sink: %w", err)
		case ctx.Err() != nil:
			return nil, nil
		}
		wait := cfg.wait(n)
		what := explain(err)
		cfg.Logger.Warn("ClickHouse is not ready; nothing is lost: what is to be loaded stands in Kafka", "for", w.what(), "why", what.why, "do", what.do, "error", err, "retry_in", wait)
		if what.why != said || time.Since(at) >= waitEvery { // a report that is old is taken for one of a sink that is gone
			said, at = what.why, time.Now()
			reporter.say(schemas.SinkReport{Failing: "the sink waits at its start for " + w.what() + ": " + what.why})
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(wait):
		}
	}
}

// prepare says what it waits for before each step: one may take minutes.
func prepare(ctx context.Context, cfg Config, begin func(step string)) (driver.Conn, error) {
	if !cfg.KeepSchema {
		step := stepMigrate
		if cfg.Cluster != "" {
			step += onCluster
		}
		begin(step)
		if err := warehouse.MigrateOn(ctx, cfg.URL, cfg.Cluster); err != nil {
			return nil, err
		}
	}
	begin(stepOpen)
	conn, err := warehouse.Open(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	begin(stepCheck)
	if err := warehouse.CheckOn(ctx, conn, cfg.Cluster); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// It is advice, so that it cannot be asked for is no reason not to begin.
	if tables, err := warehouse.Unsynced(ctx, conn, cfg.Cluster); err == nil && len(tables) > 0 {
		cfg.Logger.Warn("ClickHouse acknowledges rows before they are on disk: a loss of power may take some along, and weir sink repair loads them again",
			"tables", tables, "do", "ALTER TABLE … MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1 for each")
	}
	return conn, nil
}

// wait is how long to wait after n failures before the next try: doubling,
// capped, with jitter so that partitions do not come back together.
func (c Config) wait(n int) time.Duration {
	d := min(firstBackoff<<min(n, 20), c.Backoff)
	return d/2 + rand.N(d/2+1)
}
