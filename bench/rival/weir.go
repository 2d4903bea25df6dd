package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// policy has the limits in one order, and one provider: a server of this program.
func policy(url string) string {
	var b strings.Builder
	b.WriteString("limits:\n")
	for i := range limits {
		per := ""
		if limits[i].tenant {
			per = "tenant"
		}
		fmt.Fprintf(&b, "  - {name: %s, per: [%s], allow: [%s]}\n", limits[i].name, per, limits[i].allow())
	}
	b.WriteString("classes:\n  - {name: verify, priority: urgent}\n")
	fmt.Fprintf(&b, "providers:\n  - {name: callee, type: http, channels: [sms], concurrency: 256, timeout: 5s, settings: {url: %q}}\n", url)
	return b.String()
}

// weir runs Weir over the traffic and the faults of a seed, and judges it by its
// log and by the calls that its provider received.
func (b *bench) weir(ctx context.Context, seed uint64, calm bool) (o outcome, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "weir-rival-*")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	if b.bin == "" {
		if b.bin, err = e2e.Build(ctx, b.dir, ""); err != nil {
			return o, err
		}
	}
	callee, err := newCallee()
	if err != nil {
		return o, err
	}
	defer callee.server.Close()
	program, err := b.cluster.Program(ctx, b.bin, dir, "rival-weir", partitions, policy(callee.url))
	if err != nil {
		return o, err
	}
	names := program.Names
	c := &crew{log: b.log, start: func(slot int) (*e2e.Process, error) {
		return program.Start(fmt.Sprintf("worker-%d", slot), "--roles", "admission,lanes,delay", "--slot", fmt.Sprint(slot), "--log-level", "info")
	}}
	defer c.killAll()
	if err := c.startAll(); err != nil {
		return o, err
	}
	log, err := follow(b.cluster.Brokers, names)
	if err != nil {
		return o, err
	}
	defer log.close()
	requests, err := b.underFaults(ctx, c, names, seed, calm)
	if err == nil {
		err = log.ended(ctx, c, len(requests))
	}
	if err != nil {
		return o, errors.Join(err, kept(dir, c))
	}
	for _, p := range c.workers {
		if err := p.Stop(20 * time.Second); err != nil {
			return o, errors.Join(err, kept(dir, c))
		}
	}
	sent, refused := log.told(requests, callee.record())
	o = judge(requests, sent, refused, 0)
	o.Groundless = log.groundless
	if slices.Sort(log.held); len(log.held) > 0 {
		n := len(log.held)
		o.GivenBack, o.HeldMedian, o.HeldP99 = n, log.held[n/2]/1000, log.held[n*99/100]/1000
	}
	out, err := program.Output(ctx, "audit", "--json")
	var report struct {
		Outcome string `json:"outcome"`
	}
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		return o, errors.Join(err, jsonErr)
	}
	if report.Outcome != "proven" {
		text, _ := program.Output(ctx, "audit") // its exit code says what is known already
		fmt.Fprintf(b.log, "weir audit:\n%s\n", text)
	}
	o.System = "weir/faults"
	if calm {
		o.System = "weir/calm"
	}
	o.Seed, o.Audit, o.Seconds = seed, report.Outcome, time.Since(began).Seconds()
	return o, nil
}

// entry is what this program reads of a record of weir.status, by the contract and
// not by Weir's own types.
type entry struct {
	Kind      string `json:"kind"`
	MessageID string `json:"message_id"`
	Status    string `json:"status"`
	Attempt   int    `json:"attempt"`
	Decision  *struct {
		Verdict  string    `json:"verdict"`
		T        time.Time `json:"t"`
		Charges  []charge  `json:"charges"`
		Carried  []charge  `json:"carried"`
		Returned []charge  `json:"returned"`
		Restored []charge  `json:"restored"`
		Evidence []struct {
			Limit string `json:"limit"`
			Scope string `json:"scope"`
		} `json:"evidence"`
	} `json:"decision"`
}

type charge struct {
	Limit string    `json:"limit"`
	Scope string    `json:"scope"`
	T     time.Time `json:"t"`
}

// tale is what the log says of a message.
type tale struct {
	place   [2]int64         // of its latest decision to let it through
	permits map[int][2]int64 // attempt → the places of its decision
	refusal *refusal
	owner   bool // the refusal is the owner's own record, not what home says of it
	end     string
}

// follower reads weir.status as it grows.
type follower struct {
	cl *kgo.Client

	tales      map[string]*tale
	ends       int
	standing   map[shelf][]int64 // places by their owners' logs: times, in order
	groundless int               // refusals by owners, though no window of the limit was full of standing places
	held       []int64           // how long places stood that were given back, in microseconds
}

func follow(brokers []string, names topics.Names) (*follower, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(names.Status()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", names.Status(), err)
	}
	return &follower{cl: cl, tales: make(map[string]*tale), standing: make(map[shelf][]int64)}, nil
}

func (f *follower) close() { f.cl.Close() }

// ended reads until so many messages have an end.
func (f *follower) ended(ctx context.Context, c *crew, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("not all messages ended in 2 min"))
	defer cancel()
	for f.ends < n {
		fetches := f.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d have: %w", f.ends, n, context.Cause(ctx))
		}
		for _, r := range fetches.Records() {
			var e entry
			if err := json.Unmarshal(r.Value, &e); err != nil {
				return fmt.Errorf("status/%d/%d: %w", r.Partition, r.Offset, err)
			}
			f.stand(&e, r.Partition)
			if err := f.take(&e); err != nil {
				return fmt.Errorf("status/%d/%d: %w", r.Partition, r.Offset, err)
			}
		}
		if err := c.alive(); err != nil {
			return err
		}
	}
	return nil
}

// stand follows the places of each scope through the log of the partition that owns
// it, and looks whether one was full when it refused.
func (f *follower) stand(e *entry, partition int32) {
	d := e.Decision
	if d == nil {
		return
	}
	index := func(name string) int {
		return slices.IndexFunc(limits, func(l limit) bool { return l.name == name })
	}
	for _, c := range append(d.Charges, d.Restored...) {
		k, at := shelf{index(c.Limit), c.Scope}, c.T.UnixMicro()
		i, _ := slices.BinarySearch(f.standing[k], at+1)
		f.standing[k] = slices.Insert(f.standing[k], i, at)
	}
	for _, c := range d.Returned {
		k := shelf{index(c.Limit), c.Scope}
		f.held = append(f.held, d.T.Sub(c.T).Microseconds())
		if i, ok := slices.BinarySearch(f.standing[k], c.T.UnixMicro()); ok {
			f.standing[k] = slices.Delete(f.standing[k], i, i+1)
		}
	}
	if d.Verdict != "refuse" || len(d.Evidence) == 0 || schemas.PartitionOf(d.Evidence[0].Scope, partitions) != partition {
		return
	}
	k := shelf{index(d.Evidence[0].Limit), d.Evidence[0].Scope}
	for _, w := range limits[k.limit].windows {
		from, _ := slices.BinarySearch(f.standing[k], d.T.Add(-w.length).UnixMicro()+1)
		if int64(len(f.standing[k])-from) >= w.n {
			return
		}
	}
	f.groundless++
}

// take goes by the order of one message's records, which are in one partition but
// for those of the owners of limits.
func (f *follower) take(e *entry) error {
	if e.MessageID == "" {
		return nil
	}
	m := f.tales[e.MessageID]
	if m == nil {
		m = &tale{permits: make(map[int][2]int64)}
		f.tales[e.MessageID] = m
	}
	if d := e.Decision; d != nil {
		switch d.Verdict {
		case "admit", "move":
			held := 0
			for _, c := range append(d.Charges, d.Carried...) {
				for i := range limits {
					if limits[i].name == c.Limit {
						m.place[i] = c.T.UnixMicro()
						held++
					}
				}
			}
			if held != len(limits) {
				return fmt.Errorf("message %s was let through with %d of %d places", e.MessageID, held, len(limits))
			}
		case "refuse":
			owner := e.Kind == "decision"
			if len(d.Evidence) > 0 && (m.refusal == nil || owner && !m.owner) {
				m.refusal, m.owner = &refusal{id: e.MessageID, at: d.T.UnixMicro(), by: -1}, owner
				for i := range limits {
					if limits[i].name == d.Evidence[0].Limit {
						m.refusal.by = i
					}
				}
			}
		}
	}
	switch e.Status {
	case "sending":
		m.permits[e.Attempt] = m.place
	case "sent", "failed", "unknown", "limited", "suppressed", "expired", "cancelled", "rejected", "duplicate":
		if m.end == "" {
			f.ends++
		}
		m.end = e.Status
	}
	return nil
}

// told puts what the provider received beside the decisions that led to it. A
// call that no decision led to has the stamp 0, which the count will show.
func (f *follower) told(made map[string]string, calls []call) (sent []sending, refused []refusal) {
	for _, c := range calls {
		s := sending{id: c.ID, tenant: made[c.ID]}
		if m := f.tales[c.ID]; m != nil {
			s.at = m.permits[c.Attempt]
		}
		sent = append(sent, s)
	}
	for id, m := range f.tales {
		if m.end == "limited" && m.refusal != nil {
			m.refusal.tenant = made[id]
			refused = append(refused, *m.refusal)
		}
	}
	return sent, refused
}

// call is what the provider received.
type call struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
}

// callee is a provider's server on loopback that takes every call.
type callee struct {
	server *http.Server
	url    string

	mu    sync.Mutex
	calls []call
}

func newCallee() (*callee, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callee{url: "http://" + ln.Addr().String()}
	c.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got call
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || got.ID == "" {
			http.Error(w, "bad call", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.calls = append(c.calls, got)
		c.mu.Unlock()
		answered(r.Context())
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"callee-%s"}`, got.ID)
	})}
	go c.server.Serve(ln) //nolint:errcheck // until it is closed
	return c, nil
}

func (c *callee) record() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]call(nil), c.calls...)
}
