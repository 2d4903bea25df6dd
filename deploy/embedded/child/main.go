package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// roleVar names the role in a child's environment. It is removed again at once,
// so that what a role starts is not mistaken for a child.
const roleVar = "WEIR_CHILD_ROLE"

const (
	readyFD  = 3
	stopWord = "stop"
)

// endWithin bounds the orderly ending of a role. A parent that stops a child has
// its own, shorter patience; this one is for orphans, which nobody else would end.
const endWithin = 30 * time.Second

// Causes of the end of a role's context, by context.Cause.
var (
	ErrStopped    = errors.New("stopped by its parent")
	ErrParentGone = errors.New("its parent is gone")
	ErrSignal     = errors.New("ended by a signal")
)

// Role is what a child runs. It calls ready once, with the address that it
// serves (or anything of one line, or ""), and returns when ctx ends, after
// an ending in good order: what is open is finished, what is held is written.
// Further calls of ready do nothing. An error becomes the last line of the
// child's stderr and exit code 1.
type Role func(ctx context.Context, args []string, ready func(addr string)) error

// Main is called first in main and in TestMain. In a process that Start has
// started it runs the role and exits: 0 if the role returned nil, 1 if it
// failed, 2 if the role is not in roles. In any other process it returns at once.
func Main(roles map[string]Role) {
	name, ok := os.LookupEnv(roleVar)
	if !ok {
		return
	}
	os.Unsetenv(roleVar)
	os.Exit(run(name, roles, os.Args[1:]))
}

func run(name string, roles map[string]Role, args []string) int {
	// A log line after the parent's death must fail, not kill: the Go runtime
	// dies of SIGPIPE on a broken stdout or stderr unless the signal is ignored.
	signal.Ignore(syscall.SIGPIPE)

	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no child role %q; there are: %s\n", name, strings.Join(names(roles), ", "))
		return 2
	}
	pipe := os.NewFile(readyFD, "ready")
	if _, err := pipe.Stat(); err != nil {
		fmt.Fprintf(os.Stderr, "child role %s: no readiness pipe: %s was set by hand?\n", name, roleVar)
		return 2
	}
	closeOnExec(readyFD)
	var once sync.Once
	ready := func(addr string) {
		once.Do(func() {
			// A failed write means that the parent is gone: stdin says so too.
			_, _ = fmt.Fprintln(pipe, strings.ReplaceAll(addr, "\n", " "))
			_ = pipe.Close()
		})
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() { cancel(waitForParent(os.Stdin)) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		s := <-signals
		cancel(fmt.Errorf("%w: %v", ErrSignal, s))
	}()
	context.AfterFunc(ctx, func() {
		time.AfterFunc(endWithin, func() {
			fmt.Fprintf(os.Stderr, "child role %s: still running %v after %v: giving up\n", name, endWithin, context.Cause(ctx))
			os.Exit(1)
		})
	})

	if err := role(ctx, args, ready); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// waitForParent returns why the child should end, when it should.
func waitForParent(stdin io.Reader) error {
	word, _ := io.ReadAll(stdin)
	if string(word) == stopWord {
		return ErrStopped
	}
	return ErrParentGone
}

func names(roles map[string]Role) []string {
	out := make([]string, 0, len(roles))
	for name := range roles {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
