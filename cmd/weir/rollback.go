package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

var rollbackCommand = command{
	name:    "rollback",
	args:    "REVISION [--dry-run] [--accept-loss] [--json] [flags]",
	summary: "Bring back limits, classes, providers, routes and templates as an earlier revision has them.",
	details: `It is a new revision: weir get revisions lists them all. Keys stay as they are, so no
revoked key works again and no new one ends; so do tenants, alerts and inputs. The settings
routes_only and mailboxes come back. Nothing is changed unless the result as a whole is valid,
nor, without --accept-loss, where a channel would have no provider any more. Revision 0 is the
empty policy.`,
	exits:   applyExits,
	example: "weir rollback 3 --dry-run",
	run: func(ctx context.Context, c *call) error {
		words := c.leading(1)
		fs := flag.NewFlagSet("rollback", flag.ContinueOnError)
		var o changeOptions
		o.define(fs)
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		if len(words) != 1 {
			return usagef("say one revision, such as 3: weir get revisions lists them")
		}
		number, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil || number < 0 {
			return usagef("revision %q is no number, such as 3", words[0])
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			to, err := k.revision(ctx, s, number)
			if err != nil {
				return err
			}
			var refused error // what a dry run shows nevertheless
			edit := func(have *schemas.Revision) (*schemas.Policy, error) {
				next, err := revise.Rollback(&have.Policy, &to.Policy, o.acceptLoss)
				if errors.Is(err, revise.ErrRefused) {
					err = fmt.Errorf("%w\nTo roll back nevertheless, add --accept-loss", err)
					if !o.dryRun {
						return nil, err
					}
					refused = err
					next, err = revise.Rollback(&have.Policy, &to.Policy, true)
				}
				if err != nil {
					return nil, fmt.Errorf("revision %d does not fit the tenants, keys, alerts and inputs of today, nothing was changed:\n%w", number, err)
				}
				return next, nil
			}
			if err := c.change(ctx, k, s, revise.Tries, edit, func() []string { return nil }, o); err != nil {
				return err
			}
			return refused
		})
	},
}

// revision returns one revision of the policy.
func (k *cluster) revision(ctx context.Context, s *Settings, number int64) (*schemas.Revision, error) {
	r := new(schemas.Revision)
	err := k.readRevisions(ctx, s, func(w *policy.Watcher) (err error) {
		r, err = w.Get(ctx, min(number, w.Latest().Revision))
		return err
	})
	if err == nil && r.Revision != number {
		err = fmt.Errorf("there is no revision %d; the newest is %d", number, r.Revision)
	}
	return r, err
}
