package audit

import (
	"slices"
	"testing"

	"github.com/weirhq/weir/processor/status"
	"github.com/weirhq/weir/schemas"
)

// TestTheDrawingIsJudged: what the audit lets follow is what ARCHITECTURE.md
// draws, which package status is held to. So a real run that the audit proves
// kept to the drawing. Receipts are not asked about here.
func TestTheDrawingIsJudged(t *testing.T) {
	apart := []schemas.Status{schemas.StatusAccepted, schemas.StatusDelivered, schemas.StatusUndelivered}
	for _, from := range append([]schemas.Status{status.None}, schemas.Statuses...) {
		for _, to := range schemas.Statuses {
			if slices.Contains(apart, from) || slices.Contains(apart, to) {
				continue
			}
			if _, drawn := status.Next(from, to); mayFollow(from, to) != drawn {
				t.Errorf("from %q to %s: the audit lets it pass: %v, drawn: %v", from, to, mayFollow(from, to), drawn)
			}
		}
	}
}
