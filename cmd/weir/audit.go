package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var auditCommand = command{
	name:    "audit",
	args:    "[--since 7d|TIME] [--json] [flags]",
	summary: "Prove from the logs that every decision was right: exit 0 proven, 1 violated, 3 could not tell.",
	example: "weir audit --since 24h",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("audit", flag.ContinueOnError)
		var since time.Time
		fs.Func("since", "judge from here on: how long ago (90m, 7d) or a time in RFC 3339; all that is there by default", func(v string) (err error) {
			since, err = moment(v, time.Now())
			return err
		})
		asJSON := fs.Bool("json", false, "print the report as JSON")
		slack := fs.Duration("slack", 10*time.Minute, "how long after its expiry a message may end")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		s, err := load()
		if err != nil {
			return err
		}
		r, err := audit.Run(ctx, audit.Config{
			Brokers: s.Brokers, Names: topics.Names{Prefix: s.Prefix}, Since: since, Slack: *slack,
			Progress: func(line string) { fmt.Fprintln(c.stderr, line) },
		})
		if err != nil {
			return &exitStatus{exitUntold, err}
		}
		if *asJSON {
			err = c.printJSON(r)
		} else {
			err = r.WriteText(c.stdout)
		}
		switch {
		case err != nil:
			return err
		case r.Outcome == audit.Violated:
			return &exitStatus{exitError, nil}
		case r.Outcome == audit.CouldNotTell:
			return &exitStatus{exitUntold, nil}
		}
		return nil
	},
}

// exitUntold is the audit's answer when the logs do not show enough, or cannot
// be read.
const exitUntold = 3

// moment reads a duration before now, or a time.
func moment(v string, now time.Time) (time.Time, error) {
	if d, err := schemas.ParseDuration(v); err == nil {
		return now.Add(-time.Duration(d)), nil
	}
	m, err := schemas.ParseMillis(v)
	if err != nil || m == 0 {
		return time.Time{}, fmt.Errorf("%q is neither a duration, such as 90m or 7d, nor a time, such as 2026-11-22T01:00:00Z", v)
	}
	return m.Time(), nil
}
