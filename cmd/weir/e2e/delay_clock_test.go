//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirhq/weir/deploy/local/localtest"
)

// TestDelaysOnAWrongClock: on Apache Kafka, by a clock three seconds ahead of
// the broker's, and by one as much behind.
func TestDelaysOnAWrongClock(t *testing.T) {
	brokers := localtest.ForTest(t)
	bin, err := Build(t.Context(), t.TempDir(), "chaos")
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []string{"3s", "-3s"} {
		t.Run(off, func(t *testing.T) {
			delays(t, brokers, full, func(s *site) {
				file := filepath.Join(s.dir, "clock")
				if err := os.WriteFile(file, []byte(off), 0o644); err != nil {
					t.Fatal(err)
				}
				s.bin, s.env = bin, []string{clockVar + "=" + file}
			})
		})
	}
}
