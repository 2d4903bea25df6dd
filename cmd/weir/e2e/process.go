package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Build compiles weir, with build tags separated by commas, into a directory and
// returns the program's path.
func Build(ctx context.Context, dir, tags string) (string, error) {
	bin := filepath.Join(dir, "weir")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", bin, "github.com/weirhq/weir/cmd/weir").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return bin, nil
}

// Process is a running weir. Its output is in a file.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // valid after done
}

// Start runs a program in dir, with its output appended to NAME.log there. It
// ends with this process, however this one ends.
func Start(dir, name, bin string, args ...string) (*Process, error) {
	return start(dir, name, nil, bin, args...)
}

// start has variables for the program's environment beside.
func start(dir, name string, env []string, bin string, args ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(bin, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.Env = append(append(os.Environ(), "WEIR_PROVIDER_ALLOW_PRIVATE=127.0.0.0/8"), env...) // tests call servers on this machine
	p.cmd.SysProcAttr = tied()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended; nil while it runs and after exit 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill is kill -9, and waits for the end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Pause stops the process's clockwork: SIGSTOP.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on: SIGCONT.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop asks the process to end in good order and kills it when it does not in
// time.
func (p *Process) Stop(within time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return p.err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s did not end within %v after SIGTERM", p.Name, within)
	}
}

// Output is everything that the process has printed.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Tail is the end of the output.
func (p *Process) Tail(lines int) string {
	all := strings.Split(strings.TrimRight(p.Output(), "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}
