package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/console"
	"github.com/weirhq/weir/ingest/replies"
	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/revise"
	routing "github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Bounds of a connection.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 15 * time.Second       // of a whole request
	writeTimeout   = 30 * time.Second       // from the end of a request's header to the end of its answer
	lastWords      = 500 * time.Millisecond // for the rest of a body that is refused for its size
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// Config is what a server needs. Registry, Logger and History may be nil.
type Config struct {
	Brokers    []string
	Options    []kgo.Opt // further ones, for every client
	Names      topics.Names
	Partitions int32 // N of weir.requests
	Replies    int32 // partitions of weir.replies
	Slot       int   // this process among its like: which of these it reads
	Policy     *policy.Watcher
	// Replication is of the topics that an edit of the policy makes; 0 is 3, or the
	// number of brokers if fewer.
	Replication int16
	History     History // where the tail does not reach; nil is none
	// Providers judges what a policy says of its providers, by their types: its error is
	// a schemas.PolicyErrors. nil judges nothing.
	Providers func(*schemas.Policy) error
	// Secrets are what a policy that comes over HTTP may refer to.
	Secrets secret.Bounds
	// Callbacks are the networks that a callback_url may name though they are not public.
	Callbacks outbound.Networks
	// Console is the pages for people; nil serves none.
	Console *console.Pages
	// Health is what is known of the providers, Reports what sinks and audits said
	// of their work; nil is nothing.
	Health  func() routing.Health
	Reports func() map[string]schemas.Report
	// Queues are what waits in Kafka, for the backlog; nil is none.
	Queues func() []backlog.Queue
	// Decisions are what Kafka no longer has of the traffic that limits are tried
	// on; nil is none.
	Decisions backtest.History
	// Stuck are the stages of this process that have work and commit nothing: then it is
	// not ready. Nil is none.
	Stuck    func() []stream.Stuck
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Grace is what requests in flight get at shutdown. Default 10 s: more than
	// any takes.
	Grace time.Duration
	// SessionSecret seals the console's sessions: any text, the same for all
	// instances behind one address. Empty is a secret of this process alone.
	SessionSecret string
	// Keyless serves whoever sends no key as the tenant default with every scope,
	// on a loopback address and under this machine's own names only: weir dev.
	Keyless bool
	// TrustedProxies are the networks whose word counts on where a request comes
	// from (throttle.ClientAddr).
	TrustedProxies []netip.Prefix
	// Listen opens what reads a provider's own calls; nil is that none makes any.
	// What they bring goes to Receipts and to Inbox, which may be left out without it.
	Listen   func(schemas.Provider) (provider.Listener, error)
	Receipts receipt.Topic
	Inbox    *receipt.Inbox
	// PublicURL is how providers reach this server, without a slash at its end; empty
	// is what their calls say.
	PublicURL string
	// Conns is how many connections may be open at once. 0 is DefaultConns, or half of the
	// files that the process may open if that is less.
	Conns int
	// Insecure is Keyless on every address and under every name.
	Insecure bool
	// DegradedJournal is the directory in which decisions are kept that were allowed while
	// Kafka was unreachable, for keys with on_unavailable; empty allows none. Each process has
	// its own. DegradedBytes bounds it; 0 is DefaultDegradedBytes.
	DegradedJournal string
	DegradedBytes   int64
}

// Validate reports what no server could run without.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no brokers"))
	}
	if c.Partitions < 1 || c.Replies < 1 {
		errs = append(errs, fmt.Errorf("%d partitions, %d of replies: at least 1", c.Partitions, c.Replies))
	}
	if c.Policy == nil {
		errs = append(errs, errors.New("no policy"))
	} else if !c.Keyless && !c.Insecure && len(c.Policy.Latest().Policy.Keys) == 0 {
		errs = append(errs, ErrNoKeys)
	}
	return errors.Join(errs...)
}

// ErrNoKeys says that nobody could ask for anything.
var ErrNoKeys = errors.New("the policy has no API key, so nobody could send: make one with weir keys create, or serve everyone with --insecure-no-auth")

// Server is the HTTP door. Make it with New and call Serve once.
type Server struct {
	requests   string // topic
	names      topics.Names
	partitions int32
	policy     *policy.Watcher
	history    History
	registry   *prometheus.Registry
	stuck      func() []stream.Stuck // nil: none
	logger     *slog.Logger
	readmit    string // topic
	keys       keyring
	rules      compiled
	pace       *pacer
	instances  instances
	conns      *conns
	sessions   *sessions
	keyless    bool // who sends no key is served too
	providers  func(*schemas.Policy) error
	localOnly  bool // only under names of this machine
	hooks      *hooks
	grace      time.Duration
	legacyWait time.Duration

	out       *producer
	dlq       *dlq.Box
	replies   *replies.Room
	batches   batches
	editor    *revise.Editor
	secrets   secret.Bounds
	callbacks outbound.Networks // of what a policy that comes here may refer to
	editFor   time.Duration     // of one edit of the policy with all its tries
	recent    *recent
	feed      *feed
	streams   streams
	degraded  degraded
	tail      *tail
	console   *console.Pages
	health    func() routing.Health
	reports   func() map[string]schemas.Report
	waits     waits
	tryout    tryout
	pulse     pulse
	seconds   *prometheus.HistogramVec
	work      *prometheus.HistogramVec
	draining  atomic.Bool
	ending    context.Context // ends when the server's end begins
	end       context.CancelFunc
	http      *http.Server
}

// New makes a server. It connects to nothing: Kafka may be away, and the
// server then says so. ctx is not kept.
func New(_ context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	s := &Server{
		requests:   cfg.Names.Requests(),
		names:      cfg.Names,
		readmit:    cfg.Names.Readmit(),
		partitions: cfg.Partitions,
		policy:     cfg.Policy,
		history:    cfg.History,
		registry:   cfg.Registry,
		stuck:      cfg.Stuck,
		logger:     cfg.Logger,
		instances:  instances{names: cfg.Names, opts: clientOptions(cfg), logger: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))},
		keyless:    cfg.Keyless || cfg.Insecure,
		providers:  cfg.Providers,
		localOnly:  cfg.Keyless && !cfg.Insecure,
		editFor:    editTimeout,
		secrets:    cfg.Secrets,
		callbacks:  cfg.Callbacks,
		grace:      cmp.Or(cfg.Grace, 10*time.Second),
		legacyWait: waitLegacy,
		recent:     newRecent(bounds{messages: 50_000, bytes: 64 << 20, events: 256, age: 10 * time.Minute}),
		feed:       newFeed(cfg.Partitions, feedEvents, feedBytes),
		streams:    streams{beat: streamBeat, within: streamWrite, byKey: make(map[string]int), byTenant: make(map[string]int)},
	}
	s.pace = newPacer(cfg.Policy, s.instances.count, cfg.TrustedProxies)
	if s.registry == nil {
		s.registry = prometheus.NewRegistry()
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_http_request_seconds",
		Help:    "Time to answer a request, by route pattern and status code.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10},
	}, []string{"route", "code"})
	s.work = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_http_work_seconds",
		Help:    "The part of it that is not waiting for Kafka's acknowledgement or for a decision, by route pattern.",
		Buckets: []float64{.0001, .00025, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 5},
	}, []string{"route"})
	for _, c := range []prometheus.Collector{s.seconds, s.work} {
		if err := s.registry.Register(c); err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
	}
	s.conns = newConns(cfg.Conns, cfg.TrustedProxies)
	hooks, err := newHooks(cfg, s.logger)
	if err != nil {
		return nil, fmt.Errorf("ingest: public address: %w", err)
	}
	s.hooks = hooks
	err = cmp.Or(s.pace.register(s.registry), s.conns.register(s.registry), s.registry.Register(&s.waits))
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if s.out, err = newProducer(s.logger, append(clientOptions(cfg), kgo.ProducerBatchMaxBytesFn(cfg.Names.BatchBytes))); err != nil {
		return nil, fmt.Errorf("ingest: open a producer: %w", err)
	}
	if s.tail, err = newTail(cfg.Names.Status(), s.recent, s.feed, s.logger, clientOptions(cfg)); err != nil {
		s.out.cl.Close()
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if s.dlq, err = dlq.Open(dlq.Config{Brokers: cfg.Brokers, Names: cfg.Names, Options: cfg.Options}); err != nil {
		s.out.cl.Close()
		s.tail.cl.Close()
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if s.editor, err = newEditor(cfg); err != nil {
		s.out.cl.Close()
		s.tail.cl.Close()
		s.dlq.Close()
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if s.replies, err = replies.Open(replies.Config{Topic: cfg.Names.Replies(), Partitions: cfg.Replies, Slot: cfg.Slot, Logger: s.logger, Options: clientOptions(cfg)}); err != nil {
		s.out.cl.Close()
		s.tail.cl.Close()
		s.dlq.Close()
		s.editor.Client.Close()
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if s.waits.looker, err = backlog.Open(cfg.Brokers, cfg.Options...); err != nil {
		s.out.cl.Close()
		s.tail.cl.Close()
		s.dlq.Close()
		s.editor.Client.Close()
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if err := s.openDegraded(cfg); err != nil {
		s.out.cl.Close()
		s.tail.cl.Close()
		s.dlq.Close()
		s.editor.Client.Close()
		s.waits.looker.Close()
		return nil, fmt.Errorf("ingest: %w", err)
	}
	s.health, s.reports, s.console = cfg.Health, cfg.Reports, cfg.Console
	if cfg.Queues == nil {
		cfg.Queues = func() []backlog.Queue { return nil }
	}
	s.waits.queues, s.waits.policy, s.waits.health = cfg.Queues, func() *schemas.Policy { return &cfg.Policy.Latest().Policy }, cfg.Health
	s.tryout = tryout{
		run: backtest.Run, within: tryWithin, turn: make(chan struct{}, 1),
		cfg: backtest.Config{Brokers: cfg.Brokers, Names: cfg.Names, Options: cfg.Options, History: cfg.Decisions, Most: tryMost},
	}
	s.batches = newBatches()
	s.sessions = newSessions(cfg.SessionSecret, time.Now)
	s.ending, s.end = context.WithCancel(context.Background())
	s.pulse.ping = s.out.cl.Ping
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes - 4096, // net/http adds as much
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func clientOptions(cfg Config) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("weir-ingest")}, cfg.Options...)
}

// ErrInFlight means that requests were not answered within the grace of a
// shutdown; their connections were closed. Whoever sent them does not know, and
// repeats them under the same idempotency key.
var ErrInFlight = errors.New("requests were still in flight and were cut off")

// Serve answers on ln until ctx ends, then takes no more requests, lets those
// in flight finish for Config.Grace, and closes what New opened. It returns nil after
// an orderly end. It refuses an address that others can reach if the configuration
// is Keyless and not Insecure. ln is closed in any case.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer s.out.cl.Close()
	defer s.tail.cl.Close()
	defer s.dlq.Close()
	defer s.waits.looker.Close()
	defer s.closeDegraded()
	defer s.end()
	defer s.editor.Client.Close()
	if s.localOnly && !loopback(ln.Addr()) {
		ln.Close()
		return fmt.Errorf("ingest: %s is not a loopback address, and no key is asked for", ln.Addr())
	}

	tailCtx, stopTail := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.tail.run(tailCtx) })
	wg.Go(func() { s.replies.Run(tailCtx) })
	wg.Go(func() { s.waits.run(tailCtx) })
	wg.Go(func() { s.instances.run(tailCtx) })
	wg.Go(func() { s.recordDegraded(tailCtx) })
	defer wg.Wait()
	defer stopTail()

	s.conns.Listener = ln
	failed := make(chan error, 1)
	wg.Go(func() { failed <- s.http.Serve(s.conns) })
	select {
	case err := <-failed:
		return fmt.Errorf("ingest: serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	close(s.pace.stop)
	s.feed.close()
	s.end()
	graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	if err := s.http.Shutdown(graceCtx); err != nil {
		s.http.Close()
		return fmt.Errorf("ingest: %w: %v after the end began: %w", ErrInFlight, s.grace, err)
	}
	return nil
}

// loopback reports whether only this machine reaches the address.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

func stack() string { return string(debug.Stack()) }
