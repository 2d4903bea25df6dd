// Package redisserver fetches and runs a real Redis for bench/rival, on 127.0.0.1,
// and kills and restarts it. Redis is no part of Weir, nor of its tests.
//
// The program is one of those that the Maven artifact embedded-redis carries for
// several systems (Redis 6.2, under its BSD licence). The artifact is pinned, and
// checked against its sum before anything in it is run.
package redisserver

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/weirhq/weir/deploy/local"
)

const (
	artifact = "com.github.codemonstur:embedded-redis:1.4.4"
	jar      = "embedded-redis-1.4.4.jar"
	jarSum   = "b56845f0a81aa0b6a0c32a309e69081ee7bdeadba9efff6374b0fe9af230db63"
	// copyJar is pinned, so that Maven's version does not choose the plugin's.
	copyJar = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
)

// programs are what the jar has for a system, the better first: on linux/amd64 the
// 64-bit one needs OpenSSL 3, the 32-bit one nothing.
var programs = map[string][]string{
	"linux/amd64":  {"redis-server-6.2.6-v5-linux-amd64", "redis-server-6.2.7-linux-386"},
	"linux/arm64":  {"redis-server-6.2.7-linux-arm64"},
	"darwin/amd64": {"redis-server-6.2.6-v5-darwin-amd64"},
	"darwin/arm64": {"redis-server-6.2.6-v5-darwin-arm64"},
}

// ErrNone means that this machine can have no Redis; the text around it says why,
// and what to do.
var ErrNone = errors.New("no Redis server for the comparison")

// Ensure returns the path of a redis-server below Weir's cache directory. It
// fetches the artifact with Maven where it is not there yet or not the pinned one,
// and then says so on progress. WEIR_REDIS_SERVER names another program instead.
func Ensure(ctx context.Context, progress io.Writer) (program string, err error) {
	if given := os.Getenv("WEIR_REDIS_SERVER"); given != "" {
		if err := runs(ctx, given); err != nil {
			return "", fmt.Errorf("%w: WEIR_REDIS_SERVER: %w", ErrNone, err)
		}
		return given, nil
	}
	names := programs[runtime.GOOS+"/"+runtime.GOARCH]
	if len(names) == 0 {
		return "", fmt.Errorf("%w: %s has none for %s/%s: name an installed one in WEIR_REDIS_SERVER", ErrNone, artifact, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := local.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "redis")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, jar))
	if err != nil || checkSum(content, jarSum) != nil {
		if content, err = fetch(ctx, dir, progress); err != nil {
			return "", err
		}
	}
	var failed []error
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := unpack(content, name, path)
		if err == nil {
			err = runs(ctx, path)
		}
		if err == nil {
			return path, nil
		}
		failed = append(failed, err)
	}
	return "", fmt.Errorf("%w: what %s has does not run here (name an installed one in WEIR_REDIS_SERVER): %w", ErrNone, artifact, errors.Join(failed...))
}

// fetch copies the artifact with Maven into dir, by way of a temporary directory
// beside it, and returns its checked content.
func fetch(ctx context.Context, dir string, progress io.Writer) ([]byte, error) {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return nil, fmt.Errorf("%w: mvn is not there to fetch one: install Maven 3, or name an installed redis-server in WEIR_REDIS_SERVER", ErrNone)
	}
	temp, err := os.MkdirTemp(dir, "fetch-*")
	if err != nil {
		return nil, fmt.Errorf("cache directory: %w", err)
	}
	defer os.RemoveAll(temp)
	fmt.Fprintf(progress, "fetching %s with mvn (12 MB)\n", artifact)
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", copyJar, "-Dartifact="+artifact, "-DoutputDirectory="+temp)
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: fetch %s with mvn: %w: %s", ErrNone, artifact, cmp.Or(context.Cause(ctx), err), strings.TrimSpace(string(out)))
	}
	content, err := os.ReadFile(filepath.Join(temp, jar))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", artifact, err)
	}
	if err := checkSum(content, jarSum); err != nil {
		return nil, fmt.Errorf("%w: %s is not the pinned one: %w", ErrNone, artifact, err)
	}
	return content, os.Rename(filepath.Join(temp, jar), filepath.Join(dir, jar))
}

func checkSum(content []byte, want string) error {
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("its sum is %s", got)
	}
	return nil
}

// unpack writes one program of the jar to path, always anew: what lies there was
// checked by nobody.
func unpack(jar []byte, name, path string) error {
	z, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return fmt.Errorf("%s: %w", artifact, err)
	}
	from, err := z.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", artifact, err)
	}
	defer from.Close()
	// A program that runs cannot be written over, but another can take its name.
	to, err := os.CreateTemp(filepath.Dir(path), name+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // gone after the rename
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return os.Rename(to.Name(), path)
}

var version = regexp.MustCompile(` v=(\S+)`)

// Version is what a program says of itself, such as 6.2.11.
func Version(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	m := version.FindSubmatch(out)
	if err == nil && m == nil {
		err = errors.New("it does not say its version")
	}
	if err != nil {
		return "", fmt.Errorf("%s --version: %w: %s", filepath.Base(program), err, out)
	}
	return string(m[1]), nil
}

func runs(ctx context.Context, path string) error {
	if out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, strings.TrimSpace(string(out)))
	}
	return nil
}
