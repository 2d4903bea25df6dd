package main

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"
)

var configCommand = command{
	name:    "config",
	args:    "check|explain [--config FILE] [flags]",
	summary: "Check a settings file, or show every setting with where its value comes from.",
	details: "What is secret in a URL is shown as ***.",
	example: "weir config check --config weir.yaml",
	process: true,
	run: func(_ context.Context, c *call) error {
		verb := c.verb("check", "explain")
		fs := flag.NewFlagSet("config", flag.ContinueOnError)
		load := settingsFlags(fs, defaultSettings(), c.getenv)
		if err := c.parseOnly(fs); err != nil {
			return err
		}
		if verb == "" {
			return usagef("say check or explain")
		}
		l, err := load()
		if err != nil {
			return err
		}
		l.warnOdd(c.stderr)
		if verb == "check" {
			fmt.Fprintln(c.stdout, "The settings are valid.")
			return nil
		}
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SETTING\tVALUE\tFROM\tMEANING")
		for _, s := range settings {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.key, masked(show(s.value(&l.Settings))), l.from[s.key], s.usage)
		}
		return w.Flush()
	},
}

// verb takes the first argument when it is one of those that a command knows.
func (c *call) verb(known ...string) string {
	if c.seen != nil {
		c.seen(known, nil)
	}
	if len(c.args) == 0 {
		return ""
	}
	for _, k := range known {
		if c.args[0] == k {
			c.args = c.args[1:]
			return k
		}
	}
	return ""
}
