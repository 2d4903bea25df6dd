package engine

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// release is one npm package that carries the library, pinned by its sum.
type release struct {
	name      string
	version   string
	integrity string // of the tarball, as npm prints it: sha512-<base64>
	member    string // the library's path in the tarball
	file      string // its name in the cache
	dir       string // the cache directory's last element
	size      string // of the tarball, for the progress line
}

var pinned = release{
	name:      "@chdb/lib-linux-x64-gnu",
	version:   "26.7.3-stable.1",
	integrity: "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
	member:    "package/libchdb.so",
	file:      "libchdb.so",
	dir:       "chdb-26.7.3",
	size:      "170 MB",
}

// Ensure returns the path of the engine's library in cacheDir. If it is not
// there yet, it fetches the package with `npm pack`, checks the tarball against
// the pinned sum and unpacks the library atomically; processes that do so at
// once wait for the first. Afterwards a call costs two stats and a small read.
//
// An empty cacheDir means $WEIR_CACHE_DIR/chdb-26.7.3, or without that variable
// weir/chdb-26.7.3 in the user's cache directory. A fetch writes one line to
// progress, which may be nil.
//
// Errors: ErrUnsupported, ErrNoNPM, *DownloadError, *SumError, ctx's cause, and
// those of the file system (the library needs 740 MB while it is unpacked).
func Ensure(ctx context.Context, cacheDir string, progress io.Writer) (string, error) {
	if err := supported(runtime.GOOS, runtime.GOARCH, hasGlibc()); err != nil {
		return "", err
	}
	return pinned.ensure(ctx, cacheDir, progress)
}

// supported tells whether there is a build for a platform.
func supported(goos, goarch string, glibc bool) error {
	switch {
	case goos != "linux" || goarch != "amd64":
		return fmt.Errorf("%w, and this is %s/%s", ErrUnsupported, goos, goarch)
	case !glibc:
		return fmt.Errorf("%w, and this linux has another C library", ErrUnsupported)
	}
	return nil
}

// hasGlibc looks for glibc's loader, which the library names by this path.
func hasGlibc() bool {
	_, err := os.Stat("/lib64/ld-linux-x86-64.so.2")
	return err == nil
}

func (r release) spec() string { return r.name + "@" + r.version }

func (r release) cacheDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if root := os.Getenv("WEIR_CACHE_DIR"); root != "" {
		return filepath.Join(root, r.dir), nil
	}
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory (set WEIR_CACHE_DIR): %w", err)
	}
	return filepath.Join(root, "weir", r.dir), nil
}

func (r release) ensure(ctx context.Context, cacheDir string, progress io.Writer) (string, error) {
	dir, err := r.cacheDir(cacheDir)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("find the engine's cache directory: %w", err)
	}
	lib := filepath.Join(dir, r.file)
	if r.verified(lib) {
		return lib, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the engine's cache directory: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return "", fmt.Errorf("lock the engine's cache directory: %w", err)
	}
	defer unlock()
	if r.verified(lib) {
		return lib, nil
	}
	if progress == nil {
		progress = io.Discard
	}
	started := time.Now()
	fmt.Fprintf(progress, "fetching the ClickHouse engine %s (%s, once) ... ", r.version, r.size)
	if err := r.fetch(ctx, dir, lib); err != nil {
		fmt.Fprintln(progress, "failed")
		return "", fmt.Errorf("fetch the ClickHouse engine: %w", err)
	}
	fmt.Fprintf(progress, "checked, in %s after %.0f s\n", dir, time.Since(started).Seconds())
	return lib, nil
}

// fetch runs under the directory's lock.
func (r release) fetch(ctx context.Context, dir, lib string) error {
	leftovers, _ := filepath.Glob(filepath.Join(dir, "fetch-*"))
	for _, d := range leftovers { // of a process that was killed
		_ = os.RemoveAll(d)
	}
	work, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tarball, err := r.pack(ctx, work)
	if err != nil {
		return err
	}
	if err := r.check(tarball); err != nil {
		return err
	}
	fresh := filepath.Join(work, r.file)
	if err := r.unpack(ctx, tarball, fresh); err != nil {
		return fmt.Errorf("unpack %s: %w", r.spec(), err)
	}
	if err := os.Rename(fresh, lib); err != nil {
		return err
	}
	return r.mark(lib, work)
}

// pack lets npm fetch the tarball into work: it knows the user's registry,
// proxy and certificates.
func (r release) pack(ctx context.Context, work string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", ErrNoNPM
	}
	cmd := exec.CommandContext(ctx, npm, "pack", "--ignore-scripts", "--loglevel=error", r.spec())
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "npm_config_update_notifier=false")
	cmd.WaitDelay = 2 * time.Second
	var said strings.Builder
	cmd.Stderr = &said
	failed := func(err error) error {
		return &DownloadError{Package: r.spec(), Output: lastLines(said.String(), 4), Err: err}
	}
	if err := cmd.Run(); err != nil {
		return "", failed(cmp.Or(context.Cause(ctx), err))
	}
	found, _ := filepath.Glob(filepath.Join(work, "*.tgz"))
	if len(found) != 1 {
		return "", failed(fmt.Errorf("it left %d tarballs", len(found)))
	}
	return found[0], nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

func (r release) check(tarball string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha512.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != r.integrity {
		return &SumError{Package: r.spec(), Want: r.integrity, Got: got}
	}
	return nil
}

func (r release) unpack(ctx context.Context, tarball, to string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for members := tar.NewReader(zipped); ; {
		h, err := members.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("it has no %s", r.member)
		case err != nil:
			return err
		case h.Name != r.member:
			continue
		}
		out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, cancelled{ctx, members})
		return errors.Join(err, out.Sync(), out.Close())
	}
}

// cancelled is a reader that fails once its context has ended.
type cancelled struct {
	ctx context.Context
	io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(p)
}

// marker says that a library of this size and time came out of a tarball with
// this sum: so no start has to hash 566 MB again.
type marker struct {
	Package   string    `json:"package"`
	Integrity string    `json:"integrity"`
	Size      int64     `json:"size"`
	Modified  time.Time `json:"modified"`
}

func markerPath(lib string) string { return lib + ".verified" }

func (r release) markerOf(info fs.FileInfo) marker {
	return marker{Package: r.spec(), Integrity: r.integrity, Size: info.Size(), Modified: info.ModTime().UTC()}
}

func (r release) verified(lib string) bool {
	info, err := os.Stat(lib)
	if err != nil {
		return false
	}
	raw, err := os.ReadFile(markerPath(lib))
	if err != nil {
		return false
	}
	var m marker
	return json.Unmarshal(raw, &m) == nil && m == r.markerOf(info)
}

func (r release) mark(lib, work string) error {
	info, err := os.Stat(lib)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(r.markerOf(info))
	if err != nil {
		return err
	}
	fresh := filepath.Join(work, "marker")
	if err := os.WriteFile(fresh, raw, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, markerPath(lib))
}
