package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

const shutdownPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/10s, 5/60s]}
classes:
  - {name: verify, priority: urgent, retries: [1s, 5s]}
  - {name: hold, on_unknown: hold}
providers:
  - {name: callee, type: http, channels: [sms], concurrency: 32, timeout: 1m, settings: {url: %q}}
  - {name: sim, type: simulated, channels: [email], timeout: 5m, settings: {latency: 1ms-5ms}}
tenants:
  - {name: default, default_region: CN}
`

// shutdown ends a worker in good order again and again under load, with calls
// and HTTP requests under way; then one whose provider hangs; then one by two
// signals.
func shutdown(t *testing.T, brokers []string, sc scale) {
	callee := newCallee(t)
	callee.hold = 150 * time.Millisecond
	s := newSite(t, brokers, "stop", fmt.Sprintf(shutdownPolicy, callee.URL))
	trail := s.follow(nil)
	const roles = "ingest,admission,lanes,delay"
	addr := childtest.Addr(t)
	worker := s.run(0, roles, "--http-listen", addr)

	const perRound = 250
	rounds := 2
	if !sc.gently {
		rounds = 6
	}
	producer, err := NewProducer(brokers, s.names, Murmur2)
	if err != nil {
		t.Fatal(err)
	}
	var produced atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producing sync.WaitGroup
	var accepted, refused int
	producing.Go(func() { // through Kafka
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-tick.C
			for j := range 4 {
				q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+861380000%04d", (i*4+j)%300), Class: "verify", Body: "x"}
				producer.Send(context.WithoutCancel(ctx), &q, q.To)
				produced.Add(1)
			}
		}
	})
	producing.Go(func() { // over HTTP: what is answered 202 is as good as produced
		for i := 0; ctx.Err() == nil; i++ {
			body := fmt.Sprintf(`{"channel":"sms","to":"+861390000%04d","class":"verify","body":"x"}`, i%3000)
			resp, err := http.Post("http://"+addr+"/v1/messages", "application/json", strings.NewReader(body))
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusAccepted {
					accepted++
					continue
				}
			}
			refused++
			select { // nobody listens between two workers
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	for round := range rounds {
		at := produced.Load()
		calls := len(callee.record())
		awaitCount(t, &produced, at+perRound)
		if !poll(t, 20*time.Second, func() bool { return len(callee.record()) > calls+perRound/4 }) {
			t.Fatalf("round %d: the worker does not call", round)
		}
		began := time.Now()
		if err := worker.Stop(patience); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		took := time.Since(began)
		permits, open := s.journal("callee")
		t.Logf("SHUTDOWN round %d: exit 0 after %v; %d permits, %d without outcome", round, took.Round(time.Millisecond), permits, open)
		if open > 0 || permits == 0 {
			t.Errorf("round %d: %d of %d permits have no outcome", round, open, permits)
		}
		s.left()
		inOrder(t, worker.Output(), "shutdown: begins", "shutdown: intake stopped\"", "shutdown: admission drained\"", "shutdown: delays drained\"", "shutdown: lanes drained\"", "shutdown: complete")
		if round == rounds-1 {
			cancel()
			producing.Wait()
		}
		if err := os.Remove(worker.log); err != nil {
			t.Fatal(err)
		}
		worker = s.run(0, roles, "--http-listen", addr)
	}
	if _, err := producer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests, err := Committed(t.Context(), brokers, s.names.Requests())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(requests), int(produced.Load())+accepted; got < want || accepted == 0 {
		t.Errorf("%d requests in the log, %d were acknowledged (%d over HTTP)", got, want, accepted)
	}
	s.settle(trail, requests, 60*time.Second)
	for id, n := range callee.record() {
		if n > 1 {
			t.Errorf("%s was called %d times", id, n)
		}
	}

	// A provider that hangs holds up nothing but its own step.
	s.stop(worker)
	worker = s.hanging("begins to hang", "--shutdown-grace", "20s")
	began := time.Now()
	if err := worker.Stop(patience); err != nil { // and the call has five minutes
		t.Errorf("a provider that hangs: %v", err)
	}
	permits, open := s.journal("sim")
	t.Logf("SHUTDOWN with a provider that hangs: exit 0 after %v, grace 20s; %d permits, %d without outcome", time.Since(began).Round(time.Millisecond), permits, open)
	if permits == 0 || open != 0 {
		t.Errorf("a provider that hangs: %d permits, %d without outcome", permits, open)
	}
	inOrder(t, worker.Output(), "shutdown: admission drained\"", "shutdown: lanes drained: overran", "cut off", "shutdown: complete")

	// The second signal ends it at once, and the exit code says so.
	for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		worker = s.hanging(fmt.Sprintf("again %d", i))
		if err := worker.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if !poll(t, 10*time.Second, func() bool { return strings.Contains(worker.Output(), "shutdown: delays drained") }) {
			t.Fatal("the shutdown does not begin")
		}
		began := time.Now()
		if err := worker.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-worker.Done():
		case <-time.After(patience):
			t.Fatal("a second signal does not end it")
		}
		exit, ok := errors.AsType[*exec.ExitError](worker.Err())
		if !ok || exit.ExitCode() != 128+int(sig) || !strings.Contains(worker.Output(), "second signal") {
			t.Errorf("second signal %v: %v", sig, worker.Err())
		}
		t.Logf("SHUTDOWN by a second signal (%v): %v after %v", sig, worker.Err(), time.Since(began).Round(time.Millisecond))
		if _, open := s.journal("sim"); open != 1 {
			t.Errorf("second signal: %d calls are in doubt, want the one that hangs", open)
		}
		// The next owner settles what is in doubt.
		next := s.run(0, "admission,lanes,delay")
		if !poll(t, 30*time.Second, func() bool { _, open := s.journal("sim"); return open == 0 }) {
			t.Error("what is in doubt is not settled")
		}
		s.stop(next)
	}
	all, err := Committed(t.Context(), brokers, s.names.Requests())
	if err != nil {
		t.Fatal(err)
	}
	_, report := s.judge(all, map[string]map[string]int{"callee": callee.record()})
	t.Logf("SHUTDOWN %s; %d over HTTP, %d refused there meanwhile", report, accepted, refused)
	if !report.OK() {
		t.Error("the log does not hold what it promises")
	}
	out, err := s.try("audit")
	t.Logf("AUDIT %v %s", err, out)
	if err != nil {
		t.Errorf("the audit: %v", err)
	}
}

// hanging starts a worker and a call of it that hangs for five minutes.
func (s *site) hanging(name string, more ...string) *Process {
	s.t.Helper()
	before, _ := s.journal("sim")
	p, err := NewProducer(s.brokers, s.names, Murmur2)
	if err != nil {
		s.t.Fatal(err)
	}
	q := schemas.Request{Channel: schemas.ChannelEmail, To: "timeout@example.com", Class: "hold", Body: name, Subject: name}
	p.Send(s.t.Context(), &q, q.To)
	if _, err := p.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	_ = os.Remove(s.dir + "/worker-0.log")
	worker := s.run(0, "admission,lanes,delay", more...)
	if !poll(s.t, 30*time.Second, func() bool { n, _ := s.journal("sim"); return n > before }) {
		s.t.Fatal("nothing hangs")
	}
	return worker
}

// journal counts the permits in a provider's journal, and those without outcome.
func (s *site) journal(provider string) (permits, open int) {
	s.t.Helper()
	type permit struct {
		topic     string
		partition int32
		offset    int64
		t         string
	}
	inDoubt := make(map[permit]bool)
	err := stream.Read(s.t.Context(), stream.ReadConfig{Brokers: s.brokers}, []stream.Range{{Partition: stream.Partition{Topic: s.names.Journal(provider)}}}, func(r *kgo.Record) error {
		var e struct {
			Kind, Topic string
			T, Permit   json.RawMessage
			Partition   int32
			Offset      int64
		}
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return err
		}
		p := permit{e.Topic, e.Partition, e.Offset, string(e.T)}
		if e.Kind == "permit" {
			permits++
			inDoubt[p] = true
			return nil
		}
		p.t = string(e.Permit)
		delete(inDoubt, p)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return permits, len(inDoubt)
}

// left holds that no group of the site has a member any more.
func (s *site) left() {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	groups, err := kadm.NewClient(cl).DescribeGroups(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	seen := 0
	for name, g := range groups {
		if strings.HasPrefix(name, s.names.Prefix) {
			seen++
			if len(g.Members) > 0 {
				s.t.Errorf("group %s still has %d members", name, len(g.Members))
			}
		}
	}
	if seen == 0 {
		s.t.Error("no groups: nothing was checked")
	}
}

// inOrder holds that a log has these pieces, in this order.
func inOrder(t *testing.T, log string, pieces ...string) {
	t.Helper()
	rest := log
	for _, p := range pieces {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("the log lacks %q after the steps before it:\n%s", p, strings.Join(shutdownLine.FindAllString(log, -1), "\n"))
			return
		}
		rest = after
	}
}

var shutdownLine = regexp.MustCompile(`(?m)^.*shutdown: .*$`)

// TestDevShutdown: weir dev ends in the same order, its broker last.
func TestDevShutdown(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), append(slices.Clone(anyPorts), "--log-level", "info")...)
	d.weir(t, "send", "--to", "+8613800000000", "--class", "verify", "--body", "x", "--wait")
	began := time.Now()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("weir dev does not end")
	}
	if err := d.Err(); err != nil {
		t.Errorf("weir dev: %v", err)
	}
	t.Logf("SHUTDOWN of weir dev: %v", time.Since(began).Round(time.Millisecond))
	inOrder(t, d.Output(), "shutdown: intake stopped\"", "shutdown: admission drained\"", "shutdown: delays drained\"", "shutdown: lanes drained\"",
		"shutdown: complete", "shutdown: broker stopped\"")
	t.Log(strings.Join(shutdownLine.FindAllString(d.Output(), -1), "\n"))
}
