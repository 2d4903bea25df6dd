package audit

import (
	"encoding/json"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// Of concurrent edits, the first counts: a revision stands on the one in force
// where it was written, or is void.
func TestHistoryKeepsTheChain(t *testing.T) {
	h := newHistory()
	for i, r := range []struct {
		revision, parent int64
		counts           bool
	}{{1, 0, true}, {1, 0, false}, {2, 0, false}, {2, 1, true}, {5, 2, false}, {3, 1, false}, {3, 2, true}, {0, 0, false}} {
		before := len(h.policies)
		b, err := json.Marshal(schemas.Revision{Revision: r.revision, Parent: r.parent})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.take(b); err != nil {
			t.Fatal(err)
		}
		if got := len(h.policies) > before; got != r.counts {
			t.Errorf("record %d, revision %d on %d: counts %v", i, r.revision, r.parent, got)
		}
	}
	if h.void != 5 || h.policy(3) == nil || h.policy(4) != nil {
		t.Errorf("%d void", h.void)
	}
	if err := h.take([]byte(`{"revision":`)); err != nil || h.void != 6 || len(h.policies) != 4 {
		t.Errorf("a torn revision: %v, %d void", err, h.void)
	}
}
