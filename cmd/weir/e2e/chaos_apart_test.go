//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/deploy/local"
)

// apart are the clocks of three brokers, each three seconds from the next. The workers and
// the phone go by the one in the middle.
var apart = []time.Duration{-3 * time.Second, 0, 3 * time.Second}

func init() {
	scenarios = append(scenarios, scenario{"brokers 3 s apart", local.Options{Brokers: 3, Before: wrongClock}, brokersApart, func(t *testing.T, _ string) {
		if libfaketime() == "" {
			t.Fatal("NOT RUN: brokers with clocks of their own. Missing: libfaketime (Debian: apt-get install faketime).")
		}
	}})
}

func libfaketime() string {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1") // a pattern that is right
	return strings.Join(found[:min(len(found), 1)], "")
}

// wrongClock begins the command of a broker whose clock is wrong. Time that elapses is right:
// a JVM waits by the monotonic clock, and with libfaketime's own fix for that it waits for ever.
func wrongClock(broker int) []string {
	return []string{"env", "LD_PRELOAD=" + libfaketime(), fmt.Sprintf("FAKETIME=%+.3fs", apart[broker].Seconds()),
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_FORCE_MONOTONIC_FIX=0"}
}

// differLine is what a worker logs of brokers whose clocks differ: it names both.
var differLine = regexp.MustCompile(`brokers' clocks differ; .*by_at_least=(\S+) .*broker=(\d) clock=(\S+) .*other_broker=(\d) other_clock=(\S+)`)

// brokersApart kills each of three brokers whose clocks differ, so that every partition is
// led by another clock, and leads it back.
func brokersApart(t *testing.T, k *local.Kafka, _ scale) figures {
	x := newTraffic(t, k.Addrs(), "apart", "", 12)
	x.jump = 6 * time.Second // a partition's time follows its leader's clock
	workers := []*Process{x.run(0, roles), x.run(1, roles)}
	x.stable(2)
	x.start(100)
	stalls := func() (n int) {
		for _, w := range workers {
			n += strings.Count(w.Output(), "stalled: ")
		}
		return n
	}
	x.until(1_500)
	x.note("%d stalls at the start", stalls())
	// Before a leader changes a worker may stall until it has seen two clocks.
	if n := stalls(); n > 3*len(workers) {
		t.Errorf("%d stalls before any leader changed", n)
	}
	most := 0
	for broker := range apart {
		before := stalls()
		k.Kill(broker)
		x.note("kill -9 of broker %d, whose clock is at %v", broker, apart[broker])
		x.until(x.count() + 500)
		x.restartBroker(k, broker)
		if _, err := x.adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, nil); err != nil {
			t.Fatal(err)
		}
		x.until(x.count() + 1_000)
		n := stalls() - before
		x.note("the leaders are as they were; %d stalls", n)
		most = max(most, n)
	}
	x.finish()
	if w := x.quiet(workers...); w != nil {
		t.Errorf("%s ended on its own: %s", w.Name, w.Tail(5))
	}
	x.stop(workers...)
	x.marked()
	f := x.judge()
	f.sound(t, false)
	if f.Outcome == "violated" || len(f.over)+len(f.twice)+len(f.lost) > 0 {
		t.Errorf("%s", f)
	}
	// Time never goes back in a partition: one that comes to a leader which is behind waits
	// for it, a second at a time, and for no longer than the clocks differ. There are two such
	// changes in a round, for each of two workers.
	if limit := 2 * 2 * 6; most > limit {
		t.Errorf("%d stalls around a change of leaders, not %d at most", most, limit)
	}
	said := 0
	for _, w := range workers {
		lines := differLine.FindAllStringSubmatch(w.Output(), -1)
		said += len(lines)
		for _, l := range lines {
			x.note("%s: %v", w.Name, l[1:])
		}
		// It forgets that it has said so only where it begins again, after a commit whose
		// outcome it does not know.
		if begun := 1 + strings.Count(w.Output(), "stream restarts from its log"); len(lines) == 0 || len(lines) > begun {
			t.Errorf("%s reported brokers whose clocks differ %d times, and began %d times", w.Name, len(lines), begun)
		}
		if again := strings.Count(w.Output(), "clocks agree again"); again > 0 {
			t.Errorf("%s says %d times that the clocks agree again", w.Name, again)
		}
	}
	return figures{said: fmt.Sprintf("%s; reported %d times by 2 workers, %d stalls, at most %d around a change of leaders", f, said, stalls(), most)}
}
