package sink_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

func still(int64, int64) {}

// repaired repairs, and checks that then nothing differs for repair, for a sink, and for an
// independent count of the first n events.
func repaired(t *testing.T, cfg sink.Config, n int) {
	t.Helper()
	say := func(line string) { t.Log(line) }
	until(t, time.Minute, "no sink is a member of the group", func() bool {
		groups, err := admin(t, cfg.Brokers).DescribeGroups(t.Context(), sink.Group(cfg.Names))
		return err == nil && len(groups[sink.Group(cfg.Names)].Members) == 0
	})
	var done, total int64
	left, err := sink.Repair(t.Context(), cfg, true, say, func(now, of int64) {
		if now != done+1 || of < total || now > of {
			t.Errorf("progress: %d of %d, then %d of %d", done, total, now, of)
		}
		done, total = now, of
	})
	if err != nil || left != 0 {
		t.Fatalf("repair: %d left, %v", left, err)
	}
	if done == 0 || done != total {
		t.Errorf("at the end %d of %d comparisons were made", done, total)
	}
	if left, err := sink.Repair(t.Context(), cfg, false, say, still); err != nil || left != 0 {
		t.Fatalf("after a repair: %d left, %v", left, err)
	}
	conn := open(t, cfg.URL)
	holds(t, conn, n)
	agrees(t, conn)
	if got := ask[uint64](t, conn, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE '%repair%'"); got != 0 {
		t.Errorf("repair left %d tables", got)
	}
	minutes := []int64{}
	for at := int64(began) / 60_000 * 60; at <= int64(began)/1000+int64(n/5)/1000+60; at += 60 {
		minutes = append(minutes, at)
	}
	if found, err := warehouse.Alike(t.Context(), conn, cfg.Cluster, minutes); err != nil || len(found) > 0 {
		t.Errorf("a sink finds %+v, %v", found, err)
	}
}

// Where nothing says what was loaded, nothing was compared, and that is no good answer.
func TestRepairWithoutAnAccount(t *testing.T) {
	t.Parallel()
	seeds := startKafka(t)
	cfg := sink.Config{Brokers: seeds, URL: "http://" + startEngine(t, t.TempDir(), "").Addr(), Every: 10 * time.Millisecond, Logger: logger(t)}
	stop := run(t, cfg)
	until(t, 20*time.Second, "the tables are there", func() bool {
		left, err := sink.Repair(t.Context(), cfg, false, func(line string) { t.Log(line) }, still)
		if err == nil {
			t.Fatalf("%d left and no error: nothing was compared", left)
		}
		return errors.Is(err, sink.ErrNoAccount)
	})
	stop()
	if _, err := sink.Repair(t.Context(), cfg, false, func(line string) { t.Log(line) }, still); !errors.Is(err, sink.ErrNoAccount) {
		t.Errorf("after the sink has ended: %v", err)
	}
}

// Whatever was lost or doubled, a repair makes every table what weir.status says, and what is
// whole stays as it is. Each case begins with the tables that the one before it repaired.
func TestRepair(t *testing.T) {
	const n = 2000
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t)}
	stop := run(t, cfg)
	if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	until(t, 20*time.Second, "all is loaded", func() bool { return there(t, conn) == n && committed(t, seeds) })
	if _, err := sink.Repair(t.Context(), cfg, true, func(string) {}, still); !errors.Is(err, sink.ErrSinksRun) {
		t.Errorf("while a sink runs: %v", err)
	}
	stop()
	if left, err := sink.Repair(t.Context(), cfg, false, func(line string) { t.Log(line) }, still); err != nil || left != 0 {
		t.Fatalf("nothing is lost: %d left, %v", left, err)
	}
	for _, tt := range []struct{ name, lose string }{
		{"rows of both", "DELETE FROM status_events WHERE status_offset % 3 = 0; DELETE FROM decisions WHERE status_offset % 5 = 0"},
		{"rows twice", "INSERT INTO status_events SELECT * FROM status_events WHERE status_offset % 7 = 0; INSERT INTO decisions SELECT * FROM decisions WHERE status_offset % 7 = 0 AND kind = 'decision'"},
		{"all of status_events", "TRUNCATE TABLE status_events"},
		{"rollups", "TRUNCATE TABLE limits_by_minute_state; DELETE FROM status_by_minute_state WHERE status = 'sent'"},
		{"rollups count twice", "INSERT INTO status_by_minute_state SELECT * FROM status_by_minute_state; INSERT INTO limits_by_minute_state SELECT * FROM limits_by_minute_state"},
		{"lists", "TRUNCATE TABLE messages_by_time; DELETE FROM messages_by_recipient WHERE message_id < 'm-000000100'; TRUNCATE TABLE messages_by_provider_id"},
	} {
		if !t.Run(tt.name, func(t *testing.T) {
			for statement := range strings.SplitSeq(tt.lose, "; ") {
				if err := conn.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			cfg := cfg
			cfg.Logger = logger(t)
			if left, err := sink.Repair(t.Context(), cfg, false, func(line string) { t.Log(line) }, still); err != nil || left == 0 {
				t.Errorf("a check before the repair: %d left, %v", left, err)
			}
			repaired(t, cfg, n)
		}) {
			return // the next would begin with what is left of this
		}
	}
}
