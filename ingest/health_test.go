package ingest

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/stream"
)

// TestNotReadyWhileAStageIsStuck: a stage of this process that gets nothing done makes it not
// ready, and says which.
func TestNotReadyWhileAStageIsStuck(t *testing.T) {
	var stuck atomic.Bool
	w := newWorld(t, settings{server: func(s *Server) {
		s.stuck = func() []stream.Stuck {
			if !stuck.Load() {
				return nil
			}
			return []stream.Stuck{{Stage: "admission", Since: time.Unix(0, 0)}}
		}
	}})
	stuck.Store(true)
	p := w.do("GET", "/readyz", "").problem(http.StatusServiceUnavailable, "not_ready")
	if !slices.ContainsFunc(p.Errors, func(e client.FieldError) bool {
		return e.Code == "stage_stuck" && e.Detail == "admission has had work since 1970-01-01T00:00:00Z and has committed nothing"
	}) {
		t.Errorf("%+v", p)
	}
}
