// Command restore measures how fast a worker has its state back on Apache
// Kafka.
//
//	go run ./bench/restore              starts Apache Kafka (deploy/local)
//	KAFKA_BROKERS=host:9092 go run ./bench/restore
//
// A real admission worker first decides one request for each recipient, so that
// the ledger is what a compacted one is: one record a recipient, and beside them
// no more than the meta record of each commit.
//
// Restore: a new worker joins the group and restores every partition from its
// beginning, by the code of production. Beside it, a bare consumer (franz-go's)
// reads the same partitions to the same end and drops what it reads. The two
// take turns. What is measured is the worker's own weir_admission_restore_seconds.
//
// Takeover (-takeover kill, or term): two worker processes share the partitions;
// one is ended under load, and the other takes over, with and without a standby
// in turns.
//
// What it does not measure: several brokers, a network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirhq/weir/bench/rig"
)

func main() { rig.Main("restore", run) }

// load is what is measured.
type load struct {
	recipients int
	partitions int
	runs       int
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if spec := getenv(asWorker); spec != "" {
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
		return worker(ctx, strings.Split(getenv("KAFKA_BROKERS"), ","), spec, stderr)
	}
	var l load
	fs := flag.NewFlagSet("restore", flag.ContinueOnError)
	fs.IntVar(&l.recipients, "recipients", 2_000_000, "recipients in the ledger")
	fs.IntVar(&l.partitions, "partitions", 8, "partitions N")
	fs.IntVar(&l.runs, "runs", 5, "runs of each")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	profile := fs.String("cpuprofile", "", "write a CPU profile of the restores to this file")
	over := fs.String("takeover", "", "measure takeovers instead, after kill (kill -9) or term (an orderly end)")
	prefix := fs.String("ledger", "", "use the ledger that an earlier run made under this prefix, with the same -recipients and -partitions")
	if err := fs.Parse(args); err != nil {
		return err
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b := &bench{load: l, cluster: kafka, log: stderr}
	w := &world{bench: b, World: kafka.World(*prefix, l.partitions)}
	if *prefix == "" {
		if w, err = b.newWorld(ctx); err != nil {
			return fmt.Errorf("make the ledger: %w", err)
		}
		fmt.Fprintf(stderr, "to use it again: -ledger %s\n", w.Names.Prefix)
	}
	command := rig.Command("restore", args)
	var text string
	switch *over {
	case "kill":
		text, err = b.takeovers(ctx, w, syscall.SIGKILL, kafka.What, command)
	case "term":
		text, err = b.takeovers(ctx, w, syscall.SIGTERM, kafka.What, command)
	case "":
		text, err = b.restores(ctx, w, kafka.What, command, *profile)
	default:
		return fmt.Errorf("-takeover %s: kill or term", *over)
	}
	if err != nil {
		return err
	}
	return rig.Print(stdout, *out, text)
}

// restores measures the restore beside the bare consumer, in turns.
func (b *bench) restores(ctx context.Context, w *world, what, command, profile string) (string, error) {
	var rows []row
	for i := range b.runs {
		var r row
		kinds := []func() error{
			func() (err error) { r.bare, err = w.bare(ctx); return err },
			func() (err error) {
				if profile != "" && i == b.runs-1 {
					f, err := os.Create(profile)
					if err != nil {
						return err
					}
					defer f.Close()
					if err := pprof.StartCPUProfile(f); err != nil {
						return err
					}
					defer pprof.StopCPUProfile()
				}
				r.restore, err = w.restore(ctx, i)
				return err
			},
		}
		if i%2 == 1 { // the order changes, so that neither always has the fresher broker
			slices.Reverse(kinds)
		}
		for _, measure := range kinds {
			runtime.GC()
			if err := measure(); err != nil {
				return "", fmt.Errorf("run %d: %w", i+1, err)
			}
		}
		rows = append(rows, r)
		fmt.Fprintf(b.log, "run %d of %d: restore %s, bare consumer %s\n", i+1, b.runs, r.restore, r.bare)
	}
	return table(b.load, what, rows, command), nil
}

// read is records read in a time.
type read struct {
	records int64
	took    time.Duration
}

func (r read) rate() float64 { return float64(r.records) / r.took.Seconds() }

func (r read) String() string {
	return fmt.Sprintf("%.2f M/s (%d in %.2f s)", r.rate()/1e6, r.records, r.took.Seconds())
}

type row struct{ restore, bare read }

func table(l load, what string, rows []row, command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Restore beside a bare consumer\n\n%s\n\n    %s\n\n", rig.Machine(), command)
	fmt.Fprintf(&b, "%s. A ledger of %d recipients over %d partitions, one record a recipient, written by a real admission worker;\n", what, l.recipients, l.partitions)
	b.WriteString("the restore is a new worker's, into its limit tables, all partitions from the beginning; the bare consumer is franz-go's, which reads\nthe same partitions to the same end and drops what it reads.\n\n")
	b.WriteString("| run | restore | bare consumer | ratio |\n|---|---|---|---|\n")
	for i, r := range rows {
		fmt.Fprintf(&b, "| %d | %s | %s | %.2f |\n", i+1, r.restore, r.bare, r.restore.rate()/r.bare.rate())
	}
	for _, stat := range rig.Stats {
		pick := func(f func(row) float64) float64 { return rig.Of(stat, rows, f) }
		fmt.Fprintf(&b, "| **%s** | **%.2f M/s** | **%.2f M/s** | **%.2f** |\n", stat.Name,
			pick(func(r row) float64 { return r.restore.rate() / 1e6 }),
			pick(func(r row) float64 { return r.bare.rate() / 1e6 }),
			pick(func(r row) float64 { return r.restore.rate() / r.bare.rate() }))
	}
	return b.String()
}

var errEnded = errors.New("the worker ended")
