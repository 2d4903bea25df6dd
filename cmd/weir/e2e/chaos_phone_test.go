//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/local"
	"github.com/weirhq/weir/schemas"
)

// Scenarios that damage the logs are judged where a message arrives: a phone notes what it
// received, and when, and looks at no log.

// Each message has an id of its own, and no call may be repeated that may have been
// received. Of the class code a recipient may receive so many in all as newTraffic says: no
// scenario is as long as that window. Two arrivals may be closer than their decisions by phoneSlack,
// and by how long a call takes on its way.
const (
	phoneShort, phoneWindow = 2, 30 * time.Second
	phoneSlack              = 4 * time.Second
	phoneExpiry             = 45 * time.Second
	phoneCallTakes          = 5 * time.Second // on a machine that stalls

	phonePolicy = `
limits:
  - {name: codes, match: {class: code}, per: [recipient], allow: [2/30s, %d/2h]}
  - {name: turns, match: {class: turn}, per: [recipient], allow: [1/4s], on_refusal: defer}
classes:
  - {name: code, priority: urgent, on_unknown: hold, stale_after: 4s, retries: [1s, 5s], expires_after: 45s}
  - {name: turn, on_unknown: hold, retries: [1s], expires_after: 45s}
providers:
  - {name: phone, type: http, channels: [sms], concurrency: 64, timeout: 20s, settings: {url: %q}}
routes:
  - {name: phones, match: {channel: sms}, to: [{provider: phone}]}
tenants:
  - {name: default, default_region: CN}
`
)

// phone is a provider. It refuses what says "permanent", for good, and the first attempt of
// what says "transient".
type phone struct {
	*httptest.Server
	mu    sync.Mutex
	calls []taken
}

// taken is a call that the phone took.
type taken struct {
	id, to, class string
	at            time.Time
}

func (p *phone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var m struct {
		ID, To, Body string
		Attempt      int
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == "" {
		http.Error(w, "bad call", http.StatusBadRequest)
		return
	}
	class, kind, _ := strings.Cut(m.Body, " ")
	switch {
	case kind == "permanent":
		http.Error(w, "no", http.StatusBadRequest)
		return
	case kind == "transient" && m.Attempt == 1:
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	p.mu.Lock()
	p.calls = append(p.calls, taken{m.ID, m.To, class, at})
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"id": "phone-" + m.ID})
}

// judge returns the ids that arrived, the recipients who got too much, and the ids that
// arrived twice. late are ids of which Weir says that they were called late, which are no
// part of a short window; most is what a recipient may receive in all, and jump by how much the brokers' clock itself may have moved.
func (p *phone) judge(late map[string]bool, most int, jump time.Duration) (arrived map[string]bool, over, twice []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arrived = make(map[string]bool)
	byTo := make(map[string][]taken)
	for _, c := range p.calls {
		if arrived[c.id] {
			twice = append(twice, c.id)
			continue
		}
		if arrived[c.id] = true; c.class == "code" {
			byTo[c.to] = append(byTo[c.to], c)
		}
	}
	for to, all := range byTo {
		if len(all) > most {
			over = append(over, fmt.Sprintf("%s got %d", to, len(all)))
		}
		all = slices.DeleteFunc(all, func(c taken) bool { return late[c.id] })
		slices.SortFunc(all, func(a, b taken) int { return a.at.Compare(b.at) })
		for i := phoneShort; i < len(all); i++ {
			if within := all[i].at.Sub(all[i-phoneShort].at); within < phoneWindow-phoneSlack-phoneCallTakes-jump {
				over = append(over, fmt.Sprintf("%s got %d within %v", to, phoneShort+1, within))
				break
			}
		}
	}
	return arrived, over, twice
}

// traffic is a site all of whose messages go to a phone, and a producer that notes which
// requests the brokers acknowledged.
type traffic struct {
	*site
	phone   *phone
	cl      *kgo.Client
	adm     *kadm.Client
	most    int // that a recipient may receive of the class code
	sending sync.WaitGroup
	enough  context.CancelFunc // ends the sending
	began   time.Time
	jump    time.Duration // by how much the time of a partition may step

	mu    sync.Mutex
	rng   *rand.Rand
	acked map[string]Offset // by id
	stuck map[string]bool   // without an end, and given up by quiet
	gone  map[string]bool   // lost before anyone had read them
	err   error
}

// newTraffic makes a site on brokers, in which a recipient may receive most messages of the
// class code. The phone is at host, or "" for the loopback.
func newTraffic(t *testing.T, brokers []string, name, host string, most int) *traffic {
	t.Helper()
	seed := seedOf(t)
	x := &traffic{phone: &phone{}, most: most, rng: rand.New(rand.NewPCG(seed, 1)), acked: make(map[string]Offset), stuck: make(map[string]bool), gone: make(map[string]bool)}
	x.phone.Server = httptest.NewUnstartedServer(x.phone)
	if host != "" {
		x.phone.Listener.Close()
		var err error
		if x.phone.Listener, err = net.Listen("tcp", host+":0"); err != nil {
			t.Fatal(err)
		}
	}
	x.phone.Start()
	t.Cleanup(x.phone.Close)
	x.site = newSite(t, brokers, name, fmt.Sprintf(phonePolicy, most, x.phone.URL))
	var err error
	x.cl, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(FNV1a), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.cl.Close)
	x.adm = kadm.NewClient(x.cl)
	return x
}

// start sends until finish.
func (x *traffic) start(perSecond int) {
	x.began = time.Now()
	ctx, cancel := context.WithCancel(x.t.Context())
	x.enough = cancel
	x.sending.Go(func() { _ = Bursts(ctx, math.MaxInt, perSecond, func(int) { x.ask() }) })
}

// finish sends no more, and returns when all is acknowledged.
func (x *traffic) finish() {
	x.t.Helper()
	x.enough()
	x.sending.Wait()
	x.more(0)
}

func (x *traffic) note(format string, args ...any) {
	x.t.Helper()
	x.t.Logf("%5.1fs, %d requests: %s", time.Since(x.began).Seconds(), x.count(), fmt.Sprintf(format, args...))
}

// ask sends a request. There are few recipients, so that each is at its limit before the end.
func (x *traffic) ask() {
	x.mu.Lock()
	kind, class, to := "ok", "code", x.rng.IntN(400)
	switch n := x.rng.IntN(100); {
	case n < 5:
		kind = "permanent"
	case n < 12:
		kind = "transient"
	}
	if x.rng.IntN(8) == 0 {
		class, to = "turn", x.rng.IntN(2_000)
	}
	var b [16]byte
	for i := range b {
		b[i] = byte(x.rng.Uint32())
	}
	x.mu.Unlock()
	id, _ := uuid.FromBytes(b[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	q := schemas.Request{ID: id.String(), Channel: schemas.ChannelSMS, Class: class, To: fmt.Sprintf("+8613800%06d", to), Body: class + " " + kind}
	r := &kgo.Record{Topic: x.names.Requests(), Key: []byte(q.To), Value: schemas.RequestJSON(&q)}
	x.cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if err != nil {
			x.err = err
			return
		}
		x.acked[q.ID] = Offset{r.Partition, r.Offset}
	})
}

// more sends n requests and waits until they are acknowledged.
func (x *traffic) more(n int) {
	x.t.Helper()
	for range n {
		x.ask()
	}
	if err := x.cl.Flush(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

func (x *traffic) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.acked)
}

// until waits until so many requests are acknowledged.
func (x *traffic) until(n int) {
	x.t.Helper()
	if !poll(x.t, 5*time.Minute, func() bool { return x.count() >= n }) {
		x.t.Fatalf("only %d of %d requests are acknowledged: %v", x.count(), n, x.err)
	}
}

// wait lets a time pass that is part of the fault.
func (x *traffic) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-x.t.Context().Done():
	}
}

// restartBroker starts a broker again, and waits until all copies are in sync.
func (x *traffic) restartBroker(k *local.Kafka, broker int) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), brokersStart)
	defer cancel()
	if err := k.Restart(ctx, broker); err != nil {
		x.t.Fatal(err)
	}
	x.note("broker %d is back", broker)
	x.whole()
}

// ends reads what weir.status says of each message: its end, and whether its call was late.
func (x *traffic) ends() (ends map[string]schemas.Status, late map[string]bool) {
	x.t.Helper()
	ends, late = make(map[string]schemas.Status), make(map[string]bool)
	if err := readLog(x.t.Context(), x.brokers, x.names, func(r Record) {
		switch e := r.Event; {
		case e.Kind != schemas.KindStatus:
		case e.Status.End():
			ends[e.MessageID] = e.Status
		case e.Status == schemas.StatusSending && e.Reason == "late":
			late[e.MessageID] = true
		}
	}); err != nil {
		x.t.Fatal(err)
	}
	return ends, late
}

// toldOf returns all that weir.status says of messages.
func (x *traffic) toldOf(ids []string) (told []string) {
	x.t.Helper()
	if err := readLog(x.t.Context(), x.brokers, x.names, func(r Record) {
		if e := r.Event; slices.Contains(ids, e.MessageID) {
			told = append(told, string(schemas.AppendEvent(nil, e)))
		}
	}); err != nil {
		x.t.Fatal(err)
	}
	return told
}

// quiet waits until every request that was acknowledged has an end, or one of the workers
// has ended on its own, which it returns, or nothing has moved for much longer than a message
// lives.
func (x *traffic) quiet(workers ...*Process) (ended *Process) {
	x.t.Helper()
	moved, last := time.Now(), -1
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		for _, w := range workers {
			select {
			case <-w.Done():
				return w
			default:
			}
		}
		ends, _ := x.ends()
		var left []string
		x.mu.Lock()
		for id := range x.acked {
			if ends[id] == "" && !x.stuck[id] && !x.gone[id] {
				left = append(left, id)
			}
		}
		x.mu.Unlock()
		if len(left) == 0 {
			return nil
		}
		if len(ends) != last {
			moved, last = time.Now(), len(ends)
		}
		if time.Since(moved) > phoneExpiry+45*time.Second {
			x.note("%d messages have no end, and nothing moves; of some weir.status says:\n%s", len(left), strings.Join(x.toldOf(few(left)), "\n"))
			for _, w := range workers {
				x.note("%s: %s", w.Name, w.Tail(12))
			}
			for _, id := range left {
				x.stuck[id] = true
			}
			return nil
		}
		select {
		case <-tick.C:
		case <-x.t.Context().Done():
			x.t.Fatal(context.Cause(x.t.Context()))
		}
	}
}

// finding is what the phone and weir audit say in the end.
type finding struct {
	arrived           int
	over, twice, lost []string
	gone              int
	ends              map[schemas.Status]int

	Outcome    string                        `json:"outcome"`
	Faults     map[string]int64              `json:"faults"`
	Violations []struct{ Kind, Text string } `json:"violations"`
	Untold     []struct {
		What  string `json:"what"`
		Count int64  `json:"count"`
	} `json:"untold"`
}

func (f finding) String() string {
	return fmt.Sprintf("%d arrived: over=%d twice=%d lost=%d (and %d unread); audit %s %s", f.arrived, len(f.over), len(f.twice), len(f.lost), f.gone, f.Outcome, strings.Join(f.kinds(), " "))
}

// kinds are those of the violations, in order.
func (f finding) kinds() []string { return slices.Sorted(maps.Keys(f.Faults)) }

// judge reads all, when the workers have ended.
func (x *traffic) judge() (f finding) {
	t := x.t
	t.Helper()
	out, err := exec.CommandContext(t.Context(), x.bin, append(append([]string{"audit"}, x.flags()...), "--json")...).Output()
	if wrong := json.Unmarshal(out, &f); wrong != nil {
		t.Fatalf("weir audit: %v: %v", err, cmp.Or(wrong, err))
	}
	ends, late := x.ends()
	arrived, over, twice := x.phone.judge(late, x.most, x.jump)
	f.arrived, f.over, f.twice, f.gone, f.ends = len(arrived), over, twice, len(x.gone), make(map[schemas.Status]int)
	for id := range x.acked {
		if f.ends[ends[id]]++; !arrived[id] && !x.gone[id] && (ends[id] == "" || ends[id] == schemas.StatusSent) {
			f.lost = append(f.lost, id)
		}
	}
	t.Logf("%s; ends %v; not told %v; violations %v", f, f.ends, f.Untold, f.Violations)
	return f
}

// sound holds what must be true whatever was done to the logs: what is proven is so at the
// phone, and what is not has a name. Where a worker stopped, what has no end waits in Kafka.
func (f finding) sound(t *testing.T, stopped bool) {
	t.Helper()
	if stopped {
		f.lost = nil
	}
	switch {
	case f.Outcome != "proven" && len(f.Faults) == 0 && len(f.Untold) == 0:
		t.Errorf("the audit says %s and names nothing", f.Outcome)
	case f.Outcome == "proven" && len(f.over)+len(f.twice)+len(f.lost) > 0:
		t.Errorf("the audit says proven: over %v, twice %v, lost %v", few(f.over), few(f.twice), few(f.lost))
	}
}

func few(all []string) []string { return all[:min(len(all), 3)] }
