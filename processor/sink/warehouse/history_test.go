package warehouse_test

import (
	"testing"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

func TestHistoryTellsAMessageInOrder(t *testing.T) {
	url := "http://" + startEngine(t) + "/weir"
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const id = "0b6f0e7e-0000-4000-8000-000000000001"
	if err := conn.Exec(t.Context(), `
		INSERT INTO status_log (kind, message_id, channel, to, status, at, reason, attempt, provider, limit, window, retry_at, accepted_at, segments, source_topic, source_partition, source_offset, status_offset) VALUES
		('status', '`+id+`', 'sms', '+8613800000000', 'limited', '2026-11-21 09:00:00.002', 'limited', 0, 'p', 'verify', '1/60s', '2026-11-21 09:01:00.000', '2026-11-21 09:00:00.001', 1, 'weir.requests', 3, 42, 8),
		('decision', '`+id+`', 'sms', '+8613800000000', '', '2026-11-21 09:00:00.001', '', 0, '', '', '', 0, 0, 0, '', 0, 0, 7),
		('status', '0b6f0e7e-0000-4000-8000-000000000002', 'sms', '+8613800000001', 'queued', '2026-11-21 09:00:00.001', '', 0, '', '', '', 0, 0, 0, '', 0, 0, 9)`); err != nil {
		t.Fatal(err)
	}
	h := warehouse.History{Conn: conn}
	got, err := h.Message(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 {
		t.Fatalf("%d events, want the one status", len(got))
	}
	e := got[0]
	at, _ := schemas.ParseMillis("2026-11-21T09:00:00.002Z")
	retry, _ := schemas.ParseMillis("2026-11-21T09:01:00Z")
	if e.Status != schemas.StatusLimited || e.At != at || e.RetryAt != retry || e.Limit != "verify" || e.Window != "1/60s" || e.Source == nil || e.Source.Offset != 42 || e.Segments != 1 {
		t.Errorf("got %s", schemas.AppendEvent(nil, e))
	}
	if got, err := h.Message(t.Context(), "0b6f0e7e-0000-4000-8000-00000000000f"); err != nil || len(got) != 0 {
		t.Errorf("an unknown message: %v, %v", got, err)
	}
}
