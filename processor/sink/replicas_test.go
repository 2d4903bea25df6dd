//go:build e2e

package sink_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/deploy/embedded/engine/replicatest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// Three replicas behind a load balancer that loses one in ten answers; the sink, a
// replica or ZooKeeper is killed again and again. Every row is there once, in every
// table, on every replica.
func TestReplicasAtLength(t *testing.T) {
	k := kills{events: 30_000, times: 6, rows: 1000, perTx: 1000, patience: time.Minute}
	if os.Getenv("WEIR_CHAOS") != "" {
		k = kills{events: 500_000, times: 24, rows: 5000, perTx: 5000, patience: 3 * time.Minute}
	}
	replicas := replicatest.StartReplicas(t, 3)
	replicas.StartAll()
	seeds := startKafka(t)
	url := replicas.Balancer(10) + "/weir"
	if err := warehouse.MigrateOn(t.Context(), url, replicatest.Cluster); err != nil {
		t.Fatal(err)
	}
	o := order{Brokers: seeds, URL: url, Cluster: replicatest.Cluster, Rows: k.rows, Every: 20 * time.Millisecond, Instance: "one", Try: 20 * time.Second, Backoff: time.Second}
	conn := open(t, url)
	produced := make(chan error, 1)
	go func() { produced <- produce(t.Context(), seeds, 0, k.events, k.perTx, true) }()
	p := startSink(t, o)
	began := time.Now()
	for i := range k.times {
		until(t, k.patience, "rows arrive", func() bool { return there(t, conn) > k.events*i/(k.times+1) })
		time.Sleep(rand.N(60 * time.Millisecond)) // the moment at random; nothing waits for it
		what := []string{"sink", "replica", "zookeeper"}[i%3]
		switch what {
		case "sink":
			p.Kill()
			<-p.Done()
			p = startSink(t, o)
		case "replica":
			n := rand.N(3)
			replicas.Kill(n)
			// The two others are most of three: rows arrive without it.
			before := there(t, conn)
			until(t, k.patience, "rows arrive on the others", func() bool { return there(t, conn) > before+2*k.rows })
			replicas.Start(n)
		case "zookeeper":
			replicas.Keeper.Kill()
			if err := replicas.Keeper.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%v: killed: %s, with %d of %d rows there", time.Since(began).Round(time.Millisecond), what, there(t, conn), k.events)
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	conns := loaded(t, replicas, 3, seeds, k.events, 3*k.patience)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A replica that is killed may have noted a part that it never wrote, and ClickHouse
	// takes the block for a known one when it comes again. Then a sink says so, and a
	// repair mends it on all of them.
	var lost []string
	for i, conn := range conns {
		for _, d := range counted(t, conn, k.events) {
			lost = append(lost, fmt.Sprintf("replica %d: %v", i+1, d))
			if d.got > d.want {
				t.Errorf("replica %d: %v", i+1, d)
			}
		}
		for _, d := range disagree(t, conn) {
			lost = append(lost, fmt.Sprintf("replica %d: %s", i+1, d))
		}
	}
	t.Logf("%v: %d events, %d kills; lost: %q", time.Since(began).Round(time.Millisecond), k.events, k.times, lost)
	cfg := sink.Config{Brokers: seeds, URL: url, Cluster: replicatest.Cluster, HashKey: []byte("test"), Rows: k.rows, Every: 20 * time.Millisecond, Check: 100 * time.Millisecond, Backoff: time.Second, Logger: logger(t)}
	if len(lost) > 0 {
		seen(t, cfg)
	}
	mended(t, cfg, conns, k.events)
}

// seen waits until a sink says that rows are missing.
func seen(t *testing.T, cfg sink.Config) {
	t.Helper()
	reg := prometheus.NewRegistry()
	cfg.Metrics = reg
	stop := run(t, cfg)
	defer stop()
	until(t, 5*time.Minute, "a sink sees the difference", func() bool { v, _ := metric(t, reg, "weir_sink_difference"); return v > 0 })
}

// mended repairs, and checks that each replica has the first n events once then.
func mended(t *testing.T, cfg sink.Config, conns []driver.Conn, n int) {
	t.Helper()
	repaired(t, cfg, n)
	for i, conn := range conns {
		synced(t, conn)
		for _, d := range counted(t, conn, n) {
			t.Errorf("replica %d after the repair: %v", i+1, d)
		}
		for _, d := range disagree(t, conn) {
			t.Errorf("replica %d after the repair: %s", i+1, d)
		}
	}
}

// ZooKeeper is away in the middle of inserts, for longer than a plan lives: tables are
// read-only, the sink says so, and all that broke off is in every table once when it is
// back.
func TestKeeperAwayAtLength(t *testing.T) {
	const n = 10_000
	replicas := replicatest.StartReplicas(t, 2)
	replicas.StartAll()
	seeds := startKafka(t)
	url := replicas.Balancer(0) + "/weir"
	var (
		said reports
		log  book
		reg  = prometheus.NewRegistry()
	)
	run(t, sink.Config{Brokers: seeds, URL: url, Cluster: replicatest.Cluster, Rows: 1000, Every: 10 * time.Millisecond, Try: 20 * time.Second, Backoff: time.Second, PlanLife: 10 * time.Second,
		HashKey: []byte("test"), Report: said.take, Metrics: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.b.String())
		}
	})
	produced := make(chan error, 1)
	go func() { produced <- produce(t.Context(), seeds, 0, n, 500, true) }()
	until(t, time.Minute, "rows arrive", func() bool { return confirmed(t, reg) > n/10 })
	replicas.Keeper.Kill()
	until(t, time.Minute, "it says why", func() bool {
		return strings.Contains(said.last().Failing, "lost Keeper") || strings.Contains(said.last().Failing, "replicas cannot agree")
	})
	t.Logf("without ZooKeeper it says: %s", said.last().Failing)
	until(t, time.Minute, "a plan is over", func() bool { return log.has("phase=renewing") })
	if err := replicas.Keeper.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	onAll(t, replicas, 2, seeds, n, 3*time.Minute)
	until(t, 10*time.Second, "it says that it is well", func() bool { return said.last().Failing == "" })
	if !log.has("is made once more") {
		t.Error("no plan was made once more: what broke off was not seen to be made whole")
	}
}

// ZooKeeper is away when the sink starts for the first time: it says what it waits for,
// is not ready, and goes on by itself.
func TestKeeperAwayAtTheStartAtLength(t *testing.T) {
	const n = 1000
	replicas := replicatest.StartReplicas(t, 2)
	replicas.StartAll()
	replicas.Keeper.Kill()
	seeds := startKafka(t)
	var (
		said reports
		log  book
		reg  = prometheus.NewRegistry()
	)
	run(t, sink.Config{Brokers: seeds, URL: replicas.Balancer(0) + "/weir", Cluster: replicatest.Cluster, Backoff: time.Second,
		HashKey: []byte("test"), Report: said.take, Metrics: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.b.String())
		}
	})
	if err := produce(t.Context(), seeds, 0, n, 500, false); err != nil {
		t.Fatal(err)
	}
	until(t, 2*time.Minute, "it says that it waits", func() bool {
		return strings.Contains(said.last().Failing, "for which Keeper and every replica must answer")
	})
	t.Logf("without ZooKeeper it says: %s", said.last().Failing)
	if shown(t, reg, "weir_sink_ready") != 0 {
		t.Error("it says that it is ready")
	}
	if err := replicas.Keeper.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	onAll(t, replicas, 2, seeds, n, 5*time.Minute)
	if shown(t, reg, "weir_sink_ready") != 1 {
		t.Error("it does not say that it is ready")
	}
}

// onAll waits until all is loaded, and checks that each replica has it once.
func onAll(t *testing.T, replicas *replicatest.Replicas, count int, seeds []string, events int, patience time.Duration) {
	t.Helper()
	for i, conn := range loaded(t, replicas, count, seeds, events, patience) {
		t.Logf("replica %d:", i+1)
		holds(t, conn, events)
		agrees(t, conn)
	}
}

// synced waits until a replica has what the others have.
func synced(t *testing.T, conn driver.Conn) {
	t.Helper()
	for _, table := range schema.Filled {
		if err := conn.Exec(t.Context(), "SYSTEM SYNC REPLICA "+table+" LIGHTWEIGHT"); err != nil {
			t.Fatal(err)
		}
	}
}

// loaded waits until all is loaded and each replica has what the others have.
func loaded(t *testing.T, replicas *replicatest.Replicas, count int, seeds []string, events int, patience time.Duration) []driver.Conn {
	t.Helper()
	conns := make([]driver.Conn, count)
	for i := range conns {
		conns[i] = open(t, replicas.URL(i)+"/weir")
	}
	idle, last := 0, -1
	until(t, patience, "all is loaded, and the sink is idle", func() bool {
		now := there(t, conns[0])
		if idle++; now != last || !committed(t, seeds) {
			last, idle = now, 0
		}
		return idle > 20 && now >= events
	})
	for _, conn := range conns {
		synced(t, conn)
	}
	return conns
}

// What would lose or double rows on a cluster is named at the start.
func TestReplicasAreChecked(t *testing.T) {
	replicas := replicatest.StartReplicas(t, 1)
	replicas.StartAll()
	url := replicas.URL(0) + "/weir"
	if err := warehouse.MigrateOn(t.Context(), url, replicatest.Cluster); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	if err := warehouse.CheckOn(t.Context(), conn, replicatest.Cluster); err != nil {
		t.Fatalf("as Weir makes it: %v", err)
	}
	if err := warehouse.CheckOn(t.Context(), conn, "{cluster}"); err != nil {
		t.Fatalf("by its macro: %v", err)
	}
	for _, tt := range []struct{ name, breaks, want, mends string }{
		{"few blocks", "ALTER TABLE decisions MODIFY SETTING replicated_deduplication_window = 100", "table decisions remembers the last 100 blocks", "ALTER TABLE decisions MODIFY SETTING replicated_deduplication_window = 10000"},
		{"not for long", "ALTER TABLE status_by_minute_state MODIFY SETTING replicated_deduplication_window_seconds = 60", "table status_by_minute_state remembers blocks for 60 s", "ALTER TABLE status_by_minute_state MODIFY SETTING replicated_deduplication_window_seconds = 604800"},
		{"a column taken away", "ALTER TABLE decisions DROP COLUMN marker", "table decisions has no column marker", "ALTER TABLE decisions ADD COLUMN `marker` String"},
		{"a table of one node in a view", "CREATE TABLE mine (at DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY at SETTINGS non_replicated_deduplication_window = 10000", "", ""},
		{"and its view", "CREATE MATERIALIZED VIEW mine_view TO mine AS SELECT at FROM status_log_2", "table mine is on this node only", "DROP VIEW mine_view"},
	} {
		if err := conn.Exec(t.Context(), tt.breaks); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		err := warehouse.CheckOn(t.Context(), conn, replicatest.Cluster)
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, warehouse.ErrUnfit) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if tt.mends == "" {
			continue
		}
		if err := conn.Exec(t.Context(), tt.mends); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if err := warehouse.CheckOn(t.Context(), conn, replicatest.Cluster); err != nil {
			t.Errorf("%s, mended: %v", tt.name, err)
		}
	}
}
