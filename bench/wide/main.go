// Command wide measures what limits beyond one recipient cost: limits whose places
// stand in the partition that owns their scope, so that a message goes round by
// there before its recipient's partition dispatches it.
//
//	go run ./bench/wide -measure rate      a tenant-wide limit beside recipient's limits alone
//	go run ./bench/wide -measure hot       everything through one owner
//	go run ./bench/wide -measure latency   one message at a time through weir run, idle
//
// Each starts Apache Kafka (deploy/local) unless KAFKA_BROKERS names a cluster. What
// is compared takes turns, so that a slow minute of the machine hits both. The
// tables go to stdout and, with -out, to a file; each says how it was measured.
//
// What it does not measure: more than one machine, segments of large windows on
// disk, exactness (cmd/weir/e2e and bench/rival do).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/bench/rig"
)

func main() { rig.Main("wide", run) }

type bench struct {
	records    int
	recipients int
	partitions int
	valueBytes int
	messages   int
	runs       int
	profile    string
	variant    int
	program    string
	cluster    *rig.Cluster
	log        io.Writer
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	b := &bench{log: stderr}
	fs := flag.NewFlagSet("wide", flag.ContinueOnError)
	fs.SetOutput(stderr)
	measure := fs.String("measure", "rate", "rate, hot or latency")
	fs.IntVar(&b.records, "records", 300_000, "requests of each run of rate and hot")
	fs.IntVar(&b.recipients, "recipients", 100_000, "different recipients of rate and hot")
	fs.IntVar(&b.partitions, "partitions", 8, "partitions N")
	fs.IntVar(&b.valueBytes, "bytes", 250, "size of a request's value in rate and hot")
	fs.IntVar(&b.messages, "messages", 600, "messages of each kind in latency")
	fs.IntVar(&b.runs, "runs", 5, "runs of each in rate and hot")
	fs.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the last run to this file: of rate with the tenant-wide limit, of hot the owner alone, first variant that is run")
	fs.IntVar(&b.variant, "variant", 0, "hot: only this variant of the limit, 1 to 3; 0 is all")
	fs.StringVar(&b.program, "weir", "", "latency: run this program instead of building weir")
	out := fs.String("out", "", "also write the tables to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	work, ok := map[string]func(context.Context) (string, error){"rate": b.rates, "hot": b.hots, "latency": b.latencies}[*measure]
	if !ok || fs.NArg() > 0 {
		return fmt.Errorf("-measure %s %s: rate, hot or latency", *measure, strings.Join(fs.Args(), " "))
	}
	if b.variant < 0 || b.variant > len(heats) {
		return fmt.Errorf("-variant %d: 0 to %d", b.variant, len(heats))
	}
	if b.records > 5*b.recipients {
		return errors.New("more than 5 requests a recipient: the recipient's limit would refuse some, and a refusal writes less")
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b.cluster = kafka
	text, err := work(ctx)
	if err != nil {
		return err
	}
	title, text, _ := strings.Cut(text, "\n")
	command := rig.Command("wide", args)
	return rig.Print(stdout, *out, fmt.Sprintf("%s\n\n%s\n\n    %s\n\n%s. %s", title, rig.Machine(), command, kafka.What, text))
}
