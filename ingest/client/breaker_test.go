package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weirhq/weir/ingest/client"
)

// A circuit breaker that opens after five failures in a row. A caller who gives
// up says nothing about the server.
func ExampleWithBreaker() {
	breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:        "weir",
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 5 },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	})
	c := client.New("https://weir.example", "weir_live_…", client.WithBreaker(breaker))
	fmt.Println(breaker.State(), c != nil)
	// Output: closed true
}

// The breaker opens after failures of the server and not after refusals; open,
// it ends a call at once, and lets one through to see whether it is over.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
			Timeout:     time.Minute,
		})
		tries, status := 0, 503
		c := handler(func(w http.ResponseWriter, r *http.Request) {
			tries++
			if status == 0 {
				accept(w)
				return
			}
			problem(status, "", `{"type":"`+client.TypeQuotaExceeded+`"}`)(w, r)
		}).client(client.WithBreaker(breaker))

		_, err := c.Send(t.Context(), message)
		if !errors.Is(err, gobreaker.ErrOpenState) || tries != 3 {
			t.Errorf("%d tries: %v", tries, err)
		}
		_, err = c.Send(t.Context(), message)
		if !errors.Is(err, gobreaker.ErrOpenState) || tries != 3 {
			t.Errorf("open: %d tries: %v", tries, err)
		}
		time.Sleep(61 * time.Second)
		status = 0
		if _, err := c.Send(t.Context(), message); err != nil || breaker.State() != gobreaker.StateClosed {
			t.Errorf("%v: %v", breaker.State(), err)
		}
		status = 429
		for range 10 {
			if _, err := c.Send(t.Context(), message); err == nil {
				t.Error("no refusal")
			}
		}
		if breaker.State() != gobreaker.StateClosed || tries != 14 {
			t.Errorf("%v after %d tries", breaker.State(), tries)
		}
	})
}
