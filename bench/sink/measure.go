package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
	"github.com/weirhq/weir/topics"
)

// measure is what both ways are measured with.
type measure struct {
	brokers       []string
	names         topics.Names
	addr          string // of the engine
	engine        int    // its process
	events        int
	partitions    int32
	rows, inserts int
	logger        *slog.Logger
}

// result is one way in one run. own is the CPU of this process.
type result struct {
	took, own, engine time.Duration
	rate              float64 // rows a second
}

// pair is one run of both.
type pair struct{ sink, bare result }

var key = []byte("bench")

// sink loads the backlog by sink.Run, as a group that begins anew.
func (m measure) sink(ctx context.Context, database string) (r result, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(m.brokers...))
	if err != nil {
		return r, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for tries := 0; ; tries++ { // a young cluster has no coordinator yet
		_, err := adm.DeleteGroups(ctx, sink.Group(m.names))
		if err == nil {
			break
		}
		if tries == 50 || ctx.Err() != nil {
			return r, err
		}
		time.Sleep(200 * time.Millisecond)
	}
	url := "http://" + m.addr + "/" + database
	if err := warehouse.Migrate(ctx, url); err != nil {
		return r, err
	}
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	clock := m.start()
	go func() {
		ended <- sink.Run(ctx, sink.Config{Brokers: m.brokers, Names: m.names, URL: url, HashKey: key, KeepSchema: true,
			Rows: m.rows, Inserts: m.inserts, Check: time.Hour, Metrics: reg, Logger: m.logger})
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for loaded(reg) < m.events {
		select {
		case err := <-ended:
			return r, cmp.Or(err, errors.New("the sink ended early"))
		case <-tick.C:
		}
	}
	r = clock(m.events)
	cancel(nil)
	return r, errors.Join(<-ended, m.holds(context.WithoutCancel(ctx), url))
}

// loaded is how many records a sink has confirmed.
func loaded(reg *prometheus.Registry) int {
	families, err := reg.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == "weir_status_rows_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}

// bare inserts the same rows: blocks are decoded while the clock stands still,
// and inserted as many at once as the sink inserts.
func (m measure) bare(ctx context.Context, database string) (sum result, err error) {
	url := "http://" + m.addr + "/" + database
	if err := warehouse.Migrate(ctx, url); err != nil {
		return sum, err
	}
	conn, err := warehouse.Open(ctx, url)
	if err != nil {
		return sum, err
	}
	defer conn.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(m.brokers...), kgo.ConsumeTopics(m.names.Status()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return sum, err
	}
	defer cl.Close()
	rows, inserts := cmp.Or(m.rows, 50_000), cmp.Or(m.inserts, 3)
	for done := 0; done < m.events; {
		var blocks [][]any
		var n int
		for len(blocks) < inserts && done+n < m.events {
			b := sink.NewBlock(key)
			b.Reserve(rows)
			for b.Rows() < rows && done+n < m.events {
				fetches := cl.PollRecords(ctx, min(rows-b.Rows(), m.events-done-n))
				if err := fetches.Err(); err != nil {
					return sum, err
				}
				fetches.EachRecord(func(r *kgo.Record) {
					b.Append(sink.Record{Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp), Value: r.Value})
					n++
				})
			}
			blocks = append(blocks, b.Columns())
		}
		clock := m.start()
		var g errgroup.Group
		for _, columns := range blocks {
			g.Go(func() error { return insert(ctx, conn, columns) })
		}
		if err := g.Wait(); err != nil {
			return sum, err
		}
		r := clock(n)
		sum.took, sum.own, sum.engine = sum.took+r.took, sum.own+r.own, sum.engine+r.engine
		done += n
	}
	sum.rate = float64(m.events) / sum.took.Seconds()
	return sum, m.holds(ctx, url)
}

// insert is the loop's body.
func insert(ctx context.Context, conn driver.Conn, columns []any) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	batch, err := conn.PrepareBatch(ctx, schema.StatusLog.Insert())
	if err != nil {
		return err
	}
	for i, c := range columns {
		if err := batch.Column(i).Append(c); err != nil {
			return err
		}
	}
	return batch.Send()
}

// holds checks that every record is a row, once, and drops the database.
func (m measure) holds(ctx context.Context, url string) error {
	conn, err := warehouse.Open(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close()
	var rows int64
	if err := conn.QueryRow(ctx, `SELECT toInt64(uniqExact(status_partition, status_offset)) + (toInt64(count()) - toInt64(uniqExact(status_partition, status_offset))) * 1000000000 FROM (
		SELECT status_partition, status_offset FROM status_events UNION ALL
		SELECT status_partition, status_offset FROM decisions WHERE kind = 'decision')`).Scan(&rows); err != nil {
		return err
	}
	if rows != int64(m.events) {
		return fmt.Errorf("%d rows of %d (a billion for each that is there twice)", rows, m.events)
	}
	return conn.Exec(ctx, "DROP DATABASE "+url[len("http://"+m.addr+"/"):])
}

// start starts a clock; what it returns stops it.
func (m measure) start() func(rows int) result {
	read := func() (own, engine time.Duration) {
		own, _ = rig.CPU(os.Getpid()) // zero where there is no /proc
		engine, _ = rig.CPU(m.engine)
		return own, engine
	}
	began := time.Now()
	own, engine := read()
	return func(rows int) result {
		r := result{took: time.Since(began)}
		o, e := read()
		r.own, r.engine, r.rate = o-own, e-engine, float64(rows)/r.took.Seconds()
		return r
	}
}
