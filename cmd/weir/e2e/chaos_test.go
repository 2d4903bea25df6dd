//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/local"
)

// chaosScale is the scale of one scenario; WEIR_CHAOS_SCALE multiplies its
// requests, and with them its length.
func chaosScale(t *testing.T) scale {
	by := 1.0
	if given := os.Getenv("WEIR_CHAOS_SCALE"); given != "" {
		var err error
		if by, err = strconv.ParseFloat(given, 64); err != nil || by <= 0 {
			t.Fatalf("WEIR_CHAOS_SCALE=%q is not a number above 0", given)
		}
	}
	return scale{
		passing: 0.75, requests: int(75_000 * by), recipients: 12_000, perSecond: 1_200,
		kills: 4, pause: true, within: time.Duration(by*63)*time.Second + 4*time.Minute,
		// Longer than the lanes are behind on a slow machine: what goes stale again
		// and again before its turn shows nothing new.
		staleAfter: "30s",
	}
}

// scenario is one way to be hostile.
type scenario struct {
	name    string
	brokers local.Options
	run     func(t *testing.T, k *local.Kafka, sc scale) figures
	prepare func(t *testing.T, dir string) // what is there before the brokers start; may be nil
}

var scenarios = []scenario{
	{"workers killed and paused", local.Options{}, func(t *testing.T, k *local.Kafka, sc scale) figures { return exact(t, k.Addrs(), sc) }, nil},
	{"rolling restart", local.Options{}, rolling, nil},
	{"1 to 3 to 1 workers", local.Options{}, scaling, nil},
	{"clocks that step", local.Options{}, clocks, nil},
	{"the only broker killed", local.Options{Apart: true}, brokerKilled, nil},
	{"one of three brokers killed", local.Options{Brokers: 3}, oneOfThree, nil},
	{"two of three brokers killed", local.Options{Brokers: 3}, twoOfThree, nil},
	{"a disk of three is full", local.Options{Brokers: 3}, diskFull, smallDisk},
}

// brokersStart bounds a start of brokers that fails: a machine with much else to do may take
// minutes.
const brokersStart = 10 * time.Minute

// TestChaos runs every scenario on Apache Kafka and prints a line on each. A
// scenario alone: -run 'TestChaos/rolling_restart'. The same seed draws the same
// requests and the same faults; what runs between them is the machine's.
func TestChaos(t *testing.T) {
	lib, err := local.Ensure(t.Context(), "", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var summary []string
	all := figures{}
	for _, s := range scenarios {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			began := time.Now()
			var f figures
			defer func() {
				verdict := "ok"
				if t.Failed() {
					verdict = "FAILED"
				}
				line := fmt.Sprintf("CHAOS %-6s %-27s %s", verdict, s.name, f)
				fmt.Println(line)
				summary = append(summary, line)
			}()
			if s.name == oneWayName && outside(t) {
				f.said = "in namespaces of its own"
				return
			}
			o := s.brokers
			o.LibDir, o.Dir = lib, t.TempDir()
			if keep := os.Getenv("WEIR_CHAOS_DIR"); keep != "" { // to look into afterwards
				o.Dir = filepath.Join(keep, strings.ReplaceAll(s.name, " ", "_"))
			}
			if s.prepare != nil {
				s.prepare(t, o.Dir)
			}
			starting, cancel := context.WithTimeout(t.Context(), brokersStart)
			defer cancel()
			k, err := local.StartKafka(starting, o)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Stop()
			f = s.run(t, k, chaosScale(t))
			f.Took = time.Since(began)
			all.Requests += f.Requests
			all.Decisions += f.Decisions
			all.Done += f.Done
		})
	}
	verdict := "all passed"
	if t.Failed() {
		verdict = "FAILED"
	}
	fmt.Printf("CHAOS %s: %d scenarios, %d requests, %d decisions, %d faults done\n", verdict, len(summary), all.Requests, all.Decisions, all.Done)
}

// stopWithin is what a deployment waits: the grace that a worker has by default, and a
// moment.
const stopWithin = 26 * time.Second

// rolling ends one worker after another in good order, and starts it again, for
// several rounds.
func rolling(t *testing.T, k *local.Kafka, sc scale) figures {
	seed := seedOf(t)
	l := newLoad(t, k.Addrs(), "rolling", sc, seed)
	workers := []*Process{l.run(0, roles), l.run(1, roles), l.run(2, roles)}
	l.start(seed)
	const rounds = 3
	for round := range rounds {
		order := l.chance.Perm(len(workers))
		t.Logf("round %d restarts slots %v", round, order)
		for i, slot := range order {
			l.until(0.9 * (float64(round) + float64(i)/3 + l.chance.Float64()/6) / rounds)
			l.restart(workers, slot)
		}
	}
	return l.finish(workers...)
}

// restart is what a deployment does: SIGTERM, wait, start, wait until it is ready.
func (l *load) restart(workers []*Process, slot int) {
	l.t.Helper()
	asked := time.Now()
	if err := workers[slot].Stop(stopWithin); err != nil {
		l.t.Errorf("worker %d: %v\n%s", slot, err, workers[slot].Tail(10))
	}
	l.note("SIGTERM of slot %d, which ended within %v", slot, time.Since(asked).Round(time.Millisecond))
	l.done++
	l.startReady(workers, slot)
}

// startReady starts a worker and waits until it says that it runs.
func (l *load) startReady(workers []*Process, slot int) {
	l.t.Helper()
	ready := func() int {
		b, _ := os.ReadFile(filepath.Join(l.dir, fmt.Sprintf("worker-%d.log", slot))) // none yet is no start
		return strings.Count(string(b), " runs [")
	}
	before := ready()
	workers[slot] = l.run(slot, roles)
	if !poll(l.t, 30*time.Second, func() bool { return ready() > before }) {
		l.t.Errorf("worker %d is not ready:\n%s", slot, workers[slot].Tail(10))
	}
}

// scaling goes from one worker to three and back, twice.
func scaling(t *testing.T, k *local.Kafka, sc scale) figures {
	seed := seedOf(t)
	l := newLoad(t, k.Addrs(), "scaling", sc, seed)
	workers := []*Process{l.run(0, roles), nil, nil}
	l.start(seed)
	const rounds = 2
	for round := range rounds {
		at := func(share float64) { l.until(0.95 * (float64(round) + share + 0.1*l.chance.Float64()) / rounds) }
		at(0.15)
		for slot := range 3 {
			if workers[slot] == nil {
				l.startReady(workers, slot)
			}
		}
		l.note("three workers")
		l.done++
		at(0.6)
		stays := l.chance.IntN(3)
		for slot := range 3 {
			if slot != stays {
				if err := workers[slot].Stop(stopWithin); err != nil {
					t.Errorf("worker %d: %v\n%s", slot, err, workers[slot].Tail(10))
				}
				workers[slot] = nil
			}
		}
		l.note("one worker, in slot %d", stays)
		l.done++
	}
	var left []*Process
	for _, p := range workers {
		if p != nil {
			left = append(left, p)
		}
	}
	return l.finish(left...)
}

// brokerKilled kills the only broker, whose controller goes on, and starts it
// again on the same data.
func brokerKilled(t *testing.T, k *local.Kafka, sc scale) figures {
	seed := seedOf(t)
	l := newLoad(t, k.Addrs(), "broker", sc, seed)
	workers := []*Process{l.run(0, roles), l.run(1, roles)}
	l.start(seed)
	const kills = 3
	for i := range kills {
		l.until(0.9 * (float64(i) + 0.3 + 0.5*l.chance.Float64()) / kills)
		l.killBroker(k, 0, 0)
	}
	return l.finish(workers...)
}

// three is the load on three brokers. Three copies of everything on one machine are slow;
// a trace that overruns the lanes shows only that messages go stale.
func three(t *testing.T, k *local.Kafka, sc scale) (l *load, workers []*Process) {
	seed := seedOf(t)
	sc.requests, sc.perSecond, sc.staleAfter = sc.requests/3, sc.perSecond/3, "60s"
	l = newLoad(t, k.Addrs(), "three", sc, seed)
	workers = []*Process{l.run(0, roles), l.run(1, roles)}
	l.start(seed)
	return l, workers
}

// oneOfThree kills a broker, and brings it back, while the others go on.
func oneOfThree(t *testing.T, k *local.Kafka, sc scale) figures {
	l, workers := three(t, k, sc)
	for i, broker := range l.chance.Perm(3) {
		l.until(0.9 * (float64(i) + 0.2 + 0.4*l.chance.Float64()) / 3)
		l.killBroker(k, broker, l.between(0, 9*time.Second))
		// Two copies are in sync at every moment: what a cluster of three promises
		// to outlive is one broker at a time.
		l.whole()
	}
	return l.finish(workers...)
}

// twoOfThree kills two brokers at once. The one that is left has no controller and may
// acknowledge nothing: everything waits until another is back.
func twoOfThree(t *testing.T, k *local.Kafka, sc scale) figures {
	l, workers := three(t, k, sc)
	const rounds = 2
	for i := range rounds {
		l.until(0.9 * (float64(i) + 0.2 + 0.4*l.chance.Float64()) / rounds)
		two := l.chance.Perm(3)[:2]
		for _, b := range two {
			k.Kill(b)
		}
		down := l.between(5*time.Second, 15*time.Second)
		l.note("kill -9 of brokers %v, for %v or more", two, down.Round(time.Millisecond))
		l.done++
		l.wait(down)
		for _, b := range two {
			l.restartBroker(k, b)
		}
		l.whole()
	}
	return l.finish(workers...)
}

// smallDisk gives the first broker a disk of its own, in memory.
func smallDisk(t *testing.T, dir string) {
	disk := filepath.Join(dir, "broker-0")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("a small disk needs the right to mount one (root): %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// diskFull fills the disk of one of three brokers, which ends at its next append or when it
// cleans a log; then makes room, and starts it again.
func diskFull(t *testing.T, k *local.Kafka, sc scale) figures {
	l, workers := three(t, k, sc)
	ballast := filepath.Join(k.Dir(), "broker-0", "ballast")
	const rounds = 2
	for i := range rounds {
		l.until(0.9 * (float64(i) + 0.2 + 0.4*l.chance.Float64()) / rounds)
		n, err := fill(ballast)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full after %d bytes: %v", n, err)
		}
		l.note("the disk of broker 0 is full, by %d MiB", n>>20)
		select {
		case <-k.Done(0):
			l.note("broker 0 ended")
		case <-time.After(time.Minute):
			t.Fatal("broker 0 goes on with a full disk")
		}
		l.done++
		l.wait(l.between(0, 9*time.Second))
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		l.restartBroker(k, 0)
		l.whole()
	}
	return l.finish(workers...)
}

// fill writes to a file until there is no more room.
func fill(name string) (n int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		m, err := f.Write(block)
		if n += int64(m); err != nil {
			return n, err
		}
	}
}

func (l *load) killBroker(k *local.Kafka, broker int, down time.Duration) {
	l.t.Helper()
	k.Kill(broker)
	l.note("kill -9 of broker %d, for %v or more", broker, down.Round(time.Millisecond))
	l.done++
	l.wait(down)
	l.restartBroker(k, broker)
}

func (l *load) restartBroker(k *local.Kafka, broker int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), brokersStart)
	defer cancel()
	if err := k.Restart(ctx, broker); err != nil {
		l.t.Fatal(err)
	}
	l.note("broker %d is back", broker)
}

// whole waits until every copy of every partition is in sync.
func (l *site) whole() {
	l.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		behind := 0
		all, err := adm.ListTopicsWithInternal(ctx)
		all.EachPartition(func(p kadm.PartitionDetail) {
			if len(p.ISR) < len(p.Replicas) {
				behind++
			}
		})
		if err == nil && behind == 0 {
			l.t.Log("all copies are in sync")
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.t.Fatalf("%d partitions are not in sync: %v", behind, err)
		}
	}
}

// aheadAtMost is how far before its own append time admission may stamp a decision.
const aheadAtMost = 2 * time.Second

// clocks sets the clock of one of two workers wrong, in several ways, under load.
func clocks(t *testing.T, k *local.Kafka, sc scale) figures {
	seed := seedOf(t)
	l := newLoad(t, k.Addrs(), "clocks", sc, seed)
	honest, err := os.ReadFile(l.bin)
	if err != nil || bytes.Contains(honest, []byte(clockVar)) {
		t.Fatalf("the program that users get can be lied to about the time (%v)", err)
	}
	bin, err := Build(t.Context(), t.TempDir(), "chaos")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.dir, "clock")
	set := func(off time.Duration) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(off.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	steady := l.run(0, roles)
	l.bin, l.env = bin, []string{clockVar + "=" + file}
	wrong := l.run(1, roles)
	stalls := func() int { return strings.Count(wrong.Output(), "stalled: ") }
	l.stable(2)
	l.start(seed)

	drift := func(by, every time.Duration, steps int) {
		for i := range steps {
			set(time.Duration(i+1) * by)
			l.wait(every)
		}
		for i := range steps {
			set(time.Duration(steps-i-1) * by)
			l.wait(every)
		}
	}
	faults := []struct {
		name  string
		do    func()
		stall bool
	}{
		{"+90s", func() { set(90 * time.Second); l.wait(6 * time.Second) }, true},
		{"-90s", func() { set(-90 * time.Second); l.wait(6 * time.Second) }, false},
		{"+1.5s", func() { set(1500 * time.Millisecond); l.wait(6 * time.Second) }, false},
		{"+90s, -90s and +1.5s within a second", func() {
			for range 12 {
				for _, off := range []time.Duration{90 * time.Second, -90 * time.Second, 1500 * time.Millisecond} {
					set(off)
					l.wait(l.between(5*time.Millisecond, 200*time.Millisecond))
				}
			}
		}, true},
		{"fast by 4 %, then slow", func() { drift(8*time.Millisecond, 200*time.Millisecond, 25) }, false},
		{"slow by 4 %, then fast", func() { drift(-8*time.Millisecond, 200*time.Millisecond, 25) }, false},
	}
	order := l.chance.Perm(len(faults))
	t.Logf("order %v", order)
	for i, n := range order {
		l.until(0.1 + 0.85*float64(i)/float64(len(order)))
		f, before := faults[n], stalls()
		f.do()
		set(0)
		l.done++
		l.note("the clock was wrong: %s: %d stalls", f.name, stalls()-before)
		if got := stalls() - before; f.stall != (got > 0) {
			t.Errorf("clock %s: %d stalls", f.name, got)
		}
	}
	f := l.finish(steady, wrong)
	if f.Audit.Clock.Ahead > aheadAtMost {
		t.Errorf("a decision was stamped %v after its append time", f.Audit.Clock.Ahead)
	}
	return f
}
