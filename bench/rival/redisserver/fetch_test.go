package redisserver

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsMissingIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		jar    string // what lies in the cache
		mvn    string // what mvn does, if it is there
		given  string // what WEIR_REDIS_SERVER does
		reason string
	}{
		"no Maven":             {reason: "mvn is not there"},
		"Maven fails":          {mvn: "echo no such artifact; exit 1", reason: "no such artifact"},
		"another artifact":     {mvn: `for a; do case $a in -DoutputDirectory=*) echo evil > "${a#*=}/` + jar + `";; esac; done`, reason: "is not the pinned one"},
		"not what was fetched": {jar: "evil", reason: "mvn is not there"},
		"the given one fails":  {given: "echo no library >&2; exit 127", reason: "no library"},
	} {
		t.Run(name, func(t *testing.T) {
			cache, bin := t.TempDir(), t.TempDir()
			script := func(name, body string) string {
				path := filepath.Join(bin, name)
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				return path
			}
			t.Setenv("WEIR_CACHE_DIR", cache)
			t.Setenv("PATH", bin)
			t.Setenv("WEIR_REDIS_SERVER", "")
			if c.mvn != "" {
				script("mvn", c.mvn)
			}
			if c.given != "" {
				t.Setenv("WEIR_REDIS_SERVER", script("redis-server", c.given))
			}
			if c.jar != "" {
				if err := errors.Join(os.Mkdir(filepath.Join(cache, "redis"), 0o755), os.WriteFile(filepath.Join(cache, "redis", jar), []byte(c.jar), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			program, err := Ensure(t.Context(), io.Discard)
			if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %q, %v; want a reason with %q", program, err, c.reason)
			}
		})
	}
}

func TestUnpackWritesAnew(t *testing.T) {
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("server")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("good")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("changed since"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpack(jar.Bytes(), "server", path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	got, err2 := os.ReadFile(path)
	if errors.Join(err, err2) != nil || string(got) != "good" || info.Mode().Perm() != 0o755 {
		t.Errorf("%q, %v, %v %v", got, info, err, err2)
	}
	if err := unpack(jar.Bytes(), "another", path); err == nil {
		t.Error("a program that the jar lacks was unpacked")
	}
}
