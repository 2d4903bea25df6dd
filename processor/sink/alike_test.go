package sink_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// lives are events of messages that fill every table.
func lives(n int) (all []schemas.Event) {
	for i := range n {
		at := began.Add(time.Duration(i) * time.Second)
		e := schemas.Event{
			Kind: schemas.KindStatus, MessageID: fmt.Sprintf("alike-%04d", i), Tenant: []string{"", "acme"}[i%2], Channel: "sms", Class: "verify",
			To: fmt.Sprintf("+86138%08d", i%40), AcceptedAt: at, At: at, Source: &schemas.Source{Topic: "weir.requests", Offset: int64(i)},
		}
		queued, sending, sent, delivered, refused := e, e, e, e, e
		queued.Status = schemas.StatusQueued
		queued.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Seq: int64(3 * i), T: at, Revision: 1, Charges: []schemas.Charge{{Limit: "one", Scope: e.To, T: at, Cost: 1}}}
		sending.Status, sending.Attempt, sending.Provider, sending.At = schemas.StatusSending, 1, "sim", at.Add(time.Second)
		sent.Status, sent.Attempt, sent.Provider, sent.ProviderMessageID, sent.At = schemas.StatusSent, 1, "sim", fmt.Sprint("their-", i), at.Add(2*time.Second)
		delivered.Status, delivered.Provider, delivered.ProviderMessageID, delivered.At = schemas.StatusDelivered, "sim", sent.ProviderMessageID, at.Add(3*time.Second)
		refused.MessageID, refused.Status, refused.Limit, refused.Window = "refused-"+e.MessageID, schemas.StatusLimited, "one", "1/1h"
		refused.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Seq: int64(3*i + 1), T: at, Revision: 1}
		all = append(all, queued, sending, sent, delivered, refused, schemas.Event{
			Kind: schemas.KindDecision, At: at, To: e.To, Reason: "suppress",
			Decision: &schemas.Decision{Verdict: schemas.VerdictSuppress, Seq: int64(3*i + 2), T: at, Revision: 1},
		})
	}
	return all
}

// TestAlike: of tables as they must be nothing is found, and what a table lacks, or
// has too many, is found there.
func TestAlike(t *testing.T) {
	url := "http://" + startEngine(t, t.TempDir(), "127.0.0.1:0").Addr() + "/weir"
	seeds := startKafka(t)
	tell(t, seeds, lives(200))
	reg := prometheus.NewRegistry()
	stop := run(t, sink.Config{Brokers: seeds, Names: topics.Names{}, URL: url, Metrics: reg, Logger: logger(t)})
	until(t, 20*time.Second, "all is loaded", func() bool { return confirmed(t, reg) == 200*6+1 })
	stop()
	conn := open(t, url)
	var minutes []int64
	for at := began; at < began.Add(5*time.Minute); at = at.Add(time.Minute) {
		minutes = append(minutes, at.Time().Unix())
	}
	unlike := func() (tables []string) {
		t.Helper()
		all, err := warehouse.Alike(t.Context(), conn, "", minutes)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range all {
			if u.Rows == 0 || u.Has == u.Want || !slices.Contains(minutes, u.Minute) {
				t.Errorf("%+v", u)
			}
			tables = append(tables, u.Table)
		}
		slices.Sort(tables)
		return slices.Compact(tables)
	}
	if got := unlike(); got != nil {
		t.Fatalf("found in %v, where nothing is wrong", got)
	}
	for i, tt := range []struct{ table, statement string }{
		{"messages_by_time", "INSERT INTO messages_by_time SELECT * REPLACE (ver + 1 AS ver) FROM messages_by_time WHERE message_id = 'alike-0003'"},
		{"messages_by_time", "ALTER TABLE messages_by_time DELETE WHERE message_id = 'alike-0008'"},
		{"messages_by_recipient", "ALTER TABLE messages_by_recipient DELETE WHERE to = '+8613800000009'"},
		{"messages_by_provider_id", "ALTER TABLE messages_by_provider_id DELETE WHERE message_id = 'alike-0010'"},
		{"status_by_minute", "ALTER TABLE status_by_minute_state DELETE WHERE status = 'delivered' AND tenant = 'acme'"},
		{"limits_by_minute", "ALTER TABLE limits_by_minute_state DELETE WHERE tenant = 'acme'"},
		{"suppression_events", "ALTER TABLE suppression_events DELETE WHERE to = '+8613800000011'"},
		{"decisions", "ALTER TABLE decisions DELETE WHERE kind = 'status' AND tenant = 'acme'"},
	} {
		before := unlike()
		statement := tt.statement
		if strings.HasPrefix(statement, "ALTER") {
			statement += " SETTINGS mutations_sync = 2"
		}
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if got := unlike(); !slices.Contains(got, tt.table) || i != 1 && slices.Contains(before, tt.table) || len(got) > len(before)+1 {
			t.Errorf("after %s: found in %v, before in %v", tt.statement, got, before)
		}
	}
}

// TestALostBlockIsSeen: what is missing in a table that is made of status_events is
// in weir_sink_difference until it is there.
func TestALostBlockIsSeen(t *testing.T) {
	url := "http://" + startEngine(t, t.TempDir(), "127.0.0.1:0").Addr() + "/weir"
	seeds := startKafka(t)
	tell(t, seeds, lives(200))
	reg := prometheus.NewRegistry()
	var said reports
	run(t, sink.Config{Brokers: seeds, Names: topics.Names{}, URL: url, Metrics: reg, Logger: logger(t), Check: 200 * time.Millisecond, Report: said.take})
	until(t, 20*time.Second, "all is loaded", func() bool { return confirmed(t, reg) == 200*6+1 })
	conn := open(t, url)
	if err := conn.Exec(t.Context(), "ALTER TABLE status_by_minute_state DELETE WHERE status = 'sent' SETTINGS mutations_sync = 2"); err != nil {
		t.Fatal(err)
	}
	// It is compared once its minutes are quiet, perhaps already; more of them comes.
	tell(t, seeds, lives(200)[:600])
	// Of what came second, which no key tells from the first, 100 were sent.
	until(t, 30*time.Second, "it is seen", func() bool { v, ok := metric(t, reg, "weir_sink_difference"); return ok && v == 200 })
	until(t, 10*time.Second, "it is told", func() bool { return said.last().Difference == 200 })
	// What was lost is made again of the events that came first.
	if err := conn.Exec(t.Context(), `
		INSERT INTO status_by_minute_state (minute, tenant, channel, class, provider, status, events)
		SELECT toStartOfMinute(at) AS minute, tenant, channel, class, provider, status, count() AS events
		FROM status_events WHERE status = 'sent' AND status_offset <= 200 * 6 GROUP BY minute, tenant, channel, class, provider, status`); err != nil {
		t.Fatal(err)
	}
	until(t, 10*time.Second, "it is mended", func() bool { v, ok := metric(t, reg, "weir_sink_difference"); return ok && v == 0 })
}
