package ingest

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// What a decision is answered with, of each status that there is.
func TestOutcome(t *testing.T) {
	const id = "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
	now := time.Unix(1_795_000_000, 0)
	refused := map[schemas.Status]*kind{
		schemas.StatusLimited: &quotaExceeded, schemas.StatusRejected: &messageRejected, schemas.StatusSuppressed: &messageSuppressed,
		schemas.StatusExpired: &messageExpired, schemas.StatusCancelled: &messageCancelled,
	}
	for _, status := range schemas.Statuses {
		e := &schemas.Event{Status: status, Reason: "because", Limit: "verify", Window: "1/60s", RetryAt: schemas.MillisOf(now.Add(90 * time.Second))}
		sent, p := outcome(id, e, nil, now)
		k := refused[status]
		if k == nil {
			if p != nil || sent.ID != id || sent.Status != status {
				t.Errorf("%s: %+v %+v", status, sent, p)
			}
			continue
		}
		if sent != nil || p == nil || p.Code != k.code || p.Status != k.status || p.ID != id {
			t.Errorf("%s: %+v %+v", status, sent, p)
			continue
		}
		// It is as the document has it.
		rec := httptest.NewRecorder()
		refuse(rec, httptest.NewRequest("POST", "/v1/messages", nil), p)
		if status == schemas.StatusLimited && rec.Header().Get("Retry-After") != "90" {
			t.Errorf("%s: %v", status, rec.Header())
		}
		openDocument(t).check(t, "POST", "/v1/messages", rec.Result(), rec.Body.Bytes())
	}
	if _, p := outcome(id, &schemas.Event{Status: schemas.StatusRejected, Reason: reasonKeyReused}, nil, now); p == nil || p.Code != keyReused.code {
		t.Errorf("%+v", p)
	}
}
