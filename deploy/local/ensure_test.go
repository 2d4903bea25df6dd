package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckSums(t *testing.T) {
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	list := sum("a") + "  a.jar\n" + sum("b") + "  b.jar\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"all as pinned": {map[string]string{"a.jar": "a", "b.jar": "b"}, ""},
		"one missing":   {map[string]string{"a.jar": "a"}, "b.jar is missing"},
		"one changed":   {map[string]string{"a.jar": "a", "b.jar": "evil"}, "b.jar has sum " + sum("evil")},
		"one too many":  {map[string]string{"a.jar": "a", "b.jar": "b", "c.jar": ""}, "c.jar is not in the list"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for f, content := range c.files {
				if err := os.WriteFile(filepath.Join(dir, f), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkSums(dir, list)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if wrong, ok := errors.AsType[*WrongSum](err); !ok || strings.Join(wrong.Files, "|") != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestListAndPomAgree(t *testing.T) {
	for _, want := range []string{"  kafka_2.13-" + Version + ".jar\n", "  kafka-clients-" + Version + ".jar\n", "  log4j-core-2.24.3.jar\n"} {
		if !strings.Contains(sums, want) {
			t.Errorf("jars.sha256 lacks %q", want)
		}
	}
	if !strings.Contains(string(pom), "<version>"+Version+"</version>") {
		t.Errorf("pom.xml lacks version %s", Version)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	script := func(dir, name, body string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const good = `echo 'openjdk version "17.0.1"' >&2`
	for name, c := range map[string]struct {
		java, tool, want string
	}{
		"no Java":     {"", "java", "install a Java runtime 17"},
		"old Java":    {`echo 'java version "1.8.0_202"' >&2`, "java", "is version 1"},
		"broken Java": {"echo no VM >&2; exit 1", "java", "no VM"},
		"no Maven":    {good, "mvn", "install Maven 3"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			if c.java != "" {
				script(bin, "java", c.java)
			}
			t.Setenv("PATH", bin)
			t.Setenv("JAVA_HOME", "")
			_, err := Ensure(t.Context(), t.TempDir(), nil)
			missing, ok := errors.AsType[*MissingTool](err)
			if !ok || missing.Name != c.tool || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s missing: %s", err, c.tool, c.want)
			}
		})
	}
	t.Run("other jars", func(t *testing.T) {
		bin, cache := t.TempDir(), t.TempDir()
		script(bin, "java", good)
		script(bin, "mvn", "/bin/mkdir lib && echo evil > lib/kafka_2.13-"+Version+".jar")
		t.Setenv("PATH", bin)
		t.Setenv("JAVA_HOME", "")
		_, err := Ensure(t.Context(), cache, nil)
		if _, ok := errors.AsType[*WrongSum](err); !ok {
			t.Errorf("got %v, want wrong sums", err)
		}
		if left, _ := os.ReadDir(cache); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Ensure(ctx, t.TempDir(), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want cancelled", err)
		}
	})
}
