package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/weirhq/weir/schemas"
)

var explainCommand = command{
	name:    "explain",
	args:    "FIELD",
	summary: "Explain a field of the policy: its meaning, values and default.",
	example: "weir explain limits.allow",
	run: func(_ context.Context, c *call) error {
		fs := flag.NewFlagSet("explain", flag.ContinueOnError)
		if err := c.parse(fs); err != nil {
			return err
		}
		if fs.NArg() != 1 {
			return usagef("name one field, such as limits.allow")
		}
		text, err := schemas.ExplainField(fs.Arg(0))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.stdout, text)
		return err
	},
}
