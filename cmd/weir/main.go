// Command weir runs Weir, in whole or in parts, and is its operators' tool.
//
// This package parses flags and wires packages together in straight lines. It
// holds no logic of its own: what decides lives in processor, what talks HTTP
// in ingest, what talks to topics in topics.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/weirhq/weir/cmd/weir/collector"
	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

func main() {
	// Libraries that know of no logger of ours write here.
	log.SetOutput(httpcall.Quiet(os.Stderr))
	// weir dev runs its broker and its engine as processes of their own: this
	// same program, in another role.
	child.Main(map[string]child.Role{broker.Name: broker.Role, engine.RoleName: engine.Role})
	collector.Tune(context.Background(), os.Getenv)
	os.Exit(run(untilSignal(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitUntold is the answer of a command that looks for damage and could not tell: what it had to read
	// does not show enough, or cannot be read. Of such a command exitError means that there is damage.
	exitUntold = 3
)

// untold gives exitUntold to an error that ended such a command before it had an answer.
func untold(err error) error {
	_, usage := errors.AsType[*usageError](err)
	_, answered := errors.AsType[*exitStatus](err)
	if err == nil || usage || answered || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &exitStatus{exitUntold, err}
}

// command is one word after weir.
type command struct {
	name    string
	args    string // after the name, in the usage line
	summary string
	details string // in the command's own help
	example string
	run     func(ctx context.Context, c *call) error
}

// commands lists them in the order of help.
func commands() []command {
	return []command{
		devCommand, runCommand, topicsCommand, applyCommand, rollbackCommand, getCommand, deleteCommand, keysCommand, limitsCommand, sendCommand, tailCommand, statusCommand, dlqCommand, suppressionsCommand, alertsCommand, callbacksCommand, eraseCommand, auditCommand, ledgerCommand, sinkCommand, skipCommand, configCommand, explainCommand, versionCommand,
	}
}

// call is one run of a command: its arguments and its surroundings.
type call struct {
	command
	args   []string
	getenv func(string) string
	stdout io.Writer
	stderr io.Writer
}

// exitStatus ends a command with an exit code of its own; err may be nil, when
// the output has said all.
type exitStatus struct {
	code int
	err  error
}

func (e *exitStatus) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// usageError is wrong usage: exit code 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		help(stdout)
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	for _, cmd := range commands() {
		if cmd.name != args[0] {
			continue
		}
		err := cmd.run(ctx, &call{command: cmd, args: args[1:], getenv: getenv, stdout: stdout, stderr: stderr})
		switch {
		case err == nil:
			return exitOK
		case errors.Is(err, flag.ErrHelp):
			return exitOK
		}
		if bad, ok := errors.AsType[*usageError](err); ok {
			fmt.Fprintf(stderr, "weir %s: %s\nSee: weir %s --help\n", cmd.name, bad.text, cmd.name)
			return exitUsage
		}
		code := exitError
		if e, ok := errors.AsType[*exitStatus](err); ok {
			if e.err == nil {
				return e.code
			}
			code = e.code
		}
		fmt.Fprintf(stderr, "weir %s: %v\n", cmd.name, err)
		return code
	}
	fmt.Fprintf(stderr, "weir: there is no command %q. See: weir help\n", args[0])
	return exitUsage
}

func help(w io.Writer) {
	fmt.Fprint(w, "Weir lets through exactly as many messages per recipient as the policy allows.\n\nUsage: weir COMMAND [flags]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-13s %s\n", cmd.name, cmd.summary)
	}
	fmt.Fprint(w, "\nweir COMMAND --help tells more. Begin with: weir dev\n")
}

// parse reads a command's flags; what is left are its arguments.
func (c *call) parse(fs *flag.FlagSet) error {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	err := fs.Parse(c.args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(c.stdout, "%s\n\nUsage: weir %s %s\n\n", c.summary, c.name, c.command.args)
		if c.details != "" {
			fmt.Fprintf(c.stdout, "%s\n\n", c.details)
		}
		fs.SetOutput(c.stdout)
		fs.PrintDefaults()
		if c.example != "" {
			fmt.Fprintf(c.stdout, "\nExample:\n  %s\n", c.example)
		}
		return err
	}
	if err != nil {
		return &usageError{err.Error()}
	}
	return nil
}

// printLine prints one JSON value on a line: of a list, as it comes.
func (c *call) printLine(v any) error { return json.NewEncoder(c.stdout).Encode(v) }

func (c *call) printJSON(v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
