package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	serverEnv  = "WEIR_BENCH_OVERLOAD"
	partitions = 8
	calmName   = "calm"
	fillName   = "fill"
)

var discard = slog.New(slog.DiscardHandler)

func topicsUnder(prefix string) topics.Config {
	return topics.Config{Prefix: prefix, Partitions: partitions, Replication: 1}
}

func keyName(i int) string       { return fmt.Sprintf("load-%d", i) }
func secretOf(key string) string { return "weir_live_" + key }

// world is a fresh set of topics with a policy in force, and a process that
// serves it.
type world struct {
	*bench
	names  topics.Names
	specs  []topics.Spec
	server *exec.Cmd
	read   <-chan struct{}
	addr   string
}

func (b *bench) newWorld(ctx context.Context) (*world, error) {
	var text strings.Builder
	text.WriteString("providers: [{name: simulated, type: simulated, channels: [sms]}]\nkeys:\n")
	key := func(name, rate string) {
		fmt.Fprintf(&text, "  - {name: %s, tenant: default, scopes: [send], rates: {write: %s}, hash: %q}\n", name, rate, schemas.HashSecret(secretOf(name)))
	}
	key(calmName, "bucket 100 refill 100/s")
	key(fillName, "bucket 1000000 refill 1000/s")
	for i := range b.keys {
		key(keyName(i), fmt.Sprintf("bucket %d refill 1/s", loadCapacity))
	}
	doc, err := schemas.ParsePolicy("bench.yaml", []byte(text.String()))
	if err != nil {
		return nil, err
	}
	cfg := topicsUnder(fmt.Sprintf("overload-%d.", time.Now().UnixMilli()))
	w := &world{bench: b, names: cfg.Names(), specs: topics.Catalogue(cfg, &doc.Policy)}
	diff, err := topics.Plan(ctx, b.adm, w.specs)
	if err != nil {
		return nil, err
	}
	if err := topics.Apply(ctx, b.adm, diff, nil); err != nil {
		return nil, err
	}
	if err := w.publish(ctx, doc.Policy); err != nil {
		return nil, err
	}
	listening := make(chan string, 1)
	if w.server, w.read, err = rig.Worker(ctx, b.brokers, serverEnv, w.names.Prefix, func(line string) {
		if addr, ok := strings.CutPrefix(line, "listening "); ok {
			listening <- addr
			return
		}
		fmt.Fprintln(b.log, "server:", line)
	}); err != nil {
		return nil, err
	}
	select {
	case w.addr = <-listening:
	case <-w.read:
		return nil, errors.Join(errors.New("the server ended"), w.server.Wait())
	case <-time.After(30 * time.Second):
		return nil, errors.Join(errors.New("the server does not listen"), w.close())
	}
	return w, nil
}

func (w *world) publish(ctx context.Context, p schemas.Policy) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	watch, err := policy.Watch(ctx, w.names.Config(), discard, kgo.SeedBrokers(w.brokers...))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go watch.Run(ctx) //nolint:errcheck // Publish reports what Run meets
	_, err = watch.Publish(ctx, cl, 0, "bench", p)
	return err
}

// close ends the server and drops the topics.
func (w *world) close() error {
	w.server.Process.Signal(syscall.SIGTERM)
	<-w.read
	err := w.server.Wait()
	var names []string
	for _, s := range w.specs {
		names = append(names, s.Name)
	}
	_, _ = w.adm.DeleteTopics(context.Background(), names...) // the next run has others
	return err
}

// serve is the process that serves.
func serve(ctx context.Context, prefix string, brokers []string, stderr io.Writer) error {
	cfg := topicsUnder(prefix)
	names := cfg.Names()
	watch, err := policy.Watch(ctx, names.Config(), discard, kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	go watch.Run(ctx) //nolint:errcheck // the policy does not change
	var replies int32
	for _, spec := range topics.Catalogue(cfg, &watch.Latest().Policy) {
		if spec.Name == names.Replies() {
			replies = spec.Partitions
		}
	}
	srv, err := ingest.New(ctx, ingest.Config{Brokers: brokers, Names: names, Partitions: partitions, Replies: replies, Policy: watch, Registry: prometheus.NewRegistry(), Logger: discard})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "listening", ln.Addr())
	return srv.Serve(ctx, ln)
}

// resident is what the server has in memory, in bytes (VmRSS of Linux).
func (w *world) resident() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.server.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// cpu is how much of a core the server has used (utime and stime of Linux, in
// hundredths of a second).
func (w *world) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.server.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
