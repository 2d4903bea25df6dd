package warehouse_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

// insertOnce inserts rows as a sink does, under a token.
func insertOnce(ctx context.Context, conn driver.Conn, token, table, columns, rows string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"async_insert": 0, "insert_deduplicate": 1, "deduplicate_blocks_in_dependent_materialized_views": 1, "insert_deduplication_token": token,
	}))
	if err := conn.Exec(ctx, "INSERT INTO "+table+" ("+columns+") VALUES "+rows); err != nil {
		return fmt.Errorf("insert %s: %w", token, err)
	}
	return nil
}

// formerBlock is what a sink of version 1 inserts: an admission, a refusal and a
// marker, in columns that version 1 has.
func formerBlock(ctx context.Context, conn driver.Conn, token string) error {
	const columns = "kind, message_id, tenant, channel, class, status, at, limit, window, decision_verdict, decision_seq, decision_t, charges.limit, charges.scope, charges.t, charges.cost, returned"
	at := "'2026-11-21 10:00:00.000'"
	return insertOnce(ctx, conn, token, "status_log", columns, strings.Join([]string{
		"('status', '" + token + "-1', 'acme', 'sms', 'verify', 'queued', " + at + ", '', '', 'admit', 1, " + at + ", ['verify'], ['+861'], [" + at + "], [2], '')",
		"('status', '" + token + "-2', 'acme', 'sms', 'verify', 'limited', " + at + ", 'verify', '1/60s', 'refuse', 2, " + at + ", [], [], [], [], '')",
		"('decision', '', '', '', '', '', " + at + ", '', '', 'give_back', 3, " + at + ", [], [], [], [], 'x')",
	}, ", "))
}

// wideBlock is a message that was charged at two owners and admitted, and one that
// an owner refused, as home, the owners and home again told of them.
func wideBlock(ctx context.Context, conn driver.Conn, token string) error {
	const columns = "kind, message_id, tenant, channel, class, status, at, limit, window, observed, decision_verdict, decision_partition, charges.limit, charges.scope, charges.t, charges.cost, " +
		"carried.limit, carried.scope, carried.t, carried.cost, passed, restored, released, reinstated, onward, decision_seq"
	at := "'2026-11-21 10:00:00.000'"
	seq := 0
	row := func(kind, id, who, status, limit, window, observed, verdict, partition, charges, carried, rest string) string {
		seq++
		return fmt.Sprintf("('%s', '%s-%s', %s, '%s', %s, '%s', '%s', %s, '%s', %s, %s, %s, %s, %d)", kind, token, id, who, status, at, limit, window, observed, verdict, partition, charges, carried, rest, seq)
	}
	const (
		owner = "'acme', '', ''"
		home  = "'acme', 'sms', 'verify'"
		none  = "[], [], [], []"
		quiet = "'', '', '', ''"
	)
	one := func(limit string) string { return "['" + limit + "'], ['tenant=acme'], [" + at + "], [1]" }
	return insertOnce(ctx, conn, token, "status_log_2", columns, strings.Join([]string{
		row("decision", "3", home, "", "", "", "false", "charge", "0", one("verify"), none, quiet+", 5"),
		row("decision", "3", owner, "", "", "", "true", "charge", "5", one("acme"), none, "'pass', '', '', '', 0"),
		row("status", "3", home, "queued", "", "", "false", "admit", "0", one("late"), "['verify', 'acme'], ['+861', 'tenant=acme'], ["+at+", "+at+"], [1, 4]", "'p', 'r', 'l', 'i', -1"),
		row("decision", "4", owner, "", "acme", "9/1h", "false", "refuse", "5", none, none, quiet+", 0"),
		row("status", "4", home, "limited", "acme", "9/1h", "false", "refuse", "0", none, none, "'', '', 'l', '', -1"),
		row("status", "5", home, "queued", "seen", "3/1h", "true", "move", "0", none, one("acme"), quiet+", -1"),
		row("decision", "6", home, "", "", "", "false", "record", "0", one("verify"), none, quiet+", 5"),
	}, ", "))
}

func tellOne(t *testing.T, conn driver.Conn, query string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT toString(tuple(*)) FROM ("+query+")")
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(out, "|")
}

// holdsBlocks checks that every table has so many blocks of either kind, each
// once.
func holdsBlocks(t *testing.T, conn driver.Conn, former, wide int) {
	t.Helper()
	for _, c := range []struct {
		query string
		want  string
	}{
		{"SELECT count() FROM status_events", fmt.Sprintf("(%d)", 2*former+3*wide)},
		{"SELECT count() FROM decisions", fmt.Sprintf("(%d)", 3*former+7*wide)},
		{"SELECT sum(events) FROM status_by_minute", fmt.Sprintf("(%d)", 2*former+3*wide)},
		{"SELECT count() FROM messages", fmt.Sprintf("(%d)", 2*former+3*wide)},
	} {
		if got := tellOne(t, conn, c.query); got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
}

// limitsOf is limits_by_minute after so many blocks of either kind, each counted
// as its version counts.
func limitsOf(t *testing.T, conn driver.Conn, former, wide int) {
	t.Helper()
	var want []string
	add := func(limit, window string, places, cost, refusals, observed int) {
		if places+refusals+observed > 0 {
			want = append(want, fmt.Sprintf("('acme','sms','verify','%s','%s',%d,%d,%d,%d)", limit, window, places, cost, refusals, observed))
		}
	}
	add("acme", "", 2*wide, 5*wide, 0, 0)
	add("acme", "9/1h", 0, 0, wide, 0)
	add("late", "", wide, wide, 0, 0)
	add("seen", "3/1h", 0, 0, 0, wide)
	add("verify", "", former+2*wide, 2*former+2*wide, 0, 0)
	add("verify", "1/60s", 0, 0, former, 0)
	got := tellOne(t, conn, "SELECT tenant, channel, class, limit, window, places, cost, refusals, observed FROM limits_by_minute ORDER BY ALL")
	if got != strings.Join(want, "|") {
		t.Errorf("limits by minute:\n%s\nwant\n%s", strings.ReplaceAll(got, "|", "\n"), strings.Join(want, "\n"))
	}
}

// A database of version 1 becomes one of version 2 while sinks of version 1
// insert, and three of version 2 start at once: no block is lost, and none that is
// sent again is there twice, in any table.
func TestUpgradeWhileRowsArrive(t *testing.T) {
	dir := t.TempDir()
	addr, stop := startEngineIn(t, dir)
	url := "http://" + addr + "/weir"
	if err := warehouse.MigrateTo(t.Context(), url, 1); err != nil {
		t.Fatal(err)
	}
	connect := func() driver.Conn {
		conn, err := warehouse.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conn := connect()

	var (
		wg     sync.WaitGroup
		done   = make(chan struct{})
		enough = make(chan struct{}, 2)
		sent   [2]int
	)
	for w := range sent {
		wg.Go(func() {
			for more := true; more; sent[w]++ {
				select {
				case <-done: // and one after it
					more = false
				default:
				}
				// A view that goes while a block is on its way fails the block, which
				// a sink sends again.
				var err error
				for range 5 {
					if err = formerBlock(t.Context(), conn, fmt.Sprintf("t%d-%d", w, sent[w])); err == nil {
						break
					}
					t.Logf("sent again: %v", err)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if sent[w] == 3 {
					enough <- struct{}{}
				}
			}
		})
	}
	<-enough
	<-enough
	var starts sync.WaitGroup
	for range 3 {
		starts.Go(func() {
			if err := warehouse.Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	close(done)
	wg.Wait()
	if err := warehouse.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
	former := sent[0] + sent[1]
	t.Logf("%d blocks", former)
	holdsBlocks(t, conn, former, 0)
	limitsOf(t, conn, former, 0)

	// Every answer was lost: all is sent again. Later some is, of before the migration, amid
	// it and after it.
	every := 1
	again := func() {
		t.Helper()
		for w, n := range sent {
			for i := range n {
				if i%every != 0 && i != n-1 {
					continue
				}
				if err := formerBlock(t.Context(), conn, fmt.Sprintf("t%d-%d", w, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	again()
	holdsBlocks(t, conn, former, 0)
	limitsOf(t, conn, former, 0)
	// As if it had been killed before the rollup got any of it: only that has
	// something to get.
	if err := conn.Exec(t.Context(), "TRUNCATE TABLE limits_by_minute_state"); err != nil {
		t.Fatal(err)
	}
	limitsOf(t, conn, 0, 0)
	again()
	holdsBlocks(t, conn, former, 0)
	limitsOf(t, conn, former, 0)

	every = 5
	for range 2 {
		if err := wideBlock(t.Context(), conn, "w1"); err != nil {
			t.Fatal(err)
		}
	}
	holdsBlocks(t, conn, former, 1)
	limitsOf(t, conn, former, 1)
	const news = "SELECT verdict, charges.limit, carried.limit, carried.scope, carried.cost, passed, restored, released, reinstated, onward FROM decisions WHERE message_id = '%s' ORDER BY seq"
	told := func(id string, want ...string) {
		t.Helper()
		if got := tellOne(t, conn, fmt.Sprintf(news, id)); got != strings.Join(want, "|") {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	told("t0-0-1", "('admit',['verify'],[],[],[],'','','','',-1)")
	told("w1-3", "('charge',['verify'],[],[],[],'','','','',5)", "('charge',['acme'],[],[],[],'pass','','','',0)",
		"('admit',['late'],['verify','acme'],['+861','tenant=acme'],[1,4],'p','r','l','i',-1)")

	// The server starts anew.
	stop()
	addr, _ = startEngineIn(t, dir)
	url = "http://" + addr + "/weir"
	conn = connect()
	for _, token := range []string{"w1", "w2"} {
		if err := wideBlock(t.Context(), conn, token); err != nil {
			t.Fatal(err)
		}
	}
	again()
	holdsBlocks(t, conn, former, 2)
	limitsOf(t, conn, former, 2)

	// Down, which takes what only version 2 has, and up again.
	if err := warehouse.MigrateTo(t.Context(), url, 1); err != nil {
		t.Fatal(err)
	}
	again()
	if err := formerBlock(t.Context(), conn, "down"); err != nil {
		t.Fatal(err)
	}
	if err := wideBlock(t.Context(), conn, "refused"); err == nil {
		t.Error("version 1 takes rows of version 2")
	}
	if got := tellOne(t, conn, "SELECT count() FROM system.columns WHERE database = 'weir' AND (startsWith(name, 'carried') OR name IN ('passed', 'restored', 'released', 'reinstated', 'onward'))"); got != "(0)" {
		t.Errorf("%s columns of version 2 are left", got)
	}
	if got := tellOne(t, conn, "SELECT count() FROM system.tables WHERE database = 'weir' AND startsWith(name, 'status_log_2')"); got != "(0)" {
		t.Errorf("%s tables and views of version 2 are left", got)
	}
	holdsBlocks(t, conn, former+1, 2)
	limitsOf(t, conn, former+1, 2)
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := warehouse.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
	again()
	if err := wideBlock(t.Context(), conn, "w3"); err != nil {
		t.Fatal(err)
	}
	holdsBlocks(t, conn, former+1, 3)
	limitsOf(t, conn, former+1, 3)
	told("w1-3", "('charge',['verify'],[],[],[],'','','','',-1)", "('charge',['acme'],[],[],[],'','','','',-1)", "('admit',['late'],[],[],[],'','','','',-1)")
	told("w3-3", "('charge',['verify'],[],[],[],'','','','',5)", "('charge',['acme'],[],[],[],'pass','','','',0)",
		"('admit',['late'],['verify','acme'],['+861','tenant=acme'],[1,4],'p','r','l','i',-1)")
}
