package sink_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/topics"
)

// run runs a sink in this process until the returned function is called.
func run(t *testing.T, cfg sink.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sink.Run(ctx, cfg); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// metric is a figure that the sink shows, and false while it has not begun to.
func metric(t *testing.T, reg *prometheus.Registry, name string) (float64, bool) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
		}
	}
	return 0, false
}

// confirmed is how many records the sink knows to be in ClickHouse.
func confirmed(t *testing.T, reg *prometheus.Registry) int {
	n, _ := metric(t, reg, "weir_status_rows_total")
	return int(n)
}

// shown is a figure of a sink that runs.
func shown(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	v, ok := metric(t, reg, name)
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	return v
}

// ClickHouse is away at the start, comes, is stopped while rows arrive, and comes
// back: nothing is lost, nothing is there twice, and meanwhile no more is held
// than was allowed. (What a server that is killed may lose of its own:
// TestKilledWithItsEngine.)
func TestClickHouseAway(t *testing.T) {
	const n, memory = 10_000, 400 << 10
	seeds := startKafka(t)
	dir, addr := t.TempDir(), childtest.Addr(t)
	reg := prometheus.NewRegistry()
	run(t, sink.Config{Brokers: seeds, URL: "http://" + addr, Rows: 500, Memory: memory, Every: 20 * time.Millisecond,
		Check: 200 * time.Millisecond, Logger: logger(t), Metrics: reg})
	if err := produce(t.Context(), seeds, 0, n/2, 500, true); err != nil {
		t.Fatal(err)
	}
	first := startEngine(t, dir, addr)
	conn := open(t, "http://"+addr)
	count := func() uint64 {
		var v uint64
		if err := conn.QueryRow(t.Context(), "SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')").Scan(&v); err != nil {
			return 0
		}
		return v
	}
	until(t, 20*time.Second, "some rows arrive", func() bool { return count() > n/10 })
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := produce(t.Context(), seeds, n/2, n, 500, true); err != nil {
		t.Fatal(err)
	}
	var most float64
	until(t, 10*time.Second, "inserts fail, and it holds what it may", func() bool {
		most = max(most, shown(t, reg, "weir_sink_held_bytes"))
		return shown(t, reg, "weir_sink_insert_failures_total") > 8 && most >= memory/2
	})
	if allowed := float64(memory + 2000*1000); most > allowed {
		t.Errorf("%.0f bytes were held while ClickHouse was away, want at most %.0f", most, allowed)
	}
	startEngine(t, dir, addr)
	until(t, 40*time.Second, "all rows arrive", func() bool { return count() >= n })
	until(t, 10*time.Second, "all is confirmed", func() bool { return committed(t, seeds) })
	holds(t, conn, n)
	if got := shown(t, reg, "weir_status_rows_total"); got != n {
		t.Errorf("weir_status_rows_total %v, want %d", got, n)
	}
	until(t, 5*time.Second, "no difference", func() bool { v, ok := metric(t, reg, "weir_sink_difference"); return ok && v == 0 })
	// The comparison must be able to see: take a row away, and put one in twice.
	if err := conn.Exec(t.Context(), "DELETE FROM status_events WHERE message_id = 'm-000000777' AND status = 'sent'"); err != nil {
		t.Fatal(err)
	}
	until(t, 10*time.Second, "a missing row is seen", func() bool { return shown(t, reg, "weir_sink_difference") == 1 })
	if err := conn.Exec(t.Context(), "INSERT INTO status_events SELECT * FROM status_events WHERE message_id = 'm-000000778' AND status = 'sent'"); err != nil {
		t.Fatal(err)
	}
	until(t, 10*time.Second, "a double row is seen too", func() bool { return shown(t, reg, "weir_sink_difference") == 2 })
}

// One sink, three, one: partitions go from hand to hand while rows arrive.
func TestRebalances(t *testing.T) {
	const n = 10_000
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t)}
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	count := func() uint64 {
		return ask[uint64](t, conn, "SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')")
	}
	produced := make(chan error, 1)
	go func() { produced <- produce(t.Context(), seeds, 0, n, 250, true) }()
	one := run(t, cfg)
	until(t, 20*time.Second, "rows arrive", func() bool { return count() > n/10 })
	two := run(t, cfg)
	three := run(t, cfg)
	until(t, 20*time.Second, "rows arrive", func() bool { return count() > n/3 })
	one()
	until(t, 20*time.Second, "rows arrive", func() bool { return count() > n/2 })
	two()
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "all rows arrive", func() bool { return count() >= n })
	until(t, 10*time.Second, "all is confirmed", func() bool { return committed(t, seeds) })
	three()
	holds(t, conn, n)
}

// The group's offsets are gone (idle for a week), or an operator set them back:
// what ClickHouse has already is left out.
func TestOffsetsLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(adm *kadm.Client) error
	}{
		{"deleted", func(adm *kadm.Client) error {
			_, err := adm.DeleteGroups(t.Context(), sink.Group(topics.Names{}))
			return err
		}},
		{"set back", func(adm *kadm.Client) error {
			var os kadm.Offsets
			for id := range int32(parts) {
				os.AddOffset(topics.Names{}.Status(), id, 100, -1)
			}
			return adm.CommitAllOffsets(t.Context(), sink.Group(topics.Names{}), os)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const n = 2000
			seeds := startKafka(t)
			url := "http://" + startEngine(t, t.TempDir(), "").Addr()
			cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t)}
			stop := run(t, cfg)
			load := func(from, to int) {
				t.Helper()
				if err := produce(t.Context(), seeds, from, to, 500, false); err != nil {
					t.Fatal(err)
				}
			}
			load(0, n/2)
			conn := open(t, url)
			rows := func() uint64 {
				var v uint64
				_ = conn.QueryRow(t.Context(), "SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')").Scan(&v)
				return v
			}
			until(t, 20*time.Second, "the first half arrives", func() bool { return rows() == n/2 && committed(t, seeds) })
			stop()
			cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if err := tt.lose(kadm.NewClient(cl)); err != nil {
				t.Fatal(err)
			}
			load(n/2, n)
			run(t, cfg)
			until(t, 20*time.Second, "the rest arrives", func() bool { return rows() >= n && committed(t, seeds) })
			holds(t, conn, n)
		})
	}
}

// A record that cannot be decoded stops nothing.
func TestPoisonIsARow(t *testing.T) {
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(topics.Names{}.Status()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, v := range [][]byte{[]byte("{"), nil, []byte(`{"kind":"status","status":"sent","at":"2026-11-21T10:00:00Z","message_id":"ok; DROP TABLE x'\"\\\u0000"}`)} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: v, Timestamp: time.Now().Add(time.Hour)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewRegistry()
	run(t, sink.Config{Brokers: seeds, URL: url, Logger: logger(t), Metrics: reg})
	until(t, 20*time.Second, "three rows", func() bool { return confirmed(t, reg) == 3 })
	if shown(t, reg, "weir_sink_ready") != 1 {
		t.Error("a sink that loads is not ready")
	}
	if by := shown(t, reg, "weir_sink_clock_behind_seconds"); by < 1800 { // of an hour, as the records' times have it
		t.Errorf("its clock is %v s behind", by)
	}
	conn := open(t, url)
	if got := ask[uint64](t, conn, "SELECT count() FROM status_events WHERE kind = 'poison' AND error != ''"); got != 2 {
		t.Errorf("%d poison rows, want 2", got)
	}
	if got := ask[string](t, conn, "SELECT message_id FROM messages"); got != "ok; DROP TABLE x'\"\\\x00" {
		t.Errorf("message %q", got)
	}
}

func TestRefusesAnUnfitTable(t *testing.T) {
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	if err := conn.Exec(t.Context(), "ALTER TABLE decisions MODIFY SETTING non_replicated_deduplication_window = 0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := sink.Run(ctx, sink.Config{Brokers: []string{"127.0.0.1:1"}, URL: url})
	if !errors.Is(err, warehouse.ErrUnfit) || !strings.Contains(err.Error(), "ALTER TABLE decisions MODIFY SETTING non_replicated_deduplication_window = 10000") {
		t.Fatalf("run: %v; want what to run", err)
	}
}
