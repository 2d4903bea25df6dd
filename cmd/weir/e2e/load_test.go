package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// roles are those of a worker under load.
const roles = "admission,lanes,delay"

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

// load is a site under a hostile trace: producers that partition as three kinds
// of clients do, and what they wrote.
type load struct {
	*site
	sc     scale
	callee *callee
	trail  *Trail
	chance *rand.Rand // for the test's own choices: not of two goroutines at once
	began  time.Time
	done   int // what was done to it: kills, pauses, restarts, steps

	producers []*Producer
	producing sync.WaitGroup
	mu        sync.Mutex
	requests  []Offset
	keyed     map[string][]Offset
}

// newLoad makes a site; start begins to produce.
func newLoad(t *testing.T, brokers []string, name string, sc scale, seed uint64) *load {
	t.Helper()
	callee := newCallee(t)
	s := newSite(t, brokers, name, sc.policy(callee.URL))
	return &load{site: s, sc: sc, callee: callee, trail: s.follow(nil), chance: rand.New(rand.NewPCG(seed, 2)), keyed: make(map[string][]Offset)}
}

func (l *load) start(seed uint64) {
	l.t.Helper()
	l.began = time.Now()
	kinds := []kgo.Partitioner{Murmur2, CRC32, FNV1a}
	for i, p := range kinds {
		producer, err := NewProducer(l.brokers, l.names, p)
		if err != nil {
			l.t.Fatal(err)
		}
		l.producers = append(l.producers, producer)
		n := l.sc.requests / len(kinds)
		l.producing.Go(func() {
			produceTrace(l.t.Context(), producer, NewTrace(seed+uint64(i), l.sc.recipients), n, l.sc.perSecond/len(kinds))
			acked, err := producer.Close(l.t.Context())
			if err != nil || len(acked) != n {
				l.t.Errorf("producer %d: %d of %d requests acknowledged: %v", i, len(acked), n, err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.requests = append(l.requests, acked...)
			for k, at := range producer.Keyed() {
				l.keyed[k] = append(l.keyed[k], at...)
			}
		})
	}
}

// note logs what is done to the site, and when.
func (l *load) note(format string, args ...any) {
	l.t.Helper()
	l.t.Logf("%5.1fs, %d requests: %s", time.Since(l.began).Seconds(), l.acked(), fmt.Sprintf(format, args...))
}

func (l *load) acked() (n int) {
	for _, p := range l.producers {
		n += p.Acked()
	}
	return n
}

// until waits until this share of the requests is acknowledged.
func (l *load) until(share float64) {
	l.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for least := share * float64(l.sc.requests/3*3); float64(l.acked()) < least; {
		select {
		case <-tick.C:
		case <-l.t.Context().Done():
			l.t.Fatal(context.Cause(l.t.Context()))
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

// wait lets a time pass that is part of the fault.
func (l *load) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-l.t.Context().Done():
	}
}

// between is a time of the test's choice.
func (l *load) between(least, most time.Duration) time.Duration {
	return least + time.Duration(l.chance.Int64N(int64(most-least)))
}

// figures are what a run came to.
type figures struct {
	Report
	Done    int
	Audit   auditReport
	Took    time.Duration
	said    string        // by a scenario with a judge of its own, in place of all this
	settled time.Duration // after the last request
}

// auditReport is what these tests read of weir audit --json.
type auditReport struct {
	Outcome string `json:"outcome"`
	Clock   struct {
		Ahead  time.Duration `json:"ahead"`
		Behind time.Duration `json:"behind"`
	} `json:"clock"`
}

func (f figures) String() string {
	if f.said != "" {
		return fmt.Sprintf("%s; %.0f s", f.said, f.Took.Seconds())
	}
	return fmt.Sprintf("%d requests, %d decisions, %d refused by the tenant's limit and %d by that for all, %d faults done: over=%d wrongly_refused=%d lost=%d two_ends=%d other=%d; audit %s, t at most %v ahead; %.0f s",
		f.Requests, f.Decisions, f.RefusedBy["tenant"], f.RefusedBy["everybody"], f.Done, f.Faults[FaultOver], f.Faults[FaultWronglyHeld], f.Faults[FaultLost], f.Faults[FaultTwoEnds], f.others(),
		f.Audit.Outcome, f.Audit.Clock.Ahead, f.Took.Seconds())
}

// finish waits for the end of every message, stops the workers and lets the
// oracle and the audit judge the log.
func (l *load) finish(workers ...*Process) figures {
	t := l.t
	t.Helper()
	l.producing.Wait()
	l.note("all %d are acknowledged", len(l.requests))
	last := time.Now()
	l.settle(l.trail, l.requests, l.sc.within-time.Since(l.began))
	l.note("all have ended")
	settled := time.Since(last)
	for _, p := range workers {
		select {
		case <-p.Done():
			t.Errorf("%s ended on its own: %v\n%s", p.Name, p.Err(), p.Tail(10))
		default:
		}
	}
	l.stop(workers...)
	l.marked()

	// The product's own proof, by code that shares nothing with the oracle, beside it.
	proofs := make(chan proof, 1)
	go func() { proofs <- l.prove() }()
	oracle, report := l.judge(l.requests, map[string]map[string]int{"callee": l.callee.record()})
	t.Logf("EXACT %s", report)
	if !report.OK() {
		t.Error("the log does not hold what it promises")
		for _, v := range report.Violations {
			if v.Offset >= 0 {
				l.around(v.Partition, v.Offset-30, v.Offset+10)
				break
			}
		}
	}
	f := figures{Report: *report, Done: l.done, settled: settled}
	p := <-proofs
	f.Audit = p.auditReport
	if p.err != nil || f.Audit.Outcome != "proven" {
		t.Errorf("weir audit: %v\n%s", p.err, p.text)
	} else if p.text != "" {
		t.Logf("weir audit:\n%s", p.text)
	}
	f.Took = time.Since(l.began)
	// A log without the cases proves nothing of them.
	for what, n := range map[string]int{
		"admitted": report.Admitted, "refused": report.Refused, "moved": report.Moved, "given back": report.GivenBack,
		"forwarded": report.Forwarded, "called": report.Calls, "duplicates": report.Ends[schemas.StatusDuplicate],
		// Which of the two is full depends on how fast the machine is: each refuses the most of some runs.
		"refused by its tenant's limit or the limit for all": report.RefusedBy["tenant"] + report.RefusedBy["everybody"],
		"unwound": report.Wide.Unwound, "moved by an owner": report.Wide.Moved, "given back by an owner": report.Wide.GivenBack,
	} {
		if n == 0 {
			t.Errorf("none was %s: this run shows too little", what)
		}
	}
	oneOfEachKey(t, oracle, l.keyed)
	return f
}

// marked waits until every transaction's end stands in every partition: Kafka says
// that one is committed before it writes the markers. One that never comes is a
// record that nobody will see.
func (l *site) marked() {
	l.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var names []string
	all, err := adm.ListTopics(l.t.Context())
	for _, name := range all.Names() {
		if strings.HasPrefix(name, l.names.Prefix) {
			names = append(names, name)
		}
	}
	var open []string
	if !poll(l.t, 30*time.Second, func() bool {
		open = nil
		var ends, stable kadm.ListedOffsets
		if ends, err = adm.ListEndOffsets(l.t.Context(), names...); err == nil {
			stable, err = adm.ListCommittedOffsets(l.t.Context(), names...)
		}
		ends.Each(func(end kadm.ListedOffset) {
			if at, _ := stable.Lookup(end.Topic, end.Partition); at.Offset != end.Offset {
				open = append(open, fmt.Sprintf("%s/%d at %d of %d", end.Topic, end.Partition, at.Offset, end.Offset))
			}
		})
		return err == nil && len(open) == 0 && len(names) > 0
	}) {
		l.t.Errorf("transactions without an end: %v: %v", open, err)
		l.diagnose()
	}
}

// proof is what weir audit came to.
type proof struct {
	auditReport
	text string // where it is shown
	err  error
}

func (l *load) prove() (p proof) {
	out, err := l.audit("--json")
	p.err = errors.Join(err, json.Unmarshal(out, &p.auditReport))
	if p.err != nil || p.Outcome != "proven" || testing.Verbose() {
		text, _ := l.audit()
		p.text = string(text)
	}
	return p
}

// audit runs weir audit and returns what it prints, without its progress.
func (l *load) audit(args ...string) ([]byte, error) {
	return exec.CommandContext(l.t.Context(), l.bin, append(append([]string{"audit"}, l.flags()...), args...)...).Output()
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
