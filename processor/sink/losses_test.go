package sink_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	schema "github.com/weirhq/weir/schemas/clickhouse"
	"github.com/weirhq/weir/topics"
)

// losses plays one seed: ClickHouse loses what it acknowledged, in ways and an order that the seed
// chooses, while rows arrive. A sink that comes then sees a difference if there is one, and
// a repair makes every table what weir.status says.
func losses(t *testing.T, seed uint64) {
	const stages, perStage = 7, 500
	r := rand.New(rand.NewPCG(seed, 20))
	seeds := startKafka(t)
	root := t.TempDir()
	disk := filepath.Join(root, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	small := syscall.Mount("weir", disk, "tmpfs", 0, "size=256m") == nil
	if small {
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	} else {
		t.Log("NOT RUN: a full disk, since a tmpfs cannot be mounted here")
	}
	dir, addr := filepath.Join(disk, "data"), childtest.Addr(t)
	url := "http://" + addr + "/weir"
	db := startEngine(t, dir, addr)
	t.Cleanup(func() { db.Kill(); <-db.Done() }) // the engine of that moment, before its disk goes
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	o := order{Brokers: seeds, URL: url, Rows: 200, Every: 20 * time.Millisecond, Instance: "one", Backoff: 500 * time.Millisecond}
	p := startSink(t, o)
	kill := func(p *child.Process) { p.Kill(); <-p.Done() }
	// restart starts the engine again, and where it needs an operator for that, makes what is
	// missing then: as docs/clickhouse.md says.
	restart := func() {
		t.Helper()
		var moved []string
		if db, moved = restartEngine(t, dir, addr); len(moved) == 0 {
			return
		}
		t.Logf("seed %d: ClickHouse did not start: the definitions of %q were empty", seed, moved)
		if err := p.Stop(t.Context()); err != nil && !strings.Contains(err.Error(), "killed") {
			t.Fatal(err)
		}
		if err := conn.Exec(t.Context(), "TRUNCATE TABLE IF EXISTS goose_db_version"); err != nil {
			t.Fatal(err)
		}
		p = startSink(t, o)
	}
	loaded := func() { t.Helper(); until(t, time.Minute, "all is loaded", func() bool { return atEnd(t, seeds) }) }
	exec := func(statement string) {
		t.Helper()
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	backup := filepath.Join(root, "backup")
	for i := range stages {
		if err := produce(t.Context(), seeds, i*perStage, (i+1)*perStage, 250, true); err != nil {
			t.Fatal(err)
		}
		faults := []string{"engine killed", "sink killed", "copied", "table dropped"}
		if small {
			faults = append(faults, "disk full")
		}
		if _, err := os.Stat(backup); err == nil {
			faults = append(faults, "copy restored", "copy restored")
		}
		what := faults[r.IntN(len(faults))]
		switch what {
		case "engine killed":
			kill(db)
			restart()
		case "sink killed":
			kill(p)
			p = startSink(t, o)
		case "copied":
			loaded()
			if err := db.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(backup); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			restart()
		case "copy restored":
			loaded()
			kill(db)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
				t.Fatal(err)
			}
			restart()
		case "table dropped":
			table := schema.Filled[r.IntN(len(schema.Filled))]
			what += ": " + table
			loaded()
			kill(p)
			exec("DROP TABLE " + table + " SYNC")
			exec("TRUNCATE TABLE goose_db_version")
			p = startSink(t, o)
			until(t, time.Minute, "the sink has made it again", func() bool {
				var is uint8
				return conn.QueryRow(t.Context(), "EXISTS TABLE "+table).Scan(&is) == nil && is == 1
			})
		case "disk full":
			filler := filepath.Join(disk, "filler")
			f, err := os.Create(filler)
			for err == nil {
				_, err = f.Write(make([]byte, 1<<16))
			}
			f.Close()
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond) // the moment at random; nothing waits for it
			kill(p)                                                   // some of it in memory, perhaps in the middle of an insert
			if r.IntN(2) == 0 {
				kill(db)
				os.Remove(filler)
				restart()
			}
			os.Remove(filler)
			kill(p) // the operator may have started it
			p = startSink(t, o)
		}
		t.Logf("seed %d, stage %d: %s", seed, i, what)
	}
	loaded()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	const n = stages * perStage
	lacks := ""
	for query, want := range map[string]uint64{
		"SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')":               n,
		"SELECT uniqExact(status_partition, status_offset) FROM status_events":                                               n / 5 * 4,
		"SELECT count() FROM decisions WHERE kind = 'status'":                                                                n/5 + n/50,
		"SELECT sum(events) FROM status_by_minute":                                                                           n / 5 * 4,
		"SELECT sum(places) FROM limits_by_minute":                                                                           n / 5,
		"SELECT uniqExact(message_id) FROM messages_by_time":                                                                 n / 5,
		"SELECT uniqExact(message_id) FROM messages_by_recipient WHERE message_id IN (SELECT message_id FROM status_events)": n / 5,
	} {
		if got := ask[uint64](t, conn, query); got != want {
			lacks += fmt.Sprintf("%s: %d, want %d\n", query, got, want)
		}
	}
	reg := prometheus.NewRegistry()
	cfg := sink.Config{Brokers: seeds, URL: url, HashKey: []byte("test"), Rows: 200, Every: 20 * time.Millisecond, Check: 100 * time.Millisecond, Logger: logger(t), Metrics: reg}
	stop := run(t, cfg)
	if lacks != "" {
		t.Logf("seed %d:\n%s", seed, lacks)
		until(t, time.Minute, "a sink sees the difference", func() bool { v, _ := metric(t, reg, "weir_sink_difference"); return v > 0 })
	} else {
		until(t, time.Minute, "a sink runs", func() bool { v, _ := metric(t, reg, "weir_sink_ready"); return v == 1 })
	}
	loaded()
	stop()
	cfg.Metrics = nil
	repaired(t, cfg, n)
}

// atEnd is whether all of the log is confirmed.
func atEnd(t *testing.T, seeds []string) bool {
	t.Helper()
	adm := admin(t, seeds)
	ends, err := adm.ListEndOffsets(t.Context(), topics.Names{}.Status())
	if err != nil {
		return false
	}
	offsets, err := adm.FetchOffsets(t.Context(), sink.Group(topics.Names{}))
	if err != nil || !committed(t, seeds) {
		return false
	}
	for id := range int32(parts) {
		end, _ := ends.Lookup(topics.Names{}.Status(), id)
		if at, ok := offsets.Lookup(topics.Names{}.Status(), id); !ok || at.At < end.Offset {
			return false
		}
	}
	return true
}

func TestLosses(t *testing.T) {
	t.Parallel()
	losses(t, 2) // make chaos runs twenty seeds
}
