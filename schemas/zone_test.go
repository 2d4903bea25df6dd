package schemas

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestZone(t *testing.T) {
	for name, want := range map[string]int{"": 0, "UTC": 0, "Asia/Shanghai": 8 * 3600, "Europe/Berlin": 3600, "America/New_York": -5 * 3600} {
		zone, err := Zone(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, got := time.Date(2026, 1, 15, 12, 0, 0, 0, zone).Zone(); got != want {
			t.Errorf("%q is %d s from UTC, want %d", name, got, want)
		}
		if again, _ := Zone(name); again != zone {
			t.Errorf("%q is read twice", name)
		}
	}
	for _, name := range []string{"Local", "Nowhere", "America", "../../etc/passwd", "/etc/localtime", "Asia/Shanghai/", "\x00"} {
		if zone, err := Zone(name); err == nil {
			t.Errorf("%q is %v", name, zone)
		}
	}
}

// TestZonesAreTheEmbeddedOnes: nothing that decides asks the machine for a zone.
func TestZonesAreTheEmbeddedOnes(t *testing.T) {
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(here))
	for _, top := range []string{"schemas", "processor", "topics", "ingest", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Name() == "node_modules" {
				return fs.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "time.LoadLocation(") {
				t.Errorf("%s asks the machine: use schemas.Zone", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
