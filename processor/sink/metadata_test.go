package sink_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink"
)

// emptyDefinition is how ClickHouse refuses to start where a table's or a view's file is empty.
var emptyDefinition = regexp.MustCompile(`Code: 62\. .*Empty query: Cannot parse definition from metadata file (store/\S+\.sql)\.`)

// restartEngine starts an engine. Where it refuses to start because a definition is empty, it does
// what docs/clickhouse.md says: it moves that file away and starts again. moved are the names of
// what is missing then.
func restartEngine(t *testing.T, dir, addr string) (p *child.Process, moved []string) {
	t.Helper()
	for {
		p, err := engine.Start(t.Context(), engine.Options{Dir: dir, Addr: addr, LibPath: enginetest.Library(t), Log: t.Output()})
		if err == nil {
			t.Cleanup(func() { p.Kill(); <-p.Done() })
			return p, moved
		}
		refused := emptyDefinition.FindStringSubmatch(err.Error())
		if refused == nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "data", refused[1])
		if is, err := os.Stat(file); err != nil || is.Size() != 0 {
			t.Fatalf("ClickHouse says that %s is empty: %v, %v", file, is, err)
		}
		if err := os.Rename(file, filepath.Join(dir, fmt.Sprintf("moved-%d.sql", time.Now().UnixNano()))); err != nil {
			t.Fatal(err)
		}
		moved = append(moved, strings.TrimSuffix(filepath.Base(file), ".sql"))
	}
}

// A disk that is full while a migration runs may leave the definition of a table or a view
// empty, and ClickHouse does not start. After what docs/clickhouse.md says to do, everything is as
// weir.status says.
func TestEmptyDefinition(t *testing.T) {
	const n = 2000
	for _, tt := range []struct {
		object string
		lost   bool // rows go with it
		long   bool // in make chaos only
	}{
		{"status_events", true, true},
		{"decisions", true, false},
		{"status_by_minute_state", true, true},
		{"messages_by_time", false, true}, // its migration fills it from status_events
		{"status_log_2", false, true},
		{"status_log_2_to_messages_by_recipient", false, true},
		{"status_by_minute", false, true},
		{"goose_db_version", false, true},
	} {
		if tt.long && os.Getenv("WEIR_CHAOS") == "" {
			continue
		}
		t.Run(tt.object, func(t *testing.T) {
			t.Parallel()
			seeds := startKafka(t)
			dir := t.TempDir()
			db := startEngine(t, dir, "")
			addr := db.Addr()
			url := "http://" + addr + "/weir"
			reg := prometheus.NewRegistry()
			cfg := sink.Config{Brokers: seeds, URL: url, HashKey: []byte("test"), Rows: 300, Every: 10 * time.Millisecond, Check: 100 * time.Millisecond, Logger: logger(t)}
			stop := run(t, cfg)
			if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
				t.Fatal(err)
			}
			until(t, 20*time.Second, "all is loaded", func() bool { return atEnd(t, seeds) })
			stop()
			if err := db.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			empty(t, filepath.Join(dir, "data", "store"), tt.object+".sql")

			_, moved := restartEngine(t, dir, addr)
			if len(moved) != 1 || moved[0] != tt.object {
				t.Fatalf("ClickHouse started without %q; want that it refuses to, because of %s", moved, tt.object)
			}
			conn := open(t, url)
			if err := conn.Exec(t.Context(), "TRUNCATE TABLE IF EXISTS goose_db_version"); err != nil {
				t.Fatal(err)
			}
			cfg.Metrics = reg
			stop = run(t, cfg)
			if tt.lost {
				until(t, time.Minute, "the sink sees what is lost", func() bool { v, _ := metric(t, reg, "weir_sink_difference"); return v > 0 })
			}
			// What comes from now on must reach every table again.
			if err := produce(t.Context(), seeds, n, n+n/2, 500, true); err != nil {
				t.Fatal(err)
			}
			until(t, time.Minute, "all is loaded", func() bool { return atEnd(t, seeds) })
			stop()
			cfg.Metrics = nil
			if !tt.lost {
				holds(t, conn, n+n/2)
			}
			repaired(t, cfg, n+n/2)
		})
	}
}

// empty makes one file empty, wherever it is.
func empty(t *testing.T, root, name string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			found++
			return os.Truncate(path, 0)
		}
		return err
	})
	if err != nil || found != 1 {
		t.Fatalf("%d files %s: %v", found, name, err)
	}
}
