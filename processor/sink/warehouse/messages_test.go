package warehouse_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

// someEvents inserts events of a hundred messages, in no order, at few times so that
// some share one, with gaps everywhere: without a provider, a price, a request's time.
func someEvents(t *testing.T, conn driver.Conn, log, token string, from int) {
	t.Helper()
	const columns = "kind, message_id, tenant, channel, class, template, `to`, recipient_hash, country, status, at, reason, attempt, provider, provider_message_id, " +
		"error_code, error, `limit`, `window`, retry_at, accepted_at, segments, price, currency, duplicate_of, redrive_of, status_offset"
	pick := func(salt int, of ...string) string {
		return fmt.Sprintf("['%s'][1 + cityHash64(n, %d) %% %d]", strings.Join(of, "', '"), salt, len(of))
	}
	moment := func(salt, of int) string {
		return fmt.Sprintf("toDateTime64('2026-11-21 23:59:58', 3, 'UTC') + cityHash64(n, %d) %% %d", salt, of)
	}
	sometimes := func(salt int) string { // the empty moment in one of three
		return fmt.Sprintf("if(cityHash64(n, %d) %% 3 = 0, toDateTime64(0, 3, 'UTC'), %s)", salt, moment(salt+1, 9))
	}
	rows := strings.Join([]string{
		pick(1, "status", "status", "status", "decision"), "concat('m-', toString(cityHash64(n, 2) % 100))", pick(3, "", "acme"), pick(4, "sms", "email"),
		pick(5, "verify", "notice"), pick(6, "", "a", "b"), pick(7, "+861", "+862"), "cityHash64(n, 8) % 5", pick(9, "", "CN"),
		pick(10, "accepted", "scheduled", "deferred", "queued", "queued", "sending", "sending", "retrying", "sent", "delivered", "undelivered", "failed", "unknown", "limited", "expired"),
		moment(11, 5), "concat('r', toString(n))", "cityHash64(n, 12) % 4", pick(13, "", "aliyun", "twilio"), "concat('p', toString(n))",
		pick(14, "", "isp.BUSY"), "concat('e', toString(n))", pick(15, "", "verify"), pick(16, "", "1/60s"), sometimes(17), sometimes(19), "cityHash64(n, 20) % 3",
		"if(cityHash64(n, 21) % 2 = 0, '', concat('0.', toString(n)))", "if(cityHash64(n, 21) % 2 = 0, '', 'CNY')", pick(22, "", "d"), pick(23, "", "r"), "n",
	}, ", ")
	insert := fmt.Sprintf("INSERT INTO %s (%s) SETTINGS insert_deduplication_token = '%s', insert_deduplicate = 1, deduplicate_blocks_in_dependent_materialized_views = 1 "+
		"SELECT %s FROM (SELECT %d + number AS n FROM numbers(500) ORDER BY cityHash64(number))", log, columns, token, rows, from)
	if err := conn.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
}

// messages says the same, in the same columns, whether it is read from a table of its
// own (migration 5) or from the events: before, after, and after the way back, with
// rows that come in by both logs meanwhile and twice.
func TestMessagesFromEvents(t *testing.T) {
	url := "http://" + startEngine(t) + "/weir"
	to := func(version int64) {
		t.Helper()
		if err := warehouse.MigrateTo(t.Context(), url, version); err != nil {
			t.Fatal(err)
		}
	}
	to(5)
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	columns := func() string {
		// An aggregate's column is called by its function too.
		return tellOne(t, conn, "SELECT name, replaceRegexpOne(type, '^SimpleAggregateFunction\\\\(max, (.*)\\\\)$', '\\\\1') FROM system.columns WHERE database = 'weir' AND table = 'messages' AND name != 'last' ORDER BY position")
	}
	// In version 5 there is one column more, last, that another is made of.
	rows := func() string {
		t.Helper()
		var names []string
		for c := range strings.SplitSeq(columns(), "|") {
			name, _, _ := strings.Cut(strings.TrimPrefix(c, "('"), "'")
			names = append(names, "`"+name+"`")
		}
		return tellOne(t, conn, "SELECT "+strings.Join(names, ", ")+" FROM messages ORDER BY message_id")
	}
	someEvents(t, conn, "status_log", "a", 0)
	someEvents(t, conn, "status_log_2", "b", 10_000)
	wantColumns, wantRows := columns(), rows()
	if n := strings.Count(wantRows, "|") + 1; n != 100 {
		t.Fatalf("%d messages", n)
	}
	same := func(when string) {
		t.Helper()
		if got := columns(); got != wantColumns {
			t.Errorf("%s the columns are\n%s\nwant\n%s", when, got, wantColumns)
		}
		got := strings.Split(rows(), "|")
		for i, want := range strings.Split(wantRows, "|") {
			if i >= len(got) || got[i] != want {
				t.Fatalf("%s message %d is\n%s\nwant\n%s", when, i, got[min(i, len(got)-1)], want)
			}
		}
	}
	to(6)
	same("from the events")
	someEvents(t, conn, "status_log", "a", 0) // known
	same("after a block that came twice")
	someEvents(t, conn, "status_log_2", "c", 20_000)
	wantRows = rows()
	to(5)
	same("on the way back")
	someEvents(t, conn, "status_log", "d", 30_000)
	someEvents(t, conn, "status_log_2", "e", 40_000)
	wantRows = rows()
	to(6)
	same("again")

	// One message is found by the events' order, not by reading all.
	if plan := tellOne(t, conn, "EXPLAIN indexes = 1 SELECT * FROM messages WHERE message_id = 'm-1'"); !strings.Contains(plan, "PrimaryKey") || !strings.Contains(plan, "(message_id in [\\'m-1\\', \\'m-1\\'])") {
		t.Errorf("a message is sought so: %s", strings.ReplaceAll(plan, "|", "\n"))
	}
	if got := tellOne(t, conn, "SELECT count() FROM system.tables WHERE database = 'weir' AND position(name, 'messages_state') > 0"); got != "(0)" {
		t.Errorf("%s of messages_state are left", got)
	}
}
