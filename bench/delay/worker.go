package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/topics"
)

// asWorker is the environment variable that makes this program the delay
// stage: prefix and partitions.
const asWorker = "WEIR_BENCH_DELAY_WORKER"

// worker runs the stage until the process is told to end, and then says what
// its heap holds.
func worker(ctx context.Context, brokers []string, spec string, stderr io.Writer) error {
	prefix, parts, _ := strings.Cut(spec, ",")
	n, err := strconv.ParseInt(parts, 10, 32)
	if err != nil {
		return err
	}
	go heap(ctx, stderr)
	return delay.Run(ctx, delay.Config{
		Stream:     stream.Config{Brokers: brokers, TransactionalID: prefix + "delay.0", SessionTimeout: 6 * time.Second},
		Names:      topics.Names{Prefix: prefix},
		Partitions: int32(n), DelayPartitions: int32(n),
		Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	})
}

// heap says once a second how much of the heap is live.
func heap(ctx context.Context, stderr io.Writer) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Fprintf(stderr, "heap=%d cpu=%d\n", m.HeapInuse, cpu().Milliseconds())
		}
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// process is a worker process.
type process struct {
	cmd  *exec.Cmd
	read <-chan struct{}
	heap int64         // the largest that it said, bytes
	cpu  time.Duration // the last that it said
}

var saysHeap = regexp.MustCompile(`^heap=(\d+) cpu=(\d+)$`)

func (w *world) start(ctx context.Context) (p *process, err error) {
	p = &process{}
	p.cmd, p.read, err = rig.Worker(ctx, w.Brokers, asWorker, fmt.Sprintf("%s,%d", w.Names.Prefix, w.partitions), func(line string) {
		m := saysHeap.FindStringSubmatch(line)
		if m == nil {
			fmt.Fprintln(w.log, "worker:", line)
			return
		}
		bytes, _ := strconv.ParseInt(m[1], 10, 64) // digits
		ms, _ := strconv.ParseInt(m[2], 10, 64)
		p.heap, p.cpu = max(p.heap, bytes), time.Duration(ms)*time.Millisecond
	})
	return p, err
}

// end ends the worker in good order and returns its peak of resident memory.
func (p *process) end() (peak int64, err error) {
	peak, err = rig.PeakMemory(p.cmd.Process.Pid)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	<-p.read
	if werr := p.cmd.Wait(); werr != nil && err == nil {
		err = fmt.Errorf("worker: %w", werr)
	}
	return peak, err
}
