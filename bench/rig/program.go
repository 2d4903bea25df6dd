package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/topics"
)

// Program is a weir program on topics of its own.
type Program struct {
	Names topics.Names
	dir   string // it runs there, and its logs are there
	bin   string
	flags []string
}

// Program has bin make topics and bring a policy into force in them.
func (c *Cluster) Program(ctx context.Context, bin, dir, bench string, partitions int, policyText string) (*Program, error) {
	p := &Program{Names: topics.Names{Prefix: fmt.Sprintf("%s-%d.", bench, time.Now().UnixNano())}, dir: dir, bin: bin}
	p.flags = []string{"--kafka-brokers", strings.Join(c.Brokers, ","), "--kafka-prefix", p.Names.Prefix, "--kafka-partitions", fmt.Sprint(partitions)}
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(policyText), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"topics", "apply"}, {"apply", "-f", file, "--prune"}} {
		if _, err := p.Output(ctx, args...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Output runs a command of the program and returns what it prints.
func (p *Program) Output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.bin, slices.Concat(args, p.flags)...)
	cmd.Dir = p.dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("weir %s: %w\n%s%s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	return out, err
}

// Start starts weir run under a name.
func (p *Program) Start(name string, args ...string) (*e2e.Process, error) {
	return e2e.Start(p.dir, name, p.bin, slices.Concat([]string{"run"}, args, p.flags)...)
}

// Serve starts weir run with HTTP at addr, a free address where it is empty, and
// returns once it is ready.
func (p *Program) Serve(ctx context.Context, addr string, args ...string) (worker *e2e.Process, at string, err error) {
	if addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		addr = l.Addr().String()
		l.Close()
	}
	worker, err = p.Start("worker", append(args, "--slot", "0", "--http-listen", addr, "--log-level", "warn")...)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("weir run was not ready in a minute"))
	defer cancel()
	for {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return worker, addr, nil
			}
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("%w\n%s", context.Cause(ctx), worker.Tail(10))
			worker.Kill()
			return nil, "", err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
