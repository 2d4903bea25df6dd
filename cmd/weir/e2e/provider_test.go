package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// callee is a provider's server on loopback: it takes every call and keeps
// count.
type callee struct {
	*httptest.Server
	arrivals chan string   // ids, as they come, if anyone waits for them
	hold     time.Duration // how long each call takes
	refuses  atomic.Bool   // every call, for good

	mu    sync.Mutex
	calls map[string]int // by Idempotency-Key
	last  time.Time
}

func newCallee(t *testing.T) *callee {
	c := &callee{calls: make(map[string]int), arrivals: make(chan string, 1000)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		id := r.Header.Get("Idempotency-Key")
		var body struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.ID != id || id == "" {
			http.Error(w, "bad call", http.StatusBadRequest)
			return
		}
		if c.refuses.Load() {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.calls[id]++
		c.last = now
		c.mu.Unlock()
		select {
		case c.arrivals <- id:
		default:
		}
		if c.hold > 0 {
			<-time.After(c.hold)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"id": "callee-" + id})
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *callee) record() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

func (c *callee) lastCall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
