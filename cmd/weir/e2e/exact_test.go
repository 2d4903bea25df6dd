package e2e

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"
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
	messages   int     // of the latency measurement
	alone      bool    // nothing else is busy on the machine: what is timed is held to what the pages say
	staleAfter string  // of the class that most requests have; 10s if empty
	passing    float64 // the share of requests that recipients' limits let through, roughly
}

// most is how long something may take: what the pages say where nothing else is
// busy (TestChaosTimes), and else as long as a test waits for what must come: a
// machine that stalls is no fault of what is tested.
func (sc scale) most(alone time.Duration) time.Duration {
	if sc.alone {
		return alone
	}
	return patience
}

// policy is the one that a load runs under. Its windows see the whole run, however
// long its faults make it. The tenant with half of the requests has its places taken
// half way, and all together theirs at three quarters: before that, everybody is
// let through whom the recipients' limits let through.
func (sc scale) policy(callee string) string {
	run := sc.requests/sc.perSecond + 1 // seconds
	through := sc.passing * float64(sc.requests)
	return fmt.Sprintf(exactPolicy, int(0.25*through), 4*run, int(0.63*through), 4*run, 3*sc.perSecond, 5, cmp.Or(sc.staleAfter, "10s"), callee)
}

var small = scale{passing: 0.42, requests: 20_000, recipients: 2_000, perSecond: 2_000, kills: 2, gently: true, within: 5 * time.Minute, messages: 100}

// session is the group session timeout of workers; a pause must be longer.
const session = 10 * time.Second

// Two limits beyond one recipient are on every message: one before the recipient's
// limits, and one after them.
const exactPolicy = `
limits:
  - {name: tenant, per: [tenant], allow: [%d/%ds, 1000000/calendar-day]}
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/10s, 5/60s, 10/calendar-day], timezone: Asia/Shanghai}
  - {name: everyone, per: [recipient], allow: [3/5s, 12/calendar-hour, 15/calendar-day]}
  - {name: everybody, per: [], allow: [%d/%ds, %d/%ds]}
classes:
  - {name: verify, priority: urgent, stale_after: %s, retries: [1s, 5s]}
  - {name: notice, retries: [1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], concurrency: 256, timeout: 2s, settings: {latency: 1ms-5ms}}
  - {name: callee, type: http, channels: [sms], concurrency: 64, timeout: 5s, settings: {url: %q}}
routes:
  - {name: phones, match: {channel: sms}, to: [{provider: sim, weight: 80}, {provider: callee, weight: 20}]}
  - {name: addresses, match: {channel: email}, to: [{provider: sim}]}
tenants:
  - {name: default, default_region: CN}
  - {name: acme, default_region: CN}
  - {name: umbrella, default_region: CN}
`

// exact sends requests from producers that partition differently, while workers
// are killed and paused, and lets the oracle judge the log.
func exact(t *testing.T, brokers []string, sc scale) figures {
	seed := seedOf(t)
	l := newLoad(t, brokers, "exact", sc, seed)
	workers := make([]*Process, 3)
	for slot := range workers {
		workers[slot] = l.run(slot, roles)
	}
	l.start(seed)
	for i := range sc.kills {
		// One somewhere in each equal part of the production.
		l.until((float64(i) + 0.9*l.chance.Float64()) / float64(sc.kills))
		if sc.gently {
			l.stable(len(workers))
		}
		slot := l.chance.IntN(len(workers))
		workers[slot].Kill()
		l.note("kill -9 of slot %d", slot)
		l.done++
		workers[slot] = l.run(slot, roles)
		if sc.pause && i == sc.kills/2 {
			l.pause(workers[(slot+1)%len(workers)])
		}
	}
	return l.finish(workers...)
}

// pause stops a worker's clockwork for longer than its session, so that the
// group gives its partitions away, and lets it go on as a zombie.
func (l *load) pause(p *Process) {
	l.t.Helper()
	if err := p.Pause(); err != nil {
		l.t.Fatal(err)
	}
	l.note("SIGSTOP of %s", p.Name)
	l.done++
	l.wait(session + 4*time.Second)
	if err := p.Resume(); err != nil {
		l.t.Fatal(err)
	}
	l.note("SIGCONT of %s", p.Name)
}

// produceTrace writes n requests in Bursts, until ctx ends.
func produceTrace(ctx context.Context, p *Producer, trace *Trace, n, perSecond int) {
	_ = Bursts(ctx, n, perSecond, func(i int) {
		// Failures alone at the end would open the provider's breaker, and be
		// let through three in ten seconds.
		trace.calm = i > n*3/4
		q, key := trace.Next()
		p.Send(ctx, &q, key)
	})
}
