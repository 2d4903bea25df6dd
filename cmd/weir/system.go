package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/ingest/console"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/alert"
	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/health"
	"github.com/weirhq/weir/processor/input"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aliyun"
	"github.com/weirhq/weir/processor/provider/apns"
	"github.com/weirhq/weir/processor/provider/external"
	"github.com/weirhq/weir/processor/provider/fcm"
	httpprovider "github.com/weirhq/weir/processor/provider/http"
	"github.com/weirhq/weir/processor/provider/ses"
	"github.com/weirhq/weir/processor/provider/simulated"
	"github.com/weirhq/weir/processor/provider/smpp"
	"github.com/weirhq/weir/processor/provider/smtp"
	"github.com/weirhq/weir/processor/provider/sns"
	"github.com/weirhq/weir/processor/provider/tencent"
	"github.com/weirhq/weir/processor/provider/twilio"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

type logLevel = slog.Level

func newLogger(w io.Writer, level string) *slog.Logger {
	var l logLevel
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // validate has refused it before
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
}

// cluster is a connection to Kafka for what is asked of it as a whole.
type cluster struct {
	cl  *kgo.Client
	adm *kadm.Client
}

func connect(ctx context.Context, s *Settings) (*cluster, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ClientID("weir"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytesFn(topics.Names{Prefix: s.Prefix}.BatchBytes))
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	pingCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := cl.Ping(pingCtx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("no Kafka answers at %v: %w", s.Brokers, err)
	}
	return &cluster{cl: cl, adm: kadm.NewClient(cl)}, nil
}

// onCluster loads the settings, connects, and calls fn: the frame of commands
// that ask or change a cluster.
func onCluster(ctx context.Context, load func() (*Settings, error), fn func(k *cluster, s *Settings) error) error {
	s, err := load()
	if err != nil {
		return err
	}
	k, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer k.cl.Close()
	return fn(k, s)
}

// topicConfig is what the settings say of the topics, with what only the
// cluster knows.
func (c *cluster) topicConfig(ctx context.Context, s *Settings) (topics.Config, error) {
	cfg := topics.Config{Prefix: s.Prefix, Partitions: int32(s.Partitions), Replication: int16(s.Replication)}
	if cfg.Replication == 0 {
		n, err := topics.ClusterReplication(ctx, c.adm)
		if err != nil {
			return cfg, err
		}
		cfg.Replication = n
	}
	return cfg, cfg.Validate()
}

// partitionsOf returns the catalogue's partition count of one topic.
func partitionsOf(specs []topics.Spec, name string) int32 {
	i := slices.IndexFunc(specs, func(s topics.Spec) bool { return s.Name == name })
	return specs[i].Partitions
}

// system is a running Weir, or a part of one.
type system struct {
	settings *Settings
	logger   *slog.Logger
	listener net.Listener // for ingest
	metrics  net.Listener // for what only asks how it goes; nil for none
	keyless  bool         // on loopback: no API key is asked for
	ready    func()       // called when every role has been started
}

// run runs the roles until ctx ends or one of them fails; then it ends them in
// the order of stopSteps. What it opens it closes, in reverse.
func (s *system) run(ctx context.Context) (err error) {
	started := false
	defer func() {
		if !started && ctx.Err() != nil && errors.Is(err, context.Canceled) { // nothing is unfinished
			s.logger.Info("shutdown: told to end before all had started", "why", context.Cause(ctx), "while", err)
			err = nil
		}
	}()
	private, err := outbound.ParseNetworks(s.settings.Private)
	if err != nil {
		return fmt.Errorf("callback.allow_private: %w", err)
	}
	c, err := connect(ctx, s.settings)
	if err != nil {
		return err
	}
	defer c.cl.Close()
	tcfg, err := c.topicConfig(ctx, s.settings)
	if err != nil {
		return err
	}
	names := tcfg.Names()
	base := topics.Catalogue(tcfg, nil)
	if err := topics.Check(ctx, c.adm, base); err != nil {
		return err
	}
	brokers := kgo.SeedBrokers(s.settings.Brokers...)
	watch, err := policy.Watch(ctx, names.Config(), s.logger, brokers)
	if err != nil {
		return err
	}
	// What is wrong with a topic of its producers stops its input, and nothing else.
	if err := topics.Check(ctx, c.adm, topics.Own(tcfg, &watch.Latest().Policy)); err != nil {
		return err
	}
	for _, v := range watch.Latest().Policy.Providers {
		if v.Price.Rounds() {
			s.logger.Warn("a provider's price has more decimals than a message's price keeps; what its messages cost is rounded. Give it at most six with weir apply",
				"provider", v.Name, "decimals", schemas.PriceDecimals, "per_segment", v.Price.PerSegment, "per_message", v.Price.PerMessage)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "weir_policy_void_records_total", Help: "Records of the policy's topic that do not count: edits that lost to another, and what is no revision.",
	}, func() float64 { return float64(watch.Void()) }))
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	progress := stream.NewWatch(registry)
	var (
		n         = tcfg.Partitions
		delays    = partitionsOf(base, names.Delay(topics.Tiers[0].Name))
		dlq       = partitionsOf(base, names.DLQ())
		told      = receipt.TopicOf(names, partitionsOf(base, names.Receipts()))
		replies   = partitionsOf(base, names.Replies())
		read      = stream.ReadConfig{Brokers: s.settings.Brokers, ClientID: "weir-restore"}
		streaming = func(stage string) stream.Config {
			return stream.Config{
				Brokers:         s.settings.Brokers,
				ClientID:        "weir-" + stage,
				TransactionalID: names.Requests() + "." + stage + "." + s.settings.Slot,
				BatchBytes:      names.BatchBytes,
				Logger:          s.logger,
				Watch:           progress,
			}
		}
		has = func(role string) bool { return slices.Contains(s.settings.Roles, role) }
	)
	var history ingest.History
	var decisions backtest.History
	var store receipt.Store
	if s.settings.ClickHouse != "" && (has("ingest") || has("sink") || has("receipts")) {
		db, err := warehouse.OpenLater(s.settings.ClickHouse) // roles serve while it is away
		if err != nil {
			return err
		}
		defer db.Close()
		history, decisions, store = warehouse.History{Conn: db}, warehouse.History{Conn: db}, warehouse.History{Conn: db}
	}
	// Receipts are no part of a lane's transaction: they come later.
	amend, err := kgo.NewClient(brokers, kgo.ClientID("weir-receipts"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return fmt.Errorf("receipts: %w", err)
	}
	defer amend.Close()
	receipts := receipt.NewWriter(amend, told, s.logger)
	referenceKey, err := readSecret(s.settings.ReferenceKeyFile)
	if err != nil {
		return fmt.Errorf("receipts.reference_key_file: %w", err)
	}
	references := provider.NewSigner(referenceKey)
	inbox := receipt.NewInbox(names, n, func() *schemas.Policy { return &watch.Latest().Policy }, registry)
	// adapters are given the same whether they call or are called.
	deps, err := s.settings.deps(os.Getenv, s.logger)
	if err != nil {
		return err
	}
	adapters := func(p schemas.Provider) provider.Deps {
		all := deps
		all.Receipts, all.Told, all.Inbound = receipts.Take, receipts.Told, inbox.Writer(amend, p)
		return all
	}
	// The roles outlive the signal: each ends in its turn.
	grace := s.settings.Grace
	rs := newRoles(s.logger)
	defer func() { // before the closes above
		why := err
		if why == nil {
			why = context.Cause(ctx)
		}
		err = errors.Join(err, rs.stop(grace, why))
	}()
	rs.start(ctx, "policy", watch.Run)
	if s.metrics != nil {
		rs.start(ctx, "metrics", func(ctx context.Context) error { return serveMetrics(ctx, s.metrics, registry, progress) })
	}
	rs.start(ctx, "stuck", func(ctx context.Context) error {
		return reportStuck(ctx, amend, names.Reports(), s.settings.Slot, progress.Stuck, s.logger)
	})
	if has("admission") || has("inputs") {
		rs.start(ctx, "unknown", func(ctx context.Context) error {
			return reportUnknown(ctx, amend, names.Reports(), s.settings.Slot, registry, s.logger)
		})
	}
	var advice *health.Watcher
	if has("admission") || has("ingest") || has("alerts") { // who routes by it, who shows it and who tells of it
		if advice, err = health.Watch(ctx, names.Health(), s.logger, brokers); err != nil {
			return err
		}
		rs.start(ctx, "health", advice.Run)
	}
	var said *report.Watcher
	if has("ingest") || has("alerts") { // who shows or tells what sinks and audits said
		if said, err = report.Watch(ctx, names.Reports(), s.logger, brokers); err != nil {
			return err
		}
		registry.MustRegister(said)
		rs.start(ctx, "reports", said.Run)
	}
	if has("inputs") {
		rs.start(ctx, "inputs", func(ctx context.Context) error {
			return input.Run(ctx, input.Config{Stream: streaming("inputs"), Topics: tcfg, DLQPartitions: dlq, Policy: watch, Now: machineClock(), Logger: s.logger, Metrics: registry})
		})
	}
	if has("admission") {
		registry.MustRegister(advice)
		stalls := newClockTeller(amend, names.Reports(), s.settings.Slot, machineClock(), s.logger)
		rs.start(ctx, "clock", stalls.run)
		rs.start(ctx, "admission", func(ctx context.Context) error {
			return admission.Run(ctx, admission.Config{
				Stream: streaming("admission"), Read: read, Names: names,
				Partitions: n, DelayPartitions: delays, DLQPartitions: dlq, ReplyPartitions: replies,
				Standby: s.settings.Standby, Health: advice.Now, Clock: stalls.tell,
				Now: machineClock(), Logger: s.logger, Metrics: registry,
			}, watch)
		})
	}
	if has("lanes") {
		rs.start(ctx, "lanes", func(ctx context.Context) error {
			return lane.Supervise(ctx, lane.Config{
				Stream: streaming("lane"), Read: read, Names: names,
				Partitions: n, DelayPartitions: delays, DLQPartitions: dlq,
				Policy: watch, References: references, Logger: s.logger, Metrics: registry,
				Grace: share(grace, callsPct), Settle: share(grace, settlePct),
				Open: func(p schemas.Provider) (provider.Provider, error) {
					return providerTypes.Open(p, adapters(p))
				},
			})
		})
	}
	if has("delay") {
		rs.start(ctx, "delay", func(ctx context.Context) error {
			return delay.Run(ctx, delay.Config{Stream: streaming("delay"), Names: names, Partitions: n, DelayPartitions: delays, DLQPartitions: dlq, Returns: map[string]int32{told.Name: told.Partitions, names.Callbacks(): n}, Now: machineClock(), Logger: s.logger, Metrics: registry})
		})
	}
	if has("receipts") {
		rs.start(ctx, "receipts", func(ctx context.Context) error {
			return receipt.Run(ctx, receipt.Config{
				Stream: streaming("receipts"), Names: names, Partitions: n, DelayPartitions: delays, DLQPartitions: dlq,
				Store: store, References: references, Policy: watch.Latest, Now: machineClock(), Logger: s.logger, Metrics: registry,
			})
		})
	}
	if has("sink") && s.settings.ClickHouse != "" {
		hashKey, err := s.settings.hashKey()
		if err != nil {
			return err
		}
		rs.start(ctx, "sink", func(ctx context.Context) error {
			return sink.Run(ctx, sink.Config{
				Brokers: s.settings.Brokers, Names: names, URL: s.settings.ClickHouse, Cluster: s.settings.Cluster, HashKey: hashKey, InstanceID: names.Status() + ".sink." + s.settings.Slot,
				Grace:  stopWithinOf("sink", grace) * 4 / 5, // to end, and to say so
				Report: s.sinkReports(c.cl, names), Watch: progress, Logger: s.logger, Metrics: registry,
			})
		})
	}
	if has("callbacks") {
		client := callback.NewClient(private, "weir/"+version)
		defer client.Close()
		rs.start(ctx, "callbacks", func(ctx context.Context) error {
			return callback.Run(ctx, callback.Config{
				Stream: streaming("callbacks"), Read: read, Names: names, Partitions: n, DelayPartitions: delays, DLQPartitions: dlq, Slot: s.settings.Slot,
				Policy: watch.Latest, Client: client, Getenv: os.Getenv, Secrets: s.settings.Secrets, Grace: stopWithinOf("callbacks", grace) / 2,
				Now: machineClock(), Logger: s.logger, Metrics: registry,
			})
		})
	}
	if has("alerts") {
		client := outbound.New(outbound.Config{Allow: private, Agent: "weir/" + version})
		defer client.Close()
		rs.start(ctx, "alerts", func(ctx context.Context) error {
			return alert.Run(ctx, alert.Config{
				Brokers: s.settings.Brokers, Names: names, Slot: s.settings.Slot,
				Policy: watch.Latest, Health: advice.Now, Reports: said.Now, Queues: func() []backlog.Queue { return watchedOf(names, &watch.Latest().Policy) }, Watch: progress,
				Sender: &alert.Sender{Client: client, Getenv: os.Getenv, Secrets: s.settings.Secrets, Policy: watch.Latest, Open: mailers(deps)}, Logger: s.logger, Metrics: registry,
			})
		})
	}
	if has("ingest") {
		proxies, err := s.settings.trustedProxies()
		if err != nil {
			return err
		}
		slot, err := strconv.Atoi(s.settings.Slot)
		if err != nil {
			return fmt.Errorf("slot: %w", err)
		}
		secret, err := readSecret(s.settings.SessionFile)
		if err != nil {
			return fmt.Errorf("http.session_secret_file: %w", err)
		}
		var pages *console.Pages
		if has("console") {
			if pages, err = console.Built(); err != nil {
				return err
			}
		}
		srv, err := ingest.New(ctx, ingest.Config{
			Brokers: s.settings.Brokers, Names: names, Partitions: n, Policy: watch, Replication: tcfg.Replication,
			Replies: partitionsOf(base, names.Replies()), Slot: slot,
			Console: pages, History: history, Providers: providerTypes.Check, Decisions: decisions, Health: advice.Now, Reports: said.Now, Stuck: progress.Stuck,
			Queues: func() []backlog.Queue { return queuesOf(names, &watch.Latest().Policy) }, Registry: registry, Logger: s.logger,
			Receipts: told, Inbox: inbox, Secrets: s.settings.Secrets, Callbacks: private, PublicURL: s.settings.PublicURL,
			Listen:         func(p schemas.Provider) (provider.Listener, error) { return providerTypes.Listen(p, adapters(p)) },
			TrustedProxies: proxies, Keyless: s.keyless, Insecure: s.settings.NoAuth, SessionSecret: secret,
			DegradedJournal: s.settings.Degraded, DegradedBytes: int64(s.settings.DegradedBytes),
			Grace: stopWithinOf("ingest", grace) - 100*time.Millisecond, // it names what it cut off before its step is over
		})
		if err != nil {
			return err
		}
		rs.start(ctx, "ingest", func(ctx context.Context) error { return srv.Serve(ctx, s.listener) })
	}
	started = true
	if s.ready != nil {
		s.ready()
	}
	return rs.wait(ctx)
}

// sinkReports writes what the sink says of itself to weir.reports. It is advice:
// where it cannot be written the sink goes on.
func (s *system) sinkReports(cl *kgo.Client, names topics.Names) func(schemas.SinkReport) {
	return func(r schemas.SinkReport) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := report.Write(ctx, cl, names.Reports(), schemas.ReportKeySink(s.settings.Slot),
			schemas.Report{At: schemas.MillisOf(time.Now()), By: "slot " + s.settings.Slot, Sink: &r})
		if err != nil {
			s.logger.Warn("what the sink says of itself was not written; it goes on loading", "error", err)
		}
	}
}

// watchedOf are the queues of all stages. Those that are not in the backlog need not run anywhere.
func watchedOf(names topics.Names, pol *schemas.Policy) []backlog.Queue {
	return append(queuesOf(names, pol),
		backlog.Queue{Stage: backlog.Receipts, Topic: names.Receipts(), Group: receipt.Group(names), Bound: true},
		backlog.Queue{Stage: backlog.Sink, Topic: names.Status(), Group: sink.Group(names), Bound: true},
		backlog.Queue{Stage: backlog.Callbacks, Topic: names.Status(), Group: callback.Group(names), Bound: true},
		backlog.Queue{Stage: backlog.Callbacks, Topic: names.Callbacks(), Group: callback.Group(names), Bound: true})
}

// queuesOf are the queues of the backlog, in the order in which messages pass them. A
// provider without lanes (type external) has a consumer that Weir does not know.
func queuesOf(names topics.Names, pol *schemas.Policy) []backlog.Queue {
	var out []backlog.Queue
	for _, in := range pol.Inputs {
		out = append(out, backlog.Queue{Stage: backlog.Inputs, Name: in.Topic, Topic: in.Topic, Group: input.Group(names), Bound: true})
	}
	out = append(out,
		backlog.Queue{Stage: backlog.Admission, Name: "requests", Topic: names.Requests(), Group: admission.Group(names)},
		backlog.Queue{Stage: backlog.Admission, Name: "readmit", Topic: names.Readmit(), Group: admission.Group(names)})
	for i := range pol.Providers {
		p := &pol.Providers[i]
		if !p.HasLane() {
			continue
		}
		for _, q := range topics.Queues {
			out = append(out, backlog.Queue{Stage: backlog.Lanes, Provider: p.Name, Name: string(q), Topic: names.Dispatch(p.Name, q), Group: lane.Group(names, p.Name)})
		}
	}
	for _, t := range topics.Tiers {
		out = append(out, backlog.Queue{Stage: backlog.Delay, Name: t.Name, Topic: names.Delay(t.Name), Group: delay.Group(names), Wait: t.Wait})
	}
	return out
}

// hashKey returns the key of the column recipient_hash; nil for none.
func (s *Settings) hashKey() ([]byte, error) {
	key, err := readSecret(s.HashKeyFile)
	if err != nil {
		return nil, fmt.Errorf("clickhouse.hash_key_file: %w", err)
	}
	return []byte(key), nil
}

// readSecret returns what a file holds, without the line's end; "" for no file.
func readSecret(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if len(secret) < 32 {
		return "", fmt.Errorf("%s has %d characters: at least 32 are needed, such as openssl rand -hex 32 makes", name, len(secret))
	}
	return secret, nil
}

// providerTypes are the adapters that this program has.
var providerTypes = provider.Types{
	"aliyun-sms":  aliyun.Type,
	"apns":        apns.Type,
	"external":    external.Type,
	"fcm":         fcm.Type,
	"http":        httpprovider.Type,
	"none":        external.Type,
	"ses":         ses.Type,
	"simulated":   simulated.Type,
	"smpp":        smpp.Type,
	"smtp":        smtp.Type,
	"sns":         sns.Type,
	"tencent-sms": tencent.Type,
	"twilio":      twilio.Type,
}
