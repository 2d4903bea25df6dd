package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// kindRevisions is what get knows beside the kinds of a policy.
const kindRevisions = "revisions"

func kindsText() string {
	words := make([]string, len(schemas.ResourceKinds))
	for i, k := range schemas.ResourceKinds {
		words[i] = k.Plural()
	}
	return strings.Join(words, ", ")
}

var getCommand = command{
	name:    "get",
	args:    "[KIND [NAME]] [--json] [flags]",
	summary: "Print the policy in force, all of it or of one kind, or its revisions.",
	details: "KIND is " + kindsText() + `,
singular or plural, or revisions; without KIND the whole policy is printed. What is printed is a file for weir apply -f,
as YAML or with --json as JSON; secrets are references, as they were given.
Revisions are listed with when and by whom; one by its number is the whole
policy as it was, and weir rollback brings it back.`,
	example: "weir get > policy.yaml\n  weir get limits\n  weir get route china --json\n  weir get revision 3 > before.yaml",
	run: func(ctx context.Context, c *call) error {
		words := c.leading(2)
		fs := flag.NewFlagSet("get", flag.ContinueOnError)
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		switch {
		case len(words) > 2:
			return usagef("takes a kind, and a name if it is about one: %s or %s", kindsText(), kindRevisions)
		case len(words) == 0:
			return onCluster(ctx, load, func(k *cluster, s *Settings) error {
				have, err := k.policy(ctx, s)
				switch {
				case err != nil:
					return err
				case *asJSON:
					return c.printJSON(have)
				}
				return c.printPolicy(have)
			})
		}
		var name string
		if len(words) == 2 {
			name = words[1]
		}
		if words[0] == kindRevisions || words[0]+"s" == kindRevisions {
			number := int64(-1)
			if name != "" {
				n, err := strconv.ParseInt(name, 10, 64)
				if err != nil || n < 0 {
					return usagef("revision %q is no number, such as 3", name)
				}
				number = n
			}
			return onCluster(ctx, load, func(k *cluster, s *Settings) error { return c.printRevisions(ctx, k, s, number, *asJSON) })
		}
		kind, ok := schemas.ParseResourceKind(words[0])
		if !ok {
			return usagef("there is no kind %q: %s or %s", words[0], kindsText(), kindRevisions)
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			have, err := k.policy(ctx, s)
			if err != nil {
				return err
			}
			some := have.Only(kind, name)
			if name != "" && len(some.Names(kind)) == 0 {
				return noSuch(have, kind, name)
			}
			if *asJSON {
				return c.printJSON(map[string]any{kind.Plural(): some.List(kind)})
			}
			if len(some.Names(kind)) == 0 {
				fmt.Fprintf(c.stderr, "There are no %s.\n", kind.Plural())
				return nil
			}
			return c.printPolicy(some)
		})
	},
}

func noSuch(p *schemas.Policy, kind schemas.ResourceKind, name string) error {
	names := p.Names(kind)
	if len(names) == 0 {
		return fmt.Errorf("there is no %s %q; there are no %s", kind, name, kind.Plural())
	}
	return fmt.Errorf("there is no %s %q; there are %s", kind, name, list(names, 20))
}

func (c *call) printPolicy(p *schemas.Policy) error {
	text, err := schemas.PolicyYAML(p)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		fmt.Fprintln(c.stderr, "The policy is empty.")
	}
	_, err = c.stdout.Write(text)
	return err
}

// revisionLine is a revision without its policy.
type revisionLine struct {
	Revision int64          `json:"revision"`
	At       schemas.Millis `json:"at"`
	By       string         `json:"by,omitempty"`
}

// printRevisions prints one revision's policy, or with -1 lists all from the
// newest back.
func (c *call) printRevisions(ctx context.Context, k *cluster, s *Settings, number int64, asJSON bool) error {
	var lines []revisionLine
	if number >= 0 {
		one, err := k.revision(ctx, s, number)
		switch {
		case err != nil:
			return err
		case asJSON:
			return c.printJSON(one)
		}
		return c.printPolicy(&one.Policy)
	}
	err := k.readRevisions(ctx, s, func(w *policy.Watcher) error {
		for n := w.Latest().Revision; n > 0; n-- {
			r, err := w.Get(ctx, n) // read already: it does not wait
			if err != nil {
				return err
			}
			lines = append(lines, revisionLine{Revision: r.Revision, At: r.At, By: r.By})
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		if lines == nil {
			lines = []revisionLine{}
		}
		return c.printJSON(map[string]any{kindRevisions: lines})
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REVISION\tAT\tBY")
	for _, l := range lines {
		fmt.Fprintf(w, "%d\t%s\t%s\n", l.Revision, l.At.Time().UTC().Format(time.RFC3339), l.By)
	}
	return w.Flush()
}

var deleteCommand = command{
	name:    "delete",
	args:    "KIND NAME [--dry-run] [--json] [flags]",
	summary: "Remove one resource from the policy in force.",
	details: "KIND is " + kindsText() + `,
singular or plural. What others refer to is not removed: change those first. A
provider that is removed drains: its lanes hand what waits back to admission,
which routes it anew.`,
	example: "weir delete limit verify",
	run: func(ctx context.Context, c *call) error {
		words := c.leading(2)
		fs := flag.NewFlagSet("delete", flag.ContinueOnError)
		dryRun := fs.Bool("dry-run", false, "print what would change, and change nothing")
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		if len(words) != 2 {
			return usagef("say a kind and a name, such as limit verify")
		}
		kind, ok := schemas.ParseResourceKind(words[0])
		if !ok {
			return usagef("there is no kind %q: %s", words[0], kindsText())
		}
		edit := func(have *schemas.Revision) (*schemas.Policy, error) { return without(&have.Policy, kind, words[1]) }
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			return c.change(ctx, k, s, revise.Tries, edit, func() []string { return nil }, changeOptions{dryRun: *dryRun, asJSON: *asJSON})
		})
	},
}

// without removes a resource that nothing refers to.
func without(p *schemas.Policy, kind schemas.ResourceKind, name string) (*schemas.Policy, error) {
	next, found, err := revise.Without(p, kind, name)
	switch {
	case !found:
		return nil, noSuch(p, kind, name)
	case err != nil:
		return nil, fmt.Errorf("others refer to %s %s, so nothing was changed:\n%w", kind, name, err)
	}
	return next, nil
}

// inForce returns the revision in force; revision 0, the empty policy, before
// there is a topic for it.
func (k *cluster) inForce(ctx context.Context, s *Settings) (*schemas.Revision, error) {
	rev := &schemas.Revision{}
	err := k.readRevisions(ctx, s, func(w *policy.Watcher) error { rev = w.Latest(); return nil })
	return rev, err
}

// policy returns the policy in force.
func (k *cluster) policy(ctx context.Context, s *Settings) (*schemas.Policy, error) {
	rev, err := k.inForce(ctx, s)
	if err != nil {
		return nil, err
	}
	return &rev.Policy, nil
}

// readRevisions calls fn with all revisions so far. Without a topic for them it
// does not.
func (k *cluster) readRevisions(ctx context.Context, s *Settings, fn func(w *policy.Watcher) error) error {
	names := topics.Names{Prefix: s.Prefix}
	// Past the client's cache of metadata, as topics.Plan asks.
	details, err := k.adm.ListTopics(kadm.WithAuthorizedOps(ctx), names.Config())
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	if !details.Has(names.Config()) {
		return nil
	}
	w, err := policy.Watch(ctx, names.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return err
	}
	defer w.Close()
	return fn(w)
}
