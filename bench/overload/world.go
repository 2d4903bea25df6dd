package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	serverEnv  = "WEIR_BENCH_OVERLOAD"
	partitions = 8
	calmName   = "calm"
	fillName   = "fill"
)

func keyName(i int) string       { return fmt.Sprintf("load-%d", i) }
func secretOf(key string) string { return "weir_live_" + key }

// world has a process that serves it.
type world struct {
	*bench
	*rig.World
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
	made, err := b.cluster.NewWorld(ctx, "overload", partitions, text.String())
	if err != nil {
		return nil, err
	}
	w := &world{bench: b, World: made}
	listening := make(chan string, 1)
	if w.server, w.read, err = rig.Worker(ctx, w.Brokers, serverEnv, w.Names.Prefix, func(line string) {
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

// close ends the server and drops the topics.
func (w *world) close() error {
	w.server.Process.Signal(syscall.SIGTERM)
	<-w.read
	err := w.server.Wait()
	w.Drop()
	return err
}

// serve is the process that serves.
func serve(ctx context.Context, prefix string, brokers []string, stderr io.Writer) error {
	w := (&rig.Cluster{Brokers: brokers}).World(prefix, partitions)
	watch, stop, err := w.Watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var replies int32
	for _, spec := range topics.Catalogue(w.Topics, &watch.Latest().Policy) {
		if spec.Name == w.Names.Replies() {
			replies = spec.Partitions
		}
	}
	srv, err := ingest.New(ctx, ingest.Config{Brokers: brokers, Names: w.Names, Partitions: partitions, Replies: replies, Policy: watch, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
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
