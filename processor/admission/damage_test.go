package admission

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// TestIsDecision: an empty ledger is a lost one where something was decided, and
// what was turned away at an input, or told by a receipt, was not.
func TestIsDecision(t *testing.T) {
	away := schemas.Event{Kind: schemas.KindStatus, MessageID: "m", Tenant: "acme", Status: schemas.StatusRejected, Reason: "not_json"}
	decided, receipt, sent := away, away, away
	decided.Decision = &schemas.Decision{Verdict: schemas.VerdictReject, Seq: 1}
	receipt.Status = schemas.StatusDelivered
	sent.Status = schemas.StatusSent
	for _, tt := range []struct {
		name  string
		value []byte
		want  bool
	}{
		{"turned away at an input", schemas.AppendEvent(nil, &away), false},
		{"rejected by a decision", schemas.AppendEvent(nil, &decided), true},
		{"a receipt, which anyone may be told", schemas.AppendEvent(nil, &receipt), false},
		{"sent, which follows a decision", schemas.AppendEvent(nil, &sent), true},
		{"what cannot be read", []byte("x"), true},
	} {
		if got := isDecision(&kgo.Record{Value: tt.value}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
