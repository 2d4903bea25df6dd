package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/schemas"
)

const legacyPolicy = `
providers:
  - {name: ali, type: simulated, channels: [sms], settings: {latency: 1ms-2ms}, legacy_id: 1}
  - {name: tencent, type: simulated, channels: [sms], settings: {latency: 1ms-2ms}, legacy_id: 2}
`

// legacyLimits makes, changes and removes limits as the legacy API would, while
// a worker decides: a global one and one of a manufacturer, on and off, with and
// without numbers.
func legacyLimits(t *testing.T, brokers []string) {
	s := newSite(t, brokers, "legacy", legacyPolicy)
	doc, err := schemas.ParsePolicy("legacy.yaml", []byte(legacyPolicy))
	if err != nil {
		t.Fatal(err)
	}
	p := &doc.Policy
	var mu sync.Mutex
	ends := make(map[string]*schemas.Event) // by recipient
	seen := int64(0)                        // the latest revision that decides
	trail := s.follow(func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		e := r.Event
		if e.Decision != nil {
			seen = max(seen, e.Decision.Revision)
		}
		if e.Kind == schemas.KindStatus && e.Status.End() {
			ends[e.To] = e
		}
	})
	worker := s.run(0, "admission,lanes,delay")

	revision := int64(1)
	change := func(next *schemas.Policy, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		s.apply(string(b))
		p = next
		revision++
		produce, err := NewProducer(brokers, s.names, Murmur2)
		if err != nil {
			t.Fatal(err)
		}
		if !poll(t, 30*time.Second, func() bool { // nothing that a limit counts
			produce.Send(t.Context(), &schemas.Request{Action: schemas.ActionUnsuppress, To: "+8613900000000"}, "")
			mu.Lock()
			defer mu.Unlock()
			return seen == revision
		}) {
			t.Fatalf("revision %d is not in force", revision)
		}
		if _, err := produce.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	create := func(body string) {
		t.Helper()
		next, _, err := legacy.Create(p, []byte(body))
		change(next, err)
	}
	put := func(id int64, body string) {
		t.Helper()
		next, _, err := legacy.Change(p, id, []byte(body))
		change(next, err)
	}
	sent := 0
	// send returns how many of n messages were sent; all others were refused by
	// this limit and window.
	send := func(n int, provider, limit, window string) (passed int) {
		t.Helper()
		produce, err := NewProducer(brokers, s.names, Murmur2)
		if err != nil {
			t.Fatal(err)
		}
		var to []string
		for range n {
			sent++
			to = append(to, fmt.Sprintf("+86138%08d", sent))
			produce.Send(t.Context(), &schemas.Request{Channel: schemas.ChannelSMS, To: to[len(to)-1], Body: "x", Provider: provider}, to[len(to)-1])
		}
		at, err := produce.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.settle(trail, at, 60*time.Second)
		mu.Lock()
		defer mu.Unlock()
		for _, one := range to {
			switch e := ends[one]; {
			case e == nil:
				t.Fatalf("%s has no end", one)
			case e.Status == schemas.StatusSent:
				passed++
			case e.Status != schemas.StatusLimited || e.Limit != limit || e.Window != window || e.RetryAt == 0:
				t.Fatalf("%s by %q %q, want limited by %q %q", e.Status, e.Limit, e.Window, limit, window)
			}
		}
		return passed
	}
	want := func(what string, got int, allowed ...int) {
		t.Helper()
		if !slices.Contains(allowed, got) {
			t.Fatalf("%s: %d were sent, want %v", what, got, allowed)
		}
	}

	create(`{"manufacturerId": null, "requestsPerSecond": 2, "isEnabled": true}`)
	began := time.Now()
	// More than two only if it took more than a second; whether each was lawful the audit says.
	if got, most := send(12, "tencent", "legacy-1", "2/1s"), 2+2*int(time.Since(began)/time.Second); got < 2 || got > most {
		t.Fatalf("global 2/1s: %d were sent, want 2 to %d", got, most)
	}
	if text := legacy.Refusal("2/1s"); text != "超出每秒请求限制 (2)" {
		t.Errorf("said as %q", text)
	}
	create(`{"manufacturerId": 1, "requestsPerHour": 3, "isEnabled": true}`)
	put(1, `{"isEnabled": false}`)
	want("ali 3/1h, global off", send(8, "ali", "legacy-2", "3/1h"), 3)
	want("tencent, which has no limit", send(8, "tencent", "", ""), 8)
	put(2, `{"requestsPerHour": 0}`)
	want("ali without a number", send(8, "ali", "", ""), 8)
	put(2, `{"requestsPerHour": 1, "requestsPerMinute": 5}`)
	// It begins anew in a partition that decided while it had none, and goes on with
	// its three in one that did not.
	want("ali 1/1h", send(4, "ali", "legacy-2", "1/1h"), 0, 1)
	put(2, `{"isEnabled": false}`)
	want("ali off", send(4, "ali", "", ""), 4)
	put(2, `{"manufacturerId": null, "isEnabled": true}`)
	want("now for all: ali", send(3, "ali", "legacy-2", "1/1h"), 1)
	want("now for all: tencent", send(3, "tencent", "legacy-2", "1/1h"), 0)
	next, err := legacy.Remove(p, 2)
	change(next, err)
	want("removed", send(3, "tencent", "", ""), 3)
	s.stop(worker)
	t.Logf("AUDIT %s", s.weir("audit")) // fails unless it is proven
}
