// Command delay measures how late the delay stage returns what waits, and how
// much memory it takes while much waits, on Apache Kafka.
//
//	go run ./bench/delay                starts Apache Kafka (deploy/local)
//	KAFKA_BROKERS=host:9092 go run ./bench/delay
//
// The stage is the real one, in a process of its own. Lateness is the broker's
// append time on weir.readmit less the time due: for what waits one tier, that
// tier's wait after the broker's append time; for what was asked for a time of
// its own (send_at, retry-at), that time. Beside it stands when a reader of
// committed records in this process had it, which is what admission sees.
//
// Memory: the process's peak (VmHWM) and its live heap, with a million records
// in the 5m tier and beside it with none.
//
// What it does not measure: several brokers, a network, lanes or admission at
// work on the same machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/rig"
)

func main() { rig.Main("delay", run) }

// load is what is measured.
type load struct {
	rate       int
	span       time.Duration
	waiting    int
	partitions int
	size       int
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if spec := getenv(asWorker); spec != "" {
		return worker(ctx, strings.Split(getenv("KAFKA_BROKERS"), ","), spec, stderr)
	}
	var l load
	fs := flag.NewFlagSet("delay", flag.ContinueOnError)
	fs.IntVar(&l.rate, "rate", 10_000, "records a second")
	fs.DurationVar(&l.span, "for", 30*time.Second, "how long they are written")
	fs.IntVar(&l.waiting, "waiting", 1_000_000, "records that wait while memory is measured")
	fs.IntVar(&l.partitions, "partitions", 8, "partitions N, and of each tier")
	fs.IntVar(&l.size, "size", 250, "bytes of a record's value")
	only := fs.String("only", "5s,1s,scattered,memory", "what to measure")
	out := fs.String("out", "", "also write the tables to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b := &bench{load: l, cluster: kafka, log: stderr}
	var text strings.Builder
	fmt.Fprintf(&text, "# The delay stage: lateness and memory\n\n%s\n\n    %s\n\n%s. Values of %d bytes, %d partitions.\n",
		rig.Machine(), rig.Command("delay", args), kafka.What, l.size, l.partitions)
	wanted := strings.Split(*only, ",")
	var rows []row
	for _, s := range scenarios {
		if !slices.Contains(wanted, s.name) {
			continue
		}
		r, err := b.lateness(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintln(stderr, r)
		rows = append(rows, r)
	}
	if len(rows) > 0 {
		text.WriteString(latenessTable(l, rows))
	}
	if slices.Contains(wanted, "memory") {
		table, err := b.memory(ctx)
		if err != nil {
			return fmt.Errorf("memory: %w", err)
		}
		text.WriteString(table)
	}
	return rig.Print(stdout, *out, text.String())
}
