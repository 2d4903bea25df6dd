// Command mutations breaks Weir on purpose, one way at a time, and shows that a
// test fails for each. What no test catches is printed as a survivor, and the
// command fails. A mutation is one replacement in one file, handed to the
// compiler as an overlay: the tree itself is never touched.
//
//	go run ./cmd/weir/mutations                      all of them
//	go run ./cmd/weir/mutations -only seq-reused     one
//	go run ./cmd/weir/mutations -write docs/exactness.md
//	go run ./cmd/weir/mutations -audit -write docs/audit.md
//
// With -only and -write, the table keeps what it says of the others. With -audit the
// audit of a faulty run (cmd/weir/faultsim) is the only judge: it may not say PROVEN.
//
// It judges tests, not code: a mutation that no longer finds its text, or does
// not compile, or whose test fails without it, is an error of the table.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run the mutations whose names match this `regexp`")
	write := flag.String("write", "", "put the table into this Markdown `file`, between its marks")
	alone := flag.Bool("audit", false, "let weir audit alone judge each, in runs of the fault simulation")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *write, *alone); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, write string, alone bool) error {
	which, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	dir, err := os.MkdirTemp("", "weir-mutations-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &runner{root: strings.TrimSpace(string(root)), dir: dir, sound: make(map[string]error)}

	var done []result
	survivors := 0
	for _, m := range mutations {
		if !which.MatchString(m.name) {
			continue
		}
		if alone {
			m.checks = []check{auditAlone}
		}
		got, err := r.try(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if got.by == "" {
			survivors++
		}
		fmt.Printf("%-9s %-28s %s  %s\n", got.verdict(), m.name, got.took.Round(100*time.Millisecond), got.by)
		done = append(done, got)
	}
	if len(done) == 0 {
		return fmt.Errorf("no mutation is named %q", only)
	}
	fmt.Printf("%d mutations, %d caught, %d survived\n", len(done), len(done)-survivors, survivors)
	if write != "" {
		if err := writeTable(write, done); err != nil {
			return err
		}
	}
	if survivors > 0 {
		return fmt.Errorf("%d survived: what they break is not tested", survivors)
	}
	return nil
}

// result is what became of one mutation.
type result struct {
	mutation
	by   string // the test that failed; empty for a survivor
	took time.Duration
}

func (r result) verdict() string {
	if r.by == "" {
		return "SURVIVED"
	}
	return "caught"
}

type runner struct {
	root, dir string
	sound     map[string]error // by check: what it says of the code as it is
}

// try runs the checks of a mutation one after another until one fails.
func (r *runner) try(ctx context.Context, m mutation) (result, error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return result{}, err
	}
	began := time.Now()
	for _, c := range m.checks {
		if err := r.baseline(ctx, c); err != nil {
			return result{}, err
		}
		out, err := r.test(ctx, c, overlay)
		switch {
		case ctx.Err() != nil:
			return result{}, ctx.Err()
		case err == nil:
			continue
		case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
			return result{}, fmt.Errorf("it does not compile:\n%s", out)
		}
		return result{mutation: m, by: failed(c, out), took: time.Since(began)}, nil
	}
	return result{mutation: m, took: time.Since(began)}, nil
}

// baseline runs a check on the code as it is, once: a test that fails anyway
// catches nothing.
func (r *runner) baseline(ctx context.Context, c check) error {
	key := c.pkg + " " + c.run
	err, known := r.sound[key]
	if !known {
		var out string
		if out, err = r.test(ctx, c, ""); err != nil {
			err = fmt.Errorf("%s fails without any mutation: %w\n%s", key, err, out)
		} else if strings.Contains(out, "no tests to run") {
			err = fmt.Errorf("%s names no test", key)
		}
		r.sound[key] = err
	}
	return err
}

// overlay makes the changed file, and the list that puts it in the place of the
// one in the tree.
func (r *runner) overlay(m mutation) (string, error) {
	path := filepath.Join(r.root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has its text %d times, not once: the code has changed, so change the table\n%s", m.file, n, m.old)
	}
	changed := filepath.Join(r.dir, m.name+".go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(r.dir, m.name+".json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// test runs a check. Through GOFLAGS the overlay reaches what the tests
// themselves build, too: the end-to-end tests run the program.
func (r *runner) test(ctx context.Context, c check, overlay string) (string, error) {
	args := []string{"test", "-count", "1", "-timeout", "10m", "-vet", "off", "-failfast"}
	if c.run != "" {
		args = append(args, "-run", c.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+c.pkg)...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), c.env...)
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS=-overlay="+overlay)
	}
	out, err := cmd.CombinedOutput()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		return "", err
	}
	return string(out), err
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failed names the test that failed, the innermost that is printed first.
func failed(c check, out string) string {
	name := "hangs or panics"
	if m := failLine.FindAllStringSubmatch(out, -1); len(m) > 0 {
		name = m[0][1]
		for _, s := range m[1:] {
			if strings.HasPrefix(s[1], name+"/") {
				name = s[1]
			}
		}
	}
	return c.pkg + " " + name
}

const (
	beginMark = "<!-- mutations: go run ./cmd/weir/mutations -write -->"
	endMark   = "<!-- /mutations -->"
)

// writeTable puts the results between the marks of a Markdown file. Of a mutation
// that was not run the row stays as it is, if there is one.
func writeTable(path string, done []result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginMark)
	table, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks %s and %s", path, beginMark, endMark)
	}
	var b strings.Builder
	b.WriteString(before + beginMark + "\n\n| the code is broken so | what would happen | caught by |\n|---|---|---|\n")
	for _, m := range mutations {
		row := fmt.Sprintf("| %s (`%s`) | ", m.what, m.file)
		if i := slices.IndexFunc(done, func(r result) bool { return r.name == m.name }); i >= 0 {
			by := "**nothing**"
			if done[i].by != "" {
				by = "`" + done[i].by + "`"
			}
			b.WriteString(row + m.harm + " | " + by + " |\n")
			continue
		}
		for line := range strings.Lines(table) {
			if strings.HasPrefix(line, row) {
				b.WriteString(line)
			}
		}
	}
	b.WriteString("\n" + endMark + after)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
