package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var topicsCommand = command{
	name:    "topics",
	args:    "plan|apply [--json] [flags]",
	summary: "Compare Kafka's topics with what Weir needs, or create what is missing.",
	example: "weir topics plan --kafka-brokers 10.0.0.5:9092",
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("plan", "apply")
		fs := flag.NewFlagSet("topics", flag.ContinueOnError)
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if verb == "" {
			return usagef("say plan or apply")
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			pol, err := k.policy(ctx, s)
			if err != nil {
				return err
			}
			diff, err := k.plan(ctx, s, pol)
			if err != nil {
				return err
			}
			if *asJSON {
				err = c.printJSON(diff)
			} else {
				_, err = fmt.Fprintln(c.stdout, diff.String())
			}
			if err != nil || verb == "plan" {
				return err
			}
			return topics.Apply(ctx, k.cl, diff, func(line string) { fmt.Fprintln(c.stderr, line) })
		})
	},
}

// plan compares the cluster with what a policy needs.
func (k *cluster) plan(ctx context.Context, s *Settings, pol *schemas.Policy) (topics.Diff, error) {
	cfg, err := k.topicConfig(ctx, s)
	if err != nil {
		return topics.Diff{}, err
	}
	return topics.Plan(ctx, k.adm, topics.Catalogue(cfg, pol))
}

type discardWriter struct{}

func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }
