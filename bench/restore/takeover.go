package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/admission"
)

// asWorker is the environment variable that makes this program a worker
// process: prefix, partitions, slot, and whether it has a standby.
const asWorker = "WEIR_BENCH_RESTORE_WORKER"

// worker runs admission until the process is told to end.
func worker(ctx context.Context, brokers []string, spec string, stderr io.Writer) error {
	f := strings.Split(spec, ",")
	if len(f) != 4 {
		return fmt.Errorf("%s=%q", asWorker, spec)
	}
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	w := (&rig.Cluster{Brokers: brokers}).World(f[0], n)
	watch, stop, err := w.Watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	cfg := w.Admission(f[2])
	cfg.Stream.SessionTimeout = session
	cfg.Standby = f[3] == "standby"
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	return admission.Run(ctx, cfg, watch)
}

// session is the shortest that brokers take: how long the group waits for the
// dead is no part of what is measured.
const session = 6 * time.Second

// process is a worker process and what it has said.
type process struct {
	cmd  *exec.Cmd
	read <-chan struct{}

	mu   sync.Mutex
	said []string
}

func (w *world) process(ctx context.Context, slot string, standby bool) (p *process, err error) {
	kind := "none"
	if standby {
		kind = "standby"
	}
	p = &process{}
	p.cmd, p.read, err = rig.Worker(ctx, w.Brokers, asWorker, fmt.Sprintf("%s,%d,%s,%s", w.Names.Prefix, w.partitions, slot, kind), func(line string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, line)
	})
	return p, err
}

func (p *process) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // it may have ended by itself
	<-p.read
	_ = p.cmd.Wait() // by a signal
}

// assigned is what a worker said of an assignment.
type assigned struct {
	at                   time.Time // when it came
	took                 time.Duration
	owned, cold, records int
}

var assignment = regexp.MustCompile(`^time=(\S+) .*msg="partitions restored" owned=(\d+) cold=(\d+) records=(\d+) took=(\S+)`)

// last returns the last assignment that the worker spoke of.
func (p *process) last() (a assigned, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range slices.Backward(p.said) {
		m := assignment.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		ended, err1 := time.Parse(time.RFC3339Nano, m[1])
		took, err2 := time.ParseDuration(m[5])
		if err1 != nil || err2 != nil {
			continue
		}
		a = assigned{at: ended.Add(-took), took: took}
		a.owned, _ = strconv.Atoi(m[2]) // the pattern has digits only
		a.cold, _ = strconv.Atoi(m[3])
		a.records, _ = strconv.Atoi(m[4])
		return a, true
	}
	return a, false
}

func (p *process) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.said, func(line string) bool { return strings.Contains(line, text) })
}

// owns waits until the worker owns so many partitions.
func (p *process) owns(ctx context.Context, n int) (assigned, error) {
	for {
		if a, ok := p.last(); ok && a.owned == n {
			return a, nil
		}
		if err := pause(ctx); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			return assigned{}, fmt.Errorf("waiting for %d partitions: %w: %s", n, err, strings.Join(p.said, "\n"))
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// takeover is what came after the end of the other worker, each since the signal.
type takeover struct {
	assigned, transaction, decided time.Duration
	cold, records                  int
	restore                        time.Duration
}

// took is the part that is the new owner's doing.
func (t takeover) took() time.Duration { return t.decided - max(t.assigned, t.transaction) }

// takeover ends one of two workers under load.
func (w *world) takeover(ctx context.Context, run int, sig syscall.Signal, standby bool) (t takeover, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 90*time.Second, errors.New("a takeover did not end in 90 s"))
	defer cancel()
	load, err := w.load(ctx, run)
	if err != nil {
		return t, err
	}
	defer load()
	half := w.partitions / 2
	victim, err := w.process(ctx, "victim", standby)
	if err != nil {
		return t, err
	}
	defer victim.end(syscall.SIGKILL)
	if _, err := victim.owns(ctx, w.partitions); err != nil {
		return t, err
	}
	heir, err := w.process(ctx, "heir", standby)
	if err != nil {
		return t, err
	}
	defer heir.end(syscall.SIGTERM)
	for _, p := range []*process{victim, heir} {
		if _, err := p.owns(ctx, half); err != nil {
			return t, err
		}
	}
	for standby && !heir.has("standby has caught up") {
		if err := pause(ctx); err != nil {
			return t, err
		}
	}
	of, err := w.ownedBy(ctx, "victim")
	if err != nil {
		return t, err
	}
	seen, err := w.observe(ctx, of)
	if err != nil {
		return t, err
	}
	defer seen.close()
	killed := time.Now()
	victim.end(sig)
	a, err := heir.owns(ctx, w.partitions)
	if err != nil {
		return t, err
	}
	for {
		seen.mu.Lock()
		aborted := seen.aborted
		i := slices.IndexFunc(seen.decided, func(at time.Time) bool { return at.After(a.at) })
		if i >= 0 {
			t = takeover{a.at.Sub(killed), 0, seen.decided[i].Sub(killed), a.cold, a.records, a.took}
			if aborted.After(killed) {
				t.transaction = aborted.Sub(killed)
			}
		}
		seen.mu.Unlock()
		if i >= 0 {
			return t, nil
		}
		if err := pause(ctx); err != nil {
			return t, err
		}
	}
}

// load produces some requests each 10 ms until it is ended.
func (w *world) load(ctx context.Context, run int) (end func(), err error) {
	cl, err := w.Producer()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cl.Close()
		for next := 50_000_000 + run*1_000_000; pause(ctx) == nil; next += 20 {
			_ = w.produce(ctx, cl, next, 20) // ends with its context; what is missing shows
		}
	}()
	return func() { cancel(); <-done }, nil
}

// ownedBy asks the group which partitions a client has.
func (w *world) ownedBy(ctx context.Context, client string) ([]int32, error) {
	group := admission.Group(w.Names)
	groups, err := w.Admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, m := range groups[group].Members {
		if c, ok := m.Assigned.AsConsumer(); ok && m.ClientID == client {
			for _, t := range c.Topics {
				if t.Topic == w.Names.Requests() {
					return t.Partitions, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%s is no member of %s", client, group)
}

// observer sees what becomes visible in some partitions.
type observer struct {
	close func()

	mu      sync.Mutex
	aborted time.Time   // the last abort marker in the ledger
	decided []time.Time // committed records of status
}

func (w *world) observe(ctx context.Context, partitions []int32) (*observer, error) {
	o := &observer{}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var clients []*kgo.Client
	follow := func(topic string, level kgo.IsolationLevel, fn func(r *kgo.Record)) error {
		at := make(map[int32]kgo.Offset)
		for _, p := range partitions {
			at[p] = kgo.NewOffset().AtEnd()
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(level), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
		if err != nil {
			return err
		}
		clients = append(clients, cl)
		// The first records mean that it follows, not only that it was asked to.
		wg.Go(func() {
			for ctx.Err() == nil {
				fetches := cl.PollFetches(ctx)
				o.mu.Lock()
				fetches.EachRecord(fn)
				o.mu.Unlock()
			}
		})
		return nil
	}
	o.close = func() {
		cancel()
		wg.Wait()
		for _, cl := range clients {
			cl.Close()
		}
	}
	err := errors.Join(
		follow(w.Names.Ledger(), kgo.ReadUncommitted(), func(r *kgo.Record) {
			if r.Attrs.IsControl() && len(r.Key) >= 4 && r.Key[3] == 0 { // abort: KIP-98
				o.aborted = time.Now()
			}
		}),
		follow(w.Names.Status(), kgo.ReadCommitted(), func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				o.decided = append(o.decided, time.Now())
			}
		}))
	for err == nil {
		o.mu.Lock()
		n := len(o.decided)
		o.mu.Unlock()
		if n > 0 {
			break
		}
		err = pause(ctx)
	}
	if err != nil {
		o.close()
	}
	return o, err
}

// takeovers measures with and without a standby, in turns.
func (b *bench) takeovers(ctx context.Context, w *world, sig syscall.Signal, what, command string) (string, error) {
	var out strings.Builder
	name, why := "kill -9", fmt.Sprintf(`One is killed with SIGKILL, and the other gets its %d partitions once the session (%v) is over. The
dead worker's transaction is still open then: the broker ends it at its timeout (10 s, looked at every 10 s), and who takes over must wait for that.`, b.partitions/2, session)
	if sig == syscall.SIGTERM {
		name, why = "an orderly end", fmt.Sprintf("One is told to end (SIGTERM): it commits, leaves the group, and the other gets its %d partitions at once.", b.partitions/2)
	}
	fmt.Fprintf(&out, "# Takeover after %s\n\n%s\n\n    %s\n\n", name, rig.Machine(), command)
	fmt.Fprintf(&out, "%s. Two worker processes of %d partitions each, a ledger of %d recipients, half of them in the partitions\n", what, b.partitions/2, b.recipients)
	fmt.Fprintf(&out, "that are taken over, at most 2,000 requests a second. %s\n\n", why)
	out.WriteString("Times are since the signal: when the assignment came, when a transaction of the old owner was aborted (- is none), and when the first\ndecision of the new owner in these partitions was committed and read. The takeover is from the later of the first two to the last.\n\n")
	out.WriteString("| run | standby | assignment | end of old transaction | first decision | takeover | partitions begun from nothing | records read | restore, waiting included |\n|---|---|---|---|---|---|---|---|---|\n")
	took := map[bool][]float64{}
	for i := range b.runs {
		for _, standby := range []bool{i%2 == 0, i%2 == 1} {
			t, err := w.takeover(ctx, int(time.Now().Unix()%900), sig, standby)
			if err != nil {
				return "", fmt.Errorf("run %d: %w", i+1, err)
			}
			took[standby] = append(took[standby], t.took().Seconds())
			old := "-"
			if t.transaction > 0 {
				old = fmt.Sprintf("%.2f s", t.transaction.Seconds())
			}
			line := fmt.Sprintf("| %d | %v | %.2f s | %s | %.2f s | **%.2f s** | %d | %d | %v |\n", i+1, standby, t.assigned.Seconds(), old, t.decided.Seconds(), t.took().Seconds(), t.cold, t.records, t.restore.Round(time.Millisecond))
			out.WriteString(line)
			fmt.Fprint(b.log, line)
		}
	}
	out.WriteString("\n| takeover | min | median | max |\n|---|---|---|---|\n")
	for _, standby := range []bool{true, false} {
		name := "without a standby"
		if standby {
			name = "from a standby"
		}
		fmt.Fprintf(&out, "| %s | %.2f s | %.2f s | %.2f s |\n", name, slices.Min(took[standby]), rig.Median(took[standby]), slices.Max(took[standby]))
	}
	return out.String(), nil
}
