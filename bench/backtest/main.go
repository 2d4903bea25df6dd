// Command backtest measures how fast `weir limits try` decides a real log again
// on Apache Kafka: the log that bench/audit writes, with admission, lanes and
// delay. Beside it, in turn, stands what the same records take when they are only
// read (kgo, read committed), and when their events are read as well.
//
//	go run ./bench/backtest             starts Apache Kafka (deploy/local)
//	KAFKA_BROKERS=host:9092 go run ./bench/backtest
//
// What this does not measure: brokers on other machines, logs beyond the page
// cache, ClickHouse. How fast what is in memory is decided: go test
// ./processor/backtest -bench .
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func main() { rig.Main("backtest", run) }

// stricter is the other policy: new windows, one of them calendar, and a limit
// that looks at the country.
const stricter = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/60s, 4/1h, 6/calendar-day], timezone: Asia/Shanghai}
  - {name: abroad, match: {country: [US, GB]}, per: [recipient], allow: [2/24h]}
`

// beyond counts over all recipients.
const beyond = `
limits:
  - {name: tenant, per: [tenant], allow: [50000/60s]}
`

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("backtest", flag.ContinueOnError)
	requests := fs.Int("requests", 1_000_000, "requests of the log")
	prefix := fs.String("prefix", "", "take the log that an earlier run wrote under this prefix, on the cluster of KAFKA_BROKERS")
	runs := fs.Int("runs", 5, "runs of each way, in turn")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	if *prefix == "" {
		if *prefix, err = write(ctx, kafka.Brokers, *requests, stderr); err != nil {
			return err
		}
	}
	b := &bench{brokers: kafka.Brokers, names: topics.Names{Prefix: *prefix}}
	if err := b.open(ctx); err != nil {
		return err
	}
	ways := []way{
		{name: "the records read, and nothing done", run: func(ctx context.Context) (counted, error) { return b.read(ctx, false) }},
		{name: "and their events decoded", run: func(ctx context.Context) (counted, error) { return b.read(ctx, true) }},
		{name: "`backtest.Run`, the policy in force", run: func(ctx context.Context) (counted, error) { return b.decide(ctx, &b.rev.Policy, true) }},
		{name: "`backtest.Run`, a stricter one", run: func(ctx context.Context) (counted, error) { return b.decide(ctx, b.stricter, false) }},
		{name: "`backtest.Run`, with a limit over all recipients", run: func(ctx context.Context) (counted, error) { return b.decide(ctx, b.beyond, false) }},
	}
	for i := range *runs {
		for k := range ways {
			began, cpu, err := time.Now(), time.Duration(0), error(nil)
			if cpu, err = rig.CPU(os.Getpid()); err != nil {
				return err
			}
			n, err := ways[k].run(ctx)
			if err != nil {
				return fmt.Errorf("run %d of %q: %w", i+1, ways[k].name, err)
			}
			n.took = time.Since(began)
			after, err := rig.CPU(os.Getpid())
			if err != nil {
				return err
			}
			n.cpu = after - cpu
			ways[k].runs = append(ways[k].runs, n)
			fmt.Fprintf(stderr, "%d of %d: %s: %.2f s, %.2f s of CPU\n", i+1, *runs, ways[k].name, n.took.Seconds(), n.cpu.Seconds())
		}
	}
	peak, err := rig.PeakMemory(os.Getpid())
	if err != nil {
		return err
	}
	return rig.Print(stdout, *out, b.table(ways, kafka.What, peak, rig.Command("backtest", args)))
}

// way is one thing to measure.
type way struct {
	name string
	run  func(context.Context) (counted, error)
	runs []counted
}

type counted struct {
	records, decisions, refused int64
	took, cpu                   time.Duration
}

func (c counted) rate() float64    { return float64(c.decisions) / c.took.Seconds() / 1000 }
func (c counted) seconds() float64 { return c.took.Seconds() }
func (c counted) busy() float64    { return c.cpu.Seconds() }

// write has bench/audit write a log, and returns its prefix.
func write(ctx context.Context, brokers []string, requests int, log io.Writer) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "run", "./bench/audit", "-runs", "0", "-requests", fmt.Sprint(requests))
	cmd.Env = append(os.Environ(), "KAFKA_BROKERS="+strings.Join(brokers, ","))
	cmd.Stderr = io.MultiWriter(log, &said)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("have bench/audit write the log: %w", err)
	}
	found := regexp.MustCompile(`-prefix (\S+)`).FindStringSubmatch(said.String())
	if found == nil {
		return "", errors.New("bench/audit does not say the prefix of its log")
	}
	return found[1], nil
}

type bench struct {
	brokers          []string
	names            topics.Names
	rev              *schemas.Revision
	stricter, beyond *schemas.Policy
	decisions        int64
}

func (b *bench) open(ctx context.Context) error {
	w, err := policy.Watch(ctx, b.names.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(b.brokers...))
	if err != nil {
		return err
	}
	defer w.Close()
	b.rev = w.Latest()
	for text, into := range map[string]**schemas.Policy{stricter: &b.stricter, beyond: &b.beyond} {
		doc, err := schemas.ParsePolicyOver("other.yaml", []byte(text), &b.rev.Policy)
		if err != nil {
			return err
		}
		*into = &doc.Policy
	}
	return nil
}

// read reads all of weir.status as any consumer would.
func (b *bench) read(ctx context.Context, decode bool) (n counted, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.brokers...), kgo.ConsumeTopics(b.names.Status()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(2<<20))
	if err != nil {
		return n, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, b.names.Status())
	if err != nil {
		return n, err
	}
	// What was aborted is not handed over, so records cannot be counted down.
	open := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			open[o.Partition] = o.Offset
		}
	})
	for len(open) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return n, err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
			if r.Attrs.IsControl() {
				continue
			}
			n.records++
			if decode {
				if _, err := schemas.DecodeEvent(r.Value); err != nil {
					return n, err
				}
			}
		}
	}
	n.decisions = b.decisions
	return n, nil
}

func (b *bench) decide(ctx context.Context, tried *schemas.Policy, same bool) (n counted, err error) {
	r, err := backtest.Run(ctx, backtest.Config{Brokers: b.brokers, Names: b.names, Tried: tried, InForce: b.rev})
	if err != nil {
		return n, err
	}
	if same && (r.Then != r.Now || r.NewlyAdmitted+r.NewlyRefused > 0) {
		return n, fmt.Errorf("under the policy in force it came to other decisions: %+v, was %+v", r.Now, r.Then)
	}
	b.decisions = r.Messages
	return counted{decisions: r.Messages, refused: r.Now.Refused}, nil
}

func (b *bench) table(ways []way, what string, peak int64, command string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s\n\n    %s\n\n", rig.MachineAndLoad(), command)
	fmt.Fprintf(&t, "%s. weir.status has %d records, with %d messages that limits decided. Peak of the program, all ways together (VmHWM): %d MiB.\n", what, ways[0].runs[0].records, b.decisions, peak>>20)
	fmt.Fprintf(&t, "\n| way, %d runs each, in turn | seconds: min, median, max | CPU seconds, median | thousand decisions/s: min, median, max | refused |\n|---|---|---|---|---|\n", len(ways[0].runs))
	for _, w := range ways {
		for i := range w.runs {
			w.runs[i].decisions = b.decisions
		}
		fmt.Fprintf(&t, "| %s |", w.name)
		for i, s := range rig.Stats {
			fmt.Fprintf(&t, "%s %.2f", []string{"", ",", ","}[i], rig.Of(s, w.runs, counted.seconds))
		}
		fmt.Fprintf(&t, " | %.2f |", rig.Of(rig.Stats[1], w.runs, counted.busy))
		for i, s := range rig.Stats {
			fmt.Fprintf(&t, "%s %.0f", []string{"", ",", ","}[i], rig.Of(s, w.runs, counted.rate))
		}
		fmt.Fprintf(&t, " | %d |\n", w.runs[0].refused)
	}
	return t.String()
}
