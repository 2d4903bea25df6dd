package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/topics"
)

// editor changes the policy of this cluster.
func (k *cluster) editor(s *Settings) *revise.Editor {
	return &revise.Editor{
		Client:  k.cl,
		Topics:  topics.Config{Prefix: s.Prefix, Partitions: int32(s.Partitions), Replication: int16(s.Replication)},
		Options: []kgo.Opt{kgo.SeedBrokers(s.Brokers...)},
	}
}

// author says who changes the policy from a command line.
func author() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "weir apply"
}

// changeOptions are the flags of commands that change the policy.
type changeOptions struct{ dryRun, asJSON, acceptLoss bool }

func (o *changeOptions) define(fs *flag.FlagSet) {
	fs.BoolVar(&o.dryRun, "dry-run", false, "print what would change, and change nothing")
	fs.BoolVar(&o.asJSON, "json", false, "print JSON")
	fs.BoolVar(&o.acceptLoss, "accept-loss", false, "apply it though limits lose history: recipients may get more than they allow")
}

// applyExits are the exit codes of commands with changeOptions.
var applyExits = []string{
	"0 in force, now or before; with --dry-run: it would be",
	"1 not done: the error says why; with --dry-run: it would be refused, such as without --accept-loss",
	"2 wrong usage",
}

// change brings an edit into force, or in a dry run only says what it would do,
// and prints its result. Where it would be refused, a dry run is an error too. kept is asked afterwards.
func (c *call) change(ctx context.Context, k *cluster, s *Settings, tries int, edit revise.Edit, kept func() []string, o changeOptions) error {
	var r *revise.Result
	var err error
	if o.dryRun {
		r, err = k.editor(s).Draft(ctx, edit)
	} else {
		r, err = k.editor(s).AcceptingLoss(o.acceptLoss).Revise(ctx, author(), tries, edit, func(line string) { fmt.Fprintln(c.stderr, line) })
	}
	if lost, is := errors.AsType[*revise.LossError](err); is {
		return fmt.Errorf("%w\nTo apply it nevertheless, add --accept-loss", lost)
	}
	if err != nil {
		return err
	}
	out := r.Report(o.dryRun, time.Now())
	out.Kept = kept()
	if err := c.printReport(out, o.asJSON); err != nil || !o.dryRun || o.acceptLoss || len(out.Lost) == 0 {
		return err
	}
	return errors.New("limits would lose history, as shown: without --dry-run this is refused, unless --accept-loss is given")
}

func (c *call) printReport(r *revise.Report, asJSON bool) error {
	if asJSON {
		return c.printJSON(r)
	}
	for _, change := range r.Changes {
		fmt.Fprintln(c.stdout, change)
	}
	fmt.Fprintf(c.stdout, "(%d unchanged)\n", r.Unchanged)
	if len(r.Kept) > 0 {
		fmt.Fprintf(c.stdout, "Kept, though the file lacks them (--prune removes them, keys only as --prune=keys): %s\n", list(r.Kept, 10))
	}
	for _, channel := range r.Unroutable {
		becomes := "is now"
		if r.DryRun {
			becomes = "would be"
		}
		fmt.Fprintf(c.stdout, "WARNING: %s %s unroutable: no route names a provider for it, so its messages are rejected (no_route)\n", channel, becomes)
	}
	begins := "begins now"
	if r.DryRun {
		begins = "would begin"
	}
	const clock = "2006-01-02 15:04:05 UTC"
	for _, w := range r.Warming {
		from := begins
		if w.Since < r.At {
			from = "begins at " + w.Since.Time().UTC().Format(clock)
		}
		fmt.Fprintf(c.stdout, "limit %s %s: history %s, complete at %s\n", w.Limit, w.Window.UnitKey(), from, w.Complete.Time().UTC().Format(clock))
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(c.stdout, "Warning: %s\n", w)
	}
	for i := range r.Lost {
		fmt.Fprintln(c.stdout, revise.LossText(&r.Lost[i]))
	}
	if r.Topics != nil {
		fmt.Fprintln(c.stdout, strings.TrimSpace(r.Topics.String()))
	}
	var err error
	switch {
	case r.DryRun:
		_, err = fmt.Fprintf(c.stdout, "Nothing was changed (--dry-run); revision %d is in force.\n", r.Revision)
	case len(r.Changes) == 0:
		_, err = fmt.Fprintf(c.stdout, "Nothing to change. Revision %d is in force.\n", r.Revision)
	default:
		_, err = fmt.Fprintf(c.stdout, "Revision %d is in force.\n", r.Revision)
	}
	return err
}

// list writes at most n names.
func list(names []string, n int) string {
	var out string
	for i, name := range names {
		switch {
		case i == n:
			return out + fmt.Sprintf(" and %d more", len(names)-n)
		case i > 0:
			out += ", "
		}
		out += name
	}
	return out
}
