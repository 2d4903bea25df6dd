//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/local/localtest"
)

// TestApacheLanes is the lane's pace through a kill and a move: never over.
// What depends on how fast the machine is stands in TestChaosLanes.
func TestApacheLanes(t *testing.T) {
	t.Parallel()
	brokers := localtest.ForTest(t)
	t.Log("LANES " + lanePace(t, brokers, 1, 1, "20/1s, 100/10s", 4*time.Second))
}

// TestChaosLanes is what lanes promise in numbers: five kills and two moves under a pace, 20
// kills while 50,000 messages are under way, urgent ones before a long backlog,
// and what one lane does. WEIR_CHAOS_MESSAGES is how many messages the kills have.
func TestChaosLanes(t *testing.T) {
	brokers := localtest.ForTest(t)
	messages := 50_000
	if given := os.Getenv("WEIR_CHAOS_MESSAGES"); given != "" {
		var err error
		if messages, err = strconv.Atoi(given); err != nil || messages < 1000 {
			t.Fatalf("WEIR_CHAOS_MESSAGES=%q is not a number from 1000", given)
		}
	}
	say := func(t *testing.T, name, line string) {
		verdict := "ok"
		if t.Failed() {
			verdict = "FAILED"
		}
		fmt.Printf("CHAOS %-6s lanes, %s: %s\n", verdict, name, line)
	}
	// Four lanes at once, as most of the time one has no owner.
	t.Run("kills", func(t *testing.T) {
		for range 4 {
			t.Run("lane", func(t *testing.T) {
				t.Parallel()
				say(t, "kills", laneKills(t, brokers, messages/4, 5, 10*time.Minute))
			})
		}
	})
	for _, c := range []struct {
		name string
		run  func(t *testing.T) string
	}{
		{"pace", func(t *testing.T) string {
			return lanePace(t, brokers, 5, 2, "20/1s, 300/20s, 800/60s", 9*time.Second)
		}},
		{"paces", func(t *testing.T) string {
			var lines []string
			for _, pace := range []string{"20/1s", "1/10ms", "7/300ms, 60/3s", "500/1s"} {
				lines = append(lines, lanePace(t, brokers, 0, 0, pace, 9*time.Second))
			}
			return strings.Join(lines, "; ")
		}},
		{"priorities", func(t *testing.T) string { return lanePriorities(t, brokers, 1_000_000, 60, "1/10ms") }},
		{"throughput", func(t *testing.T) string {
			line, rate := laneThroughput(t, brokers, 40_000)
			if rate < 2000 {
				t.Errorf("%.0f calls/s, want 2,000", rate)
			}
			return line
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			say(t, c.name, c.run(t))
		})
	}
}
