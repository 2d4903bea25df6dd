package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// scale is how much a run of the suite does.
type scale struct {
	requests   int
	recipients int
	perSecond  int // requests, over both producers
	kills      int
	pause      bool // one worker stopped for longer than its session
	gently     bool // kill only when no group is rebalancing: see stable
	within     time.Duration
	messages   int // of the latency measurement
}

var small = scale{requests: 20_000, recipients: 2_000, perSecond: 2_000, kills: 2, gently: true, within: 100 * time.Second, messages: 100}

// session is the group session timeout of workers; a pause must be longer.
const session = 10 * time.Second

const exactPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/10s, 5/60s, 10/calendar-day], timezone: Asia/Shanghai}
  - {name: everyone, per: [recipient], allow: [3/5s, 12/calendar-hour, 15/calendar-day]}
classes:
  - {name: verify, priority: urgent, stale_after: 10s, retries: [1s, 5s]}
  - {name: notice, retries: [1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], concurrency: 256, timeout: 2s, settings: {latency: 1ms-5ms}}
  - {name: callee, type: http, channels: [sms], concurrency: 64, timeout: 5s, settings: {url: %q}}
routes:
  - {name: phones, match: {channel: sms}, to: [{provider: sim, weight: 80}, {provider: callee, weight: 20}]}
  - {name: addresses, match: {channel: email}, to: [{provider: sim}]}
tenants:
  - {name: default, default_region: CN}
`

// seedOf returns WEIR_SEED, or a new seed, and prints it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("WEIR_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("WEIR_SEED=%d", seed)
	return seed
}

// exact sends requests from two producers that partition differently, while
// workers are killed and paused, and lets the oracle judge the log.
func exact(t *testing.T, brokers []string, sc scale) {
	seed := seedOf(t)
	callee := newCallee(t)
	s := newSite(t, brokers, "exact", fmt.Sprintf(exactPolicy, callee.URL))
	trail := s.follow(nil)
	const roles = "admission,lanes,delay"
	workers := make([]*Process, 3)
	for slot := range workers {
		workers[slot] = s.run(slot, roles)
	}

	var produced atomic.Int64
	var requests []Offset
	keyed := make(map[string][]Offset)
	var mu sync.Mutex
	var producing sync.WaitGroup
	for i, p := range []kgo.Partitioner{Murmur2, CRC32} {
		producer, err := NewProducer(brokers, s.names, p)
		if err != nil {
			t.Fatal(err)
		}
		producing.Go(func() {
			produceTrace(t.Context(), producer, NewTrace(seed+uint64(i), sc.recipients), sc.requests/2, sc.perSecond/2, &produced)
			acked, err := producer.Close(t.Context())
			if err != nil {
				t.Errorf("producer %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, acked...)
			for k, at := range producer.Keyed() {
				keyed[k] = append(keyed[k], at...)
			}
		})
	}

	began := time.Now()
	chance := rand.New(rand.NewPCG(seed, 2))
	for i := range sc.kills {
		// One somewhere in each equal part of the production.
		part := sc.requests / sc.kills
		awaitCount(t, &produced, int64(i*part+chance.IntN(part*9/10)))
		if sc.gently {
			s.stable(len(workers))
		}
		slot := chance.IntN(len(workers))
		workers[slot].Kill()
		t.Logf("%5.1fs kill -9 of slot %d after %d requests", time.Since(began).Seconds(), slot, produced.Load())
		workers[slot] = s.run(slot, roles)
		if sc.pause && i == sc.kills/2 {
			pause(t, workers[(slot+1)%len(workers)], began)
		}
	}
	producing.Wait()
	t.Logf("%5.1fs all %d requests are acknowledged", time.Since(began).Seconds(), len(requests))
	if len(requests) != sc.requests/2*2 {
		t.Errorf("%d requests acknowledged", len(requests))
	}
	s.settle(trail, requests, sc.within-time.Since(began))
	t.Logf("%5.1fs all have ended", time.Since(began).Seconds())
	for slot, p := range workers {
		select {
		case <-p.Done():
			t.Errorf("worker %d ended on its own: %v\n%s", slot, p.Err(), p.Tail(10))
		default:
		}
	}
	s.stop(workers...)

	oracle, report := s.judge(requests, map[string]map[string]int{"callee": callee.record()})
	t.Logf("EXACT %s", report)
	if !report.OK() {
		t.Error("the log does not hold what it promises")
		for _, v := range report.Violations {
			if v.Offset >= 0 {
				s.around(v.Partition, v.Offset-30, v.Offset+10)
				break
			}
		}
	}
	// The product's own proof, by code that shares nothing with the oracle.
	t.Logf("AUDIT %s", s.weir("audit"))
	// A log without the cases proves nothing of them.
	for what, n := range map[string]int{
		"admitted": report.Admitted, "refused": report.Refused, "moved": report.Moved, "given back": report.GivenBack,
		"forwarded": report.Forwarded, "called": report.Calls, "duplicates": report.Ends[schemas.StatusDuplicate],
	} {
		if n == 0 {
			t.Errorf("none was %s: this run shows too little", what)
		}
	}
	oneOfEachKey(t, oracle, keyed)
}

// produceTrace writes n requests at a pace, in bursts as services do.
func produceTrace(ctx context.Context, p *Producer, trace *Trace, n, perSecond int, produced *atomic.Int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for sent := 0; sent < n; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		due := min(n, int(time.Since(began).Seconds()*float64(perSecond)))
		for ; sent < due; sent++ {
			q, key := trace.Next()
			p.Send(ctx, &q, key)
			produced.Add(1)
		}
	}
}

func awaitCount(t *testing.T, n *atomic.Int64, least int64) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n.Load() < least {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}

// pause stops a worker's clockwork for longer than its session, so that the
// group gives its partitions away, and lets it go on as a zombie.
func pause(t *testing.T, p *Process, began time.Time) {
	t.Helper()
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%5.1fs SIGSTOP of %s", time.Since(began).Seconds(), p.Name)
	over := time.NewTimer(session + 4*time.Second)
	defer over.Stop()
	select {
	case <-over.C:
	case <-t.Context().Done():
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%5.1fs SIGCONT of %s", time.Since(began).Seconds(), p.Name)
}

// oneOfEachKey holds that of all requests with one idempotency key, one was
// taken and the others are duplicates.
func oneOfEachKey(t *testing.T, o *Oracle, keyed map[string][]Offset) {
	t.Helper()
	repeated := 0
	for key, at := range keyed {
		if len(at) > 1 {
			repeated++
		}
		taken := 0
		for _, a := range at {
			if _, end, ok := o.Ended(a); ok && end != schemas.StatusDuplicate {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("of %d requests with key %s, %d were taken", len(at), key, taken)
		}
	}
	t.Logf("%d idempotency keys, %d of them repeated", len(keyed), repeated)
}
