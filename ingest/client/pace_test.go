package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/ingest/client"
)

// One refusal holds back the calls of all goroutines, and no other client's.
func TestSharedPace(t *testing.T) {
	const wait = "Retry-After: 7"
	tests := []struct {
		name    string
		refusal func(http.ResponseWriter, *http.Request) // of the first call, a send
		sends   time.Duration                            // how long other sends wait, at least
		asks    time.Duration                            // and questions
	}{
		{"the client's own rate", problem(429, wait, `{"code":"client_rate","type":"`+client.TypeClientRate+`"}`), 7 * time.Second, 0},
		{"a proxy's rate", problem(429, wait, ""), 7 * time.Second, 7 * time.Second},
		{"Kafka is away", problem(503, wait, `{"code":"kafka_unavailable"}`), 7 * time.Second, 7 * time.Second},
		{"a proxy's 503", problem(503, wait, ""), 7 * time.Second, 7 * time.Second},
		{"too much at once", problem(503, wait, `{"code":"overloaded"}`), 7 * time.Second, 0},
		{"others edit the policy", problem(503, wait, `{"code":"policy_busy"}`), 0, 0},
		{"the store is away", problem(503, wait, `{"code":"history_unavailable"}`), 0, 0},
		{"a recipient's limit", problem(429, wait, `{"code":"quota_exceeded","type":"`+client.TypeQuotaExceeded+`"}`), 0, 0},
		{"without a time", problem(503, "", ""), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := false
				h := handler(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet {
						w.Write([]byte(`{"id":"x"}`))
						return
					}
					if !refused {
						refused = true
						tt.refusal(w, r)
						return
					}
					accept(w)
				})
				c := h.client(client.WithRetry(client.Retry{Tries: 1}))
				if _, err := c.Send(t.Context(), message); err == nil {
					t.Fatal("it was not refused")
				}
				began := time.Now()
				var wg sync.WaitGroup
				took := func(what string, least time.Duration, call func() error) {
					wg.Go(func() {
						err := call()
						if d := time.Since(began); err != nil || d < least || d > least+100*time.Millisecond {
							t.Errorf("%s took %v, want %v and up to 100ms more: %v", what, d, least, err)
						}
					})
				}
				for range 20 {
					took("a send", tt.sends, func() error { _, err := c.Send(t.Context(), message); return err })
					took("a question", tt.asks, func() error { _, err := c.Get(t.Context(), "x"); return err })
				}
				other := h.client()
				took("another client's send", 0, func() error { _, err := other.Send(t.Context(), message); return err })
				wg.Wait()
			})
		})
	}
}

// While calls wait, another refusal may come: they wait for that, too, and use up no
// try. Those who have not the time are not sent.
func TestSharedPaceGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		tries := 0
		began := time.Now()
		c := handler(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			tries++
			if time.Since(began) < 15*time.Second {
				problem(429, "Retry-After: 5", `{"code":"client_rate"}`)(w, r)
				return
			}
			accept(w)
		}).client()
		var wg sync.WaitGroup
		send := func(ctx context.Context) error { _, err := c.Send(ctx, message); return err }
		wg.Go(func() {
			if err := send(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		for range 50 {
			wg.Go(func() {
				if err := send(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := send(short)
		p, ok := errors.AsType[*client.Problem](err)
		if !ok || p.Code != client.CodeClientRate || p.RetryAfter != 4*time.Second || !strings.Contains(err.Error(), "not sent") || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		wg.Wait()
		// 51 are sent. The rest were refused: a few at each of 0, 5 and 10 s, and not all of them.
		if tries > 51+30 {
			t.Errorf("%d tries", tries)
		}
	})
}

// A caller who leaves while he waits learns why he waited.
func TestSharedPaceLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := handler(problem(503, "Retry-After: 20", "")).client(client.WithRetry(client.Retry{Tries: 1}))
		if _, err := c.Send(t.Context(), message); err == nil {
			t.Fatal("it was not refused")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, err := c.Send(ctx, message)
		if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != 503 || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
