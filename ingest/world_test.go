package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/presets"
	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/throttle"
	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const partitions = 4

// world is a fake broker with Weir's topics and the policy of weir dev, and a
// server on a real listener.
type world struct {
	t      *testing.T
	broker *kfake.Cluster
	names  topics.Names
	cl     *kgo.Client // produces statuses, reads requests
	pol    *policy.Watcher
	line   *line // between the server and the broker
	srv    *Server
	addr   string
	log    *lockedBuffer
	stop   func() error // ends the server and returns its error
}

// settings is what a test wants otherwise.
type settings struct {
	history History
	policy  string // instead of weir dev's
	keys    bool   // nobody is served without a key
	proxies []netip.Prefix
	server  func(*Server)
	cut     bool             // the broker is away from the beginning
	status  []*schemas.Event // in the topic before the server starts
	before  func(*world)     // done before the server starts
	journal string           // directory of degraded decisions
	most    int64            // bytes of it
}

// queues are requests, the queues of the provider p, and the delay topics.
func (w *world) queues() []backlog.Queue {
	out := []backlog.Queue{{Stage: backlog.Admission, Name: "requests", Topic: w.names.Requests(), Group: "admission"}}
	for _, q := range topics.Queues {
		out = append(out, backlog.Queue{Stage: backlog.Lanes, Provider: "p", Name: string(q), Topic: w.names.Dispatch("p", q), Group: "lanes"})
	}
	for _, tier := range topics.Tiers {
		out = append(out, backlog.Queue{Stage: backlog.Delay, Name: tier.Name, Topic: w.names.Delay(tier.Name), Group: "delay"})
	}
	return out
}

func newWorld(t *testing.T, set settings) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker.WantNoMetrics(c)
	w := &world{t: t, broker: c, line: &line{conns: make(map[net.Conn]bool)}, log: &lockedBuffer{}}
	text := append(bytes.Replace(presets.Dev, []byte(", unknown: reject"), nil, 1), "    default_region: CN\n"...)
	if set.policy != "" {
		text = []byte(set.policy)
	}
	doc, err := schemas.ParsePolicy("dev.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	w.cl, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(w.names.Requests()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	adm := kadm.NewClient(w.cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: partitions, Replication: 1}, &doc.Policy))
	if err == nil {
		err = topics.Apply(t.Context(), w.cl, diff, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.pol, err = policy.Watch(t.Context(), w.names.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	go w.pol.Run(t.Context())
	if _, err := w.pol.Publish(t.Context(), w.cl, 0, "test", doc.Policy); err != nil {
		t.Fatal(err)
	}
	for _, e := range set.status {
		w.status(e)
	}
	if set.before != nil {
		set.before(w)
	}
	if set.cut {
		w.line.cut()
	}
	w.srv, err = New(t.Context(), Config{
		Brokers: c.ListenAddrs(), Options: []kgo.Opt{kgo.Dialer(w.line.dial)},
		Names: w.names, Partitions: partitions, Replies: 8, Policy: w.pol, History: set.history, Queues: w.queues,
		TrustedProxies: set.proxies, Keyless: !set.keys, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		DegradedJournal: set.journal, DegradedBytes: set.most,
	})
	if err != nil {
		t.Fatal(err)
	}
	// All of a test's wrong keys come from one address.
	w.srv.pace.limits = throttle.New(throttle.Config{Login: schemas.Window{Kind: schemas.WindowRolling, N: 10_000, Length: time.Minute}})
	if set.server != nil {
		set.server(w.srv)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.srv.Serve(ctx, ln) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := w.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	if !set.cut {
		w.until("ready", func() bool { return w.do("GET", "/readyz", "").code == http.StatusOK })
		w.until("able to wait for a decision", func() bool { // /readyz does not wait for it
			ticket, err := w.srv.replies.Expect()
			if err == nil {
				ticket.Done()
			}
			return err == nil
		})
	}
	return w
}

// until polls a real process. It ends in time to show what a test that fails waits for.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("never %s; the log says\n%s", what, w.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type reply struct {
	t      *testing.T
	code   int
	header http.Header
	body   []byte
}

// do sends a request and holds the answer to the document. headers are
// "Name: value".
func (w *world) do(method, path, body string, headers ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.addr+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	route, _, _ := strings.Cut(path, "?")
	openDocument(w.t).check(w.t, method, route, resp, got)
	return reply{w.t, resp.StatusCode, resp.Header, got}
}

func (w *world) post(body string, headers ...string) reply {
	w.t.Helper()
	return w.do("POST", "/v1/messages", body, headers...)
}

func read[T any](r reply, status int) (v T) {
	r.t.Helper()
	if r.code != status {
		r.t.Fatalf("%d, want %d: %s", r.code, status, r.body)
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// problem checks a refusal, and returns it.
func (r reply) problem(status int, code string) client.Problem {
	r.t.Helper()
	p := read[client.Problem](r, status)
	if p.Code != code || p.Status != status {
		r.t.Fatalf("%s, want %s", r.body, code)
	}
	return p
}

// status writes an event as admission and lanes do.
func (w *world) status(e *schemas.Event) {
	w.t.Helper()
	rec := &kgo.Record{Topic: w.names.Status(), Partition: schemas.PartitionOf(e.To, partitions), Key: []byte(e.To), Value: schemas.AppendEvent(nil, e)}
	if err := w.cl.ProduceSync(w.t.Context(), rec).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// transaction writes an event to partition 0 as stages do, and ends it.
func (w *world) transaction(e *schemas.Event, end kgo.TransactionEndTry) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	err = cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: w.names.Status(), Value: schemas.AppendEvent(nil, e)}).FirstErr()
	}
	if err == nil {
		err = cl.EndTransaction(w.t.Context(), end)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// requests reads n records of weir.requests.
func (w *world) requests(n int) (out []*kgo.Record) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for len(out) < n {
		fetches := w.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("%d of %d requests", len(out), n)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}

// line is the network between a client and the broker.
type line struct {
	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

var errCut = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errCut
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		l.conns[c] = true
	}
	return c, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// ends are the ends of topics, to read on from.
func (w *world) ends(of ...string) map[string]map[int32]kgo.Offset {
	w.t.Helper()
	last, err := kadm.NewClient(w.cl).ListEndOffsets(w.t.Context(), of...)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(map[string]map[int32]kgo.Offset)
	last.Each(func(o kadm.ListedOffset) {
		if out[o.Topic] == nil {
			out[o.Topic] = make(map[int32]kgo.Offset)
		}
		out[o.Topic][o.Partition] = kgo.NewOffset().At(o.Offset)
	})
	return out
}
