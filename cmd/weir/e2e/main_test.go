package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{broker.Name: broker.Role, engine.RoleName: engine.Role})
	// These wait for other processes most of their time. -parallel says otherwise.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	if binDir != "" {
		os.RemoveAll(binDir)
	}
	os.Exit(code)
}

var binDir string

// program builds weir once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weir-e2e-*")
	if err != nil {
		return "", err
	}
	binDir = dir
	return Build(context.Background(), dir, "")
})

func weirBinary(t *testing.T) string {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// embedded starts a broker of the test's own, as weir dev does.
func embedded(t *testing.T) *child.Process {
	t.Helper()
	p, err := broker.Start(t.Context(), broker.Options{Dir: t.TempDir(), Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// partitions is N in these tests.
const partitions = 8

// site is one Weir: a prefix of its own on a broker, with a policy in force.
type site struct {
	t        *testing.T
	bin      string
	brokers  []string
	names    topics.Names
	dir      string
	env      []string // of workers, beside the test's own
	within   []string // begins the command of workers: in another namespace
	policies map[int64]*schemas.Policy
}

var sites atomic.Int64 // made so far: parts of prefixes

func newSite(t *testing.T, brokers []string, name, policy string) *site {
	t.Helper()
	s := &site{t: t, bin: weirBinary(t), brokers: brokers, dir: t.TempDir(),
		names: topics.Names{Prefix: fmt.Sprintf("e2e-%s-%d-%d.", name, time.Now().UnixMilli(), sites.Add(1))}}
	s.weir("topics", "apply")
	s.apply(policy)
	return s
}

// flags say where this site's Kafka is.
func (s *site) flags() []string {
	return []string{"--kafka-brokers", strings.Join(s.brokers, ","), "--kafka-prefix", s.names.Prefix, "--kafka-partitions", fmt.Sprint(partitions)}
}

// weir runs a command to its end and returns what it printed; it must succeed.
func (s *site) weir(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *site) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	words := 1
	if args[0] == "topics" || args[0] == "ledger" || args[0] == "dlq" {
		words = 2
	}
	all := append(append(append([]string{}, args[:words]...), s.flags()...), args[words:]...)
	cmd := exec.CommandContext(ctx, s.bin, all...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// apply brings a policy into force, whole.
func (s *site) apply(policy string) {
	s.t.Helper()
	if out, err := s.tryApply(policy); err != nil {
		s.t.Fatalf("weir apply: %v\n%s", err, out)
	}
	var err error
	if s.policies, err = Revisions(s.t.Context(), s.brokers, s.names); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) tryApply(policy string) (string, error) {
	s.t.Helper()
	file := filepath.Join(s.dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return s.try("apply", "--accept-loss", "-f", file, "--prune")
}

// run starts a worker. It is killed with the test; on failure its last words
// are shown.
func (s *site) run(slot int, roles string, more ...string) *Process {
	s.t.Helper()
	args := append([]string{"run", "--insecure-no-auth"}, s.flags()...)
	args = append(args, "--roles", roles, "--slot", fmt.Sprint(slot), "--log-level", "info", "--shutdown-grace", unhurried)
	command := slices.Concat(s.within, []string{s.bin}, args, more)
	p, err := start(s.dir, fmt.Sprintf("worker-%d", slot), s.env, command[0], command[1:]...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", p.Name, p.Tail(25))
		}
	})
	return p
}

// unhurried is the grace of a shutdown that is no part of a test: a machine that stalls
// must not make one that has all its work done end with an error.
const unhurried = "100s"

// stop ends workers in good order.
func (s *site) stop(workers ...*Process) {
	s.t.Helper()
	var wg sync.WaitGroup
	for _, p := range workers {
		wg.Go(func() {
			if err := p.Stop(patience); err != nil {
				s.t.Errorf("%s: %v", p.Name, err)
			}
		})
	}
	wg.Wait()
}

// follow begins a trail of weir.status, which ends with the test.
func (s *site) follow(watch func(Record)) *Trail {
	s.t.Helper()
	trail, err := Follow(s.brokers, s.names, s.oracle(), watch)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); trail.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-done })
	return trail
}

func (s *site) oracle() *Oracle {
	return NewOracle(s.policies, s.names.Requests(), s.names.Readmit(), partitions)
}

// stable waits until every group of a stage is stable with its members alive. The
// embedded broker (kfake) starts no session timer for a member whose connection
// breaks while it waits to join; killed then, it would hold its partitions for
// ever. Apache Kafka expires it, and needs no such care.
func (s *site) stable(members int) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for {
		groups, err := adm.DescribeGroups(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		busy := 0
		for name, g := range groups {
			if name == ingest.Group(s.names) { // not all members serve HTTP
				continue
			}
			if strings.HasPrefix(name, s.names.Prefix) && (g.State != "Stable" || len(g.Members) != members) {
				busy++
			}
		}
		if busy == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%d groups were not stable within %v", busy, patience)
			s.diagnose()
			return
		}
		<-tick.C
	}
}

// settle waits until every request has an end and every record of readmit a
// decision.
func (s *site) settle(trail *Trail, requests []Offset, within time.Duration) {
	s.t.Helper()
	within = max(within, patience)
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	next := 0
	err := trail.Until(ctx, func(o *Oracle) bool {
		for next < len(requests) {
			if _, _, ok := o.Ended(requests[next]); !ok {
				return false
			}
			next++
		}
		return true
	})
	if err != nil {
		var left map[schemas.Status]int
		_ = trail.Until(s.t.Context(), func(o *Oracle) bool { left = o.Unended(requests); return true })
		s.t.Errorf("not all messages ended within %v: %v; without an end, by last status: %v", within, err, left)
		s.diagnose()
		return
	}
	readmit, err := Committed(ctx, s.brokers, s.names.Readmit())
	if err == nil {
		next = 0
		err = trail.Until(ctx, func(o *Oracle) bool {
			for next < len(readmit) && o.Decided(readmit[next]) {
				next++
			}
			return next == len(readmit)
		})
	}
	if err != nil {
		s.t.Errorf("not all of readmit was decided within %v: %v", within, err)
	}
}

// judge reads all of weir.status anew and lets a fresh oracle judge it. Call
// it when all workers have stopped.
func (s *site) judge(requests []Offset, calls map[string]map[string]int) (*Oracle, *Report) {
	s.t.Helper()
	ctx := s.t.Context() // how long a whole log takes is the machine's
	o := s.oracle()
	if err := ReadLog(ctx, s.brokers, s.names, o); err != nil {
		s.t.Fatal(err)
	}
	readmit, err := Committed(ctx, s.brokers, s.names.Readmit())
	if err != nil {
		s.t.Fatal(err)
	}
	return o, o.Finish(requests, readmit, calls)
}
