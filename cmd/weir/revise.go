package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// revision is an edit of the policy in force: what it was read from, what it
// makes of that, and what came of it.
type revision struct {
	from *schemas.Revision // as it was read
	next *schemas.Policy
	now  *schemas.Revision // in force at the end: from itself when next says nothing new
}

// revise brings what edit makes of the policy in force into force. It repeats
// the edit on a policy that was changed meanwhile, until tries are used up.
func (k *cluster) revise(ctx context.Context, s *Settings, tries int, edit func(have *schemas.Revision) (*schemas.Policy, error), progress func(string)) (*revision, error) {
	for ; ; tries-- {
		r, err := k.draft(ctx, s, edit)
		if err != nil {
			return nil, err
		}
		r.now, err = k.publish(ctx, s, r.from, r.next, progress)
		if errors.Is(err, policy.ErrConflict) && tries > 1 {
			continue
		}
		return r, err
	}
}

// draft is revise without the writing: everything that can refuse an edit.
func (k *cluster) draft(ctx context.Context, s *Settings, edit func(have *schemas.Revision) (*schemas.Policy, error)) (*revision, error) {
	have := &schemas.Revision{}
	var past []*schemas.Revision
	err := k.readRevisions(ctx, s, func(w *policy.Watcher) error {
		have = w.Latest()
		for n := int64(1); n <= have.Revision; n++ {
			r, err := w.Get(ctx, n)
			if err != nil {
				return err
			}
			past = append(past, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	next, err := edit(have)
	if err != nil {
		return nil, err
	}
	for _, r := range past {
		if err := next.KeepsQueues(&r.Policy); err != nil {
			return nil, fmt.Errorf("nothing was changed: revision %d: %w", r.Revision, err)
		}
	}
	return &revision{from: have, next: next, now: have}, nil
}

// publish creates the topics that a policy needs, and then writes it as the
// successor of have, unless it says the same: a revision never comes into force
// before its providers can be served.
func (k *cluster) publish(ctx context.Context, s *Settings, have *schemas.Revision, p *schemas.Policy, progress func(string)) (*schemas.Revision, error) {
	diff, err := k.plan(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if err := topics.Apply(ctx, k.adm, diff, progress); err != nil {
		return nil, fmt.Errorf("create the topics that the policy needs: %w", err)
	}
	if len(schemas.DiffPolicy(&have.Policy, p)) == 0 {
		return have, nil
	}
	names := topics.Names{Prefix: s.Prefix}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := policy.Watch(ctx, names.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return nil, err
	}
	go w.Run(ctx) //nolint:errcheck // Publish reports what Run meets
	rev, err := w.Publish(ctx, k.cl, have.Revision, author(), *p)
	if errors.Is(err, policy.ErrConflict) {
		now := w.Latest()
		return nil, fmt.Errorf("revision %d was read and revision %d by %s is in force: %w", have.Revision, now.Revision, now.By, err)
	}
	return rev, err
}

// author says who changes the policy from a command line.
func author() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "weir apply"
}

// report is what a command that changes the policy prints.
type report struct {
	Revision  int64            `json:"revision"` // in force at the end
	DryRun    bool             `json:"dry_run,omitempty"`
	Changes   []schemas.Change `json:"changes"`
	Unchanged int              `json:"unchanged"` // resources
	// Kept are those of the unchanged that the file does not have, as "limit verify".
	Kept    []string        `json:"kept,omitempty"`
	Warming []limit.Warming `json:"warming,omitempty"`
	Topics  *topics.Diff    `json:"topics,omitempty"` // what a dry run would create
}

// newReport compares both ends of a revision. A dry run, which has no end, is
// as if it came into force at now.
func newReport(r *revision, dryRun bool, now time.Time) *report {
	out := &report{
		Revision: r.now.Revision,
		DryRun:   dryRun,
		Changes:  schemas.DiffPolicy(&r.from.Policy, r.next),
	}
	touched := 0
	for _, c := range out.Changes {
		if c.Op != schemas.ChangeRemove {
			touched++
		}
	}
	for _, kind := range schemas.ResourceKinds {
		out.Unchanged += len(r.next.Names(kind))
	}
	out.Unchanged -= touched
	at := schemas.MillisOf(now)
	if !dryRun {
		at = r.now.At
	}
	if len(out.Changes) > 0 {
		out.Warming = limit.NewWindows(&r.from.Policy, r.next, at)
	}
	return out
}

func (c *call) printReport(r *report, asJSON bool) error {
	if asJSON {
		if r.Changes == nil {
			r.Changes = []schemas.Change{}
		}
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
