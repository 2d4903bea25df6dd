package sink

import (
	"context"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/schemas"
)

// counting is a ClickHouse with so many blocks, and a clock that is so far behind.
type counting struct {
	driver.Conn
	driver.Row
	blocks uint64
	behind time.Duration
	since  int64
}

func (c *counting) QueryRow(_ context.Context, _ string, args ...any) driver.Row {
	c.since = args[0].(int64)
	return c
}

func (c *counting) Scan(to ...any) error {
	*to[0].(*uint64) = c.blocks
	*to[1].(*int64) = time.Now().Add(-c.behind).UnixMilli()
	return nil
}

func TestRemembered(t *testing.T) {
	for _, tt := range []struct {
		name   string
		made   time.Duration // ago
		blocks uint64
		behind time.Duration
		want   bool
	}{
		{"few blocks came", time.Hour, renewBlocks, 0, true},
		{"many came", time.Minute, renewBlocks + 1, 0, false},
		{"long ago, where a replica may have forgotten by time", renewWithin + time.Second, 0, 0, false},
		{"its clock is behind a little", time.Hour, 0, clocksDiffer - time.Second, true},
		{"its clock is behind, so that it does not count what came", time.Hour, 0, clocksDiffer + time.Second, false},
		{"its clock is ahead", time.Hour, 0, -time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := schemas.MillisOf(time.Now().Add(-tt.made))
			conn := &counting{blocks: tt.blocks, behind: tt.behind}
			got, err := remembered(t.Context(), conn, "", Plan{Made: made})
			if err != nil || got != tt.want {
				t.Errorf("%v, %v", got, err)
			}
			if want := int64(made) - clocksDiffer.Milliseconds(); conn.since != want && tt.made < renewWithin {
				t.Errorf("asked since %d, want %d", conn.since, want)
			}
		})
	}
}
