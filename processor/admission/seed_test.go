package admission

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain gives the property tests the same plays on every machine: what is rare in
// them comes always, or never. WEIR_CHAOS=1 draws others.
func TestMain(m *testing.M) {
	replay(1)
	os.Exit(m.Run())
}

// replay sets which plays rapid.Check draws from now on.
func replay(seed int) {
	if os.Getenv("WEIR_CHAOS") != "" {
		return
	}
	if err := flag.Set("rapid.seed", fmt.Sprint(seed)); err != nil {
		panic(err)
	}
}
