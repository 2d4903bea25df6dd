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
	"strings"
	"time"

	"github.com/weirhq/weir/cmd/weir/collector"
	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

func main() {
	// Libraries that know of no logger of ours write here.
	log.SetOutput(httpcall.Quiet(os.Stderr))
	// weir dev runs its broker and its engine as processes of their own: this
	// same program, in another role.
	child.Main(map[string]child.Role{broker.Name: broker.Role, engine.RoleName: engine.Role})
	collector.Tune(context.Background(), os.Getenv)
	os.Exit(run(untilSignal(os.Args[1:]), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitUntold is the answer of a command that looks for damage and could not tell: what it had to read
	// does not show enough, or cannot be read. Of such a command exitError means that there is damage.
	exitUntold = 3
	// What became of a message: of weir send alone.
	exitLimited = 3
	exitUnsent  = 4
	exitUnknown = 5
)

// exitCodes is what exit codes mean where a command does not say otherwise.
var exitCodes = []string{
	"0 done, also after a signal that ended weir run, weir dev or weir tail in order",
	"1 not done: the error says why",
	"2 wrong usage: nothing was done",
	"130, 143 ended at once by a second Ctrl-C or SIGTERM",
}

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
	exits   []string // what its exit codes mean, where exitCodes does not say it
	resume  string   // how to go on after a signal ended it, in a sentence
	process bool     // settings configure it, and its help lists them all
	run     func(ctx context.Context, c *call) error
}

// commands lists them in the order of help.
func commands() []command {
	return []command{
		devCommand, runCommand, topicsCommand, applyCommand, rollbackCommand, getCommand, deleteCommand, keysCommand, limitsCommand, sendCommand, tailCommand, statusCommand, dlqCommand, suppressionsCommand, alertsCommand, callbacksCommand, eraseCommand, auditCommand, ledgerCommand, sinkCommand, skipCommand, configCommand, explainCommand, completionCommand, versionCommand,
	}
}

// call is one run of a command: its arguments and its surroundings.
type call struct {
	command
	args     []string
	getenv   func(string) string
	stdout   io.Writer
	stderr   io.Writer
	all      []command // of the program
	progress *progress
	// seen, if not nil, is called with the words and flags that the command knows; the command then ends.
	seen func(words []string, fs *flag.FlagSet)
}

// why is the error to print: of a long command that a signal ended, how much is done and how to go on.
func (c *call) why(ctx context.Context, err error) error {
	if ctx.Err() != nil && c.resume != "" {
		return errors.New(c.progress.interrupted(c.resume))
	}
	return err
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
	return runCommands(ctx, commands(), args, getenv, stdout, stderr)
}

func runCommands(ctx context.Context, all []command, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[0] == "help" { // weir help send is weir send --help
		args = []string{args[1], "--help"}
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		help(stdout)
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	if args[0] == "--version" {
		args = []string{versionCommand.name}
	}
	var names []string
	for _, cmd := range all {
		names = append(names, cmd.name)
		if cmd.name != args[0] {
			continue
		}
		c := &call{command: cmd, args: args[1:], getenv: getenv, stdout: stdout, stderr: stderr, all: all, progress: newProgress(stderr, time.Now)}
		err := cmd.run(ctx, c)
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
		fmt.Fprintf(stderr, "weir %s: %v\n", cmd.name, c.why(ctx, err))
		return code
	}
	fmt.Fprintf(stderr, "weir: there is no command %q%s See: weir help\n", args[0], schemas.DidYouMean(args[0], names))
	return exitUsage
}

func help(w io.Writer) {
	fmt.Fprint(w, "Weir lets through exactly as many messages per recipient as the policy allows.\n\nUsage: weir COMMAND [flags]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-13s %s\n", cmd.name, cmd.summary)
	}
	fmt.Fprint(w, "\nExit codes:\n")
	printExits(w, "  ", exitCodes)
	for _, cmd := range commands() {
		if len(cmd.exits) > 0 {
			fmt.Fprintf(w, "\n  weir %s:\n", cmd.name)
			printExits(w, "    ", cmd.exits)
		}
	}
	fmt.Fprint(w, "\nweir COMMAND --help has more of each. Begin with: weir dev\n")
}

func printExits(w io.Writer, indent string, exits []string) {
	for _, e := range exits {
		fmt.Fprintf(w, "%s%s\n", indent, e)
	}
}

// parseOnly reads the flags of a command that takes no arguments.
func (c *call) parseOnly(fs *flag.FlagSet) error {
	if err := c.parse(fs); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return usagef("takes no argument %q; a text with spaces is to be in quotes", fs.Arg(0))
	}
	return nil
}

// parse reads a command's flags; what is left are its arguments.
func (c *call) parse(fs *flag.FlagSet) error {
	if c.seen != nil {
		c.seen(nil, fs)
		return flag.ErrHelp
	}
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	err := fs.Parse(c.args)
	if errors.Is(err, flag.ErrHelp) {
		c.help(fs)
		return err
	}
	if err != nil {
		text := strings.Replace(err.Error(), "flag provided but not defined: -", "there is no flag --", 1)
		if name, unknown := strings.CutPrefix(text, "there is no flag --"); unknown {
			var names []string
			fs.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
			text += schemas.DidYouMean("--"+name, names)
		}
		return &usageError{text}
	}
	return nil
}

// help prints a command's own help. Of settings, which every command takes, only those who are a
// process of Weir's list all.
func (c *call) help(fs *flag.FlagSet) {
	fmt.Fprintf(c.stdout, "%s\n\nUsage: weir %s %s\n\n", c.summary, c.name, c.command.args)
	if c.details != "" {
		fmt.Fprintf(c.stdout, "%s\n\n", c.details)
	}
	if len(c.exits) > 0 {
		fmt.Fprintln(c.stdout, "Exit codes:")
		printExits(c.stdout, "  ", c.exits)
		fmt.Fprintln(c.stdout)
	}
	left := 0
	fs.VisitAll(func(f *flag.Flag) {
		if isSetting(f) && !c.process {
			left++
			return
		}
		value, usage := flag.UnquoteUsage(f)
		if value != "" {
			value = " " + strings.ToUpper(value)
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(c.stdout, "  --%s%s\n        %s\n", f.Name, value, usage)
	})
	if left > 0 {
		fmt.Fprintf(c.stdout, "\nWhere Kafka, ClickHouse and the API are: --kafka-brokers, --kafka-prefix, --clickhouse-url, --http-listen and the other settings.\n"+
			"weir config explain lists all %d, with their variables. With a weir dev of this directory none is needed.\n", left)
	}
	if c.example != "" {
		fmt.Fprintf(c.stdout, "\nExample:\n  %s\n", c.example)
	}
}

// printLine prints one JSON value on a line: of a list, as it comes.
func (c *call) printLine(v any) error { return json.NewEncoder(c.stdout).Encode(v) }

func (c *call) printJSON(v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
