package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var limitsCommand = command{
	name:    "limits",
	args:    "try -f FILE [--since 14d|TIME] [--until TIME] [--limit NAME] [--prune] [--json] [flags]",
	summary: "Try limits on recorded traffic: what they would have refused.",
	details: `Decides the traffic that is on record again, with the limiter that admission uses, under the policy in force as the
file changes it, and says what would have been refused, by limit, class, hour and recipient, beside what was.
Nothing is changed. What the file lacks stays as it is, as with weir apply; with --prune the file is the whole
policy. With --limit only that limit of the file is tried.

The policy is taken to come into force at --since; what happened before fills its windows. Kafka is read, and where
it no longer goes back so far ClickHouse, if the settings name one. On the policy in force it comes to the decisions
that were taken. docs/backtest.md says what it cannot tell.`,
	resume:  "Nothing was changed. Run it again.",
	example: "weir limits try -f policy.yaml --since 14d",
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("try")
		fs := flag.NewFlagSet("limits", flag.ContinueOnError)
		file := fs.String("f", "", "policy file (YAML or JSON)")
		var since, until time.Time
		instant := func(to *time.Time) func(string) error {
			return func(v string) (err error) {
				*to, err = moment(v, time.Now())
				return err
			}
		}
		fs.Func("since", "judge from here on: how long ago (90m, 14d) or a time in RFC 3339; all that is there by default", instant(&since))
		fs.Func("until", "and up to here, likewise; now by default", instant(&until))
		only := fs.String("limit", "", "of the file's limits try only this one")
		prune := pruneFlag(fs, "try the policy without what the file lacks")
		asJSON := fs.Bool("json", false, "print the result as JSON")
		most := fs.Int64("most", backtest.DefaultMost, "how many messages under way, recipients and counts may be kept in memory, some 100 bytes each")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		switch {
		case verb == "":
			return usagef("say try")
		case *file == "":
			return usagef("name the policy file with -f")
		case fs.NArg() > 0:
			return usagef("takes no argument %q", fs.Arg(0))
		case *most < 1:
			return usagef("--most %d is no number of things to keep", *most)
		case !since.IsZero() && !until.IsZero() && !since.Before(until):
			return usagef("--since is not before --until")
		case since.After(time.Now()):
			return usagef("--since is still to come")
		}
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		if prune.on { // judged before a cluster is looked for
			if _, err := prune.read(*file, text, new(schemas.Policy)); err != nil {
				return err
			}
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			var have *schemas.Revision
			if err := k.readRevisions(ctx, s, func(w *policy.Watcher) error { have = w.Latest(); return nil }); err != nil {
				return err
			}
			doc, err := prune.read(*file, text, &have.Policy)
			if err != nil {
				return err
			}
			tried := &doc.Policy
			if *only != "" {
				one := tried.Only(schemas.ResourceLimit, *only)
				if len(one.Limits) == 0 {
					return noSuch(tried, schemas.ResourceLimit, *only)
				}
				tried = have.Policy.Merge(one)
			}
			cfg := backtest.Config{
				Brokers: s.Brokers, Names: topics.Names{Prefix: s.Prefix}, Tried: tried, InForce: have, Most: *most,
				Progress: func(done, total int64) { c.progress.at(done, total, "records", "") },
			}
			if !since.IsZero() {
				cfg.From = schemas.MillisOf(since)
			}
			if !until.IsZero() {
				cfg.Until = schemas.MillisOf(until)
			}
			if s.ClickHouse != "" {
				conn, err := warehouse.Open(ctx, s.ClickHouse)
				if err != nil {
					fmt.Fprintf(c.stderr, "ClickHouse does not answer, so only what Kafka keeps is looked at: %v\n", err)
				} else {
					defer conn.Close()
					cfg.History = warehouse.History{Conn: conn}
				}
			}
			r, err := backtest.Run(ctx, cfg)
			if errors.Is(err, backtest.ErrTooMuch) {
				return fmt.Errorf("%w (--most %d)", err, *most)
			}
			if err != nil {
				return err
			}
			if *asJSON {
				return c.printJSON(r)
			}
			return r.WriteText(c.stdout)
		})
	},
}
