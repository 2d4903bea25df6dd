package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

var completionCommand = command{
	name:    "completion",
	args:    "bash|zsh|fish",
	summary: "Print a script that completes commands and flags in a shell.",
	details: "For this session: source <(weir completion bash). For all: put it where the shell reads completions.",
	example: "weir completion bash > /etc/bash_completion.d/weir",
	run: func(ctx context.Context, c *call) error {
		shell := c.verb("bash", "zsh", "fish")
		fs := flag.NewFlagSet("completion", flag.ContinueOnError)
		if err := c.parse(fs); err != nil {
			return err
		}
		switch {
		case fs.NArg() > 0:
			return usagef("takes no argument %q: say bash, zsh or fish", fs.Arg(0))
		case shell == "":
			return usagef("say bash, zsh or fish")
		case shell == "fish":
			completeFish(c.stdout, known(ctx, c))
		case shell == "zsh":
			fmt.Fprintln(c.stdout, "#compdef weir\nautoload -U +X bashcompinit && bashcompinit")
			fallthrough
		default:
			completeBash(c.stdout, known(ctx, c))
		}
		return nil
	},
}

// completable is what may stand after a command.
type completable struct {
	command
	words []string
	flags []*flag.Flag
}

// known asks every command what it takes.
func known(ctx context.Context, c *call) (all []completable) {
	for _, cmd := range c.all {
		one := completable{command: cmd}
		ask := &call{command: cmd, getenv: c.getenv, stdout: io.Discard, stderr: io.Discard, seen: func(words []string, fs *flag.FlagSet) {
			one.words = append(one.words, words...)
			if fs != nil {
				fs.VisitAll(func(f *flag.Flag) { one.flags = append(one.flags, f) })
			}
		}}
		_ = cmd.run(ctx, ask) // it ends when it has said so
		all = append(all, one)
	}
	return all
}

func completeBash(w io.Writer, all []completable) {
	names := []string{"help"}
	fmt.Fprint(w, "_weir() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words\n  case ${COMP_WORDS[1]} in\n")
	for _, one := range all {
		names = append(names, one.name)
		words := slices.Clone(one.words)
		for _, f := range one.flags {
			words = append(words, "--"+f.Name)
		}
		fmt.Fprintf(w, "    %s) words=%q ;;\n", one.name, strings.Join(append(words, "--help"), " "))
	}
	fmt.Fprintf(w, "  esac\n  [ \"$COMP_CWORD\" -gt 1 ] || words=%q\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _weir weir\n", strings.Join(names, " "))
}

func completeFish(w io.Writer, all []completable) {
	quoted := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	for _, one := range all {
		fmt.Fprintf(w, "complete -c weir -f -n __fish_use_subcommand -a %s -d %s\n", one.name, quoted(one.summary))
		after := quoted("__fish_seen_subcommand_from " + one.name)
		if len(one.words) > 0 {
			fmt.Fprintf(w, "complete -c weir -n %s -a %s\n", after, quoted(strings.Join(one.words, " ")))
		}
		for _, f := range one.flags {
			fmt.Fprintf(w, "complete -c weir -n %s -l %s -d %s\n", after, f.Name, quoted(f.Usage))
		}
	}
}
