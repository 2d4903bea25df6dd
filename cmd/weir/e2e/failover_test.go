package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/schemas"
)

// patient is a provider's server that can be taken away, so that connections
// are refused, or hang.
type patient struct {
	addr string

	mu      sync.Mutex
	srv     *http.Server
	hangs   chan struct{} // not nil: calls wait for it to be closed
	stalled time.Time     // the first call that hung
}

func newPatient(t *testing.T) *patient {
	p := &patient{addr: childtest.Addr(t)} // it comes back there
	p.open(t)
	t.Cleanup(func() { p.well(); p.shut() })
	return p
}

func (p *patient) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	p.srv = &http.Server{Handler: http.HandlerFunc(p.answer)}
	go p.srv.Serve(l)
}

func (p *patient) shut() { p.srv.Close() }

func (p *patient) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	hangs := p.hangs
	if hangs != nil && p.stalled.IsZero() {
		p.stalled = time.Now()
	}
	p.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q}`, r.Header.Get("Idempotency-Key"))
}

func (p *patient) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = make(chan struct{})
}

func (p *patient) well() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hangs != nil {
		close(p.hangs)
		p.hangs = nil
	}
}

const failoverPolicy = `
limits:
  - {name: twice, per: [recipient], allow: [2/1h]}
  - {name: by-provider, match: {provider: good}, per: [recipient, provider], allow: [1/1h]}
classes:
  - {name: alone, retries: [1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s]}
  - {name: refused, retries: [1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s]}
  - {name: hung, retries: [1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s]}
providers:
  - {name: refusing, type: http, channels: [sms], timeout: 1s, settings: {url: "http://%s"}}
  - {name: hanging, type: http, channels: [sms], timeout: 1s, settings: {url: "http://%s"}}
  - {name: good, type: http, channels: [sms], timeout: 1m, settings: {url: %q}}
routes:
  - {name: one, match: {class: refused}, to: [{provider: refusing, weight: 1}, {provider: good, weight: 1}]}
  - {name: two, match: {class: hung}, to: [{provider: hanging, weight: 1}], failover: [good]}
  - {name: three, match: {class: alone}, to: [{provider: refusing}]}
tenants:
  - {name: default, default_region: CN}
`

// ill is what weir.status and weir.health say of a provider that falls ill.
type ill struct {
	admitted []schemas.Millis // decisions for it
	sending  map[string]schemas.Millis
	failed   schemas.Millis // permit of the first call that failed
	codes    map[string]int
}

// failover takes one of two providers away, and lets the first of another pair
// hang, while messages flow; then both are well again. It measures how long
// messages are still admitted for them, and when they are admitted for them
// again.
func failover(t *testing.T, brokers []string, sc scale) {
	refusing, hanging, good := newPatient(t), newPatient(t), newCallee(t)
	s := newSite(t, brokers, "failover", fmt.Sprintf(failoverPolicy, refusing.addr, hanging.addr, good.URL))
	var mu sync.Mutex
	seen := map[string]*ill{}
	for _, name := range []string{"refusing", "hanging", "good"} {
		seen[name] = &ill{sending: map[string]schemas.Millis{}, codes: map[string]int{}}
	}
	ends, parked := map[schemas.Status]int{}, 0
	trail := s.follow(func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		e := r.Event
		if e.Kind != schemas.KindStatus {
			return
		}
		if e.Status.End() {
			ends[e.Status]++
		}
		if e.Status == schemas.StatusDeferred && e.Reason == "no_usable_provider" {
			parked++
		}
		p := seen[e.Provider]
		if p == nil {
			return
		}
		switch e.Status {
		case schemas.StatusQueued:
			p.admitted = append(p.admitted, e.Decision.T)
		case schemas.StatusSending:
			p.sending[e.MessageID] = e.At
		case schemas.StatusRetrying:
			p.codes[e.ErrorCode]++
			if at := p.sending[e.MessageID]; p.failed == 0 || at < p.failed {
				p.failed = at
			}
		default:
		}
	})
	worker := s.run(0, "admission,lanes,delay")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var (
		requests []Offset
		reqMu    sync.Mutex
		n        int
	)
	send := func(class string) {
		n++
		to := fmt.Sprintf("+86139%08d", n)
		value := schemas.RequestJSON(&schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: class, Body: "x"})
		cl.Produce(t.Context(), &kgo.Record{Topic: s.names.Requests(), Key: []byte(to), Value: value}, func(r *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			reqMu.Lock()
			requests = append(requests, Offset{r.Partition, r.Offset})
			reqMu.Unlock()
		})
	}
	// opens are what the lanes said when they first opened their breakers.
	opens := func() map[string]schemas.Health {
		opened := map[string]schemas.Health{}
		if err := ReadCommitted(t.Context(), brokers, s.names.Health(), func(r *kgo.Record) error {
			h, err := schemas.DecodeHealth(r.Value)
			if _, had := opened[h.Provider]; err == nil && h.Breaker == schemas.BreakerOpen && !had {
				opened[h.Provider] = h
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return opened
	}
	isOut := func(name string) bool { return opens()[name].At != 0 }
	// shares are what admission said last of each provider.
	shares := func() map[string]string {
		is := map[string]string{}
		for _, m := range regexp.MustCompile(`a provider's share of its weight changes" provider=(\S+) was=\S+ is=(\S+)`).FindAllStringSubmatch(worker.Output(), -1) {
			is[m[1]] = m[2]
		}
		return is
	}
	// flow sends 50 messages a second of two classes, and five of the third.
	flow := func(d time.Duration, until func() bool) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i, end := 0, time.Now().Add(d); time.Now().Before(end) && !until(); i++ {
			send("refused")
			send("hung")
			if i%10 == 0 {
				send("alone")
			}
			<-tick.C
		}
	}
	count := func(name string, from schemas.Millis) int {
		mu.Lock()
		defer mu.Unlock()
		c := 0
		for _, at := range seen[name].admitted {
			if at >= from {
				c++
			}
		}
		return c
	}
	flow(patience, func() bool { return count("refusing", 0) > 20 && count("hanging", 0) > 20 })

	refusing.shut()
	hanging.hang()
	fell := time.Now()
	told := make(chan string, 1)
	go func() {
		open, out := regexp.MustCompile(`(?m)^refusing +open, probed at [0-9:]+Z +[1-9]`), ""
		poll(t, patience, func() bool { out, _ = s.try("status"); return open.MatchString(out) })
		told <- out
	}()
	flow(2*patience, func() bool { return time.Since(fell) > 5*time.Second && len(told) == 1 && isOut("hanging") })
	if out := <-told; !strings.Contains(out, "open, probed at") {
		t.Errorf("weir status does not say that a provider is out:\n%s", out)
	} else {
		_, out, _ = strings.Cut(out, "PROVIDER")
		t.Log("PROVIDER" + out)
	}
	well := schemas.MillisOf(time.Now())
	refusing.open(t)
	hanging.well()
	flow(patience, func() bool {
		return count("refusing", well) > 30 && count("hanging", well) > 30 && shares()["refusing"] == "well" && shares()["hanging"] == "well"
	})
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.settle(trail, requests, 30*time.Second)
	s.stop(worker)
	t.Log(s.weir("audit"))

	// Nobody keeps a smaller weight for what failed before the breaker closed.
	if is := shares(); is["refusing"] != "well" || is["hanging"] != "well" {
		t.Errorf("in the end their shares are %v", is)
	}
	opened := opens()
	mu.Lock()
	defer mu.Unlock()
	if ends[schemas.StatusSent] != len(requests) || len(ends) != 1 {
		t.Errorf("%d messages ended so: %v", len(requests), ends)
	}
	if parked == 0 {
		t.Error("nobody waited for the provider that stood alone")
	}
	t.Logf("FAILOVER %d messages, all sent; %d times one waited without a provider", len(requests), parked)
	for name, bound := range map[string]time.Duration{"refusing": sc.most(2 * time.Second), "hanging": sc.most(3 * time.Second)} {
		p, open := seen[name], opened[name]
		from := p.failed
		if name == "hanging" {
			from = schemas.MillisOf(hanging.stalled)
		}
		var last, first schemas.Millis
		for _, at := range p.admitted {
			if at < open.ProbeAt {
				last = max(last, at)
			} else if first == 0 || at < first {
				first = at
			}
		}
		t.Logf("FAILOVER %s: breaker open %v after the first call that failed, last admission for it after %v (%v); well again after %v, half-open at %v, the next admission %v after that",
			name, open.At.Sub(from), last.Sub(from), p.codes, well.Sub(from), open.ProbeAt.Sub(from), first.Sub(open.ProbeAt))
		if from == 0 || open.At == 0 || last.Sub(from) > bound {
			t.Errorf("%s: admitted %v after the first failure, want at most %v", name, last.Sub(from), bound)
		}
		if first == 0 || first.Sub(open.ProbeAt) > sc.most(2*time.Second) {
			t.Errorf("%s: admitted again %v after its probe time", name, first.Sub(open.ProbeAt))
		}
	}
}
