package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/user"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var applyCommand = command{
	name:    "apply",
	args:    "-f FILE [flags]",
	summary: "Bring a policy file into force, whole.",
	example: "weir apply -f policy.yaml",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("apply", flag.ContinueOnError)
		file := fs.String("f", "", "policy file (YAML)")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if *file == "" {
			return usagef("name the policy file with -f")
		}
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		// Nothing is touched unless all of it is valid and in force.
		doc, err := readPolicy(*file, text)
		if err != nil {
			return err
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			rev, err := k.publish(ctx, s, &doc.Policy, func(line string) { fmt.Fprintln(c.stderr, line) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.stdout, "Revision %d is in force.\n", rev.Revision)
			return err
		})
	},
}

// readPolicy parses a policy and refuses what this version does not act on.
func readPolicy(name string, text []byte) (*schemas.Document, error) {
	doc, err := schemas.ParsePolicy(name, text)
	if err != nil {
		return nil, fmt.Errorf("the policy is not valid, nothing was changed:\n%w", err)
	}
	if err := doc.NotYetInForce(); err != nil {
		return nil, fmt.Errorf("the policy asks for what this version does not do yet, nothing was changed:\n%w", err)
	}
	// What no partition could decide on must not come into force anywhere.
	if _, err := limit.Compile(&doc.Policy, nil); err != nil {
		return nil, fmt.Errorf("%s: nothing was changed: %w", name, err)
	}
	return doc, nil
}

// publish creates the topics that a policy needs, and then writes it: a
// revision never comes into force before its providers can be served.
func (k *cluster) publish(ctx context.Context, s *Settings, p *schemas.Policy, progress func(string)) (*schemas.Revision, error) {
	diff, err := k.plan(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if err := topics.Apply(ctx, k.adm, diff, progress); err != nil {
		return nil, fmt.Errorf("create the topics that the policy needs: %w", err)
	}
	names := topics.Names{Prefix: s.Prefix}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := policy.Watch(ctx, names.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return nil, err
	}
	go w.Run(ctx) //nolint:errcheck // Publish reports what Run meets
	return w.Publish(ctx, k.cl, w.Latest().Revision, author(), *p)
}

// author says who changes the policy from a command line.
func author() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "weir apply"
}
