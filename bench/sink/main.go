// Command sink measures how fast a backlog of weir.status gets into ClickHouse,
// by sink.Run from joining its group to the last confirmation, beside what is the
// least that a Go program has to do for the same rows: a loop of clickhouse-go
// inserts of the same columns into the same table, whose blocks were decoded
// before the clock started. Both in turns, each into a database of its own on the
// same engine.
//
//	go run ./bench/sink                 starts Apache Kafka (deploy/local)
//	KAFKA_BROKERS=host:9092 go run ./bench/sink
//
// Broker, engine and sink share the machine. What this does not measure: a
// ClickHouse server on a machine of its own, replication, a network.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/topics"
)

func main() {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench/sink:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	var b backlog
	var m measure
	partitions := 8
	fs := flag.NewFlagSet("sink", flag.ContinueOnError)
	fs.IntVar(&b.events, "events", 2_000_000, "records of weir.status")
	fs.IntVar(&b.recipients, "recipients", 100_000, "different recipients")
	fs.IntVar(&partitions, "partitions", 8, "partitions N")
	fs.IntVar(&m.rows, "rows", 0, "rows of a block; 0 is the sink's default")
	fs.IntVar(&m.inserts, "inserts", 0, "inserts at once; 0 is the sink's default")
	runs := fs.Int("runs", 5, "how often each is measured")
	only := fs.String("only", "", "sink or bare: measure one of them only")
	verbose := fs.Bool("v", false, "show the sink's log")
	profile := fs.String("cpuprofile", "", "write a CPU profile of the sink's runs to this file")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	b.partitions = int32(partitions)
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	lib, err := engine.Ensure(ctx, "", stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-bench-sink-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := engine.Start(ctx, engine.Options{Dir: dir, LibPath: lib, Log: stderr})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = db.Stop(ctx)
	}()
	m.brokers, m.addr, m.engine, m.events, m.partitions = kafka.Brokers, db.Addr(), db.PID(), b.events, b.partitions
	m.names = topics.Names{Prefix: fmt.Sprintf("bench-%d.", time.Now().UnixMilli())}
	m.logger = slog.New(slog.DiscardHandler)
	if *verbose {
		m.logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	size, err := b.write(ctx, kafka.Brokers, m.names)
	if err != nil {
		return fmt.Errorf("write the backlog: %w", err)
	}
	fmt.Fprintf(stderr, "%d records, %d bytes each\n", b.events, size/int64(b.events))
	if *profile != "" {
		var buf bytes.Buffer
		if err := pprof.StartCPUProfile(&buf); err != nil {
			return err
		}
		defer func() {
			pprof.StopCPUProfile()
			if err := os.WriteFile(*profile, buf.Bytes(), 0o644); err != nil {
				fmt.Fprintln(stderr, err)
			}
		}()
	}
	var all []pair
	for i := range *runs {
		var p pair
		if *only != "bare" {
			if p.sink, err = m.sink(ctx, fmt.Sprintf("sink_%d", i)); err != nil {
				return fmt.Errorf("sink, run %d: %w", i+1, err)
			}
			fmt.Fprintf(stderr, "run %d: sink %.0f rows/s in %.1f s (CPU: sink %.1f s, engine %.1f s)\n", i+1, p.sink.rate, p.sink.took.Seconds(), p.sink.own.Seconds(), p.sink.engine.Seconds())
		}
		if *only != "sink" {
			if p.bare, err = m.bare(ctx, fmt.Sprintf("bare_%d", i)); err != nil {
				return fmt.Errorf("bare, run %d: %w", i+1, err)
			}
			fmt.Fprintf(stderr, "run %d: bare %.0f rows/s in %.1f s (CPU: loop %.1f s, engine %.1f s)\n", i+1, p.bare.rate, p.bare.took.Seconds(), p.bare.own.Seconds(), p.bare.engine.Seconds())
		}
		all = append(all, p)
	}
	if len(all) == 0 || *only != "" {
		return nil
	}
	return rig.Print(stdout, *out, table(b, kafka.What, size, all, rig.Command("sink", args)))
}

func table(b backlog, what string, size int64, all []pair, command string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "# A backlog of weir.status into ClickHouse\n\n%s\n\n    %s\n\n", rig.MachineAndLoad(), command)
	fmt.Fprintf(&t, "%s; the embedded engine on the same machine. %d records of %d bytes in %d partitions; every table and rollup is filled.\n"+
		"The sink: from joining its group to the last confirmation, checks of the schema included. Bare: the same columns, decoded before, as many inserts at once.\n\n",
		what, b.events, size/int64(b.events), b.partitions)
	t.WriteString("| run | sink rows/s | CPU s: sink | engine | bare rows/s | CPU s: loop | engine | ratio |\n|---|---|---|---|---|---|---|---|\n")
	for i, p := range all {
		fmt.Fprintf(&t, "| %d | %.0f k | %.1f | %.1f | %.0f k | %.1f | %.1f | %.2f |\n", i+1,
			p.sink.rate/1000, p.sink.own.Seconds(), p.sink.engine.Seconds(), p.bare.rate/1000, p.bare.own.Seconds(), p.bare.engine.Seconds(), p.sink.rate/p.bare.rate)
	}
	for _, s := range rig.Stats {
		of := func(f func(pair) float64) float64 { return rig.Of(s, all, f) }
		fmt.Fprintf(&t, "| **%s** | **%.0f k** | | | **%.0f k** | | | **%.2f** |\n", s.Name,
			of(func(p pair) float64 { return p.sink.rate })/1000, of(func(p pair) float64 { return p.bare.rate })/1000,
			of(func(p pair) float64 { return p.sink.rate / p.bare.rate }))
	}
	return t.String()
}
