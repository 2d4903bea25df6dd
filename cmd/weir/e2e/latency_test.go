package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

const latencyPolicy = `
limits:
  - {name: verify, per: [recipient], allow: [1/60s, 10/calendar-day]}
providers:
  - {name: callee, type: http, channels: [sms], settings: {url: %q}}
tenants:
  - {name: default, default_region: CN}
`

// latency measures the way of one message through an idle Weir: from before
// the request is produced until the provider has the call.
func latency(t *testing.T, brokers []string, sc scale) {
	callee := newCallee(t)
	s := newSite(t, brokers, "latency", fmt.Sprintf(latencyPolicy, callee.URL))
	sent := make(chan string, 1000)
	s.follow(func(r Record) {
		if r.Event.Status == schemas.StatusSent {
			sent <- r.Event.MessageID
		}
	})
	worker := s.run(0, "admission,lanes,delay")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	one := func(i int) time.Duration {
		to := fmt.Sprintf("+86139%08d", i)
		value := schemas.RequestJSON(&schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "code 123456"})
		began := time.Now()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: s.names.Requests(), Key: []byte(to), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		await(t, callee.arrivals, "a call", 30*time.Second)
		took := callee.lastCall().Sub(began)
		// Idle means that the message before has ended.
		await(t, sent, "sent", 30*time.Second)
		return took
	}
	for i := range 10 { // connections, and a group that has come together
		one(i)
	}
	var took []time.Duration
	for i := range sc.messages {
		took = append(took, one(1000+i))
	}
	s.stop(worker)
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[min(int(q*float64(len(took))), len(took)-1)] }
	t.Logf("LATENCY request to provider's call, idle, %d messages: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms",
		len(took), ms(at(0.5)), ms(at(0.9)), ms(at(0.99)), ms(took[len(took)-1]))
	if at(0.5) > sc.most(500*time.Millisecond) {
		t.Errorf("p50 %v is absurd", at(0.5))
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func await[T any](t *testing.T, from <-chan T, what string, within time.Duration) T {
	t.Helper()
	timer := time.NewTimer(max(within, patience))
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
	case <-t.Context().Done():
	}
	t.Fatalf("no %s within %v", what, within)
	panic("unreachable")
}
