package main

import (
	"context"
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

// change brings an edit into force, or with dryRun only says what it would do,
// and prints what came of it. kept is asked afterwards.
func (c *call) change(ctx context.Context, k *cluster, s *Settings, tries int, edit revise.Edit, kept func() []string, dryRun, asJSON bool) error {
	var r *revise.Result
	var err error
	if dryRun {
		r, err = k.editor(s).Draft(ctx, edit)
	} else {
		r, err = k.editor(s).Revise(ctx, author(), tries, edit, func(line string) { fmt.Fprintln(c.stderr, line) })
	}
	if err != nil {
		return err
	}
	out := r.Report(dryRun, time.Now())
	out.Kept = kept()
	return c.printReport(out, asJSON)
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
		fmt.Fprintf(c.stdout, "Kept, though the file lacks them (--prune would remove them): %s\n", list(r.Kept, 10))
	}
	begins := "begins now"
	if r.DryRun {
		begins = "would begin"
	}
	for _, w := range r.Warming {
		fmt.Fprintf(c.stdout, "limit %s %s: history %s, complete at %s\n", w.Limit, w.Window.UnitKey(), begins,
			w.Complete.Time().UTC().Format("2006-01-02 15:04:05 UTC"))
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
