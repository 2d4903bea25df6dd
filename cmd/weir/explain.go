package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/retryafter"
	"github.com/weirhq/weir/schemas"
)

var explainCommand = command{
	name:    "explain",
	args:    "FIELD | retry-after VALUE | provider [TYPE]",
	summary: "Explain a field of the policy: its meaning, values and default; what a Retry-After header asks for; or what a provider's codes mean.",
	details: `retry-after VALUE reads the value of that header, seconds or a date, and prints when it is over, here and in UTC, how
long that is, and a sentence for the comment of a client's code.

provider TYPE prints a type's settings, what each of its codes and receipts means to Weir, and where that was read; without
TYPE it lists the types.`,
	exits: []string{
		"0 explained",
		"1 the policy has no such field",
		"2 wrong usage, no such type, or the value of Retry-After is none",
	},
	example: "weir explain limits.allow\n  weir explain retry-after 120\n  weir explain provider twilio",
	run: func(_ context.Context, c *call) error {
		fs := flag.NewFlagSet("explain", flag.ContinueOnError)
		if err := c.parse(fs); err != nil {
			return err
		}
		if fs.Arg(0) == "retry-after" {
			if fs.NArg() < 2 {
				return usagef("name the header's value, such as 120 or \"Sun, 22 Nov 2026 01:00:00 GMT\"")
			}
			return explainRetryAfter(c.stdout, strings.Join(fs.Args()[1:], " "), time.Now())
		}
		if fs.Arg(0) == "provider" {
			switch fs.NArg() {
			case 1:
				return explainTypes(c.stdout, providerTypes)
			case 2:
				return explainType(c.stdout, providerTypes, fs.Arg(1))
			}
			return usagef("name one type, such as twilio")
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

// explainRetryAfter says what the value of a Retry-After header asks for.
func explainRetryAfter(w io.Writer, value string, now time.Time) error {
	e, err := retryafter.Explain(value, now)
	if err != nil {
		return usagef("%q is no value of Retry-After: %v", value, err)
	}
	at := e.At
	if e.Form == retryafter.Seconds {
		at = at.Truncate(time.Second)
	}
	wait := "no time: it is over"
	if e.Seconds > 0 {
		wait = fmt.Sprintf("%s (%d s)", retryafter.Span(e.Seconds), e.Seconds)
	}
	fmt.Fprintf(w, "local    %s\nUTC      %s\nwait     %s\n", at.In(now.Location()).Format("2006-01-02 15:04:05 MST"), at.UTC().Format("2006-01-02 15:04:05"), wait)
	if e.Note != "" {
		fmt.Fprintf(w, "note     %s\n", e.Note)
	}
	_, err = fmt.Fprintf(w, "comment  // %s\n", e.Comment)
	return err
}
