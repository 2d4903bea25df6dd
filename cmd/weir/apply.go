package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

var applyCommand = command{
	name:    "apply",
	args:    "-f FILE [--dry-run] [--prune[=keys]] [--accept-loss] [--json] [flags]",
	summary: "Bring a policy file into force.",
	details: `What the file has is added, or replaces what has its kind and name. What it
lacks stays in force; with --prune it is removed, and the file is the whole
policy, but for keys: those it lacks are removed only with --prune=keys, and if
the file has a section keys. Limits and routes stand in the file's order, and what it lacks comes
after them in the order it had: for routes, of which the first match wins, the
file's decide first.

Nothing is changed unless the result as a whole is valid. A window that is new
or longer than before counts from now on, or from when its history is kept; what
it prints says when it is complete. A window that the file drops keeps its history
for a day: put back within that day, it counts as if it had always been there;
later, it counts from then on. Where limits would lose history, as by another match or by another
kind of window, it says which and changes nothing without --accept-loss. When the policy was changed meanwhile the file is tried once more on
what it has become, but not with --prune, which would remove what it never saw.

A key whose secret was revoked, or replaced by a rotation, works again if the file has
its hash: a warning names such keys, with --dry-run too.

A provider that is removed drains: its lanes hand what waits back to admission,
which routes it again. Its topics stay. Its lanes can become more and never
fewer.`,
	exits:   applyExits,
	example: "weir apply -f policy.yaml --prune --dry-run",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("apply", flag.ContinueOnError)
		file := fs.String("f", "", "policy file (YAML or JSON)")
		var o changeOptions
		o.define(fs)
		prune := pruneFlag(fs, "remove what the file lacks, but no keys; with --prune=keys those, too, if the file has a section keys")
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
		if len(bytes.TrimSpace(text)) == 0 {
			return fmt.Errorf("%s is empty, nothing was changed: to remove a policy, write what is to be empty, such as limits: []", *file)
		}
		var kept []string
		edit := func(have *schemas.Revision) (*schemas.Policy, error) {
			doc, err := prune.read(*file, text, &have.Policy)
			if err != nil {
				return nil, err
			}
			kept = doc.Kept()
			return &doc.Policy, nil
		}
		if prune.on { // judged before a cluster is looked for
			if _, err := edit(&schemas.Revision{}); err != nil {
				return err
			}
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			tries := revise.Tries
			if prune.on {
				tries = 1
			}
			return c.change(ctx, k, s, tries, edit, func() []string { return kept }, o)
		})
	},
}

// pruning is what becomes of what is in force and a policy file lacks.
type pruning struct{ on, keys bool } // removed, keys too

func pruneFlag(fs *flag.FlagSet, usage string) *pruning {
	p := new(pruning)
	fs.BoolFunc("prune", usage, func(v string) (err error) {
		if p.on, p.keys = true, v == "keys"; !p.keys {
			p.on, err = strconv.ParseBool(v)
		}
		return err
	})
	return p
}

// read parses a file over what stays of the policy in force. Keys have lives of their own,
// which no file that is older than they are may end or begin again: they stay unless
// that is asked for by name, of a file that has keys.
func (p *pruning) read(name string, text []byte, have *schemas.Policy) (*schemas.Document, error) {
	if !p.on {
		return readPolicy(name, text, have)
	}
	if p.keys {
		doc, err := readPolicy(name, text, nil)
		if err != nil || doc.Has(schemas.ResourceKey) {
			return doc, err
		}
	}
	return readPolicy(name, text, have.Only(schemas.ResourceKey, ""))
}

// readPolicy parses a policy, over base when there is one, and judges all of it.
func readPolicy(name string, text []byte, base *schemas.Policy) (*schemas.Document, error) {
	doc, err := schemas.ParsePolicyOver(name, text, base)
	if err != nil {
		return nil, fmt.Errorf("the policy is not valid, nothing was changed:\n%w", err)
	}
	err = revise.Decidable(&doc.Policy)
	if err == nil {
		err = providerTypes.Check(&doc.Policy)
	}
	if err != nil {
		return nil, fmt.Errorf("the policy is not valid, nothing was changed:\n%w", doc.Located(err))
	}
	return doc, nil
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
