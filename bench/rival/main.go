// Command rival compares Weir with what it replaces: workers that consume requests
// from Kafka, ask a counter in Redis, send, and commit. Both get the same traffic,
// the same two limits that no single recipient owns (all together, each tenant) and
// the same faults: workers killed with -9 and stopped for longer than their
// session, and, where there is one, Redis killed with -9 and restarted.
//
// Afterwards one counter, which knows neither system, reads what was sent and what
// was refused from Kafka and counts: sendings that made a window hold more than n,
// messages refused though no window was full of sendings, lost ones, and those sent
// again.
//
//	go run ./bench/rival -runs 5
//	go run ./bench/rival -systems aof -runs 1 -seed 3 -keep outcomes.jsonl
//
// The rivals ask Redis in four ways (ways.go), all in the same worker processes, in
// groups of their own. Redis is a real one, fetched with Maven (redisserver).
//
// What it does not measure: speed, failover to a replica of Redis, clocks that step.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/bench/rival/redisserver"
)

// workerCommand makes this program a rival's worker.
const workerCommand = "worker"

func main() { rig.Main("rival", run) }

type bench struct {
	requests  int
	perSecond int
	cluster   *rig.Cluster
	redis     string // the program
	bin       string // weir, once it is built
	dir       string // where
	log       io.Writer
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == workerCommand {
		return rivalWorker(ctx, args[1:], stderr)
	}
	b := &bench{log: stderr}
	fs := flag.NewFlagSet("rival", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&b.requests, "requests", 75_000, "requests of each run")
	fs.IntVar(&b.perSecond, "rate", 1_200, "requests a second; the limits are sized for the default")
	systems := fs.String("systems", "calm,rdb,aof,weir", "what is run: calm, rdb, aof (the rivals without faults, or with, on a Redis with snapshots or with an append-only file), weir, weir-calm; none only prints what -keep has")
	runs := fs.Int("runs", 5, "runs of each")
	seed := fs.Uint64("seed", 1, "draws traffic and faults of the first run; the next has the next")
	fs.StringVar(&b.bin, "weir", "", "run this program instead of building weir")
	keep := fs.String("keep", "", "add the outcomes to this file, and make the table of all in it")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	all, err := earlier(*keep)
	if err != nil {
		return err
	}
	what := getenv("KAFKA_NAME")
	if *systems != "none" {
		kafka, err := rig.Kafka(ctx, getenv, stderr)
		if err != nil {
			return err
		}
		defer kafka.Close()
		b.cluster, what = kafka, kafka.What
		if b.dir, err = os.MkdirTemp("", "weir-rival-bin-*"); err != nil {
			return err
		}
		defer os.RemoveAll(b.dir)
		for i := range *runs {
			for system := range strings.SplitSeq(*systems, ",") {
				got, err := b.one(ctx, system, *seed+uint64(i))
				if err != nil {
					return fmt.Errorf("%s, seed %d: %w", system, *seed+uint64(i), err)
				}
				for _, o := range got {
					fmt.Fprintf(stderr, "%+v\n", o)
				}
				all = append(all, got...)
				if err := add(*keep, got); err != nil {
					return err
				}
			}
		}
	}
	if what == "" {
		what = "Earlier runs"
	}
	redis, err := b.redisVersion(ctx)
	if err != nil {
		redis = "is not to be had here now"
	}
	text, err := table(all, b, what, redis, rig.Command("rival", args))
	if err != nil {
		return err
	}
	return rig.Print(stdout, *out, text)
}

// one runs a system once.
func (b *bench) one(ctx context.Context, system string, seed uint64) (all []outcome, err error) {
	if system == "weir" || system == "weir-calm" {
		o, err := b.weir(ctx, seed, system == "weir-calm")
		return []outcome{o}, err
	}
	i := slices.IndexFunc(variants, func(v variant) bool { return v.name == system })
	if i < 0 {
		return nil, errors.New("no such system: see -systems in -help")
	}
	if _, err := b.redisVersion(ctx); err != nil {
		return nil, err
	}
	return b.rivals(ctx, variants[i], seed)
}

// redisVersion finds a Redis, which rivals then runs.
func (b *bench) redisVersion(ctx context.Context) (version string, err error) {
	if b.redis == "" {
		if b.redis, err = redisserver.Ensure(ctx, b.log); err != nil {
			return "", err
		}
	}
	return redisserver.Version(ctx, b.redis)
}

// earlier reads the outcomes of earlier runs.
func earlier(file string) (all []outcome, err error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var o outcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func add(file string, got []outcome) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	to := json.NewEncoder(f)
	for _, o := range got {
		err = errors.Join(err, to.Encode(o))
	}
	return errors.Join(err, f.Close())
}
