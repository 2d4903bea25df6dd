package main

import (
	"context"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// What the first steps of a shutdown do not need the later ones may use, what runs side
// by side has the same time, and all together takes no longer than the grace.
func TestStopUsesTheGrace(t *testing.T) {
	const never = time.Hour
	for _, tt := range []struct {
		name  string
		takes map[string]time.Duration // of roles, after they were told to end
		left  []string                 // behind
		took  time.Duration
	}{
		{"at once", map[string]time.Duration{"ingest": 0, "admission": 0, "lanes": 0, "policy": 0}, nil, 0},
		{"a step that stalls while there is time", map[string]time.Duration{"ingest": 0, "admission": 5 * time.Second, "lanes": time.Second, "policy": 4 * time.Second}, nil, 9 * time.Second},
		{"one that never ends leaves the next its share", map[string]time.Duration{"ingest": never, "admission": time.Second, "lanes": never, "policy": time.Second}, []string{"ingest", "lanes"}, 9 * time.Second},
		{"none ends", map[string]time.Duration{"ingest": never, "admission": never, "delay": never, "lanes": never, "policy": never}, []string{"ingest", "admission", "delay", "lanes", "policy"}, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rs := newRoles(slog.New(slog.DiscardHandler))
				for name, takes := range tt.takes {
					rs.start(t.Context(), name, func(ctx context.Context) error {
						<-ctx.Done()
						<-time.After(takes)
						return nil
					})
				}
				began := time.Now()
				err := rs.stop(10*time.Second, nil)
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				for name := range tt.takes {
					said := err != nil && strings.Contains(err.Error(), "shutdown: "+name+" did not end")
					if want := strings.Contains(strings.Join(tt.left, " "), name); said != want {
						t.Errorf("%s was left behind: %v, want %v: %v", name, said, want, err)
					}
				}
				for _, r := range rs.list { // those that were left behind end some time
					<-r.done
				}
			})
		})
	}
}

// Only what calls providers leaves calls in doubt.
func TestSecondSignal(t *testing.T) {
	for _, args := range [][]string{{"run", "--roles", "lanes"}, {"dev"}, {"tail"}, {"audit", "--follow"}, {}} {
		calls := len(args) > 0 && (args[0] == "run" || args[0] == "dev")
		if text := endText(args, syscall.SIGTERM); !strings.HasPrefix(text, "weir: ends at once on a second signal (terminated)") || strings.Contains(text, "in doubt") != calls {
			t.Errorf("weir %v: %s", args, text)
		}
	}
}
