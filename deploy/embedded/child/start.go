package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Spec says what to start.
type Spec struct {
	Role string    // a key of the map given to Main
	Args []string  // handed to the role
	Env  []string  // NAME=value, added to this process's environment
	Log  io.Writer // receives the child's stdout and stderr as they come; nil discards them
}

// Process is a child that reported ready. Its methods may be called from any
// goroutine.
type Process struct {
	role string
	addr string
	pid  int
	life io.WriteCloser // the child's stdin: closing it ends the child
	tail *tail
	stop sync.Once
	done chan struct{}
	err  error // written before done is closed
}

// Start executes this program again in the given role and returns when it has
// reported ready. ctx bounds the starting only: the process lives on until Stop,
// Kill, its own end, or the death of this process. If ctx ends first, the child
// is killed. The error of a child that ended before it was ready has the last
// lines of its stderr.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	p, err := start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Role, err)
	}
	return p, nil
}

func start(ctx context.Context, spec Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer readyR.Close()
	defer readyW.Close()

	last := &tail{next: spec.Log}
	cmd := exec.Command(exe, spec.Args...)
	// So ps tells parent and children apart.
	cmd.Args[0] = filepath.Base(exe) + ":" + spec.Role
	cmd.Env = append(append(os.Environ(), spec.Env...), roleVar+"="+spec.Role)
	cmd.ExtraFiles = []*os.File{readyW} // becomes readyFD
	cmd.Stdout, cmd.Stderr = last, last
	cmd.SysProcAttr = ownGroup()
	// What the child leaves behind may hold its stderr open: do not wait for it, but long
	// enough that its last words are read where this process is busy.
	cmd.WaitDelay = 5 * time.Second
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	readyW.Close() // so that reading ends with the child

	p := &Process{role: spec.Role, pid: cmd.Process.Pid, life: life, tail: last, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			p.err = fmt.Errorf("%s (pid %d): %w%s", p.role, p.pid, err, last.lines())
		}
	}()
	type answer struct {
		addr string
		err  error
	}
	answers := make(chan answer, 1) // buffered: closing readyR ends an abandoned reader
	go func() {
		line, err := bufio.NewReader(readyR).ReadString('\n')
		answers <- answer{strings.TrimSuffix(line, "\n"), err}
	}()

	select {
	case a := <-answers:
		if a.err == nil {
			p.addr = a.addr
			return p, nil
		}
		// The pipe ended without a line, so the process is ending too, unless it is stuck.
		select {
		case <-p.done:
		case <-ctx.Done():
			p.Kill()
			<-p.done
		}
		if p.err != nil {
			return nil, fmt.Errorf("ended before it was ready: %w", p.err)
		}
		return nil, fmt.Errorf("ended before it was ready, without an error%s", last.lines())
	case <-ctx.Done():
		p.Kill()
		<-p.done
		return nil, fmt.Errorf("not ready: %w%s", context.Cause(ctx), last.lines())
	}
}

// Addr is what the role reported with ready.
func (p *Process) Addr() string { return p.addr }

// PID is the child's process id, and that of its process group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the child has ended, however it ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil while the child runs and after it exited with 0; otherwise it says
// how it ended, with the last lines of its stderr.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop asks the child to end in good order and waits. When ctx ends first, it
// kills the child and returns an error that wraps ctx's cause. Otherwise it
// returns what Err returns. It may be called again.
func (p *Process) Stop(ctx context.Context) error {
	p.stop.Do(func() {
		// A failure means that the child has closed its stdin: it is ending.
		_, _ = io.WriteString(p.life, stopWord)
		_ = p.life.Close()
	})
	select {
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		p.Kill()
		<-p.done
		return fmt.Errorf("stop %s: killed: %w", p.role, context.Cause(ctx))
	}
}

// Kill ends the child and its process group at once (SIGKILL), without waiting.
func (p *Process) Kill() {
	select {
	case <-p.done: // its id may belong to another by now
	default:
		killGroup(p.pid)
	}
}
