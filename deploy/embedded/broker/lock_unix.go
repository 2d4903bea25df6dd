//go:build unix

package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// lock takes the file for this process, waiting up to limit for another to let go
// of it. The kernel lets go when a process dies, so a lock is never stale.
func lock(ctx context.Context, path string, limit time.Duration) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("broker lock: %w", err)
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("broker lock %s: %w", path, err)
		}
		select {
		case <-again.C:
		case <-deadline.C:
			holder, _ := os.ReadFile(path)
			f.Close()
			return nil, fmt.Errorf("%w: %s is held by process %s, still after %v", ErrLocked, path, strings.TrimSpace(string(holder)), limit)
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
	// Only the message above reads this: a failure changes nothing.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintln(f, os.Getpid())
	return f.Close, nil
}
