package main

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/child/childtest"
)

// A child whose port is taken between the look at it and its start starts on another;
// one that fails for another reason does not.
func TestStartChildOnAPortThatIsTakenMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asked bool
		taken bool // while the child starts
		want  int  // addresses that were tried
	}{{"taken", false, true, 2}, {"it fails", false, false, 1}, {"taken, and asked for", true, true, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			addr, asked, failed := childtest.Addr(t), "", errors.New("it failed")
			if tt.asked {
				asked = addr
			}
			var tried []string
			_, err := startChild(asked, addr, func(at string) (*child.Process, error) {
				tried = append(tried, at)
				if at != addr {
					return nil, nil
				}
				if tt.taken {
					l, err := net.Listen("tcp", addr)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { l.Close() })
				}
				return nil, failed
			})
			want := []string{addr, "127.0.0.1:0"}[:tt.want]
			if !slices.Equal(tried, want) || errors.Is(err, failed) == (tt.want == 2) {
				t.Errorf("tried %v, want %v: %v", tried, want, err)
			}
		})
	}
}

// A child that dies at once is started at growing distances, one that ran for long at
// once.
func TestNextRestart(t *testing.T) {
	var waits []time.Duration
	var wait time.Duration
	for range 7 {
		wait = nextRestart(time.Second, wait)
		waits = append(waits, wait)
	}
	const s = time.Second
	if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, restartMost, restartMost}; !slices.Equal(waits, want) {
		t.Errorf("%v, want %v", waits, want)
	}
	if got := nextRestart(restartMost, wait); got != 0 {
		t.Errorf("after a long run %v", got)
	}
}
