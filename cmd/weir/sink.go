package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/topics"
)

var sinkCommand = command{
	name:    "sink",
	args:    "check|repair [flags]",
	summary: "Compare ClickHouse's tables with what the sinks confirmed, and load again what it lost.",
	details: `check changes nothing. It may run while sinks do; what they are inserting may then show as a difference.
repair needs every sink to be stopped (so it cannot work with weir dev, which is one process). It loads from weir.status the rows that are missing, each into the table that
lacks it, takes away those that are there twice, makes the minutes of rollups again that do not add up, and adds what lists of
messages lack. What is interrupted is done by running it again. It covers the nine days of which the group's
metadata says what was confirmed, as far as weir.status still has them.`,
	exits: []string{
		"0 the tables have what was confirmed",
		"1 they do not, and the text says what is missing",
		"2 wrong usage",
		"3 could not tell: Kafka or ClickHouse did not answer, sinks run (repair), or no sink has kept an account yet",
	},
	resume:  "Run it again: what was loaded stays so, and repair goes on with the rest.",
	example: "weir sink check",
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("check", "repair")
		fs := flag.NewFlagSet("sink", flag.ContinueOnError)
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if verb == "" {
			return usagef("say check or repair")
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q", fs.Arg(0))
		}
		return untold(onCluster(ctx, load, func(k *cluster, s *Settings) error {
			if verb == "repair" && s.Dev {
				return errors.New("weir dev runs the sink and Kafka in one process, so ClickHouse cannot be repaired there: weir sink check looks while it runs; to begin again without what it has: stop it, and weir dev --fresh")
			}
			if s.ClickHouse == "" {
				return errors.New("no ClickHouse is set (clickhouse.url): there is nothing to compare")
			}
			hashKey, err := s.hashKey()
			if err != nil {
				return err
			}
			left, err := sink.Repair(ctx, sink.Config{
				Brokers: s.Brokers, Names: topics.Names{Prefix: s.Prefix}, URL: s.ClickHouse, Cluster: s.Cluster, HashKey: hashKey,
			}, verb == "repair", func(line string) { fmt.Fprintln(c.stdout, line) }, func(done, total int64) { c.progress.at(done, total, "comparisons", "") })
			switch {
			case err != nil && left > 0:
				return &exitStatus{exitError, err}
			case err != nil:
				return err
			case left == 0:
				fmt.Fprintln(c.stdout, "The tables have what was confirmed.")
				return nil
			case verb == "check":
				fmt.Fprintln(c.stdout, "While a sink runs, rows that it inserts just now may be among them: check once more. What stays is repaired so: stop every weir run with the role sink, and run weir sink repair.")
			}
			return &exitStatus{exitError, nil}
		}))
	},
}
