package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Config says what Serve serves. Zero values of the last three mean the default.
type Config struct {
	LibPath string // from Ensure
	Dir     string // the data directory: made if absent, one process at a time
	Addr    string // a loopback host:port; port 0 picks a free one

	Concurrency int           // statements at once; 8
	LockWait    time.Duration // how long to wait for a predecessor to let go of Dir; 25 s
	Grace       time.Duration // how long running statements may go on after ctx ended; 10 s
}

const (
	defaultConcurrency = 8
	defaultLockWait    = 25 * time.Second // longer than its grace, and its end after that
	defaultGrace       = 10 * time.Second
)

// Validate returns what is wrong with a Config.
func (c Config) Validate() error {
	var errs []error
	if c.LibPath == "" {
		errs = append(errs, errors.New("the library's path is missing"))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("the data directory is missing"))
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		errs = append(errs, fmt.Errorf("address %q: %w", c.Addr, err))
	} else if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		errs = append(errs, fmt.Errorf("address %q is not loopback: the engine knows no passwords", c.Addr))
	}
	if c.Concurrency < 0 || c.LockWait < 0 || c.Grace < 0 {
		errs = append(errs, errors.New("concurrency, lock wait and grace cannot be negative"))
	}
	return errors.Join(errs...)
}

// Serve runs the engine in this process until ctx ends, and calls ready once
// with the address that it serves. It belongs into a child process: the library
// cannot be unloaded, and if it fails it takes the process along.
//
// After ctx it takes no new request, lets running statements end for half of
// Grace, asks the engine to end them for the other half, and closes the engine.
// It then returns nil. Errors: ErrUnsupported, *LockedError, and those of
// Config, library, data directory and address.
func Serve(ctx context.Context, cfg Config, ready func(addr string)) (err error) {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	cfg.Concurrency = cmp.Or(cfg.Concurrency, defaultConcurrency)
	cfg.LockWait = cmp.Or(cfg.LockWait, defaultLockWait)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)

	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return fmt.Errorf("find the engine's directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the engine's directory: %w", err)
	}
	unlock, err := lockDir(ctx, dir, cfg.LockWait)
	if err != nil {
		return fmt.Errorf("lock the engine's directory: %w", err)
	}
	defer unlock()
	inbox, err := makeInbox(dir)
	if err != nil {
		return fmt.Errorf("make the engine's inbox: %w", err)
	}
	defer os.RemoveAll(inbox)

	// Before the library: a busy address should cost nothing.
	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("serve the engine: %w", err)
	}
	defer listener.Close()

	lib, err := loadLibrary(cfg.LibPath)
	if err != nil {
		return err
	}
	engine, err := openSessions(lib, filepath.Join(dir, "data"), cfg.Concurrency)
	if err != nil {
		return fmt.Errorf("open the engine: %w", err)
	}
	// If statements outlive their grace, close says so and the process's end
	// takes them along.
	defer func() { err = errors.Join(err, engine.close()) }()
	version, zone, err := engine.identity()
	if err != nil {
		return fmt.Errorf("open the engine: %w", err)
	}
	functions, engines, err := engine.outside()
	if err != nil {
		return fmt.Errorf("open the engine: %w", err)
	}
	h := &handler{sessions: engine, guard: newGuard(functions, engines), inbox: inbox, version: version, zone: zone}
	return serveHTTP(ctx, listener, h.routes(), cfg.Grace, engine.interrupt, ready)
}

// serveHTTP serves until ctx ends and then shuts down within grace.
func serveHTTP(ctx context.Context, listener net.Listener, routes http.Handler, grace time.Duration, interrupt func(), ready func(string)) error {
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready(listener.Addr().String())
	select {
	case err := <-ended:
		return fmt.Errorf("serve the engine: %w", err)
	case <-ctx.Done():
	}
	for _, step := range []func(){func() {}, interrupt} {
		step()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace/2)
		err := server.Shutdown(within)
		cancel()
		if err == nil {
			<-ended
			return nil
		}
	}
	_ = server.Close()
	<-ended
	return fmt.Errorf("stop the engine: requests still ran after %v", grace)
}

func lockDir(ctx context.Context, dir string, wait time.Duration) (func(), error) {
	locked := &LockedError{Dir: dir, Waited: wait}
	within, cancel := context.WithTimeoutCause(ctx, wait, locked)
	defer cancel()
	return lockFile(within, filepath.Join(dir, "lock"))
}

// makeInbox makes an empty directory for inserts' data. The engine reads * ? {
// in a file's path as patterns, so a directory with those is not used.
func makeInbox(dir string) (string, error) {
	if strings.ContainsAny(dir, "*?{}[]") {
		return os.MkdirTemp("", "weir-engine-")
	}
	inbox := filepath.Join(dir, "inbox")
	if err := os.RemoveAll(inbox); err != nil { // of a process that was killed
		return "", err
	}
	return inbox, os.Mkdir(inbox, 0o700)
}
