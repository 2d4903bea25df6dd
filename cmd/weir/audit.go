package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var auditCommand = command{
	name:    "audit",
	args:    "[--since 7d|TIME] [--follow [--every 10s]] [--json] [--memory 1GiB] [--no-report] [flags]",
	summary: "Prove from the logs that every decision was right: exit 0 proven, 1 violated, 3 could not tell.",
	details: `Reads the decision log (weir.status) beside what it answers and what it caused, and judges again, in code of
its own: that every record of requests was decided once, every verdict in both directions, every place taken,
moved and given back, every dispatch, permit and end. It changes nothing of that and may run beside a working Weir. At its end it writes
what it came to, in a few figures, to weir.reports; where it cannot, it warns and the exit code is the same.

Each violation says where it is, with its times. What lies beyond retention, before --since or beyond --memory is named
and counted, never guessed. Progress is on stderr, the report on stdout.

With --follow it goes on: it judges what was decided since, every ten seconds, and prints a line when its answer changes
and once a minute, each new violation, and with --json a report each time. The console, the alert "audit" and the metrics
weir_audit_... show how far it is. It ends with a signal, and the exit code of its last answer.

Memory grows with what the longest window of the limits still sees and with the messages of the last 25 hours, by
partition, with --follow of all partitions at once; --memory bounds it (at least 512MiB), and what does not fit is exit 3.`,
	exits: []string{
		"0 proven",
		"1 violated",
		"2 wrong usage",
		"3 could not tell: something needed is beyond retention, before --since or beyond --memory, or Kafka did not answer",
	},
	resume:  "Nothing was changed. Run it again; --since judges less.",
	example: "weir audit --since 24h --json\n  weir audit --follow",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("audit", flag.ContinueOnError)
		var since time.Time
		fs.Func("since", "judge from here on: how long ago (90m, 7d) or a time in RFC 3339; all that is there by default", func(v string) (err error) {
			since, err = moment(v, time.Now())
			return err
		})
		asJSON := fs.Bool("json", false, "print the report as JSON")
		slack := fs.Duration("slack", 10*time.Minute, "how long after its expiry a message may end")
		memory := int64(audit.DefaultMemory)
		fs.Func("memory", "how much memory it may take: 512MiB, 4GiB (default 1GiB)", func(v string) (err error) {
			memory, err = size(v)
			return err
		})
		follow := fs.Bool("follow", false, "go on judging until a signal")
		every := fs.Duration("every", 0, "with --follow: how often (default 10s)")
		silent := fs.Bool("no-report", false, "do not write the result to weir.reports, where the console and alerts read it")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q", fs.Arg(0))
		}
		if *slack < 0 {
			return usagef("--slack %s: 0 is the least", *slack)
		}
		if since.After(time.Now()) {
			return usagef("--since %s is in the future: give how long ago (90m, 7d) or an earlier time", since.UTC().Format(time.RFC3339))
		}
		if *every != 0 && !*follow {
			return usagef("--every needs --follow: a weir audit without it judges once")
		}
		if *every = cmp.Or(*every, 10*time.Second); *every < time.Second {
			return usagef("--every %s: one second is the least", *every)
		}
		s, err := load()
		if err != nil {
			return untold(err)
		}
		// The limit is on what Go manages; the program's own text is beside it.
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(memory - 48<<20))
		cfg := audit.Config{
			Brokers: s.Brokers, Names: topics.Names{Prefix: s.Prefix}, Since: since, Slack: *slack, Memory: memory,
			Progress: func(done, total int64) { c.progress.at(done, total, "records", "") },
		}
		if *follow {
			return followAudit(ctx, c, s, cfg, *every, *asJSON, *silent)
		}
		r, err := audit.Run(ctx, cfg)
		if err != nil {
			if r == nil || r.Outcome != audit.Violated {
				return &exitStatus{exitUntold, err}
			}
			fmt.Fprintf(c.stderr, "weir audit: %v\nThis was found until then:\n", c.why(ctx, err))
		}
		if !*silent {
			if err := tellOfAudit(ctx, s, schemas.ReportKeyAudit, r.Brief()); err != nil {
				fmt.Fprintf(c.stderr, "warning: the console and alerts will not know of this audit: %v\n", err)
			}
		}
		if *asJSON {
			err = c.printJSON(r)
		} else {
			err = r.WriteText(c.stdout)
		}
		if err != nil {
			return err
		}
		return exitOf(r.Outcome)
	},
}

// exitOf is the exit code of an outcome.
func exitOf(o audit.Outcome) error {
	switch o {
	case audit.Violated:
		return &exitStatus{exitError, nil}
	case audit.CouldNotTell:
		return &exitStatus{exitUntold, nil}
	case audit.Proven:
	}
	return nil
}

// tellOfAudit writes to weir.reports what an audit came to, also when a signal has ended it.
func tellOfAudit(ctx context.Context, s *Settings, key string, r schemas.AuditReport) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ClientID("weir-audit"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(1))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	by := author()
	if host, err := os.Hostname(); err == nil {
		by += "@" + host
	}
	return report.Write(ctx, cl, topics.Names{Prefix: s.Prefix}.Reports(), key,
		schemas.Report{At: schemas.MillisOf(time.Now()), By: by, Audit: &r})
}

// size reads an amount of memory: a number with KiB, MiB or GiB.
func size(v string) (int64, error) {
	for unit, shift := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if digits, ok := strings.CutSuffix(v, unit); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			if err == nil && n<<shift >= audit.LeastMemory {
				return n << shift, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no amount of memory, such as 512MiB or 4GiB; %dMiB is the least", v, audit.LeastMemory>>20)
}

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
