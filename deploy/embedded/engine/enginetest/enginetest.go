// Package enginetest gives tests a ClickHouse engine, and its library.
package enginetest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
)

// Library returns the engine's library, fetched if need be. Where it cannot be
// had, since npm is missing or there is none for this system, the test is skipped;
// with CI set it fails, as it does wherever anything else is wrong.
func Library(t testing.TB) string {
	t.Helper()
	lib, err := engine.Ensure(t.Context(), "", os.Stderr)
	if err == nil {
		return lib
	}
	if (errors.Is(err, engine.ErrNoNPM) || errors.Is(err, engine.ErrUnsupported)) && os.Getenv("CI") == "" {
		t.Skipf("NOT TESTED on the ClickHouse engine: %v", err)
	}
	t.Fatal(err)
	return ""
}

// Start runs an engine until the test ends, if it is not stopped before. What opt
// leaves out is a directory of the test's, a free address and the test's log.
func Start(t testing.TB, opt engine.Options) *child.Process {
	t.Helper()
	opt.LibPath = cmp.Or(opt.LibPath, Library(t))
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	if opt.Log == nil {
		opt.Log = t.Output()
	}
	p, err := engine.Start(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return p
}
