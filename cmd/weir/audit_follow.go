package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// warnOfAnother says so where another audit follows: both write the same report, and what
// one found would be gone from it as soon as the other writes.
func warnOfAnother(ctx context.Context, c *call, s *Settings) {
	w, err := report.Watch(ctx, topics.Names{Prefix: s.Prefix}.Reports(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return
	}
	defer w.Close()
	r := w.Now()[schemas.ReportKeyFollowed]
	if r.Audit != nil && r.Audit.Following && time.Since(r.Written.Time()) < time.Minute {
		fmt.Fprintf(c.stderr, "warning: another audit follows (%s, %s): the console, metrics and alerts show in turns what each found. End one, or give one --no-report\n", r.By, r.Written)
	}
}

// followAudit is weir audit --follow: an audit that goes on until ctx ends.
func followAudit(ctx context.Context, c *call, s *Settings, cfg audit.Config, every time.Duration, asJSON, silent bool) error {
	var last *audit.Report
	var said time.Time
	var told error // why the last report was not written
	shown := make(map[string]bool)
	report := func(ctx context.Context, following bool) {
		b := last.Brief()
		b.Following = following
		err := tellOfAudit(ctx, s, schemas.ReportKeyFollowed, b)
		if err != nil && told == nil {
			fmt.Fprintf(c.stderr, "warning: the console and alerts do not know of this audit; trying again: %v\n", err)
		}
		told = err
	}
	now := func() string { return time.Now().UTC().Format(time.RFC3339) }
	progress := cfg.Progress
	cfg.Progress = func(done, total int64) { // of the first cut: later ones are short
		if last == nil {
			progress(done, total)
		}
	}
	if !silent {
		warnOfAnother(ctx, c, s)
	}
	waits := false
	err := audit.Follow(ctx, cfg, every, func(r *audit.Report, err error) {
		if err != nil {
			waits = true
			fmt.Fprintf(c.stderr, "%s weir audit: %v; trying again in %s\n", now(), err, every)
			return
		}
		if waits {
			waits = false
			fmt.Fprintf(c.stderr, "%s weir audit: it goes on\n", now())
		}
		changed := last == nil || last.Outcome != r.Outcome
		last = r
		if !silent {
			report(ctx, true)
		}
		if asJSON {
			_ = c.printJSON(r)
			return
		}
		if changed || time.Since(said) >= time.Minute {
			said = time.Now()
			fmt.Fprintln(c.stdout, r.Line())
		}
		for _, v := range r.Violations {
			if line := v.String(); !shown[line] {
				shown[line] = true
				fmt.Fprintln(c.stdout, "  "+line)
			}
		}
		if changed {
			for _, u := range r.Untold {
				fmt.Fprintf(c.stdout, "  could not tell: %d %s\n", u.Count, u.What)
			}
		}
	})
	if last == nil {
		return &exitStatus{exitUntold, errors.Join(errors.New("it ended before anything was judged"), err)}
	}
	if !silent && err == nil { // it is over, and not stopped
		report(ctx, false)
	}
	if err != nil {
		return &exitStatus{exitUntold, err}
	}
	return exitOf(last.Outcome)
}
