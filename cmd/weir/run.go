package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
)

var runCommand = command{
	name:    "run",
	args:    "[--config FILE] [--roles ROLE,…] [flags]",
	summary: "Run Weir, or some of its roles, against Kafka and ClickHouse.",
	example: "weir run --kafka-brokers 10.0.0.5:9092 --clickhouse-url http://10.0.0.6:8123 --roles admission,lanes,delay",
	process: true,
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("run", flag.ContinueOnError)
		load := settingsFlags(fs, defaultSettings(), c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q", fs.Arg(0))
		}
		l, err := load()
		if err != nil {
			return &usageError{err.Error()}
		}
		l.warnOdd(c.stderr)
		sys := &system{settings: &l.Settings, logger: newLogger(c.stderr, l.LogLevel)}
		if slices.Contains(l.Roles, "ingest") {
			if sys.listener, err = net.Listen("tcp", l.HTTP); err != nil {
				return fmt.Errorf("http.listen: %w", err)
			}
			defer sys.listener.Close()
		}
		if l.Metrics != "" {
			if sys.metrics, err = net.Listen("tcp", l.Metrics); err != nil {
				return fmt.Errorf("metrics.listen: %w", err)
			}
			defer sys.metrics.Close()
		}
		sys.ready = func() {
			fmt.Fprintf(c.stderr, "weir %s runs %v in slot %s\n", version, l.Roles, l.Slot)
		}
		return sys.run(ctx)
	},
}
