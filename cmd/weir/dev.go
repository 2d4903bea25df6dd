package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/presets"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// Where weir dev listens unless something else does.
const (
	devHTTP       = "127.0.0.1:8080"
	devKafka      = "127.0.0.1:9092"
	devClickHouse = "127.0.0.1:8123"
	devPartitions = 8
	// stopWithin bounds the orderly end of each child, which writes what it holds. Less
	// than a child gives itself, and more than a disk that stalls.
	stopWithin = 25 * time.Second
	// tablesWithin bounds how long the start waits for a ClickHouse of someone else's.
	tablesWithin = 5 * time.Second
	// devGrace is short: whoever pressed Ctrl-C waits for it.
	devGrace = 10 * time.Second
)

var devCommand = command{
	name:    "dev",
	args:    "[--dir .weir] [--policy FILE] [--fresh] [flags]",
	summary: "Run all of Weir here, on an embedded broker and engine, with simulated providers. For development only.",
	example: "weir dev --policy policy.yaml",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("dev", flag.ContinueOnError)
		d := &dev{call: c}
		fs.StringVar(&d.dir, "dir", cmp.Or(c.getenv("WEIR_DIR"), defaultDir), "where broker and engine keep their data")
		fs.StringVar(&d.http, "http", "", "address of the HTTP API (default "+devHTTP+", or a free port)")
		fs.StringVar(&d.kafka, "kafka", "", "address of the embedded broker (default "+devKafka+", or a free port)")
		fs.StringVar(&d.clickhouse, "clickhouse", "", "address of the embedded ClickHouse engine (default "+devClickHouse+", or a free port)")
		fs.StringVar(&d.clickhouseURL, "clickhouse-url", "", "use this ClickHouse instead of the embedded engine")
		fs.StringVar(&d.policyFile, "policy", "", "policy file, the whole policy as with weir apply --prune (default: the one in force, at first the one that ships with weir dev)")
		fs.BoolVar(&d.fresh, "fresh", false, "begin anew: delete the directory's data first")
		fs.BoolVar(&d.showing, "show", false, "once it runs, send a message twice, and show what became of it")
		fs.StringVar(&d.logLevel, "log-level", "warn", "debug, info, warn or error")
		fs.DurationVar(&d.grace, "shutdown-grace", devGrace, "how long an orderly end may take, but for broker and engine: 1s to 10m")
		if err := c.parse(fs); err != nil {
			return err
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q", fs.Arg(0))
		}
		if misspelt, _ := unknownVariables(os.Environ(), c.getenv("WEIR_SECRETS_ENV_PREFIX")); len(misspelt) > 0 {
			return &usageError{errors.Join(misspelt...).Error()}
		}
		return d.run(ctx)
	},
}

// dev is one run of weir dev.
type dev struct {
	*call
	dir, http, kafka, clickhouse, clickhouseURL, policyFile, logLevel string
	fresh, showing                                                    bool
	grace                                                             time.Duration
}

// settings are what is known before broker and engine run.
func (d *dev) settings() (*Settings, error) {
	s := defaultSettings()
	s.Partitions, s.Replication, s.Slot = devPartitions, 1, "0"
	s.HTTP, s.ClickHouse, s.LogLevel, s.Grace = cmp.Or(d.http, devHTTP), d.clickhouseURL, d.logLevel, d.grace
	s.Private, s.Providers = devNetworks, devNetworks
	for _, one := range settings {
		switch one.key {
		case "callback.allow_private", "provider.allow_private", "secrets.dir", "secrets.env_prefix":
			if v := d.getenv(one.env()); v != "" {
				if err := assign(one.value(&s), v); err != nil {
					return nil, usagef("%s: %v", one.env(), err)
				}
			}
		}
	}
	if err := s.check(func(one setting) string { return one.key }); err != nil {
		return nil, &usageError{err.Error()}
	}
	return &s, nil
}

func (d *dev) run(ctx context.Context) (err error) {
	started := time.Now()
	// The policy is judged before anything is started or deleted.
	name, text := "dev.yaml", presets.Dev
	if d.policyFile != "" {
		if name = d.policyFile; name != "" {
			if text, err = os.ReadFile(name); err != nil {
				return err
			}
		}
	}
	doc, err := readPolicy(name, text, nil)
	if err != nil {
		return err
	}
	for _, w := range doc.Policy.Warnings() {
		fmt.Fprintf(d.stderr, "Warning: %s: %s\n", name, w)
	}
	s, err := d.settings()
	if err != nil {
		return err
	}
	if err := d.prepare(); err != nil {
		return err
	}
	logFile, err := os.OpenFile(filepath.Join(d.dir, "children.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the children's log: %w", err)
	}
	defer logFile.Close()

	listener, err := listen(d.http, devHTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	defer listener.Close()

	kafka, err := startChild(d.kafka, devKafka, func(addr string) (*child.Process, error) {
		return broker.Start(ctx, broker.Options{Dir: filepath.Join(d.dir, "broker"), Addr: addr, Log: logFile})
	})
	if err != nil {
		return fmt.Errorf("start the embedded broker: %w", err)
	}
	logger := newLogger(d.stderr, d.logLevel)
	stop := func(what string, end func() error) {
		err = errors.Join(err, bounded(logger, what+" stopped", end))
	}
	defer func() { stop("broker", func() error { return stopChild("broker", kafka) }) }()

	clickhouse, click, again, err := d.startEngine(ctx, logFile)
	if err != nil {
		return err
	}
	if click != nil {
		end := keepRunning(ctx, logger, "engine", click, again)
		defer func() { stop("engine", end) }()
	}

	if clickhouse != "" {
		if err := d.makeTables(ctx, logger, clickhouse); err != nil {
			return err
		}
	}
	s.Brokers, s.ClickHouse, s.HTTP = []string{kafka.Addr()}, clickhouse, listener.Addr().String()
	if err := d.bringIntoForce(ctx, s, &doc.Policy); err != nil {
		return err
	}

	// The broker dying ends everything: weir dev has nothing to run on.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchChild(ctx, cancel, "broker", kafka)
	sys := &system{settings: s, logger: logger, listener: listener, keyless: true}
	defer os.Remove(filepath.Join(d.dir, endpointsFile)) // nobody listens any more
	var telling sync.WaitGroup
	defer telling.Wait()
	ready := func() {
		e := &endpoints{PID: os.Getpid(), HTTP: s.HTTP, Kafka: kafka.Addr(), ClickHouse: clickhouse, Prefix: s.Prefix, Partitions: s.Partitions}
		if err := e.write(d.dir); err != nil {
			cancel(err)
			return
		}
		d.welcome(e, started)
		if d.showing {
			go func() {
				if err := d.show(ctx, e); err != nil && ctx.Err() == nil {
					fmt.Fprintf(d.stderr, "--show: %v\n", err)
				}
			}()
		}
	}
	sys.ready = func() {
		telling.Go(func() {
			if answersReady(ctx, s.HTTP) {
				ready()
			}
		})
	}
	if err := sys.run(ctx); err != nil {
		cancel(err)
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// answersReady waits until /readyz answers 200. False is that ctx ended first.
func answersReady(ctx context.Context, addr string) bool {
	const again = 50 * time.Millisecond
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return false
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
	return false
}

// prepare makes the directory, or empties it.
func (d *dev) prepare() error {
	if d.fresh {
		for _, sub := range []string{"broker", "engine", endpointsFile, "children.log"} {
			if err := os.RemoveAll(filepath.Join(d.dir, sub)); err != nil {
				return fmt.Errorf("--fresh: %w", err)
			}
		}
	}
	if err := private(d.dir); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	return nil
}

// private makes a directory that no one else may read: it holds messages and recipients.
// One that is there is tightened if it is a weir dev's. Of another, such as someone's
// project, only what weir dev makes in it is closed to others.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ours := len(entries) == 0
	for _, e := range entries {
		switch e.Name() {
		case "broker", "engine":
			ours = true
			if err := closed(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		case endpointsFile:
			ours = true
		}
	}
	if foreign := slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !slices.Contains([]string{"broker", "engine", endpointsFile, "children.log"}, e.Name())
	}); foreign || !ours {
		return nil
	}
	return closed(dir)
}

// closed takes from a directory what others may do with it.
func closed(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// makeTables makes the tables in ClickHouse. The sink would do it, but a user who reads
// that Weir is ready may ask at once. A ClickHouse of someone else's may be away, or
// hang: then the sink does it.
func (d *dev) makeTables(ctx context.Context, logger *slog.Logger, url string) error {
	if _, err := warehouse.Parse(url); err != nil {
		return usagef("--clickhouse-url: %v", err)
	}
	if d.clickhouseURL != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tablesWithin)
		defer cancel()
	}
	err := warehouse.Migrate(ctx, url)
	switch {
	case err == nil:
		return nil
	case d.clickhouseURL == "" || errors.Is(err, context.Canceled):
		return fmt.Errorf("make the tables in ClickHouse at %s: %w", masked(url), err)
	}
	logger.Warn("ClickHouse is not ready; Weir starts without it, and nothing is lost: status stays in Kafka until ClickHouse answers. Until then there is no SQL", "error", err)
	return nil
}

// startEngine starts ClickHouse, or says why there is none and goes on:
// status then stays in Kafka. again starts it once more on the same address.
func (d *dev) startEngine(ctx context.Context, log io.Writer) (url string, p *child.Process, again func(context.Context) (*child.Process, error), err error) {
	if d.clickhouseURL != "" {
		return d.clickhouseURL, nil, nil, nil
	}
	lib, err := engine.Ensure(ctx, "", d.stderr)
	if err != nil {
		if ctx.Err() != nil {
			return "", nil, nil, ctx.Err()
		}
		fmt.Fprintf(d.stderr, "No ClickHouse engine: %v\nStatus stays in Kafka and there is no SQL. To use a ClickHouse of yours: weir dev --clickhouse-url http://HOST:8123\n", err)
		return "", nil, nil, nil
	}
	start := func(ctx context.Context, addr string) (*child.Process, error) {
		return engine.Start(ctx, engine.Options{Dir: filepath.Join(d.dir, "engine"), Addr: addr, LibPath: lib, Log: log})
	}
	p, err = startChild(d.clickhouse, devClickHouse, func(addr string) (*child.Process, error) { return start(ctx, addr) })
	if err != nil {
		return "", nil, nil, fmt.Errorf("start the embedded engine: %w", err)
	}
	addr := p.Addr()
	return "http://" + addr, p, func(ctx context.Context) (*child.Process, error) { return start(ctx, addr) }, nil
}

// bringIntoForce creates the topics and publishes the policy, the first time,
// and when a file was named that says something new: then as the whole policy,
// as weir apply --prune does: keys that it lacks stay.
func (d *dev) bringIntoForce(ctx context.Context, s *Settings, p *schemas.Policy) error {
	k, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer k.cl.Close()
	_, err = k.editor(s).AcceptingLoss(true).Revise(ctx, author(), 1, func(have *schemas.Revision) (*schemas.Policy, error) {
		first := len(have.Policy.Providers) == 0 && len(have.Policy.Limits) == 0
		if first || d.policyFile != "" {
			return have.Policy.Only(schemas.ResourceKey, "").Merge(p), nil
		}
		return &have.Policy, nil
	}, nil)
	return err
}

func (d *dev) welcome(e *endpoints, started time.Time) {
	click := masked(e.ClickHouse)
	if click == "" {
		click = "none"
	}
	fmt.Fprintf(d.stdout, `Weir is ready after %.1[1]f s. This is for development: the broker keeps one copy, the providers are simulated.

  console      http://%[2]s/console/
  HTTP         http://%[2]s
  Kafka        %[3]s
  ClickHouse   %[4]s
  data         %[5]s

  weir send --to +8613800000000 --class verify --body "code 1" --wait

Ctrl-C ends it; what was sent is still known at the next start.
`, time.Since(started).Seconds(), e.HTTP, e.Kafka, click, d.dir)
}

// listen takes the address that was asked for, or the default, or any free
// port where something else has the default.
func listen(asked, dflt string) (net.Listener, error) {
	if asked != "" {
		return net.Listen("tcp", asked)
	}
	if l, err := net.Listen("tcp", dflt); err == nil {
		return l, nil
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// startChild starts a child on the address that was asked for, or on the
// default, or on any free port where something else has the default: before, or
// by the time that the child would listen.
func startChild(asked, dflt string, start func(addr string) (*child.Process, error)) (*child.Process, error) {
	if asked != "" {
		return start(asked)
	}
	if free(dflt) {
		p, err := start(dflt)
		if err == nil || free(dflt) {
			return p, err
		}
	}
	return start("127.0.0.1:0")
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func stopChild(what string, p *child.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		return fmt.Errorf("stop the %s: %w", what, err)
	}
	return nil
}

func watchChild(ctx context.Context, cancel context.CancelCauseFunc, what string, p *child.Process) {
	go func() {
		select {
		case <-p.Done():
			cancel(fmt.Errorf("the embedded %s ended: %w; see children.log", what, p.Err()))
		case <-ctx.Done():
		}
	}()
}
