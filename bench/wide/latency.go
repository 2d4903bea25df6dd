package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// site is one weir run, on topics of its own, with its provider's server here.
type site struct {
	names    topics.Names
	worker   *e2e.Process
	cl       *kgo.Client
	calls    chan time.Time
	tail     *kgo.Client
	n        int32
	took     []time.Duration
	shutdown []func()
}

// latencies sends one message at a time through two weirs, in turns: one with a
// wide limit beside the recipient's, one without.
func (b *bench) latencies(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "weir-wide-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if b.program == "" {
		if b.program, err = e2e.Build(ctx, dir, ""); err != nil {
			return "", err
		}
	}
	const recipient, wide = "  - {name: verify, per: [recipient], allow: [5/60s, 20/calendar-day]}\n", "  - {name: tenant, per: [tenant], allow: [10000/60s, 100000/1h]}\n"
	var sites []*site
	defer func() {
		for _, s := range sites {
			s.close()
		}
	}()
	for i, limits := range []string{recipient, recipient + wide} {
		s, err := b.newSite(ctx, filepath.Join(dir, fmt.Sprint(i)), limits)
		if err != nil {
			return "", err
		}
		sites = append(sites, s)
	}
	const warm = 30 // connections, groups that have come together
	for i := range warm + b.messages {
		turn := slices.Clone(sites)
		if i%2 == 1 {
			slices.Reverse(turn)
		}
		for _, s := range turn {
			took, err := s.one(ctx, i)
			if err != nil {
				return "", err
			}
			if i >= warm {
				s.took = append(s.took, took)
			}
		}
		if (i+1)%100 == 0 {
			fmt.Fprintf(b.log, "%d of %d messages of each\n", i+1, warm+b.messages)
		}
	}
	at := func(s *site, q float64) float64 {
		v := slices.Sorted(slices.Values(s.took))
		return float64(v[min(int(q*float64(len(v))), len(v)-1)].Microseconds()) / 1000
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# Latency with a tenant-wide limit, idle\nTwo `weir run --roles admission,lanes,delay`, each on topics of its own with %d partitions,\n", b.partitions)
	t.WriteString("one with a recipient's limit, the other with a tenant's after it. One message at a time goes through each, in turns; the next begins when the one before\n")
	t.WriteString("has ended. Each has another recipient and tenant, drawn so that the tenant's owner is another partition than the recipient's. From before the request is\n")
	fmt.Fprintf(&t, "produced (acks=all) until the provider has the call, in ms; %d messages each.\n\n| limits | p50 | p90 | p99 | max |\n|---|---|---|---|---|\n", b.messages)
	for i, name := range []string{"recipient's alone", "and a tenant-wide one"} {
		fmt.Fprintf(&t, "| %s | %.1f | %.1f | %.1f | %.1f |\n", name, at(sites[i], 0.5), at(sites[i], 0.9), at(sites[i], 0.99), at(sites[i], 1))
	}
	fmt.Fprintf(&t, "| **added** | **%.1f** | **%.1f** | **%.1f** | |\n", at(sites[1], 0.5)-at(sites[0], 0.5), at(sites[1], 0.9)-at(sites[0], 0.9), at(sites[1], 0.99)-at(sites[0], 0.99))
	return t.String(), nil
}

func (b *bench) newSite(ctx context.Context, dir, limits string) (s *site, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s = &site{n: int32(b.partitions), calls: make(chan time.Time, 100)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	url, err := s.serve()
	if err != nil {
		return nil, err
	}
	policy := fmt.Sprintf("limits:\n%sproviders:\n  - {name: callee, type: http, channels: [sms], settings: {url: %q}}\n", limits, url)
	weir, err := b.cluster.Program(ctx, b.program, dir, "wide", b.partitions, policy)
	if err != nil {
		return nil, err
	}
	s.names = weir.Names
	if s.worker, err = weir.Start("worker", "--roles", "admission,lanes,delay", "--slot", "0"); err != nil {
		return nil, err
	}
	s.shutdown = append(s.shutdown, s.worker.Kill)
	if s.cl, err = kgo.NewClient(kgo.SeedBrokers(b.cluster.Brokers...), kgo.ProducerLinger(0)); err != nil {
		return nil, err
	}
	s.shutdown = append(s.shutdown, s.cl.Close)
	s.tail, err = kgo.NewClient(kgo.SeedBrokers(b.cluster.Brokers...), kgo.ConsumeTopics(s.names.Status()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	s.shutdown = append(s.shutdown, s.tail.Close)
	return s, nil
}

func (s *site) close() {
	for _, f := range slices.Backward(s.shutdown) {
		f()
	}
}

// serve is the provider: it takes every call.
func (s *site) serve() (url string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls <- time.Now()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"callee-%s"}`, r.Header.Get("Idempotency-Key"))
	})}
	s.shutdown = append(s.shutdown, func() { server.Close() })
	go server.Serve(ln) //nolint:errcheck // until it is closed
	return "http://" + ln.Addr().String(), nil
}

// one sends the i-th message and waits for its end.
func (s *site) one(ctx context.Context, i int) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("a message did not end in 30 s"))
	defer cancel()
	tenant := fmt.Sprintf("t%d", i)
	to := ""
	for k := 0; to == "" || schemas.PartitionOf(to, s.n) == schemas.PartitionOf("tenant="+tenant, s.n); k++ {
		to = fmt.Sprintf("+86139%05d%03d", i, k)
	}
	value := schemas.RequestJSON(&schemas.Request{Tenant: tenant, Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "code 123456"})
	began := time.Now()
	if err := s.cl.ProduceSync(ctx, &kgo.Record{Topic: s.names.Requests(), Key: []byte(to), Value: value}).FirstErr(); err != nil {
		return 0, err
	}
	var took time.Duration
	select {
	case at := <-s.calls:
		took = at.Sub(began)
	case <-ctx.Done():
		return 0, fmt.Errorf("no call: %w\n%s", context.Cause(ctx), s.worker.Tail(5))
	}
	for { // idle means that it has ended
		fetches := s.tail.PollFetches(ctx)
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no end: %w", context.Cause(ctx))
		}
		for _, r := range fetches.Records() {
			var e struct{ Status, To string }
			if err := json.Unmarshal(r.Value, &e); err != nil {
				return 0, err
			}
			if e.Status == "sent" && e.To == to {
				return took, nil
			}
		}
	}
}
