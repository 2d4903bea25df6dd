package sink

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// balanced is a cluster behind a load balancer: what it says of who is caught up comes
// from one replica after the other.
type balanced struct {
	driver.Conn
	caughtUp []string
	synced   []string
}

func (b *balanced) Exec(_ context.Context, query string, _ ...any) error {
	b.synced = append(b.synced, query)
	return nil
}

func (b *balanced) QueryRow(context.Context, string, ...any) driver.Row {
	name := b.caughtUp[0]
	b.caughtUp = b.caughtUp[1:]
	return said{name: name}
}

type said struct {
	driver.Row
	name string
}

func (s said) Scan(to ...any) error {
	*to[0].(*string) = s.name
	return nil
}

// An answer counts only if it is that of a replica which was caught up before.
func TestSameReplica(t *testing.T) {
	for _, tt := range []struct {
		name     string
		cluster  string
		caughtUp []string // "" is one that is not
		answers  []string
		want     int // answers that were asked for
	}{
		{"no cluster", "", nil, []string{""}, 1},
		{"at once", "c", []string{"r1"}, []string{"r1"}, 1},
		{"another answers", "c", []string{"r1", "r1", "r2"}, []string{"r2", "r3", "r2"}, 3},
		{"none is caught up at first", "c", []string{"", "", "r3"}, []string{"r3"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, asked := &balanced{caughtUp: tt.caughtUp}, 0
			err := sameReplica(t.Context(), conn, tt.cluster, func(string) (string, error) {
				asked++
				return tt.answers[asked-1], nil
			})
			if err != nil || asked != tt.want || len(conn.caughtUp) > 0 {
				t.Errorf("asked %d times, want %d; %d looks left: %v", asked, tt.want, len(conn.caughtUp), err)
			}
			if (tt.cluster == "") != (len(conn.synced) == 0) || len(conn.synced) > 0 && !slices.Contains(conn.synced, "SYSTEM SYNC REPLICA decisions LIGHTWEIGHT") {
				t.Errorf("synced %v", conn.synced)
			}
		})
	}
	within, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	names := slices.Repeat([]string{"r1"}, 1000)
	if err := sameReplica(within, &balanced{caughtUp: names}, "c", func(string) (string, error) { return "r2", nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("where the same never answers: %v", err)
	}
	broken := errors.New("broken")
	if err := sameReplica(t.Context(), &balanced{caughtUp: names}, "c", func(string) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
