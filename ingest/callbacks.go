package ingest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/callback"
)

// postCallbacks asks for a message's callbacks again: of every status that is known of
// it, in their order.
func (s *Server) postCallbacks(w http.ResponseWriter, r *http.Request, c *caller) {
	named, p := s.whose(r, c)
	var is *client.Message
	if p == nil {
		is, p = s.find(r.Context(), c.tenant, chi.URLParam(r, "id"), named...)
	}
	if p == nil && !s.policy.Latest().Policy.SignsCallbacks(c.tenant) {
		p = noCallbacks.problem("The tenant has no callback in the policy, so nobody would be told.")
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	records := callback.Replay(s.names, s.partitions, is.Timeline)
	for _, rec := range records { // one after another: their order is that of the log
		if p := s.out.produce(r.Context(), rec, answerTimeout); p != nil {
			refuse(w, r, p)
			return
		}
	}
	answer(w, http.StatusAccepted, "application/json", client.Replayed{ID: is.ID, Statuses: len(records)})
}
