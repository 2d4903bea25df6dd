package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build (-ldflags -X main.version=…).
var version = "dev"

var versionCommand = command{
	name:    "version",
	summary: "Print the version of this program.",
	example: "weir version",
	run: func(_ context.Context, c *call) error {
		if err := c.parseOnly(flag.NewFlagSet("version", flag.ContinueOnError)); err != nil {
			return err
		}
		rev := "unknown commit"
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					rev = s.Value
				}
			}
		}
		_, err := fmt.Fprintf(c.stdout, "weir %s (%s, %s, %s/%s)\n", version, rev, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	},
}
