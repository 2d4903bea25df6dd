//go:build unix

package local

import (
	_ "embed"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

//go:embed leash.sh
var leashScript string

// leash is a running program that ends when this process does, even by kill -9:
// the shell between them sees its stdin end.
type leash struct {
	cmd  *exec.Cmd
	hold io.Closer
	done chan struct{}
	err  error // written before done is closed
}

// start runs a program on a leash. grace, in whole seconds, is what it gets to end
// in good order; remove is a directory that is deleted when it has ended, or "".
// Its output goes to file, which is closed at its end, and to log, if there is one.
func start(grace time.Duration, remove string, file *os.File, log io.Writer, program ...string) (*leash, error) {
	args := append([]string{"-c", leashScript, "leash", strconv.Itoa(int(grace / time.Second)), remove}, program...)
	l := &leash{cmd: exec.Command("/bin/sh", args...), done: make(chan struct{})}
	var out io.Writer = file // as it is: then no goroutine of ours stands in between
	if log != nil {
		out = io.MultiWriter(file, log)
	}
	l.cmd.Stdout, l.cmd.Stderr = out, out
	l.cmd.WaitDelay = time.Second
	// A terminal's Ctrl-C is for us, not for the broker.
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	hold, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	l.hold = hold
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(l.done)
		l.err = l.cmd.Wait()
		_ = file.Close()
	}()
	return l, nil
}

// release ends the program as its grace says, and waits.
func (l *leash) release() {
	_ = l.hold.Close()
	<-l.done
}

// kill is kill -9, and waits.
func (l *leash) kill() {
	select {
	case <-l.done:
	default:
		_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
		<-l.done
	}
}
