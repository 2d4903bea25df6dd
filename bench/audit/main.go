// Command audit measures how long `weir audit` takes over a million decisions
// on Apache Kafka, and how much memory. The log is a real one: admission, lanes
// with a simulated provider without latency, and delay write it. Then the
// program itself is built and run on it, as an operator would.
//
//	go run ./bench/audit                starts Apache Kafka (deploy/local)
//	KAFKA_BROKERS=host:9092 go run ./bench/audit
//
// The peak is VmHWM of the process, read while it runs. What this does not
// measure: brokers on other machines, logs beyond the page cache.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/audit"
)

func main() { rig.Main("audit", run) }

var discard = slog.New(slog.DiscardHandler)

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	var l load
	fs := flag.NewFlagSet("audit", flag.ContinueOnError)
	fs.IntVar(&l.requests, "requests", 1_000_000, "requests; each makes a decision, one in twenty another by its forward")
	fs.IntVar(&l.recipients, "recipients", 200_000, "different recipients")
	fs.IntVar(&l.partitions, "partitions", 8, "partitions N")
	fs.BoolVar(&l.lanes, "lanes", true, "let lanes send what is admitted; else it stays queued")
	prefix := fs.String("prefix", "", "audit the log that an earlier run wrote under this prefix, on the cluster of KAFKA_BROKERS")
	runs := fs.Int("runs", 5, "how often the log is audited; 0 only writes it")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-bench-audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	weir := filepath.Join(dir, "weir")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", weir, "github.com/weirhq/weir/cmd/weir").CombinedOutput(); err != nil {
		return fmt.Errorf("build weir: %w\n%s", err, out)
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	if *prefix == "" {
		began := time.Now()
		if *prefix, err = l.write(ctx, kafka, stderr); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
		fmt.Fprintf(stderr, "the log was written in %s: -prefix %s\n", time.Since(began).Round(time.Second), *prefix)
	}
	var all []result
	for i := range *runs {
		r, err := auditOnce(ctx, weir, dir, kafka.Brokers, *prefix)
		if err != nil {
			return fmt.Errorf("audit %d: %w", i+1, err)
		}
		all = append(all, r)
		fmt.Fprintf(stderr, "audit %d of %d: %s, %.1f s (%.1f s of CPU), %.0f MiB\n", i+1, *runs, r.report.Outcome, r.took.Seconds(), r.cpu.Seconds(), r.mib())
	}
	if len(all) == 0 {
		return nil
	}
	text := table(l, kafka.What, all, rig.Command("audit", args))
	return rig.Print(stdout, *out, text)
}

// result is one audit: its report, and what it took from outside.
type result struct {
	report audit.Report
	took   time.Duration
	cpu    time.Duration
	peak   int64 // bytes
}

func (r result) mib() float64 { return float64(r.peak) / (1 << 20) }
func (r result) rate() float64 {
	return float64(r.report.Checked.Decisions) / r.took.Seconds()
}

func auditOnce(ctx context.Context, weir, dir string, brokers []string, prefix string) (r result, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, weir, "audit", "--json", "--dir", dir, "--kafka-brokers", strings.Join(brokers, ","), "--kafka-prefix", prefix)
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			r.took = time.Since(began)
			r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			if err != nil {
				return r, fmt.Errorf("%w\n%s%s", err, errs.String(), out.String())
			}
			return r, json.Unmarshal(out.Bytes(), &r.report)
		case <-tick.C:
			peak, _ := rig.PeakMemory(cmd.Process.Pid) // it may have ended just now
			r.peak = max(r.peak, peak)
		}
	}
}

func table(l load, what string, all []result, command string) string {
	var b strings.Builder
	c := all[0].report.Checked
	fmt.Fprintf(&b, "# weir audit over a million decisions\n\n%s\n\n    %s\n\n",
		rig.MachineAndLoad(), command)
	fmt.Fprintf(&b, "%s. %d requests to %d recipients in %d partitions, one in twenty misrouted. The log: %d records of weir.status with\n"+
		"%d decisions (%d admitted, %d refused, %d forwarded), %d dispatched, %d permits with %d outcomes; %d windows recounted.\n\n",
		what, l.requests, l.recipients, l.partitions, c.Records, c.Decisions, c.Admitted, c.Refused, c.Forwarded, c.Dispatched, c.Permits, c.Outcomes, c.Windows)
	b.WriteString("| run | outcome | seconds | CPU seconds | decisions/s | peak MiB (VmHWM) |\n|---|---|---|---|---|---|\n")
	for i, r := range all {
		fmt.Fprintf(&b, "| %d | %s | %.2f | %.2f | %.0f k | %.0f |\n", i+1, r.report.Outcome, r.took.Seconds(), r.cpu.Seconds(), r.rate()/1000, r.mib())
	}
	for _, stat := range rig.Stats {
		pick := func(f func(result) float64) float64 { return rig.Of(stat, all, f) }
		fmt.Fprintf(&b, "| **%s** | | **%.2f** | **%.2f** | **%.0f k** | **%.0f** |\n", stat.Name,
			pick(func(r result) float64 { return r.took.Seconds() }),
			pick(func(r result) float64 { return r.cpu.Seconds() }), pick(result.rate)/1000, pick(result.mib))
	}
	return b.String()
}

var errEnded = errors.New("a stage ended early")
