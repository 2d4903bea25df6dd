package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSupported(t *testing.T) {
	for _, tt := range []struct {
		name         string
		goos, goarch string
		glibc        bool
		want         error
	}{
		{"linux amd64 glibc", "linux", "amd64", true, nil},
		{"linux amd64 musl", "linux", "amd64", false, ErrUnsupported},
		{"linux arm64", "linux", "arm64", true, ErrUnsupported},
		{"mac", "darwin", "arm64", false, ErrUnsupported},
		{"windows", "windows", "amd64", false, ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := supported(tt.goos, tt.goarch, tt.glibc); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// fakeRelease is a package of a few bytes and an npm on the PATH that "fetches" it.
type fakeRelease struct {
	release
	calls string // a file that gets a line each time npm runs
}

func newFakeRelease(t *testing.T, member, npm string) fakeRelease {
	t.Helper()
	var ball bytes.Buffer
	zipped := gzip.NewWriter(&ball)
	members := tar.NewWriter(zipped)
	for name, body := range map[string]string{"package/package.json": "{}", member: "the library"} {
		if err := members.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := members.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(members.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	sum := sha512.Sum512(ball.Bytes())
	calls := filepath.Join(bin, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> '%s'\nBALL='%s'\n%s\n", calls, filepath.Join(bin, "ball"), npm)
	if err := errors.Join(
		os.WriteFile(filepath.Join(bin, "ball"), ball.Bytes(), 0o644),
		os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	return fakeRelease{calls: calls, release: release{
		name: "@fake/lib", version: "1.0.0", member: "package/lib.so", file: "lib.so", dir: "fake-1", size: "1 kB",
		integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
	}}
}

func (f fakeRelease) timesCalled(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile(f.calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

const npmDelivers = `cp "$BALL" ./fake-lib-1.0.0.tgz; echo fake-lib-1.0.0.tgz`

func TestEnsureFetchesOnce(t *testing.T) {
	f := newFakeRelease(t, "package/lib.so", npmDelivers)
	dir := filepath.Join(t.TempDir(), "cache")
	var progress bytes.Buffer
	lib, err := f.ensure(t.Context(), dir, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(lib); err != nil || string(raw) != "the library" {
		t.Fatalf("the library holds %q, %v", raw, err)
	}
	if got := progress.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "1.0.0") {
		t.Errorf("progress is not one line: %q", got)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "fetch-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	progress.Reset()
	if again, err := f.ensure(t.Context(), dir, &progress); err != nil || again != lib {
		t.Fatalf("second call: %q, %v", again, err)
	}
	if progress.Len() != 0 || f.timesCalled(t) != 1 {
		t.Errorf("second call fetched again: %q, npm ran %d times", progress.String(), f.timesCalled(t))
	}

	if err := os.WriteFile(lib, []byte("something else"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ensure(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(lib); string(raw) != "the library" {
		t.Errorf("a changed library was kept: %q", raw)
	}
}

func TestEnsureAtOnce(t *testing.T) {
	f := newFakeRelease(t, "package/lib.so", npmDelivers)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := f.ensure(t.Context(), dir, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := f.timesCalled(t); n != 1 {
		t.Errorf("npm ran %d times", n)
	}
}

func TestEnsureCacheDirectory(t *testing.T) {
	f := newFakeRelease(t, "package/lib.so", npmDelivers)
	root := t.TempDir()
	t.Setenv("WEIR_CACHE_DIR", root)
	if lib, err := f.ensure(t.Context(), "", nil); err != nil || lib != filepath.Join(root, "fake-1", "lib.so") {
		t.Errorf("with WEIR_CACHE_DIR: %q, %v", lib, err)
	}
	t.Setenv("WEIR_CACHE_DIR", "")
	t.Setenv("XDG_CACHE_HOME", root)
	if lib, err := f.ensure(t.Context(), "", nil); err != nil || lib != filepath.Join(root, "weir", "fake-1", "lib.so") {
		t.Errorf("without: %q, %v", lib, err)
	}
}

func TestEnsureFails(t *testing.T) {
	isDownload := func(says string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*DownloadError](err)
			return ok && strings.Contains(e.Error(), says)
		}
	}
	for _, tt := range []struct {
		name   string
		member string
		npm    string
		want   func(error) bool
	}{
		{"npm fails", "package/lib.so", "echo 'npm error code E404' >&2; exit 1", isDownload("E404")},
		{"npm delivers nothing", "package/lib.so", "true", isDownload("0 tarballs")},
		{"another sum", "package/lib.so", `(cat "$BALL"; echo x) > ./fake.tgz`, func(err error) bool {
			e, ok := errors.AsType[*SumError](err)
			return ok && e.Want != e.Got
		}},
		{"no library in it", "package/other.so", npmDelivers, func(err error) bool {
			return strings.Contains(err.Error(), "it has no package/lib.so")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeRelease(t, tt.member, tt.npm)
			dir := t.TempDir()
			var progress bytes.Buffer
			_, err := f.ensure(t.Context(), dir, &progress)
			if err == nil || !tt.want(err) {
				t.Fatalf("got %v", err)
			}
			if !strings.HasSuffix(progress.String(), "failed\n") {
				t.Errorf("progress: %q", progress.String())
			}
			left, _ := filepath.Glob(filepath.Join(dir, "[^.]*"))
			if len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestEnsureWithoutNPM(t *testing.T) {
	f := newFakeRelease(t, "package/lib.so", npmDelivers)
	t.Setenv("PATH", t.TempDir())
	if _, err := f.ensure(t.Context(), t.TempDir(), nil); !errors.Is(err, ErrNoNPM) {
		t.Errorf("got %v", err)
	}
}

func TestEnsureCancelled(t *testing.T) {
	f := newFakeRelease(t, "package/lib.so", "exec sleep 60")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user pressed Ctrl-C")
	cancel(why)
	if _, err := f.ensure(ctx, t.TempDir(), nil); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
