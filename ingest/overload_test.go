package ingest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

const pacedKey = "weir_live_paced"

var overloadPolicy = `
providers:
  - {name: sim, type: simulated, channels: [sms]}
tenants:
  - {name: acme, default_region: CN}
keys:
  - {name: paced, tenant: acme, scopes: [send], rates: {write: "bucket 100 refill 100/s"}, hash: "` + hashOf(pacedKey) + `"}
`

// lossy loses one in ten answers on the way back: what was accepted was, and
// nobody knows.
type lossy struct {
	http.RoundTripper
	tries, accepted, refused, lost atomic.Int64
}

var errLost = errors.New("the answer was lost")

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.tries.Add(1)
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusAccepted:
		l.accepted.Add(1)
	case http.StatusTooManyRequests:
		l.refused.Add(1)
	}
	if rand.N(10) == 0 {
		resp.Body.Close()
		l.lost.Add(1)
		return nil, errLost
	}
	return resp, nil
}

// Ten times as many messages as the caller's pace allows, and one answer in ten
// lost: the client gets every message in, each under one id, without more tries
// than the pace makes necessary.
func TestClientUnderOverload(t *testing.T) {
	const messages = 1000
	w := newWorld(t, settings{policy: overloadPolicy, keys: true})
	line := &lossy{RoundTripper: &http.Transport{MaxIdleConnsPerHost: messages}}
	c := client.New("http://"+w.addr, pacedKey, client.WithHTTPClient(&http.Client{Transport: line}),
		client.WithRetry(client.Retry{Tries: 40, Total: time.Minute, Base: 200 * time.Millisecond, Cap: time.Second}))
	defer c.Close()

	began := time.Now()
	ids := make([]string, messages)
	var wg sync.WaitGroup
	for i := range messages {
		wg.Go(func() {
			sent, err := c.Send(t.Context(), &schemas.Request{Channel: "sms", To: fmt.Sprintf("+86138%08d", i), Body: "b"})
			if err != nil {
				t.Errorf("message %d: %v", i, err)
				return
			}
			ids[i] = sent.ID
		})
	}
	wg.Wait()
	took := time.Since(began)
	if t.Failed() {
		return
	}

	taken := make(map[string]string) // recipients by id
	for _, rec := range w.requests(int(line.accepted.Load())) {
		q, err := schemas.DecodeRequest(rec.Value, nil)
		if err != nil {
			t.Fatal(err)
		}
		if to, ok := taken[q.ID]; ok && to != q.To {
			t.Fatalf("id %s is of two messages", q.ID)
		}
		taken[q.ID] = q.To
	}
	for i, id := range ids {
		if taken[id] != fmt.Sprintf("+86138%08d", i) {
			t.Fatalf("message %d was answered with %s, which is to %q", i, id, taken[id])
		}
	}
	if len(taken) != messages {
		t.Errorf("%d messages are in the log, not %d", len(taken), messages)
	}
	let := line.accepted.Load()
	if most := 100 + 100*took.Seconds() + 1; float64(let) > most {
		t.Errorf("%d were let through in %v", let, took)
	}
	// Each comes at most once a second, and 100 of those that wait are let in
	// each second: 1000+900+…; lost answers cost a tenth more of everything.
	if tries := line.tries.Load(); tries > 7*messages {
		t.Errorf("%d tries for %d messages", tries, messages)
	}
	if line.refused.Load() < messages/2 || line.lost.Load() < messages/10 {
		t.Errorf("only %d refusals and %d lost answers: nothing was tested", line.refused.Load(), line.lost.Load())
	}
	t.Logf("OVERLOAD %d messages at 100/s in %.1f s: %d tries, %d refused, %d answers lost, %d records under %d ids",
		messages, took.Seconds(), line.tries.Load(), line.refused.Load(), line.lost.Load(), let, len(taken))
}
