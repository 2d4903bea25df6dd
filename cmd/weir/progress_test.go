package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	p := newProgress(&out, func() time.Time { return now })
	for _, step := range []struct {
		after       time.Duration
		done, total int64
	}{{time.Second, 10, 1000}, {9 * time.Second, 100, 1000}, {time.Second, 101, 1000}, {50 * time.Second, 500, 1000}, {10 * time.Second, 700, 0}, {10 * time.Second, 1200, 1000}} {
		now = now.Add(step.after)
		p.at(step.done, step.total, "records", "")
	}
	want := "100 of 1000 records (10 %, about 2 min left)\n500 of 1000 records (50 %, about 2 min left)\n700 records\n1000 of 1000 records (100 %, about 0 s left)\n"
	if out.String() != want {
		t.Errorf("%s", &out)
	}
	if got := p.interrupted("Run it again."); got != "interrupted after 1000 of 1000 records. Run it again." {
		t.Error(got)
	}
	if got := newProgress(&out, time.Now).interrupted(""); got != "interrupted." {
		t.Error(got)
	}
}

// A command that a signal ends says how much is done, and how to go on.
func TestInterruptedCommandSaysHowToGoOn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	long := command{name: "long", resume: "Run it again.", run: func(ctx context.Context, c *call) error {
		if err := c.parse(flag.NewFlagSet("long", flag.ContinueOnError)); err != nil {
			return err
		}
		c.progress.at(7, 10, "rows", "")
		cancel(errors.New("a signal"))
		return untold(fmt.Errorf("read: %w", context.Cause(ctx)))
	}}
	var out, errs strings.Builder
	code := runCommands(ctx, []command{long}, []string{"long"}, func(string) string { return "" }, &out, &errs)
	if want := "weir long: interrupted after 7 of 10 rows. Run it again.\n"; code != exitUntold || errs.String() != want {
		t.Errorf("exit %d, %q", code, errs.String())
	}
	for _, name := range []string{"audit", "limits", "erase", "ledger", "sink", "suppressions"} {
		for _, cmd := range commands() {
			if cmd.name == name && cmd.resume == "" {
				t.Errorf("weir %s does not say how to go on", name)
			}
		}
	}
}
