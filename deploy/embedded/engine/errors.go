package engine

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnsupported means that no build of the engine runs here.
var ErrUnsupported = errors.New("the embedded ClickHouse engine has a build for linux/amd64 with glibc only")

// ErrNoNPM means that the engine is not in the cache and npm, which fetches it,
// is not on the PATH.
var ErrNoNPM = errors.New("the ClickHouse engine is fetched once with npm, and npm is not on the PATH: install Node.js (Debian, Ubuntu: apt install npm; Fedora: dnf install nodejs-npm)")

// DownloadError means that npm ran and did not deliver the package.
type DownloadError struct {
	Package string // name@version
	Output  string // what npm said last, possibly empty
	Err     error
}

func (e *DownloadError) Error() string {
	s := fmt.Sprintf("npm pack %s: %v", e.Package, e.Err)
	if e.Output != "" {
		s += ": " + e.Output
	}
	return s
}

func (e *DownloadError) Unwrap() error { return e.Err }

// SumError means that what npm delivered is not what was pinned. Nothing of it
// was unpacked.
type SumError struct {
	Package   string
	Want, Got string // as npm prints integrity: sha512-<base64>
}

func (e *SumError) Error() string {
	return fmt.Sprintf("%s is not the pinned one: its sum is %s, not %s; nothing was unpacked", e.Package, e.Got, e.Want)
}

// LockedError means that another process still holds the data directory.
type LockedError struct {
	Dir    string
	Waited time.Duration
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("another process has held %s for %v: stop it first", e.Dir, e.Waited)
}
