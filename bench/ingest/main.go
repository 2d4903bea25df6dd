// Command ingest measures the HTTP door: weir run with the role ingest alone, with
// this process as its clients, and Apache Kafka, all on one machine.
//
//	go run ./bench/ingest -measure rate     as many POST /v1/messages as it takes, and what net/http alone takes
//	go run ./bench/ingest -measure half     latency at a given rate, counted from when each request was due
//	go run ./bench/ingest -measure kill     kill -9 under load: is each 202 in Kafka?
//	go run ./bench/ingest -measure batch    NDJSON batches, and the server's memory
//	go run ./bench/ingest -measure wait     Prefer: wait, one request at a time, with admission beside it
//
// It starts Apache Kafka (deploy/local) unless KAFKA_BROKERS names a cluster. The
// tables go to stdout and, with -out, to a file.
//
// What it does not measure: more than one machine, TLS, the API's own limits
// (bench/overload does).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/cmd/weir/e2e"
)

func main() { rig.Main("ingest", run) }

type bench struct {
	conns   int
	rate    int
	seconds int
	runs    int
	items   int
	program string
	dir     string
	cluster *rig.Cluster
	log     io.Writer
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	b := &bench{log: stderr}
	fs := flag.NewFlagSet("ingest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	measure := fs.String("measure", "rate", "rate, half, kill, batch or wait")
	fs.IntVar(&b.conns, "conns", 128, "connections, each with one request at a time")
	fs.IntVar(&b.rate, "rate", 10_000, "half: requests a second")
	fs.IntVar(&b.seconds, "seconds", 10, "length of a run")
	fs.IntVar(&b.runs, "runs", 5, "runs of each")
	fs.IntVar(&b.items, "items", 10_000, "batch: messages of a batch")
	fs.StringVar(&b.program, "weir", "", "run this program instead of building weir")
	out := fs.String("out", "", "also write the tables to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	work, ok := map[string]func(context.Context) (string, error){
		"rate": b.rates, "half": b.half, "kill": b.kill, "batch": b.batches, "wait": b.waits,
	}[*measure]
	if !ok || fs.NArg() > 0 {
		return fmt.Errorf("-measure %s %s: rate, half, kill, batch or wait", *measure, strings.Join(fs.Args(), " "))
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b.cluster = kafka
	if b.dir, err = os.MkdirTemp("", "weir-ingest-*"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.program == "" {
		if b.program, err = e2e.Build(ctx, b.dir, ""); err != nil {
			return err
		}
	}
	text, err := work(ctx)
	if err != nil {
		return err
	}
	title, text, _ := strings.Cut(text, "\n")
	command := rig.Command("ingest", args)
	return rig.Print(stdout, *out, fmt.Sprintf("%s\n\n%s\n\n    %s\n\n%s. %s", title, rig.Machine(), command, kafka.What, text))
}

func (b *bench) length() time.Duration { return time.Duration(b.seconds) * time.Second }
