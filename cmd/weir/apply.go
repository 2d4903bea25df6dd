package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

var applyCommand = command{
	name:    "apply",
	args:    "-f FILE [--dry-run] [--prune] [--json] [flags]",
	summary: "Bring a policy file into force.",
	details: `What the file has is added, or replaces what has its kind and name. What it
lacks stays in force; with --prune it is removed, and the file is the whole
policy. Limits and routes stand in the file's order, and what it lacks comes
after them in the order it had: for routes, of which the first match wins, the
file's decide first.

Nothing is changed unless the result as a whole is valid. A window that is new
or longer than before counts from now on; what it prints says when it is
complete. When the policy was changed meanwhile the file is tried once more on
what it has become, but not with --prune, which would remove what it never saw.

A provider that is removed drains: its lanes hand what waits back to admission,
which routes it anew. Its topics stay. Its lanes can become more and never
fewer.`,
	example: "weir apply -f policy.yaml --prune --dry-run",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("apply", flag.ContinueOnError)
		file := fs.String("f", "", "policy file (YAML or JSON)")
		dryRun := fs.Bool("dry-run", false, "print what would change, and change nothing")
		prune := fs.Bool("prune", false, "remove what the file lacks")
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if *file == "" {
			return usagef("name the policy file with -f")
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q", fs.Arg(0))
		}
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		var kept []string
		edit := func(have *schemas.Revision) (*schemas.Policy, error) {
			base := &have.Policy
			if *prune {
				base = nil
			}
			doc, err := readPolicy(*file, text, base)
			if err != nil {
				return nil, err
			}
			kept = doc.Kept()
			return &doc.Policy, nil
		}
		if *prune { // judged before a cluster is looked for
			if _, err := edit(&schemas.Revision{}); err != nil {
				return err
			}
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			tries := 2
			if *prune {
				tries = 1
			}
			return c.change(ctx, k, s, tries, edit, func() []string { return kept }, *dryRun, *asJSON)
		})
	},
}

// change brings an edit into force, or with dryRun only says what it would do,
// and prints what came of it. kept is asked afterwards.
func (c *call) change(ctx context.Context, k *cluster, s *Settings, tries int, edit func(have *schemas.Revision) (*schemas.Policy, error), kept func() []string, dryRun, asJSON bool) error {
	var r *revision
	var err error
	if dryRun {
		r, err = k.draft(ctx, s, edit)
	} else {
		r, err = k.revise(ctx, s, tries, edit, func(line string) { fmt.Fprintln(c.stderr, line) })
	}
	if err != nil {
		return err
	}
	out := newReport(r, dryRun, time.Now())
	out.Kept = kept()
	if dryRun {
		diff, err := k.plan(ctx, s, r.next)
		if err != nil {
			return err
		}
		if !diff.Empty() {
			out.Topics = &diff
		}
	}
	return c.printReport(out, asJSON)
}

// readPolicy parses a policy, over base when there is one, and refuses what
// this version does not act on.
func readPolicy(name string, text []byte, base *schemas.Policy) (*schemas.Document, error) {
	doc, err := schemas.ParsePolicyOver(name, text, base)
	if err != nil {
		return nil, fmt.Errorf("the policy is not valid, nothing was changed:\n%w", err)
	}
	if err := doc.NotYetInForce(); err != nil {
		return nil, fmt.Errorf("the policy asks for what this version does not do yet, nothing was changed:\n%w", err)
	}
	if err := decidable(&doc.Policy); err != nil {
		return nil, fmt.Errorf("%s: nothing was changed: %w", name, err)
	}
	return doc, nil
}

// decidable refuses a policy that no partition could decide on: it must not
// come into force anywhere.
func decidable(p *schemas.Policy) error {
	if _, err := limit.Compile(p, nil); err != nil {
		return err
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		for _, to := range l.Exempt {
			if err := canonical(to); err != nil {
				return fmt.Errorf("limit %s: exempt: %w", l.Name, err)
			}
		}
		for j := range l.Overrides {
			if err := canonical(l.Overrides[j].To); err != nil {
				return fmt.Errorf("limit %s: overrides: %w", l.Name, err)
			}
		}
	}
	return nil
}

// canonical refuses a recipient that is written otherwise than its key: limits
// compare keys, so it would never be met.
func canonical(to string) error {
	channel := schemas.ChannelPush
	switch {
	case strings.HasPrefix(to, "+"):
		channel = schemas.ChannelSMS
	case strings.Contains(to, "://"):
		channel = schemas.ChannelWebhook
	case strings.Contains(to, "@"):
		channel = schemas.ChannelEmail
	}
	r, err := recipient.Canonical(channel, to, "")
	switch {
	case err != nil:
		return fmt.Errorf("%q: %w", to, err)
	case r.Key != to:
		return fmt.Errorf("%q is %q to Weir: write it so", to, r.Key)
	}
	return nil
}

// leading takes the arguments before the first flag, at most n.
func (c *call) leading(n int) []string {
	i := 0
	for i < len(c.args) && i < n && (c.args[i] == "" || c.args[i][0] != '-') {
		i++
	}
	words := slices.Clone(c.args[:i])
	c.args = c.args[i:]
	return words
}
