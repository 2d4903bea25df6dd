package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var skipCommand = command{
	name:    "skip",
	args:    "TOPIC/PARTITION/OFFSET --reason TEXT [--yes] | --list [--json] [flags]",
	summary: "Let Weir go on without one record of its own state that it cannot read.",
	details: `Where a stage stops at such a record, its error names the record and this command. Without --yes the command says
what is lost with the record and changes nothing. With --yes it writes who skipped it, when and why to
weir.skips, and the record's bytes to weir.dlq (reason: skipped). Start the stage again after it. A skip cannot be
taken back. weir audit reports every skip, and does not call proven what the record would have shown.

It refuses a record that is not there, and topics at which no stage stops: what Weir did not write there goes to
weir.dlq by itself. For records of weir.ledger there is weir ledger repair. A batch beyond 16 MiB is skipped as a whole,
by its first offset. docs/topics.md has each topic.`,
	exits: []string{
		"0 skipped, now or before, or listed",
		"1 not skipped: the error says why",
		"2 wrong usage, or --yes was not given: nothing was changed",
	},
	example: `weir skip weir.journal.aliyun/0/17 --reason "written by a test script, ticket 4711"
  weir skip --list`,
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("skip", flag.ContinueOnError)
		list := fs.Bool("list", false, "list what was skipped, by whom and why")
		asJSON := fs.Bool("json", false, "print the list as JSON")
		reason := fs.String("reason", "", "why it is skipped: kept with the skip and shown by --list")
		yes := fs.Bool("yes", false, "skip it")
		load := clientFlags(fs, c.getenv)
		at := ""
		if len(c.args) > 0 && !strings.HasPrefix(c.args[0], "-") {
			at, c.args = c.args[0], c.args[1:]
		}
		if err := c.parse(fs); err != nil {
			return err
		}
		if at == "" && fs.NArg() > 0 {
			at = fs.Arg(0)
		} else if fs.NArg() > 0 {
			return usagef("takes one record; %q is another argument", fs.Arg(0))
		}
		if *list {
			if at != "" {
				return usagef("--list takes no record")
			}
			return onCluster(ctx, load, func(_ *cluster, s *Settings) error { return c.listSkips(ctx, s, *asJSON) })
		}
		record, err := schemas.ParseSource(at)
		switch {
		case at == "":
			return usagef("say which record, TOPIC/PARTITION/OFFSET, or --list")
		case err != nil || record.Partition < 0 || record.Offset < 0:
			return usagef("%q is no TOPIC/PARTITION/OFFSET, such as weir.journal.aliyun/0/17", at)
		case strings.TrimSpace(*reason) == "":
			return usagef("say why: --reason \"...\"")
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error { return c.skip(ctx, k, s, record, *reason, *yes) })
	},
}

func (c *call) skip(ctx context.Context, k *cluster, s *Settings, at schemas.Source, reason string, yes bool) error {
	cfg, err := k.topicConfig(ctx, s)
	if err != nil {
		return err
	}
	names, catalogue := cfg.Names(), topics.Catalogue(cfg, nil)
	if err := topics.Check(ctx, k.adm, catalogue); err != nil {
		return err
	}
	read := stream.ReadConfig{Brokers: s.Brokers, ClientID: "weir-skip"}
	rec, err := skip.Find(ctx, read, names, at)
	if err != nil {
		return err
	}
	done, err := skip.Load(ctx, read, names)
	if err != nil {
		return err
	}
	effect, err := skip.EffectOf(names, rec)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s: %d bytes, appended %s.\nWithout it: %s.\n", at, len(rec.Key)+len(rec.Value), schemas.MillisOf(rec.Timestamp), effect)
	switch {
	case done.Covers(rec):
		fmt.Fprintln(c.stdout, "It is skipped already: weir skip --list")
		return nil
	case !yes:
		fmt.Fprintln(c.stdout, "Nothing is changed. To skip it, repeat the command with --yes.")
		return &exitStatus{exitUsage, nil}
	}
	is, err := skip.Write(ctx, k.cl, names, partitionsOf(catalogue, names.DLQ()), rec, author(), reason, schemas.MillisOf(time.Now()))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "Skipped. Its bytes: weir dlq show %s --body. Start the stage again, and let weir audit judge.\n", is.Letter)
	return nil
}

func (c *call) listSkips(ctx context.Context, s *Settings, asJSON bool) error {
	all, err := skip.Load(ctx, stream.ReadConfig{Brokers: s.Brokers, ClientID: "weir-skip"}, topics.Names{Prefix: s.Prefix})
	switch {
	case err != nil:
		return err
	case asJSON:
		for i := range all {
			if err := c.printLine(&all[i]); err != nil {
				return err
			}
		}
		return nil
	case len(all) == 0:
		fmt.Fprintln(c.stdout, "Nothing was skipped.")
		return nil
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RECORD\tAT\tBY\tDLQ\tREASON")
	for i := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", all[i].Record, all[i].At, all[i].By, all[i].Letter, all[i].Reason)
	}
	return w.Flush()
}
