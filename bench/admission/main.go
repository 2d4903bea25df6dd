// Command admission measures how many requests a second one admission worker
// decides on Apache Kafka, beside a bare exactly-once hop on the same runtime
// (processor/stream) that writes the same records and decides nothing. The
// ratio says what deciding costs.
//
//	go run ./bench/admission            starts Apache Kafka (deploy/local)
//	KAFKA_BROKERS=host:9092 go run ./bench/admission
//
// The two take turns, so that a slow minute of the machine hits both. CPU time a message
// is of the whole process, Kafka client and garbage collector included. The table
// goes to stdout and, with -out, to a file.
//
// What it does not measure: latency, several workers, forwarded requests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/rig"
)

func main() { rig.Main("admission", run) }

// load is what is measured.
type load struct {
	records    int
	recipients int
	partitions int
	valueBytes int
	runs       int
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	var l load
	fs := flag.NewFlagSet("admission", flag.ContinueOnError)
	fs.IntVar(&l.records, "records", 400_000, "requests of each run")
	fs.IntVar(&l.recipients, "recipients", 100_000, "different recipients")
	fs.IntVar(&l.partitions, "partitions", 8, "partitions N")
	fs.IntVar(&l.valueBytes, "bytes", 250, "size of a request's value")
	fs.IntVar(&l.runs, "runs", 5, "runs of each")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if l.records > 5*l.recipients {
		return errors.New("more than 5 requests a recipient: the policy would refuse some, and a refusal writes less")
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b := &bench{load: l, cluster: kafka, log: stderr}

	fmt.Fprintln(stderr, "warming up, and taking samples of what admission writes")
	if b.samples, err = b.sample(ctx); err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	var rows []row
	for i := range l.runs {
		// The order changes, so that neither always has the fresher broker.
		kinds := []func(context.Context) (figures, error){b.admission, b.copyHop}
		if i%2 == 1 {
			slices.Reverse(kinds)
		}
		var got [2]figures
		for j, kind := range kinds {
			if got[j], err = kind(ctx); err != nil {
				return fmt.Errorf("run %d: %w", i+1, err)
			}
		}
		if i%2 == 1 {
			got[0], got[1] = got[1], got[0]
		}
		rows = append(rows, row{got[0], got[1]})
		fmt.Fprintf(stderr, "run %d of %d: admission %s, copy hop %s\n", i+1, l.runs, got[0], got[1])
	}
	text := table(l, kafka.What, b.samples, rows, rig.Command("admission", args))
	return rig.Print(stdout, *out, text)
}

// rate is records a second.
type rate float64

func (r rate) String() string { return fmt.Sprintf("%.1f k/s", float64(r)/1000) }

// figures are what one run measured.
type figures struct {
	rate rate
	cpu  time.Duration // of this process for each record; hardly depends on the machine's load
}

func (f figures) String() string { return fmt.Sprintf("%s at %s", f.rate, micros(f.cpu)) }

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

type row struct{ admission, copyHop figures }

func (r row) ratio() float64 { return float64(r.admission.rate) / float64(r.copyHop.rate) }

func table(l load, what string, s *samples, rows []row, command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Admission beside a bare exactly-once copy\n\n%s\n\n    %s\n\n", rig.Machine(), command)
	fmt.Fprintf(&b, "%s. %d requests a run over %d recipients, values of %d B, %d partitions, one worker, commits every 100 ms,\n",
		what, l.records, l.recipients, l.valueBytes, l.partitions)
	fmt.Fprintf(&b, "all admitted under three windows (5/60s, 10/1h, 20/calendar-day). Each request makes %d records:\n", len(s.kinds))
	for _, k := range s.kinds {
		fmt.Fprintf(&b, "%s (%.0f B on average)", k.name, k.mean())
		if k != s.kinds[len(s.kinds)-1] {
			b.WriteString(", ")
		}
	}
	b.WriteString(".\nThe copy hop writes real samples of the same records and a meta record a partition and commit, and decides nothing.\n\n")
	b.WriteString("| run | admission | CPU a message | copy hop | CPU a message | ratio of rates |\n|---|---|---|---|---|---|\n")
	for i, r := range rows {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %.2f |\n", i+1, r.admission.rate, micros(r.admission.cpu), r.copyHop.rate, micros(r.copyHop.cpu), r.ratio())
	}
	for _, stat := range rig.Stats {
		pick := func(f func(row) float64) float64 { return rig.Of(stat, rows, f) }
		cpu := func(f func(row) figures) string {
			return micros(time.Duration(pick(func(r row) float64 { return float64(f(r).cpu) })))
		}
		fmt.Fprintf(&b, "| **%s** | **%s** | **%s** | **%s** | **%s** | **%.2f** |\n", stat.Name,
			rate(pick(func(r row) float64 { return float64(r.admission.rate) })), cpu(func(r row) figures { return r.admission }),
			rate(pick(func(r row) float64 { return float64(r.copyHop.rate) })), cpu(func(r row) figures { return r.copyHop }),
			pick(row.ratio))
	}
	return b.String()
}
