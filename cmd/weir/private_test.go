package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPrivate: no one else reads what weir dev keeps, and someone's own directory stays
// as it is.
func TestPrivate(t *testing.T) {
	for _, tt := range []struct {
		name string
		has  []string // directories in it; nil: it is not there
		want os.FileMode
	}{
		{"new", nil, 0o700},
		{"empty", []string{}, 0o700},
		{"of an older weir dev", []string{"broker", "engine"}, 0o700},
		{"someone's project", []string{"src"}, 0o755},
		{"someone's project that weir dev ran in", []string{"src", "broker"}, 0o755},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if tt.has != nil {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, sub := range tt.has {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := private(dir); err != nil {
				t.Fatal(err)
			}
			mode := func(name string) os.FileMode {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				return info.Mode().Perm()
			}
			if got := mode(dir); got != tt.want {
				t.Errorf("mode %o, want %o", got, tt.want)
			}
			for _, sub := range tt.has {
				if got := mode(filepath.Join(dir, sub)); sub != "src" && got != 0o700 || sub == "src" && got != 0o755 {
					t.Errorf("%s has mode %o", sub, got)
				}
			}
		})
	}
}
