// Package enginetest gives tests the ClickHouse engine's library.
package enginetest

import (
	"errors"
	"os"
	"testing"

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
