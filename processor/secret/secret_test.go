package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/secret"
)

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	env := func(k string) string { return map[string]string{"A": "one", "B": "two"}[k] }
	for _, tt := range []struct{ name, value, want, err string }{
		{"text", "plain", "plain", ""},
		{"variable", "${A}", "one", ""},
		{"variables within text", "x ${A}-${B}", "x one-two", ""},
		{"missing", "hunter2 ${C} ${D}", "", "settings.key: the environment has no C, D"},
		{"file", "file:" + write("s", "secret\n"), "secret", ""},
		{"empty file", "file:" + write("e", ""), "", "is empty or over 64 KiB"},
		{"large file", "file:" + write("l", strings.Repeat("x", 65<<10)), "", "is empty or over 64 KiB"},
		{"no file", "file:" + dir + "/none", "", "no such file"},
		{"directory", "file:" + dir, "", "settings.key: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := secret.Resolve("settings.key", tt.value, env)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
			if refers := tt.value != got || err != nil; secret.Refers(tt.value) != refers {
				t.Errorf("refers: %v", !refers)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells the value: %v", err)
			}
		})
	}
}
