// Command overload measures what the API's own limits are for: that callers who
// ask ten times as often as they may get what they may and no more, and that
// one who keeps to his rate hardly notices.
//
//	go run ./bench/overload
//
// A process of its own serves the HTTP API (package ingest) from a real broker:
// Apache Kafka (deploy/local), unless KAFKA_BROKERS names a cluster. Phases
// follow one another: the well-behaved key alone; beside it 1,000 keys at the
// rate they have; the same at ten times that; and alone again. The table goes to stdout and, with
// -out, to a file; it says how it was measured.
//
// What it does not measure: what becomes of the messages (nothing reads them),
// several instances, clients who wait when they are told to (ingest/client does).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/cmd/weir/collector"
)

func main() {
	run := run
	if spec := os.Getenv(serverEnv); spec != "" {
		run = func(ctx context.Context, _ []string, getenv func(string) string, _, stderr io.Writer) error {
			collector.Tune(ctx, getenv) // as cmd/weir does
			return serve(ctx, spec, strings.Split(getenv("KAFKA_BROKERS"), ","), stderr)
		}
	}
	if spec := os.Getenv(askEnv); spec != "" {
		run = func(ctx context.Context, _ []string, _ func(string) string, _, stderr io.Writer) error {
			return askAway(ctx, spec, stderr)
		}
	}
	rig.Main("overload", run)
}

type bench struct {
	keys    int
	seconds int
	conns   int
	runs    int
	filling int
	cluster *rig.Cluster
	log     io.Writer
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	b := &bench{log: stderr}
	fs := flag.NewFlagSet("overload", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&b.keys, "keys", 1000, "keys that ask too often; each may 1/s, and 2 at once")
	fs.IntVar(&b.seconds, "seconds", 60, "length of the phase of ten times the rate; the others take half of it")
	fs.IntVar(&b.conns, "connections", 50, "connections over which they ask")
	fs.IntVar(&b.filling, "fill", 110_000, "messages sent before the phases: more than ingest keeps for reads, 50,000")
	fs.IntVar(&b.runs, "runs", 1, "runs of the phases")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 || b.keys < 1 || b.seconds < 2 || b.conns < 1 || b.runs < 1 {
		return errors.New("takes flags alone, and numbers from 1")
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b.cluster = kafka
	text, err := b.table(ctx)
	if err != nil {
		return err
	}
	command := rig.Command("overload", args)
	return rig.Print(stdout, *out, fmt.Sprintf("# Ten times the allowed rate\n\n%s\n\n    %s\n\n%s. %s", rig.Machine(), command, kafka.What, text))
}

// table runs the phases and writes what came of them.
func (b *bench) table(ctx context.Context) (string, error) {
	var t strings.Builder
	fmt.Fprintf(&t, `One process serves the HTTP API from it; all that follows shares the machine.
%d keys have the rate "bucket 2 refill 1/s" for writes, and ask POST /v1/messages evenly, over %d connections that are kept, from a process of their own that gives way (nice 10). The well-behaved key may
100/s and asks 50 times a second, over %d connections of its own, at even times; its latency is from the time at which a call was due, until
its answer has been read. Ten times the rate takes %d s and the other phases half of it, each after a pause in which the buckets fill. In brackets: over
the p99 of both phases alone together. What a key may have is what a plain
bucket lets through of its calls at the times at which they were made. Before all this the server takes in %d messages, more than it keeps for reads.

| phase | calls/s | let through | of what the keys may | a key's, least and most | 429 | others | well-behaved: refused | p50 | p99 | p99.9 | max | server: cores | memory, first and last tenth |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, b.keys, b.conns, calmConns, b.seconds, b.filling)
	for range b.runs {
		w, err := b.newWorld(ctx)
		if err != nil {
			return "", err
		}
		if err := w.fill(ctx); err != nil {
			return "", errors.Join(err, w.close())
		}
		phases := []phase{{"alone", 0, b.seconds / 2}, {"all at their rate", 1, b.seconds / 2}, {"ten times the rate", 10, b.seconds}, {"alone again", 0, b.seconds / 2}}
		var outcomes []*outcome
		var quiet latencies
		for _, p := range phases {
			got, err := w.phase(ctx, p)
			if err != nil {
				return "", errors.Join(err, w.close())
			}
			fmt.Fprintln(b.log, p.name, got)
			outcomes = append(outcomes, got)
			if p.factor == 0 {
				quiet = append(quiet, got.calm...)
			}
		}
		slices.Sort(quiet)
		for i, p := range phases {
			got := outcomes[i]
			fmt.Fprintf(&t, "| %s | %s | %d | %s | %d to %d | %d | %d | %d | %s | **%s** (%.2f) | %s | %s | %.2f | %s to %s MB |\n", p.name, got.offered(p.seconds), got.Passed, got.share(), got.Least, got.Most,
				got.Refused, got.Others, got.calmRefused, ms(got.calm.at(.5)), ms(got.calm.at(.99)), float64(got.calm.at(.99))/float64(quiet.at(.99)), ms(got.calm.at(.999)), ms(got.calm.at(1)),
				got.cores, mb(got.memoryFirst), mb(got.memoryLast))
		}
		if err := w.close(); err != nil {
			return "", err
		}
	}
	return t.String(), nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

func mb(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }
