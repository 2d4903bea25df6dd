package warehouse_test

import (
	"reflect"
	"testing"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

func TestHistoryTellsAMessageInOrder(t *testing.T) {
	conn := open(t)
	const id = "0b6f0e7e-0000-4000-8000-000000000001"
	if err := conn.Exec(t.Context(), `
		INSERT INTO status_log (kind, message_id, channel, to, status, at, reason, attempt, provider, limit, window, retry_at, accepted_at, segments, source_topic, source_partition, source_offset, status_offset,
			decision_verdict, decision_partition, decision_seq, decision_t, revision, charges.limit, charges.scope, charges.t, charges.cost, evidence) VALUES
		('status', '`+id+`', 'sms', '+8613800000000', 'limited', '2026-11-21 09:00:00.002', 'limited', 0, 'p', 'verify', '1/60s', '2026-11-21 09:01:00.000', '2026-11-21 09:00:00.001', 1, 'weir.requests', 3, 42, 8,
			'refuse', 3, 17, '2026-11-21 09:00:00.001', 4, ['other'], ['a'], ['2026-11-21 09:00:00.001'], [2], '[{"limit":"verify","scope":"+8613800000000","window":"1/60s","n":1,"count":1,"cost":1,"oldest":"2026-11-21T08:59:59.997Z"}]'),
		('decision', '`+id+`', 'sms', '+8613800000000', '', '2026-11-21 09:00:00.001', '', 0, '', '', '', 0, 0, 0, '', 0, 0, 7, 'admit', 0, 1, 0, 0, [], [], [], [], ''),
		('status', '0b6f0e7e-0000-4000-8000-000000000002', 'sms', '+8613800000001', 'queued', '2026-11-21 09:00:00.001', '', 0, '', '', '', 0, 0, 0, '', 0, 0, 9, '', 0, 0, 0, 0, [], [], [], [], '')`); err != nil {
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
	// Why: what the sink wrote of the decision.
	want := &schemas.Decision{
		Verdict: schemas.VerdictRefuse, Partition: 3, Seq: 17, T: at - 1, Revision: 4,
		Charges:  []schemas.Charge{{Limit: "other", Scope: "a", T: at - 1, Cost: 2}},
		Evidence: []schemas.Evidence{{Limit: "verify", Scope: "+8613800000000", Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: at - 5}},
	}
	if !reflect.DeepEqual(e.Decision, want) {
		t.Errorf("got %s", schemas.AppendEvent(nil, e))
	}
	if got, err := h.Message(t.Context(), "0b6f0e7e-0000-4000-8000-000000000002"); err != nil || len(got) != 1 || got[0].Decision != nil {
		t.Errorf("one without a decision: %v, %v", got, err)
	}
	if got, err := h.Message(t.Context(), "0b6f0e7e-0000-4000-8000-00000000000f"); err != nil || len(got) != 0 {
		t.Errorf("an unknown message: %v, %v", got, err)
	}
}
