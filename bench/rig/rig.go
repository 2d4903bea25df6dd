// Package rig is what the benchmarks stand on: how they begin and end, a cluster to
// measure and topics on it, how a table names the machine, the rows that sum up its
// runs, and worker processes. It measures nothing.
package rig

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/local"
)

// Main runs a benchmark until it ends or the process is told to stop, and exits
// with 1 if it failed.
func Main(name string, run func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Cluster is the Kafka that is measured.
type Cluster struct {
	Brokers []string
	What    string // which it is: begins a sentence
	Admin   *kadm.Client
	client  *kgo.Client // Admin's
	end     func()
}

// Kafka returns the cluster of KAFKA_BROKERS, called KAFKA_NAME if that is set, or
// starts Apache Kafka. The caller must close it.
func Kafka(ctx context.Context, getenv func(string) string, log io.Writer) (*Cluster, error) {
	c := &Cluster{end: func() {}}
	if given := getenv("KAFKA_BROKERS"); given != "" {
		c.Brokers, c.What = strings.Split(given, ","), cmp.Or(getenv("KAFKA_NAME"), "The cluster of KAFKA_BROKERS")
	} else {
		lib, err := local.Ensure(ctx, "", log)
		if err != nil {
			return nil, err
		}
		k, err := local.StartKafka(ctx, local.Options{LibDir: lib})
		if err != nil {
			return nil, err
		}
		c.Brokers, c.What, c.end = k.Addrs(), "Apache Kafka "+local.Version+", one broker on the same machine", func() { k.Stop() }
	}
	var err error
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.Brokers...)); err != nil {
		c.end()
		return nil, err
	}
	c.Admin = kadm.NewClient(c.client)
	return c, nil
}

// Close ends what Kafka started.
func (c *Cluster) Close() {
	c.Admin.Close()
	c.end()
}

// Machine is the date and what the figures were taken on.
func Machine() string {
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// MachineAndLoad is Machine with the load of now, which only a Linux tells.
func MachineAndLoad() string {
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%s; load at the end %s", Machine(), strings.TrimSpace(string(load)))
}

// Command is how a bench was started, for its page.
func Command(bench string, args []string) string {
	return strings.Join(append([]string{"go run ./bench/" + bench}, args...), " ")
}

// Print writes a table to stdout and, if it has a name, to a file.
func Print(stdout io.Writer, file, text string) error {
	if _, err := io.WriteString(stdout, text); err != nil || file == "" {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// Stat sums up the runs of a table.
type Stat struct {
	Name string
	of   func([]float64) float64
}

// Stats are the rows below the runs of a table.
var Stats = []Stat{{"min", slices.Min[[]float64]}, {"median", Median}, {"max", slices.Max[[]float64]}}

// Of sums up one figure of the runs, of which there is one at least.
func Of[R any](s Stat, runs []R, figure func(R) float64) float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = figure(r)
	}
	return s.of(v)
}

// Median is that of at least one figure.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Worker starts this program again, with the brokers and what makes it a worker in
// its environment. It hands said each line of the worker's standard error, and
// closes read behind the last.
func Worker(ctx context.Context, brokers []string, as, spec string, said func(line string)) (cmd *exec.Cmd, read <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), "KAFKA_BROKERS="+strings.Join(brokers, ","), as+"="+spec)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said(lines.Text())
		}
	}()
	return cmd, end, nil
}

// PeakMemory is the most that a running process has had resident, in bytes
// (VmHWM of Linux).
func PeakMemory(pid int) (int64, error) { return memory(pid, "VmHWM:") }

// Memory is what a running process has resident, in bytes (VmRSS of Linux).
func Memory(pid int) (int64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, which string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if kib, ok := strings.CutPrefix(line, which); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, which)
}

// CPU is what a process has used of the processors so far (utime and stime of
// Linux, in hundredths of a second).
func CPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Behind the command's name, which may hold anything.
	_, after, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is no stat of a process", b)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
